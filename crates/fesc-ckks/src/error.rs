//! What can go wrong: each variant with the numbers, the cause and the remedy.

mod wire;

use fesc_ring::fft::FftError;
use fesc_ring::modulus::ModulusError;
use fesc_ring::primes::PrimeError;
use fesc_ring::rns::RnsError;

pub use wire::WireError;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// The ring degree is not supported.
    #[error("ring degree 2^{log_n}: it must be from 2^{min} to 2^{max}")]
    Degree {
        /// Logarithm given.
        log_n: u32,
        /// Smallest logarithm.
        min: u32,
        /// Largest logarithm.
        max: u32,
    },
    /// A prime size is not supported.
    #[error("{role} prime {index} of {bits} bits: sizes must be from {min} to {max} bits")]
    PrimeBits {
        /// `data` or `special`.
        role: &'static str,
        /// Position in its list.
        index: usize,
        /// Bits asked for.
        bits: u32,
        /// Smallest size.
        min: u32,
        /// Largest size.
        max: u32,
    },
    /// A list of primes is empty or too long.
    #[error("{count} {role} primes: there must be 1 to {max}")]
    PrimeCount {
        /// `data` or `special`.
        role: &'static str,
        /// Primes asked for.
        count: usize,
        /// Most primes.
        max: usize,
    },
    /// There are not enough primes near a size.
    #[error("only {found} primes = 1 mod 2^{log_order} lie near 2^{bits}; ask for fewer of this size")]
    TooFewPrimes {
        /// Bits asked for.
        bits: u32,
        /// Logarithm of the order that the primes need.
        log_order: u32,
        /// Primes found.
        found: usize,
    },
    /// The modulus is too large for the degree.
    #[error(
        "log2(QP) = {log_qp:.2} is over {limit} bits at degree 2^{log_n}, special primes counted: {bits:.1} bits of security by the table, and 128 must be left if that is 1 % too many; drop primes or double the degree"
    )]
    Weak {
        /// Logarithm of the degree.
        log_n: u32,
        /// Bits of the whole modulus.
        log_qp: f64,
        /// Most bits.
        limit: u32,
        /// Bits of security by the table.
        bits: f64,
    },
    /// The special primes do not cover a digit.
    #[error(
        "the special primes have {log_p:.2} bits, digit {digit} has {log_digit:.2}: key switching would drown the message; use larger or more special primes"
    )]
    SpecialTooSmall {
        /// Bits of the special modulus.
        log_p: f64,
        /// The digit.
        digit: usize,
        /// Bits of that digit's primes.
        log_digit: f64,
    },
    /// The default scale does not fit.
    #[error(
        "default scale 2^{log_scale}: it must be at least 2, at most 2^1000 and below the data modulus of {log_q:.2} bits"
    )]
    DefaultScale {
        /// Logarithm given.
        log_scale: u32,
        /// Bits of the data modulus.
        log_q: f64,
    },
    /// A level does not exist.
    #[error("level {level} asked for: this set has levels 0 to {max}")]
    Level {
        /// Level given.
        level: usize,
        /// Highest level.
        max: usize,
    },
    /// Two operands are at different levels.
    #[error("operands at levels {left} and {right}; drop the higher one to the lower level first")]
    LevelMismatch {
        /// Level on the left.
        left: usize,
        /// Level on the right.
        right: usize,
    },
    /// There is no level left.
    #[error("{operation} needs a level, and the operand is at level 0; use a set with more primes or refresh before")]
    NoLevel {
        /// The operation.
        operation: &'static str,
    },
    /// A scale is not usable.
    #[error("scale {scale:e} at level {level}: it must be finite, at least 1 and below the modulus of {log_q:.2} bits")]
    Scale {
        /// Scale given.
        scale: f64,
        /// Level given.
        level: usize,
        /// Bits of the modulus at this level.
        log_q: f64,
    },
    /// Two operands have different scales.
    #[error(
        "operands with scales {left:e} and {right:e} (relative difference {difference:e}, allowed 2^-40); encode or rescale to one scale"
    )]
    ScaleMismatch {
        /// Scale on the left.
        left: f64,
        /// Scale on the right.
        right: f64,
        /// Relative difference.
        difference: f64,
    },
    /// An integer that brings one scale to another is not usable.
    #[error(
        "scale {from:e} to {to:e} takes an integer factor of about {factor:e}: it must be from {min:e} to {max:e}, so that rounding it changes the scale little; choose another scale"
    )]
    Factor {
        /// Scale of the operand.
        from: f64,
        /// Scale asked for.
        to: f64,
        /// The factor.
        factor: f64,
        /// Smallest factor.
        min: f64,
        /// Largest factor.
        max: f64,
    },
    /// A sum without products has no scale.
    #[error(
        "a sum of no products has no scale of its own; give it at least one product, or start from empty_sum with a scale"
    )]
    NoProducts,
    /// Weights that do not fit the ciphertexts or the sums of a matrix.
    #[error(
        "{rows} rows of weights up to place {needed} for {sums} sums of {factors} ciphertexts: give a row for each sum and a ciphertext for each place"
    )]
    Factors {
        /// Ciphertexts given.
        factors: usize,
        /// Ciphertexts that the weights name.
        needed: usize,
        /// Sums given.
        sums: usize,
        /// Rows of weights given.
        rows: usize,
    },
    /// A period of slots is not usable.
    #[error("slots of period {period}: it must be a power of two from 1 to the number of slots, {slots}")]
    Period {
        /// Values given.
        period: usize,
        /// Slots of the set.
        slots: usize,
    },
    /// Two objects belong to different parameter sets.
    #[error("objects of two parameter sets ({left} and {right}) in one operation")]
    ParamsMismatch {
        /// First bytes of one digest, in hexadecimal.
        left: String,
        /// First bytes of the other.
        right: String,
    },
    /// Two objects belong to different clients.
    #[error(
        "objects under the keys of two clients ({left} and {right}) in one operation: the result would be wrong, and a zero of another key gives weights away; use what came from one client with that client's keys alone"
    )]
    KeyMismatch {
        /// First bytes of one id, in hexadecimal.
        left: String,
        /// First bytes of the other.
        right: String,
    },
    /// There are more values than slots or coefficients.
    #[error("{got} values given: this set holds at most {max} {what}")]
    TooMany {
        /// `slots` or `coefficients`.
        what: &'static str,
        /// Values given.
        got: usize,
        /// Most values.
        max: usize,
    },
    /// Slots cannot be packed so.
    #[error("{parts} parts in {slots} slots: parts are a power of two, and each has a slot at least")]
    Parts {
        /// Parts asked for.
        parts: usize,
        /// Slots of the set.
        slots: usize,
    },
    /// A value is not a finite number.
    #[error("value {index} is not finite")]
    NotFinite {
        /// Position of the first such value.
        index: usize,
    },
    /// A value does not fit below the modulus.
    #[error(
        "the largest coefficient has about {bits:.1} bits, level {level} holds {max:.1} (sign included); lower the scale or raise the level"
    )]
    TooLarge {
        /// Bits of the largest coefficient.
        bits: f64,
        /// Level.
        level: usize,
        /// Bits of half the modulus.
        max: f64,
    },
    /// A decrypted coefficient has more than 127 bits.
    #[error("coefficient {index} does not fit 128 bits at level {level}; drop the ciphertext to a lower level before")]
    Integer {
        /// Position of the first such coefficient.
        index: usize,
        /// Level.
        level: usize,
    },
    /// A decrypted coefficient is too large for a message.
    #[error(
        "a coefficient at level {level} is above 10^300: no message is; was it decrypted with another key, or is it masked?"
    )]
    NoMessage {
        /// Level.
        level: usize,
    },
    /// A key that nobody asked for.
    #[error("a key for {what} is not in the plan")]
    UnplannedKey {
        /// What the key is for.
        what: String,
    },
    /// An evaluation key is missing.
    #[error("no key for {what}; generate it with the client's plan")]
    MissingKey {
        /// What the key is for.
        what: String,
    },
    /// A Galois element is not one.
    #[error("galois element {element}: it must be odd and below {order}")]
    Galois {
        /// Element given.
        element: u32,
        /// Twice the degree.
        order: u32,
    },
    /// A mask would wrap around the modulus.
    #[error(
        "a mask of {width} bits over a phase of {phase_bits} bits needs a modulus of {need} bits, level {level} has {log_q:.2}; mask at a higher level"
    )]
    MaskWraps {
        /// Width of the mask.
        width: u32,
        /// Bits of the phase.
        phase_bits: u32,
        /// Bits that the modulus must have.
        need: u32,
        /// Level.
        level: usize,
        /// Bits of the modulus there.
        log_q: f64,
    },
    /// A mask is too narrow for what is certainly in the phase.
    #[error(
        "a mask for phases of {phase_bits} bits: the noise of the fresh zero alone has {need}; count message and noise"
    )]
    MaskNarrow {
        /// Bits of the phase that the mask was made for.
        phase_bits: u32,
        /// Bits of the noise.
        need: u32,
    },
    /// A mask is for phases below the scale.
    #[error(
        "a mask for phases of {phase_bits} bits on a ciphertext at scale 2^{log_scale:.2}: a value of 1 alone has a phase of the scale, which such a mask does not hide; make the mask for log2 of the scale, of the largest value and of the noise"
    )]
    MaskBelowScale {
        /// Bits of the phase that the mask was made for.
        phase_bits: u32,
        /// Logarithm of the ciphertext's scale.
        log_scale: f64,
    },
    /// A mask is wider than the integers that hold shares.
    #[error("a mask of {width} bits: shares are integers of 128 bits, so at most {max}")]
    MaskWidth {
        /// Width asked for.
        width: u32,
        /// Largest width.
        max: u32,
    },
    /// A vector has another length than its set asks for.
    #[error("{got} {what} given: this set has {expected}")]
    Length {
        /// What the vector holds.
        what: &'static str,
        /// Elements given.
        got: usize,
        /// Elements that it must have.
        expected: usize,
    },
    /// A scale or a number of fractional bits is not usable for shares.
    #[error(
        "shares at scale {scale:e} with {fraction} fractional bits: the scale must be from 1 to 2^{max_log_scale}, the fraction at most {max_fraction} bits"
    )]
    ShareScale {
        /// Scale given.
        scale: f64,
        /// Fractional bits given.
        fraction: u32,
        /// Logarithm of the largest scale.
        max_log_scale: i32,
        /// Most fractional bits.
        max_fraction: u32,
    },
    /// Shares are too wide for the arithmetic of encoding and decoding.
    #[error(
        "shares of {bits} bits at scale {scale:e} with {fraction} fractional bits: encoding and decoding are right up to {max} bits; use a narrower mask, another scale or another fraction"
    )]
    ShareTooLarge {
        /// Bits asked for.
        bits: u32,
        /// Most bits.
        max: u32,
        /// Scale given.
        scale: f64,
        /// Fractional bits given.
        fraction: u32,
    },
    /// Received bytes are not an object of this crate.
    #[error("received {what} refused: {cause}")]
    Wire {
        /// The object expected.
        what: &'static str,
        /// What was wrong.
        cause: WireError,
    },
    /// The arithmetic layer refused a prime.
    #[error(transparent)]
    Prime(#[from] PrimeError),
    /// The arithmetic layer has no kernels for a prime.
    #[error(transparent)]
    Rns(#[from] RnsError),
    /// The arithmetic layer refused a number of slots.
    #[error(transparent)]
    Fft(#[from] FftError),
    /// The arithmetic layer refused a modulus.
    #[error(transparent)]
    Modulus(#[from] ModulusError),
}

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, CkksError>;
