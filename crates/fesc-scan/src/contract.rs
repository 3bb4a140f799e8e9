//! The scan contract (paper, appendix cross-ssm-family): a packet of factors in, the contracted output out.
//!
//! For every head h with its group's B and C, and every channel e of the head, over the tokens t:
//! `H_t = exp(z_t) H_(t-1) + Delta_t x_t[e] B_t`, `y_t[e] = C_t . H_t + D x_t[e]`, and `H` begins with zero
//! or with a carry. `z = A Delta` is not positive. A kernel may compute this in any form; what it shows is
//! the packet, the output and its cost.

use fesc_hybrid::keys::Keys;
use fesc_hybrid::verify::{Deviation, Witness};
use fesc_hybrid::work::Work;
use fesc_model::outline::scale::RING;
use fesc_mpc::{Ledger, Party, Role, Shared};

use crate::Result;
use crate::error::{check, check_presence};

/// One party's shares of what a scan takes, one row per token. No `Debug`: shares are secrets.
#[derive(Clone)]
pub struct Packet {
    /// x: rows of `inner` values, s.x bits.
    pub x: Shared,
    /// B: rows of `groups * state` values, s.bc bits.
    pub b: Shared,
    /// C: as B.
    pub c: Shared,
    /// Delta: rows of `heads` values, DELTA bits.
    pub delta: Shared,
    /// z = A Delta: rows of `heads` values, DECAY bits.
    pub z: Shared,
}

/// The state between two segments: `state` rows of `inner` values at s.state.
#[derive(Clone)]
pub struct Carry {
    /// This party's share.
    pub state: Shared,
}

/// What a kernel of one shape is given, in values.
pub(crate) struct Sizes {
    pub(crate) tokens: usize,
    pub(crate) heads: usize,
    /// Channels of a token, and of a row of the state.
    pub(crate) inner: usize,
    /// B of a token, and C.
    pub(crate) width: usize,
    /// Rows of the state.
    pub(crate) state: usize,
    /// Whether a state enters.
    pub(crate) carried: bool,
}

impl Sizes {
    /// Refuses tensors of other sizes and rings, and what is missing or given to the wrong party.
    pub(crate) fn check(&self, role: Role, packet: &Packet, skip: Option<&[i64]>, carry: Option<&Carry>) -> Result<()> {
        let tokens = self.tokens;
        let sizes = [
            ("x of a packet", &packet.x, tokens * self.inner),
            ("B of a packet", &packet.b, tokens * self.width),
            ("C of a packet", &packet.c, tokens * self.width),
            ("Delta of a packet", &packet.delta, tokens * self.heads),
            ("A Delta of a packet", &packet.z, tokens * self.heads),
        ];
        let carried = carry.map(|carry| ("state of a carry", &carry.state, self.state * self.inner));
        for (what, tensor, expected) in sizes.into_iter().chain(carried) {
            check(what, expected, tensor.len())?;
            check("ring width of what a scan is given", RING.bits() as usize, tensor.ring().bits() as usize)?;
        }
        check_presence("the skip D", role == Role::P1, skip.is_some())?;
        check_presence("a carry", self.carried, carry.is_some())?;
        check("skip D", self.heads, skip.map_or(self.heads, <[i64]>::len))
    }
}

/// A kernel for one segment of fixed shape.
pub trait Scan {
    /// Writes the exact cost and the correlations, in the order of their use.
    ///
    /// # Errors
    /// If the kernel's shape leaves the limits of a protocol.
    fn declare(&self, ledger: &mut Ledger) -> Result<()>;

    /// What the server computes under encryption, circuit by circuit.
    fn works(&self) -> Vec<Work> {
        Vec::new()
    }

    /// What was computed under encryption against the same in the clear, for checks of the program: as many
    /// as there are works, from as many witnesses.
    ///
    /// # Errors
    /// If a witness is missing, or another kernel's.
    fn deviations(&self, witnesses: &mut dyn Iterator<Item = &Witness>) -> Result<Vec<Deviation>> {
        let _ = witnesses;
        Ok(Vec::new())
    }

    /// y at s.scanned, rows of `inner` values, and the state after the segment if the kernel was made to keep
    /// it.
    ///
    /// `keys` are the client's CKKS keys, for kernels that need them.
    ///
    /// `skip` is D, one value per head, at the scale of the kernel's twin (s.mixed in block dual form): the
    /// server's (P1) secret, `None` at the client.
    ///
    /// # Errors
    /// If a tensor does not fit the kernel's shape, or the protocol fails.
    fn run(
        &self,
        party: &mut Party,
        keys: Option<Keys<'_>>,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)>;
}
