//! Piecewise polynomials of degree at most two over the reals.

/// `f(x) ~ sum_j pieces[k][j] x^j` on `[knots[k-1], knots[k])`; `K` knots, `K + 1` pieces, degree at most 2.
///
/// The pieces need not meet: each is fitted alone on all inputs for which the comparison may choose it.
#[derive(Debug, Clone, PartialEq)]
pub struct Piecewise {
    /// Ascending knots.
    pub knots: Vec<f64>,
    /// Coefficients of `1, x, x^2`, one row per piece.
    pub pieces: Vec<[f64; 3]>,
}

impl Piecewise {
    /// The value at `x`.
    pub fn eval(&self, x: f64) -> f64 {
        let k = self.knots.partition_point(|&knot| knot <= x);
        self.pieces.get(k).map_or(f64::NAN, |c| poly2(c, x))
    }

    /// The highest power with a non-zero coefficient.
    pub fn degree(&self) -> usize {
        (1..3).rev().find(|&j| self.pieces.iter().any(|p| p[j] != 0.0)).unwrap_or(0)
    }
}

/// `c[0] + c[1] x + c[2] x^2`.
pub(crate) fn poly2(c: &[f64; 3], x: f64) -> f64 {
    c[0] + x * (c[1] + x * c[2])
}
