//! Ciphertexts to shares.
//!
//! ```text
//! server   c' = (c dropped to the boundary's level) + fresh zero + R     one message
//! client   p  = phase of c' = phase + R      server  -R                 over the integers
//! both     share_j = round(2^f part(zeta_j) / S) mod 2^l                 both lanes of each slot
//! ```
//!
//! `R` is bounded, `|R| <= 2^width`, `width = phase_bits + 40 + log2(masked)`, and never wraps; the level is
//! the smallest whose modulus holds it (the paper's modulus trimming). Dropping comes *before* the zero: the
//! zero covers what is sent. The bound must be the worst case over everything that the ciphertexts can hold,
//! never what calibration saw: a semi-honest client chooses its document.
//!
//! The scale is the plan's, in what travels too: a header tells nothing of what was computed.
//!
//! Cost: `72 + N log2(q) / 4` bytes for each ciphertext, [`BATCH`] of them in a message, no answer, no
//! correlation. Each ciphertext is a public-key encryption of zero, a transform for each prime and one
//! on wide integers at either party; those of a message run in parallel.
//!
//! # What is not guaranteed
//! A phase above the bound: its value is wrong, and its mask is no longer wide enough. Nobody notices; the
//! client's half has no error that depends on what it decrypts.

mod client;
mod server;

use std::ops::Range;

use fesc_ckks::{Encoder, Params, RingMask, mask, noise, wire};
use fesc_mpc::{Ledger, Role, Shared};
use fesc_ring::Ring;
use zeroize::Zeroizing;

use super::batches;
use super::report::BoundaryReport;
use crate::error::check_counted;
use crate::verify::{Deviation, Expected, Sums};
use crate::{HybridError, Result};

/// What is masked: public numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskBound {
    /// Bits of the largest phase, noise and fresh zero included: the worst case, never calibrated.
    pub phase_bits: u32,
    /// Masked coefficients of the whole inference: `N` for each ciphertext that is converted, used or not.
    pub masked: u64,
}

/// Fixed point on shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// The ring.
    pub ring: Ring,
    /// Fractional bits.
    pub fraction: u32,
}

/// The shape of a conversion.
#[derive(Clone)]
pub struct ToShares {
    params: Params,
    ciphertexts: usize,
    scale: f64,
    bound: MaskBound,
    fixed: Fixed,
    level: usize,
    width: u32,
}

/// One party's shares of both lanes of all slots, ciphertext by ciphertext.
pub struct Lanes {
    /// Real parts.
    pub real: Shared,
    /// Imaginary parts.
    pub imaginary: Shared,
}

impl ToShares {
    /// For so many ciphertexts at this scale; all of it public.
    ///
    /// # Errors
    /// [`HybridError::NoLevel`] if no modulus holds the mask, [`HybridError::Ckks`] if the mask is too wide
    /// for 128 bits, cannot be decoded or covers no value of 1, [`HybridError::Undercounted`] if these
    /// ciphertexts alone have more coefficients than the inference.
    pub fn new(params: &Params, ciphertexts: usize, scale: f64, bound: MaskBound, fixed: Fixed) -> Result<Self> {
        let MaskBound { phase_bits, masked } = bound;
        check_counted("masked coefficients", ciphertexts as u64 * params.degree() as u64, masked)?;
        mask::check_bound(params, phase_bits, scale)?;
        let width = mask::mask_width(phase_bits, masked);
        let level = RingMask::smallest_level(params, phase_bits, masked).ok_or(HybridError::NoLevel {
            width,
            phase_bits,
            need: width.saturating_add(1),
            log_q: params.log_q(params.levels())?,
        })?;
        Encoder::new(params).decode_error(width, scale, fixed.fraction)?;
        Ok(Self { params: params.clone(), ciphertexts, scale, bound, fixed, level, width })
    }

    /// The set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The level at which ciphertexts travel.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Ciphertexts of a run.
    pub fn ciphertexts(&self) -> usize {
        self.ciphertexts
    }

    /// Values that come out in each lane.
    pub fn values(&self) -> usize {
        self.ciphertexts * self.params.slots()
    }

    /// Coefficients that a run masks.
    pub fn masked(&self) -> u64 {
        self.ciphertexts as u64 * self.params.degree() as u64
    }

    /// The ciphertexts of each message.
    fn batches(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        batches(self.ciphertexts)
    }

    /// Payload of a message of so many.
    fn bytes(&self, ciphertexts: usize) -> usize {
        ciphertexts * wire::masked_bytes(&self.params, self.level)
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.batches().for_each(|batch| ledger.send(Role::P1, self.bytes(batch.len())));
    }

    /// Precision, distance and cost.
    ///
    /// # Errors
    /// None for a shape that [`ToShares::new`] took.
    pub fn report(&self) -> Result<BoundaryReport> {
        let mut ledger = Ledger::new();
        self.declare(&mut ledger);
        let unit = (-f64::from(self.fixed.fraction)).exp2();
        let arithmetic = Encoder::new(&self.params).decode_error(self.width, self.scale, self.fixed.fraction)?;
        let own = mask::Distance::of_width(self.bound.phase_bits, self.width, self.masked());
        let noise = 6.0 * noise::slot_deviation(&self.params, noise::fresh_public(&self.params), self.scale);
        Ok(BoundaryReport {
            name: "ciphertexts to shares",
            ciphertexts: self.ciphertexts,
            level: self.level,
            log_q: self.params.log_q(self.level)?,
            width: self.width,
            log_error: (2.0 * (0.5 + arithmetic) * unit + noise).log2(),
            log_distance: mask::Distance::of_bounded(self.bound.phase_bits, self.bound.masked).log2(),
            log_failure: f64::NEG_INFINITY,
            log_failures: f64::NEG_INFINITY,
            log_own: own.log2(),
            cost: ledger.cost(),
        })
    }

    /// Compares shared lanes with slots, each with the mean square of its error, half of it in each lane.
    pub(crate) fn compare<'a>(
        &self,
        expected: impl Iterator<Item = Expected<'a>>,
        lanes: impl Iterator<Item = (&'a i64, &'a i64)>,
    ) -> Result<Deviation> {
        let Fixed { ring, fraction } = self.fixed;
        let arithmetic = Encoder::new(&self.params).decode_error(self.width, self.scale, fraction)?;
        let zero = noise::slot_deviation(&self.params, noise::fresh_public(&self.params), self.scale);
        let unit = f64::from(fraction).exp2();
        let mut sums = Sums::new(2.0 * arithmetic);
        for ((slot, square), (&re, &im)) in expected.zip(lanes) {
            let noise = ((square + zero * zero) / 2.0).sqrt() * unit;
            for (want, got) in [(slot.re * unit, re), (slot.im * unit, im)] {
                // Lanes that nobody uses may wrap.
                let below = want.floor();
                let apart = ring.to_signed(ring.sub(ring.from_signed(got), ring.from_signed(below as i64)));
                sums.add(apart as f64 - (want - below), want - below, noise);
            }
        }
        Ok(sums.deviation(1.0 / unit))
    }

    /// This party's integers of one ciphertext to its shares.
    fn decode(&self, coefficients: &[i128]) -> Result<Zeroizing<Vec<[u64; 2]>>> {
        let Fixed { ring, fraction } = self.fixed;
        let lanes = Encoder::new(&self.params).decode_share(coefficients, self.width, self.scale, fraction, ring)?;
        Ok(Zeroizing::new(lanes))
    }

    /// The lanes of all ciphertexts, one after the other.
    fn lanes(&self, parts: &[Zeroizing<Vec<[u64; 2]>>]) -> Lanes {
        let lane = |i: usize| {
            // Room for all at once: what grows leaves copies behind.
            let mut values = Vec::with_capacity(self.values());
            values.extend(parts.iter().flat_map(|part| part.iter().map(move |z| z[i])));
            Shared::new(self.fixed.ring, values)
        };
        Lanes { real: lane(0), imaginary: lane(1) }
    }
}
