//! Products of two parties' secret vectors as additive shares: BFV over slots, for OLEs and matrix triples.
//!
//! One side, the [`KeyHolder`], encrypts vectors of [`SlotParams::slots`] values. The other, the
//! [`Evaluator`], multiplies them slot by slot with vectors of its own, adds up as many products as it likes,
//! and answers. Both end with shares modulo `2^48` of every slot of the sum.
//!
//! # Scheme
//! `R = Z[X] / (X^N + 1)`, `N = 16384`. Plaintext modulus `t = t1 t2 t3` (48 bits each), `P = P' D` with `P'`
//! of two primes of 29 bits and `D` of three of 49, ciphertext modulus `q = t P`, `q' = t P'`; all eight
//! primes are 1 modulo `2N`. The message is scaled by `P` *exactly*:
//!
//! ```text
//! upload       (b, a):   a uniform from a seed,   b = -a s + e + P m
//! sum          c = sum_j M_j (b_j, a_j)                                   modulo q
//! blinded      d = c + r (pk0, pk1) + (0, e1)                             modulo q; r ternary, e1 Gaussian
//! switched     d0, d1 := round(d / D)                                     modulo q'
//! response     (d0', d1):  d0' uniform from a fresh seed;  R = d0' - d0 is the mask
//! key holder   floor((d0' + d1 s) / P') mod t         evaluator   -floor(R / P') mod t
//! ```
//!
//! A slot is the value of the polynomial modulo `t_i` at a root of unity, in the order of our transform, so
//! encoding is no work: modulo `t_i` the message adds `P m` to the transform of `b`, modulo the primes of `P`
//! nothing. A multiplier needs its polynomial modulo the primes of `P`: inverse transforms, fast base
//! conversion, forward transforms. A polynomial with equal values on runs of `2^k` slots is a polynomial in
//! `X^(2^k)`, and all of this is done with `N / 2^k` points. Conversions: `basis.rs`.
//!
//! *From modulo `t` to modulo `2^48`.* Both lift their share to `[0, t)`. The evaluator's is uniform, so the
//! lifts add up to `m + t`, but for a fraction `|m| / t` of cases (`m >= 0`: to `m`; `m < 0`: to `m + 2t`).
//! The key holder subtracts `t`.
//!
//! # Noise and failures
//! Let `K` products be summed, with multipliers constant on runs of `w`. The converted polynomial of a
//! multiplier has coefficients of deviation `t/2` (a sum of three uniform ones of `t / sqrt 12`), one in `w`
//! non-zero. With `sigma = 3.2`, and `P = 2^205`:
//!
//! ```text
//! modulo q     sqrt( K N/w (t/2)^2 sigma^2  +  sigma^2 (4N/3 + 1) )   2^(144 + 13.2) at K = 2048, w = 1
//! modulo q'    sqrt( (noise / D)^2  +  (1 + 2N/3) / 12 )              2^10.2 there; 2^5.6 at K = 128, w = 64
//! ```
//!
//! The response is blinded *before* the switch, so that its noise is divided by `D` too. For one product, or
//! sums with long runs, about as much as the rounding is left. Failures, per response:
//! - *noise*: a coefficient of the two floors is off by one with probability `|noise| / P'`, and then every
//!   slot of the response is wrong. Per response `2^-39` (one product), `2^-38.8` (`K = 128`, `w = 64`) or
//!   `2^-34` (`K = 2048`, `w = 1`).
//! - *lift*: a slot is wrong with probability `|m| / t`: at most `K 2^(94 - 144)`, `2^-43` for the worst 128
//!   products, and `2^-51.9 sqrt(K)` on average for uniform 48-bit operands (deviation of `m`:
//!   `sqrt(K) 2^94 / 3`); per response `2^-37.9 sqrt(K)` on average.
//!
//! [`SlotParams::failure`] computes both, [`crate::products::failures`] adds them up over the plan of a
//! bundle. `measured_noise_is_the_formula` measures the deviations. The primes are the smallest at which a
//! whole inference at the base size (12 layers, 2,048 tokens) stays below `2^-22`:
//! `failures_of_an_inference_as_it_is_planned` of `fesc-infer`, over every correlation that a run asks for,
//! with smaller sets as its control.
//!
//! # Views
//! *Evaluator corrupt.* It sees `(a, b)` and the public key: RLWE samples under `s`, at `log2 q = 349` of the
//! 430 bits that `N = 16384` carries. Every encryption has its own seed and noise. *Key holder corrupt.*
//! `d0'` is the expansion of a fresh seed, independent of everything; `d1` is a rounding of
//! `c1 + pk1 r + e1`, one RLWE sample under the fresh `r` (the second, `pk0 r`, is only in `d0`, which `R`
//! replaces), so it is uniform; its phase is uniform modulo `q'`, noise and all, because `R` is. No flooding
//! is needed. This needs an honest `pk1`; it comes from a seed. What the key holder may not see is a [`Sum`]:
//! no function turns one into bytes but [`Evaluator::respond`]. Tests:
//! `without_the_encryption_of_zero_the_multiplier_is_found`, `without_the_mask_the_operand_is_read`,
//! `a_mask_on_the_message_alone_shows_the_noise`, `the_phase_is_uniform`, `nothing_is_reused`.
//!
//! Not guaranteed: anything against a party that leaves the protocol (a key holder may encrypt what it likes;
//! a wrong response is a wrong share).
//!
//! # Cost
//! Upload 43.6 bytes per slot, response 25.3 (plus 16 for a seed). Time of one core of a Xeon (family 6,
//! model 207, AVX-512 IFMA) that shared its caches and its memory with other work
//! (`cargo run --release -p fesc-rlwe --example slots_speed`):
//!
//! | step | ms |
//! |---|---|
//! | encrypt / receive | 1.05 / 0.43 |
//! | multiplier, general / runs of 64 | 0.45 / 0.015 |
//! | `mul_add` | 0.22 |
//! | respond / open | 2.8 / 0.87 |
//! | combine 128 x 128, runs of 64 / 512 | 670 / 400: 2.5 / 1.5 ns per slot product |
//!
//! The least of two runs of one thread each, on a machine with eight times more work than cores.

mod basis;
mod combine;
mod evaluator;
mod key;
mod params;
mod weights;
mod wire;

pub use evaluator::{Cipher, Evaluator, Multiplier, Sum};
pub use key::KeyHolder;
pub use params::SlotParams;

#[cfg(test)]
mod tests;
