//! Products of one party's scalars by the other's vectors, `out_o = sum_j m_oj v_j mod 2^48`, as additive
//! shares: how two parties make the cross terms of a matrix triple when one operand is the *same scalar* for
//! many values.
//!
//! The key holder encrypts its vectors in the coefficients of polynomials. The evaluator multiplies by its
//! own scalars, masks, re-randomises and answers. `N = 4096`, `q = 2^104` (the limit at this degree is 106
//! bits), `t = 2^48`, `Delta = q / t = 2^56`, a ternary secret `s`, Gaussian errors of deviation 3.2. There
//! is one set, because the kernels are built around its words.
//!
//! ```text
//! upload      a from a seed;  y = e - a s mod q                                     [`KeyHolder::random`]
//!             v := -(top 48 bits of y);  b := y + Delta v = the low 56 bits of y    6.5 N bytes and a seed
//! combine     (c0, c1) = sum_j m_j (b_j, a_j) mod q, rounded to q' = 2^64           [`Evaluator::combine`]
//! respond     d1 = c1 + p1 r + f,  d0 = c0 + p0 r;  fresh ternary r, Gaussian f     [`Evaluator::respond`]
//!             d0' uniform from a fresh seed;  R = d0' - d0 is never sent
//!             d1 to its top 56 bits                                                 7 N bytes and a seed
//! shares      key holder floor((d0' + d1 s) / 2^16),   evaluator -floor(R / 2^16)   mod 2^48
//! ```
//!
//! # Random messages cost half
//! A vector that is one party's share of a mask may be any that is uniform for the other. So the key holder
//! does not choose `v` and hide it: it draws the sample and *takes* the `v` for which the top 48 bits of `b`
//! vanish. Only the low 56 bits are sent, without their last 4 ([`UPLOAD_DROP`]). *Security:* `(a, y)` is an
//! RLWE sample modulo `2^104`, hence pseudorandom as a whole. What is sent is a function of bits 4 to 55 of
//! `y + 8`, and `v` is a function of bits 56 to 103: in the hybrid where `y` is uniform they are independent,
//! and `v` is uniform given all that the evaluator sees. Given messages can be encrypted too
//! ([`KeyHolder::encrypt`]), for 12.5 N bytes.
//!
//! # Several vectors in one ciphertext, several results in one answer
//! Vectors of up to `B = N / g` values share a ciphertext, interleaved: `sum_b v_b(X^g) X^b`. `X^-b` times it
//! has `v_b` in the coefficients `0 mod g`, so vector `b` *is* that rotated ciphertext, and nothing but
//! scalar products is needed. A result has its values in the coefficients `0 mod g` and garbage elsewhere;
//! `f <= g` of them are packed into one answer by automorphisms (`pack.rs`, `switch.rs`), for one key switch
//! each. Packing multiplies by `f`, so the messages of such uploads are taken from `y` at `2^(56 - log2 f)`:
//! `log2 f` bits less are sent, and the `log2 f` bits above the message vanish in the end. [`Layout`] cuts
//! wider or odd vectors into pieces and chooses `f`.
//!
//! The argument for random messages stays: what is sent is bits 4 to `55 - log2 f` of `y + 8`, the message is
//! the 48 bits above.
//!
//! # Noise, in units of the last place
//! Scalars are centred, `|m| <= 2^47`. With `e' = e +` what [`UPLOAD_DROP`] rounds off, and [`RESPONSE_DROP`]
//! = 8 bits off `d1`:
//!
//! ```text
//! variance = k (2^96 / 12) (sigma^2 + 2^8 / 12) / 2^112                   the sum of k terms
//!          + (1/12 + (2N/3) / 12) / 2^32                                  rounding to q'
//!          + (2 sigma^2 (2N/3) + (2N/3) 2^16 / 12) / 2^32                 zero encryption, d1's last bits
//! ```
//!
//! for uniform scalars ([`noise`]): deviation 0.064 at `k = 16`, 0.093 at `k = 128`, 0.155 at
//! [`MAX_SUMMANDS`]. The two floors see a uniform `R`, so a noise `x` makes the sum of the shares wrong by
//! one with probability `|x|`, in the direction of `x`, unbiased: 5 % and 7 % of the results at `k = 16` and
//! `128`. An error of two needs `|x| > 1`, 10 deviations at `k = 128`, 6.4 at `MAX_SUMMANDS` (at the kernel's
//! limit, `k = 4094`, it would be 2.4 deviations and one result in 500). **So results are exact or off by one
//! in the last place.** In a triple for a product that is truncated next, that is harmless; where the last
//! place counts, use [`crate::slots`].
//!
//! *Packed by `f`*, a message is `f` times smaller against the same noise: deviation `f` times as large, 4.6
//! units at `k = 128, f = 64` and 2.3 at `f = 32`, to which rounding to `Q` and the switches add a hundredth.
//! So **packed results are off by a few units of the last place**, for products that are truncated next. The
//! longest sums, [`MAX_SUMMANDS`] packed by [`MAX_PACK`], have deviation 9.2 ([`Layout`] would pack less
//! where it passes 16, but that takes more summands). For worst-case scalars instead of uniform ones it is
//! 1.7 times as large.
//!
//! All of this is one product. A *triple* has two cross terms, one from each party's scalars, and their
//! errors add: deviation 6.5 at `k = 128, f = 64`, 13 for the longest sums. Seven deviations of that are 91
//! units: 0.36 of an ulp after a truncation by 8 bits, 0.09 after one by 10.
//!
//! # Views
//! *Evaluator corrupt.* RLWE samples under `s`, at most 104 bits at `N = 4096`: 128 bits of security. *Key
//! holder corrupt.* Of `(d0', d1)` the first is a fresh uniform seed, and `R` makes the phase uniform
//! whatever the noise says; `r` is left with the one sample `d1 - c1 = p1 r + f` modulo `2^64`, which RLWE
//! makes uniform (`p1` is hashed from a seed). Dropping bits of `d1` comes after that. What is realised is a
//! *noisy* product: which results are off by one depends on `e, s, m`. No party sees its results in the open.
//! *Automorphism keys* are encryptions of `sigma(s)` under `s`, modulo an odd number of 96 bits: that they
//! tell nothing is **circular security**, an assumption beyond RLWE that all schemes with rotation keys make.
//! The answers' view does not change: packing is a deterministic function of the scalars, the uploads and the
//! keys, and zero encryption and mask come after it. Never reuse a mask, an `r`, or an upload's seed: each
//! call draws its own. Tests: `packed_answers_tell_no_more_than_others`,
//! `without_the_zero_encryption_the_scalars_are_read_off`, `without_the_mask_the_phase_tells_the_operand`,
//! `two_encryptions_share_nothing`, `keys_have_errors_of_the_stated_size`.
//!
//! # Cost
//! Upload `6.5 N` and answer `7 N` bytes, 16 more each: 13.5 bytes per value for vectors of whole
//! ciphertexts, where [`crate::slots`] takes far more. Key holder: 6 transforms to encrypt, 4 to open.
//! Evaluator: 5 per answer, 12 per result that is packed, and 3 multiplications (2 in `c0`) per scalar and
//! coefficient ([`fesc_ring::wide`]). With packing, results take 12.8 bytes in each direction whatever their
//! width, if it is a power of two from 64 on, and there are as many of them as vectors. The keys are
//! [`KEY_BYTES`], 623 KB, once.

mod evaluator;
mod holder;
mod layout;
mod matrix;
mod pack;
mod residues;
mod sample;
mod switch;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;

pub use evaluator::{Cipher, Evaluator, Scalars, Sum};
pub use holder::KeyHolder;
pub use layout::{Layout, Piece};

use fesc_ring::Ring;
use fesc_ring::sample::gaussian::SIGMA;

use crate::Result;

/// `N`.
pub const DEGREE: usize = 4096;
/// Bits of `q`.
pub const LOG_Q: u32 = 104;
/// Bits of a message, a scalar and a share.
pub const MESSAGE_BITS: u32 = 48;
/// Low bits of `b` that are not sent. They add 1.4 times `sigma` to the noise of an upload.
pub const UPLOAD_DROP: u32 = 4;
/// Low bits of `d1` that are not sent.
pub const RESPONSE_DROP: u32 = 8;
/// Most results in one answer.
pub const MAX_PACK: usize = 1 << switch::LEVELS;
/// Most summands: as many as leave unpacked results off by one at most, with 6.4 deviations of the noise to
/// an error of two.
pub const MAX_SUMMANDS: usize = 512;

/// Bits of `q'`.
const LOG_ANSWER: u32 = 64;
/// `log2 Delta`.
const DELTA: u32 = LOG_Q - MESSAGE_BITS;
/// `log2 (q' / t)`.
const ANSWER_DELTA: u32 = LOG_ANSWER - MESSAGE_BITS;
const SEED_BYTES: usize = 16;

/// Bytes of a key holder's public key.
pub const KEY_BYTES: usize = SEED_BYTES + DEGREE * (LOG_ANSWER as usize) / 8 + switch::KEYS_BYTES;
/// Bytes of an encryption of random messages whose products are not packed; [`Piece::upload_bytes`] of
/// others.
pub const RANDOM_BYTES: usize = SEED_BYTES + DEGREE * ((DELTA - UPLOAD_DROP) as usize) / 8;
/// Bytes of an encryption of given messages.
pub const GIVEN_BYTES: usize = SEED_BYTES + DEGREE * ((LOG_Q - UPLOAD_DROP) as usize) / 8;
/// Bytes of an answer.
pub const RESPONSE_BYTES: usize = SEED_BYTES + DEGREE * ((LOG_ANSWER - RESPONSE_DROP) as usize) / 8;

const _: () = assert!(MAX_SUMMANDS <= fesc_ring::wide::MAX_TERMS);
// The words of the kernel: an upload of random messages has one.
const _: () = assert!(2 * fesc_ring::wide::WORD_BITS == LOG_Q && fesc_ring::wide::WORD_BITS == DELTA - UPLOAD_DROP);

/// Standard deviation of the noise of a sum of `summands` products by uniform scalars, `pack` results in one
/// answer, in units of the last place.
pub fn noise(summands: usize, pack: usize) -> f64 {
    let (variance, squared) = (SIGMA * SIGMA, (pack * pack) as f64);
    let rounding = |bits: u32| (2f64.powi(2 * bits as i32)) / 12.0;
    let unit = |bits: u32| 2f64.powi(2 * bits as i32);
    let secret = DEGREE as f64 * 2.0 / 3.0;
    let rounded = (1.0 + secret) / 12.0;
    let sum = summands as f64 * rounding(MESSAGE_BITS) * (variance + rounding(UPLOAD_DROP)) / unit(DELTA);
    let packing = if pack == 1 { 0.0 } else { squared * rounded + (squared - 1.0) / 3.0 * (rounded + switch::noise()) };
    let answer = squared * rounded + 2.0 * variance * secret + secret * rounding(RESPONSE_DROP);
    (squared * sum + packing / unit(residues::LOG_KEPT - MESSAGE_BITS) + answer / unit(ANSWER_DELTA)).sqrt()
}

/// `Z_2^48`, of messages and shares.
fn messages() -> Result<Ring> {
    Ok(Ring::new(MESSAGE_BITS)?)
}
