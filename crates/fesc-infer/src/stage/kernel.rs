//! The stages of a block that a plan may compute in different ways, as traits.
//!
//! Everything else of a block is the same in every plan. A kernel is one struct of fixed shape: `declare`
//! writes its exact cost, `run` does the work; both are made from public data by [`crate::kernels`], the one
//! place that knows which plan means which kernel. The scan's trait is [`fesc_scan::Scan`].

use fesc_hybrid::keys::{ClientKeys, ServerKeys};
use fesc_hybrid::verify::{Deviation, Witness};
use fesc_hybrid::work::Work;
use fesc_model::twin::Twin;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_rlwe::linear::Block;

use super::Side;
use crate::Result;
use crate::keys::KeySets;
use crate::run::{ClientKit, ServerKit};

/// What the parties bring to the kernels of a block.
pub type Kit<'k, 'c> = Side<&'k mut ClientKit<'c>, &'k ServerKit<'c>>;

impl<'k> Kit<'k, '_> {
    /// The CKKS keys of the session.
    pub(crate) fn keys(self) -> Side<&'k mut KeySets<ClientKeys>, &'k KeySets<ServerKeys>> {
        match self {
            Side::Client(kit) => Side::Client(&mut *kit.keys),
            Side::Server(kit) => Side::Server(kit.keys),
        }
    }
}

/// A product with a matrix of the server's on one segment, and the convolution after it if there is one.
pub trait Projection {
    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    fn declare(&self, ledger: &mut Ledger) -> Result<()>;

    /// What the server computes under encryption, if it does.
    fn work(&self) -> Option<Work> {
        None
    }

    /// What was computed under encryption against the same in the clear, for checks of the program.
    ///
    /// # Errors
    /// If the witness is another kernel's, or the twin another model's.
    fn deviation(&self, twin: &Twin, witness: &Witness) -> Result<Option<Deviation>> {
        let _ = (twin, witness);
        Ok(None)
    }

    /// Tokens of the past that it reads before those of the segment.
    fn past(&self) -> usize;

    /// What the client makes of it before the document is known, in the order of its use.
    fn ahead(&self) -> &[Block];

    /// Shares of its parts, each in token order; `x` has the past first.
    ///
    /// # Errors
    /// If a part of the kit belongs to the other party or does not fit, or the channel fails.
    fn run(&self, party: &mut Party, kit: Kit<'_, '_>, x: &Shared) -> Result<Vec<Shared>>;
}

/// A norm of rows, without its weight, which is in the next matrix.
pub trait Norm {
    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    fn declare(&self, ledger: &mut Ledger) -> Result<()>;

    /// The normed rows.
    ///
    /// # Errors
    /// If the protocol fails.
    fn run(&self, party: &mut Party, x: Shared) -> Result<Shared>;
}

/// SiLU of z, x, B and C; Delta and the decay's exponent from dt.
pub trait Activations {
    /// Writes the cost of [`Self::silu`].
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    fn declare_silu(&self, ledger: &mut Ledger) -> Result<()>;

    /// z, x, B, C as the projection gives them.
    ///
    /// # Errors
    /// If the protocol fails.
    fn silu(&self, party: &mut Party, parts: [Shared; 4]) -> Result<Active>;

    /// Writes the cost of [`Self::steps`].
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    fn declare_steps(&self, ledger: &mut Ledger) -> Result<()>;

    /// Delta and `z = A Delta`, rows of one value a head.
    ///
    /// # Errors
    /// If the secrets have the wrong size, or the protocol fails.
    fn steps(&self, party: &mut Party, secrets: Side<(), StepSecrets<'_>>, dt: Shared) -> Result<(Shared, Shared)>;
}

/// SiLU of each.
pub struct Active {
    /// z at F bits.
    pub gate: Shared,
    /// x at s.x.
    pub x: Shared,
    /// B at s.bc.
    pub b: Shared,
    /// C at s.bc.
    pub c: Shared,
}

/// The server's secrets of [`Activations::steps`], one value per head.
#[derive(Clone, Copy)]
pub struct StepSecrets<'a> {
    /// |A| at RATE bits.
    pub rates: &'a [i64],
    /// Thresholds of the clamp, units of softplus' comparison.
    pub thresholds: &'a [i64],
}
