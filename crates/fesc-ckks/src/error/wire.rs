//! What can be wrong with received bytes.

/// What was wrong with received bytes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Too few or too many bytes.
    #[error("it must have {expected} bytes, got {got}")]
    Length {
        /// Bytes expected.
        expected: usize,
        /// Bytes received.
        got: usize,
    },
    /// The stream that it comes from failed or ended.
    #[error("its stream broke off: {kind}")]
    Stream {
        /// What the stream said.
        kind: std::io::ErrorKind,
    },
    /// The first bytes are not ours.
    #[error("it does not begin with the magic bytes of this format")]
    Magic,
    /// Another version of the format.
    #[error("format version {got}, this program speaks {expected}")]
    Version {
        /// Version spoken.
        expected: u16,
        /// Version received.
        got: u16,
    },
    /// Another kind of object.
    #[error("kind {got}, expected {expected}")]
    Kind {
        /// Kind expected.
        expected: u8,
        /// Kind received.
        got: u8,
    },
    /// A field that must be zero is not.
    #[error("field `{field}` must be zero for this kind of object")]
    NotZero {
        /// Name of the field.
        field: &'static str,
    },
    /// Another parameter set.
    #[error("it was made for another parameter set (digest {got}..., ours {expected}...)")]
    Digest {
        /// First bytes of our digest.
        expected: String,
        /// First bytes of the received digest.
        got: String,
    },
    /// The level does not exist or is not the one of this kind.
    #[error("level {got}, allowed are {min} to {max}")]
    Level {
        /// Lowest level allowed.
        min: usize,
        /// Highest level allowed.
        max: usize,
        /// Level received.
        got: u32,
    },
    /// The scale is not usable.
    #[error("scale {scale:e} is not usable at its level")]
    Scale {
        /// Scale received.
        scale: f64,
    },
    /// The Galois element is not one.
    #[error("galois element {element} is neither 0 nor odd between 3 and {max}")]
    Galois {
        /// Element received.
        element: u32,
        /// Largest element.
        max: u32,
    },
    /// A residue is not reduced.
    #[error("a residue of limb {limb} is not below its prime {prime}")]
    Residue {
        /// Position of the limb in the object.
        limb: usize,
        /// The prime.
        prime: u64,
    },
}
