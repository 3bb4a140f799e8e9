//! Pooling by a selection vector that is the client's secret, and the exact head.
//!
//! The vector is `1 / len` at POOL bits for the mean, one entry of `2^POOL` for the last token, 0 over the
//! padding: the real length shows nowhere. Products of all segments are added at F + POOL bits and rounded
//! once.

use fesc_model::Pooling;
use fesc_model::outline::scale::POOL;
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::Bilinear;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use super::{Rescale, Side};
use crate::Result;
use crate::error::check;

/// The selection vector of a document of `tokens` tokens in a schedule of `room`.
pub fn selection(pooling: Pooling, tokens: usize, room: usize) -> Vec<u64> {
    let one = 1u64 << POOL;
    let weight = |t: usize| match pooling {
        Pooling::Last => u64::from(t + 1 == tokens) * one,
        Pooling::Mean if t < tokens => (one as f64 / tokens as f64).round() as u64,
        Pooling::Mean => 0,
    };
    (0..room).map(weight).collect()
}

/// One segment's part of the pooled state.
pub struct Pool {
    ring: Ring,
    product: Bilinear,
    tokens: usize,
}

impl Pool {
    /// `tokens` states of `width` values.
    pub fn new(ring: Ring, width: usize, tokens: usize) -> Self {
        let bundle = Bundle {
            ring,
            sizes: vec![tokens, width],
            masks: vec![Tensor::new(&[0]), Tensor::new(&[0, 1])],
            products: vec![Product::new(0, 1, Tensor::new(&[1]))],
        };
        Self { ring, product: Bilinear { bundle }, tokens }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// None today; as every stage.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.product.declare(ledger);
        Ok(())
    }

    /// The sum over the segment, at F + POOL bits. `select` is the client's part of the vector.
    ///
    /// # Errors
    /// If the vector has the wrong size, or the protocol fails.
    pub fn run(&self, party: &mut Party, select: Side<&[u64], ()>, states: &Shared) -> Result<Shared> {
        let own = match select.of(party.role(), "the selection vector")? {
            Side::Client(select) => {
                check("a segment's selection vector", self.tokens, select.len())?;
                select.to_vec()
            }
            Side::Server(()) => vec![0; self.tokens],
        };
        let select = Shared::new(self.ring, own);
        Ok(self.product.run(party, &[&select, states])?.swap_remove(0))
    }
}

/// The server's classifier.
#[derive(Clone, Copy)]
pub struct HeadSecrets<'a> {
    /// A row for each class.
    pub weights: &'a [i64],
    /// One value for each class.
    pub bias: &'a [i64],
}

/// Rounding of the pooled state and the classifier, which is never rounded.
pub struct Head {
    ring: Ring,
    enter: Rescale,
    product: Bilinear,
    classes: usize,
    width: usize,
}

impl Head {
    /// `classes` logits of a state of `width` values at F = `frac` bits.
    pub fn new(ring: Ring, width: usize, classes: usize, frac: u32) -> Self {
        let bundle = Bundle {
            ring,
            sizes: vec![classes, width],
            masks: vec![Tensor::new(&[0, 1]), Tensor::new(&[1])],
            products: vec![Product::new(0, 1, Tensor::new(&[0]))],
        };
        let enter = Rescale::new(ring, frac + POOL, frac, width);
        Self { ring, enter, product: Bilinear { bundle }, classes, width }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.enter.declare(ledger)?;
        self.product.declare(ledger);
        Ok(())
    }

    /// The exact logits at F + HEAD bits. Weights (classes rows) and bias are the server's.
    ///
    /// # Errors
    /// If the secrets have the wrong size, or the protocol fails.
    pub fn run(&self, party: &mut Party, secrets: Side<(), HeadSecrets<'_>>, pooled: Shared) -> Result<Shared> {
        let ring = self.ring;
        let secrets = secrets.of(party.role(), "the head's weights")?.server();
        let mut shared = vec![0; self.classes * self.width];
        if let Some(HeadSecrets { weights, bias }) = secrets {
            check("the head's weights", shared.len(), weights.len())?;
            check("the head's bias", self.classes, bias.len())?;
            shared.iter_mut().zip(weights).for_each(|(o, &w)| *o = ring.from_signed(w));
        }
        let pooled = self.enter.run(party, pooled)?;
        let logits = self.product.run(party, &[&Shared::new(ring, shared), &pooled])?.swap_remove(0);
        let Some(HeadSecrets { bias, .. }) = secrets else { return Ok(logits) };
        let own = logits.values().iter().zip(bias).map(|(&v, &b)| ring.add(v, ring.from_signed(b)));
        Ok(Shared::new(ring, own.collect()))
    }
}
