//! What can go wrong at the boundary and in a circuit.

use fesc_ckks::CkksError;

/// The result of this crate.
pub type Result<T, E = HybridError> = std::result::Result<T, E>;

/// An error of a circuit or a conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HybridError {
    /// The scheme refused an operation.
    #[error(transparent)]
    Ckks(#[from] CkksError),
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
}
