//! What the client learns: the label, or logits after an exact floor (docs/DESIGN.md, 6.4).
//!
//! *Label*: arg-max of the exact logits, opened to the client alone.
//!
//! *Logits*: `floor(x / 2^s)` exactly, `s` the bits below REVEAL. With `x = x0 + x1 mod 2^l` and low parts
//! `a_i = x_i mod 2^s`, `floor(x / 2^s) = (x0 >> s) + (x1 >> s) + [a0 + a1 >= 2^s] mod 2^(l-s)`. The last bit
//! is the top bit of `a0 + a1` in a ring of `s + 1` bits: one comparison. Then the server's share of the
//! floor goes to the client.
//!
//! Why not less: a share that its owner rounds, or a truncation as the last step, gives a result that depends
//! on the low bits of the *shares*, which are fresh in each run and partly known to the client. That is
//! dithering: averages over repeated documents show the bits that were to be cut, and from them the weights
//! (test: `tests/output.rs`). The floor is a function of the logits alone.
//!
//! Repeated logits of many documents are an extraction channel all the same; the label is the default.

use fesc_mpc::protocol::{ArgMax, BitToArithmetic, Compare, Open, Sender, Thresholds};
use fesc_mpc::{Ledger, MpcError, Party, Role, Shared};
use fesc_ring::Ring;

use crate::error::check;
use crate::{InferError, Result};

/// Arg-max of the logits, to the client.
pub struct Label {
    best: ArgMax,
    open: Open,
}

impl Label {
    /// Of `classes` logits.
    pub fn new(ring: Ring, classes: usize) -> Self {
        Self { best: ArgMax { ring, rows: 1, columns: classes }, open: Open { ring, count: 1, to: Some(Role::P0) } }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If there are no classes, or too many.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.best.declare(ledger)?;
        self.open.declare(ledger);
        Ok(())
    }

    /// The class, at the client.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, logits: &Shared) -> Result<Option<usize>> {
        let index = self.best.run(party, logits)?;
        let Some(opened) = self.open.run(party, &index)? else { return Ok(None) };
        // What the server sent decides the number: it may be none of the classes.
        let classes = self.best.columns;
        match opened.first() {
            Some(&class) if class < classes as u64 => Ok(Some(class as usize)),
            _ => Err(InferError::Answer { classes }),
        }
    }
}

/// The exact floor of `count` values, to the client.
pub struct Floor {
    shift: u32,
    count: usize,
    high: Ring,
    low: Ring,
    compare: Compare,
    carry: BitToArithmetic,
    open: Open,
}

impl Floor {
    /// Drops `shift` bits of `count` values of `ring`.
    ///
    /// # Errors
    /// If the ring does not have that many bits.
    pub fn new(ring: Ring, shift: u32, count: usize) -> Result<Self> {
        let (high, low) = (Ring::new(ring.bits().saturating_sub(shift))?, Ring::new(shift + 1)?);
        let compare = Compare::new(low, count, 1, Sender::Split)?;
        let carry = BitToArithmetic { ring: high, count };
        Ok(Self { shift, count, high, low, compare, carry, open: Open { ring: high, count, to: Some(Role::P0) } })
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// None today; as every stage.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.compare.declare(ledger);
        self.carry.declare(ledger);
        self.open.declare(ledger);
        Ok(())
    }

    /// The floors, at the client, as signed integers.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, x: &Shared) -> Result<Option<Vec<i64>>> {
        let floor = self.share(party, x)?;
        let opened = self.open.run(party, &floor)?;
        Ok(opened.map(|values| values.into_iter().map(|v| self.high.to_signed(v)).collect()))
    }

    /// Shares of the floors in the ring of the bits that are left.
    fn share(&self, party: &mut Party, x: &Shared) -> Result<Shared> {
        check("values to floor", self.count, x.len())?;
        let mask = self.low.mask() >> 1;
        let low = Shared::new(self.low, x.values().iter().map(|&v| v & mask).collect());
        let high = Shared::new(self.high, x.values().iter().map(|&v| v >> self.shift).collect());
        // As signed numbers of s + 1 bits, sums without a carry are those at or above 0.
        let bits = self.compare.run(party, &low, Thresholds::Same(&[0]))?;
        let below = bits.first().ok_or(MpcError::Shape { what: "comparison bits", expected: 1, got: 0 })?;
        let carry = self.carry.run(party, &below.not(party.role()))?;
        Ok(high.add(&carry)?)
    }
}
