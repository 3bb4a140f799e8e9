//! Arithmetic for two-party computation and for lattice schemes, and the generator of all randomness.
//!
//! The only crate of the workspace with `unsafe` code (SIMD kernels, the system's memory). Every kernel has
//! a portable twin, is chosen at run time in one place ([`cpu`]), and is tested bit for bit against its twin.
//!
//! # What is in it
//! | for | modules |
//! |---|---|
//! | every crate | [`ring`], [`prg`], [`mod@derive`] (seed to stream), [`sample`], [`memory`], [`cpu`] |
//! | shares (`fesc-mpc`, `fesc-scan`) | [`matrix`], [`gemm`]: matrix products over `Z_2^l` |
//! | oblivious transfer (`fesc-ot`) | [`block`]: AES batches, hashes, trees, transposition, the linear code |
//! | both lattice crates | [`modulus`], [`primes`], [`ntt`], [`pool`], [`aligned`], [`security`] |
//! | `fesc-rlwe` alone | [`poly`], [`wide`], [`affine`], [`lazy`]: products that are exact modulo `2^l` |
//! | `fesc-ckks` alone | [`rns`], [`fft`], [`automorphism`]: residues, encoding, rotations |
//!
//! The two lattice families have kernels of their own on purpose: exact scaling, powers of two and CKKS need
//! different reductions.
//!
//! # Example
//! ```
//! use fesc_ring::{Prg, Ring};
//!
//! let ring = Ring::new(48)?;
//! // Two shares of 7: one is random, the other is what is missing. A protocol takes `Prg::from_os`.
//! let mut prg = Prg::from_seed([1; 16]);
//! let mine = prg.ring_vec(ring, 1);
//! let other = ring.sub(7, mine[0]);
//! assert_eq!(ring.add(mine[0], other), 7);
//! // On the wire an element takes 6 bytes.
//! let packed = ring.pack(&mine);
//! assert_eq!((packed.len(), ring.unpack(&packed, 1)?), (6, mine));
//! # Ok::<(), fesc_ring::RingError>(())
//! ```
//!
//! # What it does not promise
//! Protocols: nothing here sends a byte. Constant time is a property of single modules, and they say so.
//! Buffers are not wiped unless a type says so ([`Prg`] is, [`aligned::Aligned`] is not).

pub mod affine;
pub mod aligned;
pub mod automorphism;
pub mod block;
pub mod cpu;
pub mod derive;
pub mod fft;
pub mod gemm;
pub mod lazy;
pub mod long;
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

pub use long::LongRing;
pub use matrix::{Matrix, MatrixError, View};
pub use prg::Prg;
pub use ring::{Ring, RingError};
