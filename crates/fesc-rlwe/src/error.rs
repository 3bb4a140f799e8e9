//! What can go wrong, with the numbers and the remedy.

use fesc_ring::modulus::ModulusError;
use fesc_ring::poly::PolyError;
use fesc_ring::primes::PrimeError;
use fesc_ring::wide::WideError;
use fesc_ring::{MatrixError, RingError};

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RlweError {
    /// The parameters are below the floor.
    #[error(
        "degree {degree} with a modulus of {log_q} bits is below 128 bits of security, which need at most {limit}; \
         take a larger degree or a smaller modulus"
    )]
    Weak {
        /// The degree.
        degree: usize,
        /// Bits of the modulus.
        log_q: u32,
        /// Most bits that the degree carries.
        limit: u32,
    },
    /// The degree is not one that we have limits for.
    #[error("degree {degree} is not supported: a power of two from 2048 to 65536 is")]
    Degree {
        /// The degree.
        degree: usize,
    },
    /// A layer has a silly shape.
    #[error(
        "a linear layer with {inputs} inputs, {outputs} outputs and {taps} taps: each must be 1 or more, taps at most {most}"
    )]
    Shape {
        /// Inputs.
        inputs: usize,
        /// Outputs.
        outputs: usize,
        /// Taps of the convolution.
        taps: usize,
        /// Most taps.
        most: usize,
    },
    /// A block does not fit the ring.
    #[error(
        "a block of {tokens} tokens with {overlap} before it does not fit {degree} coefficients; cut the document into smaller blocks"
    )]
    Block {
        /// New tokens.
        tokens: usize,
        /// Tokens repeated from the block before.
        overlap: usize,
        /// The degree.
        degree: usize,
    },
    /// A table is wider than the ring.
    #[error("rows of {width} do not fit {degree} coefficients; take a larger degree")]
    Width {
        /// Elements of a row.
        width: usize,
        /// The degree.
        degree: usize,
    },
    /// A stored secret that is none.
    #[error("a stored mask has the coefficient {value}, -1 to 1 are possible; the file is damaged, make it anew")]
    Mask {
        /// The coefficient.
        value: i8,
    },
    /// A slice has the wrong length.
    #[error("{what}: {expected} elements expected, got {got}")]
    Length {
        /// Which one.
        what: &'static str,
        /// What it must have.
        expected: usize,
        /// What it has.
        got: usize,
    },
    /// A value does not fit a slot.
    #[error("{what}: a value is above 2^{bits} in magnitude; centre it modulo 2^48 first")]
    Range {
        /// Which values.
        what: &'static str,
        /// The bound's exponent.
        bits: u32,
    },
    /// A sum whose noise would reach the second place.
    #[error("a sum of {summands} products: its result is off by one at most up to {most}; add results of fewer")]
    Summands {
        /// Products to be added.
        summands: usize,
        /// Most of them.
        most: usize,
    },
    /// A run length that does not divide the slots.
    #[error("runs of {run} slots: a power of two from 1 to {degree} is needed")]
    Run {
        /// The run length.
        run: usize,
        /// The number of slots.
        degree: usize,
    },
    /// Prime sizes that the slots engine cannot work with.
    #[error(
        "primes of {plain}, {kept} and {dropped} bits: those of the plaintext must have 47 to 50, the kept ones 20 to 50, the dropped ones 45 to 50; \
         take the standard set"
    )]
    Slots {
        /// Bits of each plaintext prime.
        plain: u32,
        /// Bits of each prime that a response keeps.
        kept: u32,
        /// Bits of each prime that a response drops.
        dropped: u32,
    },
    /// A received residue is not reduced.
    #[error("{what}: a residue modulo {modulus} is not below it; the peer's message is damaged or hostile")]
    Residue {
        /// Which message.
        what: &'static str,
        /// The prime.
        modulus: u64,
    },
    /// Primes and roots of unity.
    #[error(transparent)]
    Prime(#[from] PrimeError),
    /// Inverses modulo primes.
    #[error(transparent)]
    Modulus(#[from] ModulusError),
    /// Products of polynomials.
    #[error(transparent)]
    Poly(#[from] PolyError),
    /// Products of matrices.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// The ring of shares.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Sums of 104-bit numbers.
    #[error(transparent)]
    Wide(#[from] WideError),
}

/// Refuses a slice of another length.
pub(crate) fn length(what: &'static str, expected: usize, got: usize) -> Result<(), RlweError> {
    if got == expected { Ok(()) } else { Err(RlweError::Length { what, expected, got }) }
}
