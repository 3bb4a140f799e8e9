//! Arithmetic only: vectors over `Z_2^l`, bit packing, pseudorandom streams; transforms and residue kernels
//! of lattice schemes.
//!
//! The only crate of the workspace that may hold `unsafe` code (SIMD kernels, the system's memory). Every
//! kernel has a portable twin, is chosen at run time in one place, and is tested bit for bit against its
//! twin.

pub mod affine;
pub mod aligned;
pub mod automorphism;
pub mod block;
pub mod cpu;
pub mod derive;
pub mod double;
pub mod fft;
pub mod gemm;
pub mod lazy;
pub mod matrix;
pub mod memory;
pub mod modulus;
pub mod ntt;
mod pack;
pub mod poly;
pub mod pool;
pub mod prg;
pub mod primes;
pub mod ring;
pub mod rns;
pub mod sample;
pub mod security;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod watch;
pub mod wide;

pub use matrix::{Matrix, MatrixError, View};
pub use prg::Prg;
pub use ring::{Ring, RingError};
