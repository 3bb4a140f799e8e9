//! What can go wrong: each variant with the numbers, the cause and the remedy.

use fesc_ckks::CkksError;
use fesc_mpc::MpcError;
use fesc_net::NetError;
use fesc_ring::RingError;

/// A result of this crate.
pub type Result<T, E = HybridError> = std::result::Result<T, E>;

/// An error of this crate. None depends on a decrypted value: that would tell the server about the client's
/// key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HybridError {
    /// CKKS refused.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// A protocol on shares failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// The channel failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A ring or a packed vector is wrong.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A circuit needs a level that its operands do not have.
    #[error("{operation} at level {level} with an operand at level {got}: the set has too few levels for this circuit")]
    Level {
        /// What was to be computed.
        operation: &'static str,
        /// The level that it is computed at.
        level: usize,
        /// The operand's level.
        got: usize,
    },
    /// A product or sum of values at two scales.
    #[error("{operation} of scales 2^{left:.6} and 2^{right:.6}: lower one of the operands to the other's level first")]
    Scale {
        /// What was to be computed.
        operation: &'static str,
        /// Logarithm of the first scale.
        left: f64,
        /// Logarithm of the second.
        right: f64,
    },
    /// A shape that a layout cannot hold.
    #[error("{what}: {got} does not fit, {need}")]
    Shape {
        /// Which number.
        what: &'static str,
        /// Its value.
        got: usize,
        /// What is possible.
        need: String,
    },
    /// Threads could not be started.
    #[error("threads of the evaluator: {0}")]
    Threads(String),
    /// The number of something differs from the public shape.
    #[error("{what}: expected {expected}, got {got}; both parties must run the same plan")]
    Length {
        /// What is counted.
        what: &'static str,
        /// By the shape.
        expected: usize,
        /// Given or received.
        got: usize,
    },
    /// A ciphertext has another scale than the plan says.
    #[error("a ciphertext of scale 2^{:.6} where the plan has 2^{:.6}; both parties must run the same plan", .got.log2(), .expected.log2())]
    OtherScale {
        /// By the shape.
        expected: f64,
        /// Of the ciphertext.
        got: f64,
    },
    /// A conversion alone has more of something than its caller counted in the whole inference.
    #[error(
        "{own} {what} in one conversion, and {inference} in the inference: masks and parts would be too narrow; count all conversions of the inference"
    )]
    Undercounted {
        /// What is counted.
        what: &'static str,
        /// Of this conversion.
        own: u64,
        /// As the caller counted.
        inference: u64,
    },
    /// No level of the set holds the mask.
    #[error(
        "a mask of {width} bits (phase {phase_bits}, 40, and the coefficients of an inference) needs a modulus of more than {need} bits, and the set has {log_q:.1}; take a larger set, a smaller scale or a tighter bound"
    )]
    NoLevel {
        /// Bits of the mask.
        width: u32,
        /// Bits of the phase.
        phase_bits: u32,
        /// Bits that the modulus must exceed.
        need: u32,
        /// Bits that it has at the highest level.
        log_q: f64,
    },
    /// Integer parts are not wide enough, or too wide.
    #[error(
        "parts of {got} bits for values of {bits} bits, {values} of them in an inference: they need {need} bits and have at most {max}; take narrower values"
    )]
    Width {
        /// Bits of a value.
        bits: u32,
        /// Values of an inference.
        values: u64,
        /// Bits asked for.
        got: u32,
        /// Bits needed.
        need: u32,
        /// Widest.
        max: u32,
    },
    /// Encoded parts do not fit the modulus.
    #[error(
        "parts of {bits} bits with {fraction} fractional ones are coefficients of {need:.1} bits at this scale, and level {level} holds {max:.1}; encode at a higher level or a smaller scale"
    )]
    Room {
        /// Bits of a part.
        bits: u32,
        /// Fractional bits.
        fraction: u32,
        /// Bits of a coefficient.
        need: f64,
        /// The level.
        level: usize,
        /// Bits that it holds.
        max: f64,
    },
    /// A value of a layout does not exist.
    #[error("lane {lane} of slot {slot} of ciphertext {ciphertext} takes value {value}, and there are {values}")]
    Layout {
        /// 0 is real, 1 imaginary.
        lane: usize,
        /// The slot.
        slot: usize,
        /// The ciphertext.
        ciphertext: usize,
        /// Its value's number.
        value: usize,
        /// Number of values.
        values: usize,
    },
    /// A ciphertext could not be written.
    #[error("a ciphertext could not be written: {0}")]
    Write(std::io::Error),
    /// Keys that a server keeps could not be read or written.
    #[error("keys that are kept: {0}")]
    Kept(std::io::Error),
    /// A party runs the other party's half.
    #[error("the {0} runs this half of the share boundary")]
    Role(&'static str),
    /// Uploads made ahead belong to another shape.
    #[error("these uploads were made for another shape, scale or level; use them in the order of the plan")]
    OtherUploads,
    /// Uploads made ahead could not be marked as used.
    #[error("uploads made ahead could not be marked as used ({0}); nothing was sent, and they are lost")]
    Mark(std::io::Error),
}

/// Refuses numbers that differ.
pub(crate) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(HybridError::Length { what, expected, got }) }
}

/// Refuses a count of an inference that is below that of one of its conversions.
pub(crate) fn check_counted(what: &'static str, own: u64, inference: u64) -> Result<()> {
    if own <= inference { Ok(()) } else { Err(HybridError::Undercounted { what, own, inference }) }
}
