//! Shares to ciphertexts.
//!
//! ```text
//! both     x0, x1 modulo 2^k with x0 + x1 = x         one bit product for each value   (fesc_mpc's Extend)
//! client   Enc(Encode(lift x0))                      one message
//! server   Enc(...) + Encode(lift x1)
//! ```
//!
//! `lift` is the centred representative. Both lifts add up to `x` over the integers unless the sum wraps:
//! with `k >= n + 42 + log2(values of the inference)` that has probability at most `2^(n+1-k)` for a value
//! and `2^-41` for an inference, which is what its masks have. A wrap would put `2^(k-f)` into a slot, which
//! no mask on the way back covers, so this probability counts as distance. Parts are uniform modulo `2^k`;
//! their size tells nothing.
//!
//! *Ahead*: the client draws `r` uniform modulo `2^k` for each distinct value and sends `Enc(Encode(lift r))`
//! in the layout, before there is an input. Online it sends `x0 - r mod 2^k`, and the server adds
//! `Encode(lift(x0 - r + x1 mod 2^k))`. The difference is taken modulo `2^k` (that of the integers would show
//! the high bits of `x0`) and lifted together with `x1` (apart, a quarter of the values would be wrong).
//! Uploads made ahead are used once: the types are consumed, and marked before the first message that depends
//! on them. The two halves carry a name, so that a server refuses differences to other parts than it holds.
//!
//! Cost: `8 ceil(n / 64)` bytes each way and one round for the bit products, then `72 + N log2(q) / 8` bytes
//! for each ciphertext, or ahead `16 + 8 n + ceil(n (k - 64) / 8)`.
//!
//! ```compile_fail,E0382
//! # use fesc_hybrid::{Result, boundary::{ClientUploads, ToCiphertexts}};
//! # use fesc_mpc::{Party, Shared};
//! fn twice(shape: &ToCiphertexts, p: &mut Party, x: &Shared, ahead: ClientUploads) -> Result<()> {
//!     shape.run_client_ahead(p, x, ahead)?;
//!     shape.run_client_ahead(p, x, ahead)
//! }
//! ```
//!
//! # What is not guaranteed
//! Values outside `-2^(n-1) <= x < 2^(n-1)` come out wrong, silently, but never larger than
//! [`ToCiphertexts::carried`].

mod ahead;
mod client;
mod server;

#[cfg(test)]
pub(super) mod tests_only {
    //! What tests of the differences look at.
    pub(in crate::boundary) use super::ahead::{differences, integer_differences};
}

pub use ahead::{ClientUploads, ServerUploads, Uploads};
pub use server::Held;

use std::ops::Range;
use std::sync::Arc;

use fesc_ckks::mask::STATISTICAL_BITS;
use fesc_ckks::{Encoder, Params, Plaintext, noise, wire};
use fesc_mpc::protocol::Extend;
use fesc_mpc::{Ledger, Role};
use fesc_ring::fft::fixed::MAX_BITS;
use fesc_ring::{LongRing, Ring};
use num_complex::Complex64;
use zeroize::Zeroizing;

use super::batches;
use super::layout::Layout;
use super::report::BoundaryReport;
use crate::error::{check_counted, check_len};
use crate::{HybridError, Result};

/// Bits that parts have more than a value and the logarithm of the number of values: all lifts of an
/// inference fail with `2^-41` at most, and with its masks, which have as much, it is within `2^-40`.
pub const LIFT_BITS: u32 = STATISTICAL_BITS + 2;
/// Widest parts: a bit of sign, and what the encoder's arithmetic is for.
const MAX_PART_BITS: u32 = MAX_BITS + 1;
/// Largest coefficient, in bits: wide integers hold it.
const MAX_COEFFICIENT_BITS: f64 = 125.0;

/// What is shared: public numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// The ring of the shares.
    pub ring: Ring,
    /// Bits of a value, sign included: `-2^(bits-1) <= x < 2^(bits-1)`.
    pub bits: u32,
    /// Fractional bits.
    pub fraction: u32,
    /// Values that are converted in the whole inference.
    pub inference: u64,
}

/// How ciphertexts are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Encoding {
    /// The level.
    pub level: usize,
    /// The scale, of a part if there are several.
    pub scale: f64,
    /// Parts that are packed in one ciphertext ([`crate::expand`]), 1 for plain slots. The layout has the
    /// runs of the parts one after the other.
    pub parts: usize,
}

impl Encoding {
    /// Plain slots.
    pub const fn slots(level: usize, scale: f64) -> Self {
        Self { level, scale, parts: 1 }
    }

    /// What travels: the sum of all halvings is a doubling of the scale for each.
    fn sent_scale(&self) -> f64 {
        self.scale / self.parts as f64
    }
}

/// The shape of a conversion.
#[derive(Clone, PartialEq)]
pub struct ToCiphertexts {
    params: Params,
    layout: Layout,
    values: Values,
    /// Of each ciphertext; one for all if there is but one.
    encodings: Arc<[Encoding]>,
    extend: Extend,
}

impl ToCiphertexts {
    /// For the values of a layout, in its order; all of it public.
    ///
    /// # Errors
    /// [`HybridError::Width`] if parts would be too wide, [`HybridError::Room`] if they do not fit the
    /// modulus, [`HybridError::Undercounted`] if the layout alone has more values than the inference.
    pub fn new(params: &Params, layout: Layout, values: Values, encoding: Encoding) -> Result<Self> {
        Self::with_encodings(params, layout, values, vec![encoding])
    }

    /// The same with an encoding for each ciphertext.
    ///
    /// # Errors
    /// As [`ToCiphertexts::new`], and [`HybridError::Length`] for another number of encodings.
    pub fn with_encodings(params: &Params, layout: Layout, values: Values, encodings: Vec<Encoding>) -> Result<Self> {
        let Values { bits, inference, .. } = values;
        check_counted("values to convert", layout.values() as u64, inference)?;
        let log_values = u64::BITS - inference.saturating_sub(1).leading_zeros();
        let need = bits.saturating_add(LIFT_BITS).saturating_add(log_values);
        if need > MAX_PART_BITS {
            let max = MAX_PART_BITS;
            return Err(HybridError::Width { bits, values: inference, got: need, need, max });
        }
        Self::with_parts(params, layout, values, encodings, need)
    }

    /// With parts of `k` bits, however little margin that leaves.
    pub(super) fn with_parts(
        params: &Params,
        layout: Layout,
        values: Values,
        encodings: Vec<Encoding>,
        k: u32,
    ) -> Result<Self> {
        let Values { ring, bits, fraction, .. } = values;
        if encodings.len() != 1 {
            check_len("encodings of ciphertexts", layout.ciphertexts(), encodings.len())?;
        }
        let extend = Extend::new(ring, bits, LongRing::new(k)?, layout.values())?;
        for encoding in &encodings {
            let level = encoding.level;
            // A coefficient is at most the largest slot, whose two lanes are parts of k - 1 bits and a sign.
            let need = f64::from(k) - 0.5 - f64::from(fraction) + encoding.sent_scale().log2();
            let max = (params.log_q(level)? - 1.0).min(MAX_COEFFICIENT_BITS);
            if need >= max {
                return Err(HybridError::Room { bits: k, fraction, need, level, max });
            }
        }
        let mut distinct = encodings.clone();
        distinct.sort_by(|a, b| a.level.cmp(&b.level).then(a.scale.total_cmp(&b.scale)));
        distinct.dedup();
        let shape = Self { params: params.clone(), layout, values, encodings: encodings.into(), extend };
        // What the encoder refuses, it refuses by widths: zeros meet every check before there is data.
        distinct.iter().try_for_each(|&encoding| shape.encode_lanes(encoding, &[]).map(drop))?;
        Ok(shape)
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What is shared.
    pub fn values(&self) -> Values {
        self.values
    }

    /// How a ciphertext is made.
    pub fn encoding(&self, ciphertext: usize) -> Encoding {
        // There is at least one, or there are no ciphertexts.
        let one = || self.encodings.first().copied().unwrap_or(Encoding::slots(0, 1.0));
        self.encodings.get(ciphertext).copied().unwrap_or_else(one)
    }

    /// Ciphertexts of each message.
    fn batches(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        batches(self.layout.ciphertexts())
    }

    /// Payload of a message.
    fn batch_bytes(&self, batch: Range<usize>) -> usize {
        batch.map(|i| wire::upload_bytes(&self.params, self.encoding(i).level)).sum()
    }

    /// Writes the cost of the uploads.
    fn declare_uploads(&self, ledger: &mut Ledger) {
        self.batches().for_each(|batch| ledger.send(Role::P0, self.batch_bytes(batch)));
    }

    /// `k`: bits of an integer part.
    pub fn part_bits(&self) -> u32 {
        self.extend.ring().bits()
    }

    /// The largest magnitude that a lane can carry, whatever is shared, in units of the last place:
    /// `3 2^(n-1)`. The bound on a phase that is computed from it starts here.
    pub fn carried(&self) -> u64 {
        self.extend.carried()
    }

    /// The same as a number: three times the largest magnitude that values of `n` bits have.
    pub fn largest(&self) -> f64 {
        self.carried() as f64 * (-f64::from(self.values.fraction)).exp2()
    }

    /// Writes the cost of a run without uploads made ahead.
    ///
    /// # Errors
    /// None for a shape that [`ToCiphertexts::new`] took.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.extend.declare(ledger)?;
        self.declare_uploads(ledger);
        Ok(())
    }

    /// Precision, failures and cost.
    ///
    /// # Errors
    /// None for a shape that [`ToCiphertexts::new`] took.
    pub fn report(&self) -> Result<BoundaryReport> {
        let mut ledger = Ledger::new();
        self.declare(&mut ledger)?;
        let Encoding { level, scale, parts } = self.encoding(0);
        let width = self.part_bits();
        // Of both parties: rounding, and arithmetic on parts of k bits.
        let sent = self.encoding(0).sent_scale();
        let arithmetic = Encoder::new(&self.params).encode_error(width - 1, self.values.fraction, sent)?;
        // Of a part, r times fewer coefficients at an r-th of the scale.
        let variance = parts as f64 * (noise::fresh_secret() + 2.0 * (1.0 / 12.0 + arithmetic * arithmetic));
        let log_failure = self.extend.log_failure();
        Ok(BoundaryReport {
            name: "shares to ciphertexts",
            ciphertexts: self.layout.ciphertexts(),
            level,
            log_q: self.params.log_q(level)?,
            width,
            log_error: (6.0 * noise::slot_deviation(&self.params, variance, scale)).log2(),
            log_distance: f64::NEG_INFINITY,
            log_failure,
            log_failures: (log_failure + (self.values.inference.max(1) as f64).log2()).min(0.0),
            log_own: (log_failure + (self.layout.values() as f64).log2()).min(0.0),
            cost: ledger.cost(),
        })
    }

    /// One party's integers, lifted, as the plaintext of one ciphertext.
    fn encode(&self, ciphertext: usize, parts: &[u128]) -> Result<Plaintext> {
        let ring = self.extend.ring();
        let lift = |i: usize| parts.get(i).map_or(0, |&x| ring.to_signed(x));
        self.encode_lanes(self.encoding(ciphertext), &Zeroizing::new(self.layout.fill(ciphertext, lift)))
    }

    /// The slots of one ciphertext in the clear, from all values.
    pub(crate) fn slots(&self, ciphertext: usize, values: &[i64]) -> Vec<Complex64> {
        let unit = (-f64::from(self.values.fraction)).exp2();
        let lanes = self.layout.fill(ciphertext, |i| values.get(i).map_or(0, |&v| v.into()));
        lanes.into_iter().map(|[re, im]| Complex64::new(re as f64 * unit, im as f64 * unit)).collect()
    }

    fn encode_lanes(&self, encoding: Encoding, lanes: &[[i128; 2]]) -> Result<Plaintext> {
        let (encoder, scale) = (Encoder::new(&self.params), encoding.sent_scale());
        // A centred part of k bits is at most 2^(k-1).
        let bits = self.part_bits() - 1;
        let coefficients =
            Zeroizing::new(encoder.encode_share_parts(lanes, encoding.parts, bits, self.values.fraction, scale)?);
        Ok(encoder.encode_coefficients(&coefficients, encoding.level, scale)?)
    }
}
