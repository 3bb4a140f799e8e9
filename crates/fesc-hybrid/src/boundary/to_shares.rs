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
//! Cost: one message of `72 + N log2(q) / 4` bytes for each ciphertext, no answer, no correlation. Each
//! ciphertext is a public-key encryption of zero, a transform for each prime and a double-double transform
//! at either party; they run in parallel.
//!
//! # What is not guaranteed
//! A phase above the bound: its value is wrong, and its mask is no longer wide enough. Nobody notices; the
//! client's half has no error that depends on what it decrypts.

mod client;
mod server;

use fesc_ckks::{Encoder, Params, RingMask, mask, noise, wire};
use fesc_mpc::{Ledger, Role, Shared};
use fesc_ring::Ring;
use zeroize::Zeroizing;

use super::codec;
use super::report::BoundaryReport;
use crate::{HybridError, Result};

/// How far a ciphertext's scale may be from the plan's: rescalings by primes that are near a power of two.
/// What a scale is must be public: it travels.
const SCALE_TOLERANCE: f64 = 1.0 / (1u64 << 20) as f64;

/// What is masked: public numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskBound {
    /// Bits of the largest phase, noise and fresh zero included: the worst case, never calibrated.
    pub phase_bits: u32,
    /// Masked coefficients of the whole inference.
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
    /// for 128 bits or cannot be decoded.
    pub fn new(params: &Params, ciphertexts: usize, scale: f64, bound: MaskBound, fixed: Fixed) -> Result<Self> {
        let MaskBound { phase_bits, masked } = bound;
        let width = mask::mask_width(phase_bits, masked);
        let level = RingMask::smallest_level(params, phase_bits, masked).ok_or(HybridError::NoLevel {
            width,
            phase_bits,
            need: width.saturating_add(1),
            log_q: params.log_q(params.levels())?,
        })?;
        codec::decoding_error(&Encoder::new(params), width, scale, fixed.fraction)?;
        Ok(Self { params: params.clone(), ciphertexts, scale, bound, fixed, level, width })
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

    /// Payload of the one message.
    fn bytes(&self) -> usize {
        self.ciphertexts * wire::masked_bytes(&self.params, self.level)
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.send(Role::P1, self.bytes());
    }

    /// Precision, distance and cost.
    ///
    /// # Errors
    /// None for a shape that [`ToShares::new`] took.
    pub fn report(&self) -> Result<BoundaryReport> {
        let mut ledger = Ledger::new();
        self.declare(&mut ledger);
        let unit = (-f64::from(self.fixed.fraction)).exp2();
        let encoder = Encoder::new(&self.params);
        let arithmetic = codec::decoding_error(&encoder, self.width, self.scale, self.fixed.fraction)?;
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
            cost: ledger.cost(),
        })
    }

    /// Refuses a scale that is not the plan's.
    fn check_scale(&self, got: f64) -> Result<()> {
        if (got / self.scale - 1.0).abs() <= SCALE_TOLERANCE {
            return Ok(());
        }
        Err(HybridError::OtherScale { expected: self.scale, got })
    }

    /// This party's integers of one ciphertext to its shares.
    fn decode(&self, coefficients: &[i128], scale: f64) -> Result<Zeroizing<Vec<[u64; 2]>>> {
        let Fixed { ring, fraction } = self.fixed;
        let lanes = Encoder::new(&self.params).decode_share(coefficients, self.width, scale, fraction, ring)?;
        Ok(Zeroizing::new(lanes))
    }

    /// The lanes of all ciphertexts, one after the other.
    fn lanes(&self, parts: &[Zeroizing<Vec<[u64; 2]>>]) -> Lanes {
        let lane = |i: usize| {
            let values = parts.iter().flat_map(|part| part.iter().map(move |z| z[i]));
            Shared::new(self.fixed.ring, values.collect())
        };
        Lanes { real: lane(0), imaginary: lane(1) }
    }
}
