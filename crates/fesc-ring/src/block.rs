//! 128-bit blocks: AES batches, tweaked hashing, GGM levels, bit-matrix transpose, the local linear code.
//!
//! A block is a `u128`; its AES byte order is little-endian. Every kernel is written once, in a macro, over a
//! batch of 32 blocks; only the AES permutation of a batch differs between the paths: `vaes` (8 vectors of 4
//! blocks), `vaes256` (8 vectors of 2), `ni` (AES-NI, 8 blocks at a time) and `soft` (the `aes` crate). So
//! the paths agree by construction, and a test says so.
//!
//! What is not guaranteed: on the `soft` path constant time is what the `aes` crate gives.

#[cfg(target_endian = "big")]
compile_error!("the block kernels assume a little-endian processor");

mod aes;
mod code;
mod kernels;
#[cfg(target_arch = "x86_64")]
mod ni;
mod soft;
mod transpose;
#[cfg(target_arch = "x86_64")]
mod vaes;
#[cfg(target_arch = "x86_64")]
mod vaes256;

#[cfg(test)]
mod tests;

pub use aes::Aes;
pub use code::{LOCALITY, LocalCode};
pub use transpose::transpose_128;

/// `x * b` in GF(2^128) with the polynomial `x^128 + x^7 + x^2 + x + 1`, bit `i` of the block being the
/// coefficient of `x^i`. No branch on the block.
#[inline]
pub const fn double(b: u128) -> u128 {
    (b << 1) ^ ((b >> 127) * 0x87)
}
