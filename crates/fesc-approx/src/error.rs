//! What can be wrong with an approximation or with its fixed-point plan.

/// Why a form was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApproxError {
    /// `K` knots need `K + 1` pieces.
    #[error("{knots} knots need {} pieces, got {pieces}", knots + 1)]
    PieceCount {
        /// Number of knots.
        knots: usize,
        /// Number of pieces.
        pieces: usize,
    },
    /// A knot or a coefficient is infinite or not a number.
    #[error("{what} {index} is not finite")]
    NotFinite {
        /// "knot" or "piece".
        what: &'static str,
        /// Its index.
        index: usize,
    },
    /// Two thresholds are equal or out of order in the comparison ring.
    #[error(
        "thresholds {index} and {} are equal or out of order in units of 2^{cmp_shift} input ulps: \
         move the knots apart or drop fewer bits", index + 1
    )]
    KnotOrder {
        /// Index of the first of the two.
        index: usize,
        /// Bits dropped before the comparison.
        cmp_shift: u32,
    },
    /// Truncate-reduce needs `n <= l - s`.
    #[error(
        "comparison ring of {cmp_bits} bits after dropping {cmp_shift} does not fit a ring of {ring_bits} bits: need 2 <= n <= l - s"
    )]
    CompareWidth {
        /// `n`.
        cmp_bits: u32,
        /// `s`.
        cmp_shift: u32,
        /// `l`.
        ring_bits: u32,
    },
    /// A threshold leaves no input for which `x - tau` keeps its sign.
    #[error("threshold {value} does not fit a comparison ring of {cmp_bits} bits: widen it or drop more low bits")]
    ThresholdRange {
        /// The threshold, in units of the comparison ring.
        value: i128,
        /// `n`.
        cmp_bits: u32,
    },
    /// The scale of the sum is below what the degree or the output needs.
    #[error(
        "sum scale {sum_frac} is too small: degree {degree} at {in_frac} input bits and {out_frac} output bits need at least {need}"
    )]
    SumScale {
        /// Fractional bits of the sum.
        sum_frac: u32,
        /// Degree of the pieces.
        degree: usize,
        /// Fractional bits of the input.
        in_frac: u32,
        /// Fractional bits of the output.
        out_frac: u32,
        /// The least scale that works.
        need: u32,
    },
    /// A coefficient does not fit the ring.
    #[error("coefficient of x^{power} of piece {piece} does not fit {ring_bits} bits: lower the sum scale")]
    CoefficientRange {
        /// Index of the piece.
        piece: usize,
        /// Power of x.
        power: usize,
        /// `l`.
        ring_bits: u32,
    },
    /// An intermediate value leaves the range of the known-sign truncation.
    #[error(
        "{what} reaches 2^{log2:.2}, but known-sign truncation by {shift} needs less than 2^{limit}: lower a scale or the range"
    )]
    Overflow {
        /// Which intermediate.
        what: &'static str,
        /// log2 of its largest magnitude.
        log2: f64,
        /// Bits that are to be dropped.
        shift: u32,
        /// log2 of the limit.
        limit: u32,
    },
    /// A parameter is outside its meaning.
    #[error("{what} = {value}: {remedy}")]
    Parameter {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What would be accepted.
        remedy: &'static str,
    },
    /// The fit could not reach the error asked for.
    #[error("no fit of {what} with {pieces} pieces at this resolution: best error is above {target}")]
    NoFit {
        /// Name of the function.
        what: &'static str,
        /// Pieces allowed.
        pieces: usize,
        /// Error asked for.
        target: f64,
    },
}
