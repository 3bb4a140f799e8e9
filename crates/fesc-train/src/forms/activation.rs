//! SiLU and softplus with their derivatives: exact, by the fast plan's pieces, or by the paper's even
//! residual.
//!
//! Loops run over tiles of sixteen values, so that the compiler makes vector code of them under `pulp`'s
//! run-time choice of AVX-512, AVX2 or portable code. The derivative of a piecewise form is that of the
//! chosen piece: at a knot the form may jump, and the jump has no derivative.

use fesc_approx::FixedPiecewise;
use fesc_approx::paper::even::EvenResidual;
use pulp::Arch;

use super::exp::exp;

/// Values handled at once.
const TILE: usize = 16;

type Tile = [f32; TILE];

/// A function with its derivative, on tiles.
trait Curve {
    fn at(&self, x: &Tile) -> (Tile, Tile);
}

struct Silu;

impl Curve for Silu {
    #[inline(always)]
    fn at(&self, x: &Tile) -> (Tile, Tile) {
        let (mut y, mut slope) = (*x, *x);
        for i in 0..TILE {
            let s = 1.0 / (1.0 + exp(-x[i]));
            y[i] = x[i] * s;
            slope[i] = s * (1.0 + x[i] * (1.0 - s));
        }
        (y, slope)
    }
}

struct Softplus;

impl Curve for Softplus {
    // ln_1p is no vector code, but Delta has only one value per head and token.
    #[inline(always)]
    fn at(&self, x: &Tile) -> (Tile, Tile) {
        let (mut y, mut slope) = (*x, *x);
        for i in 0..TILE {
            let e = exp(-x[i].abs());
            y[i] = x[i].max(0.0) + e.ln_1p();
            slope[i] = if x[i] < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
        }
        (y, slope)
    }
}

/// The rounded pieces of the fast plan as a real function: knots at the centre of the comparison's zones.
#[derive(Debug, Clone, PartialEq)]
pub struct Pieces {
    knots: Vec<f32>,
    pieces: Vec<[f32; 3]>,
}

impl Pieces {
    /// The real function behind an integer form.
    pub fn new(form: &FixedPiecewise) -> Self {
        let unit = (f64::from(form.cmp_shift()) - f64::from(form.in_frac())).exp2();
        let half = if form.cmp_shift() == 0 { 0.0 } else { 0.5 };
        let scale = |j: u32| (-(f64::from(form.sum_frac()) - f64::from(j * form.in_frac()))).exp2();
        let real = |c: &[i64; 3]| [0, 1, 2].map(|j| (c[j] as f64 * scale(j as u32)) as f32);
        Self {
            knots: form.thresholds_int().iter().map(|&t| ((t as f64 - half) * unit) as f32).collect(),
            pieces: form.pieces_int().iter().map(real).collect(),
        }
    }
}

impl Curve for Pieces {
    #[inline(always)]
    fn at(&self, x: &Tile) -> (Tile, Tile) {
        let first = self.pieces.first().copied().unwrap_or_default();
        let mut c = first.map(|v| [v; TILE]);
        for (knot, piece) in self.knots.iter().zip(self.pieces.iter().skip(1)) {
            for j in 0..3 {
                for i in 0..TILE {
                    c[j][i] = if x[i] >= *knot { piece[j] } else { c[j][i] };
                }
            }
        }
        let (mut y, mut slope) = (*x, *x);
        for i in 0..TILE {
            y[i] = c[0][i] + x[i] * (c[1][i] + x[i] * c[2][i]);
            slope[i] = c[1][i] + 2.0 * x[i] * c[2][i];
        }
        (y, slope)
    }
}

/// The paper's `x/2 + h(x^2)` inside `[-tau, tau)`, 0 to the left, `x` to the right.
#[derive(Debug, Clone, PartialEq)]
pub struct Even {
    tau: f32,
    /// Powers of `x^2`, highest first.
    coeffs: Vec<f32>,
}

impl Even {
    /// The same form in f32.
    pub fn new(form: &EvenResidual) -> Self {
        Self { tau: form.tau as f32, coeffs: form.coeffs.iter().rev().map(|c| *c as f32).collect() }
    }
}

impl Curve for Even {
    #[inline(always)]
    fn at(&self, x: &Tile) -> (Tile, Tile) {
        let (mut h, mut dh) = ([0.0; TILE], [0.0; TILE]);
        for c in &self.coeffs {
            for i in 0..TILE {
                let u = x[i] * x[i];
                dh[i] = dh[i] * u + h[i];
                h[i] = h[i] * u + c;
            }
        }
        let (mut y, mut slope) = (*x, *x);
        for i in 0..TILE {
            let (left, inside) = (x[i] < -self.tau, x[i] < self.tau);
            let (p, dp) = (0.5 * x[i] + h[i], 0.5 + 2.0 * x[i] * dh[i]);
            y[i] = if left {
                0.0
            } else if inside {
                p
            } else {
                x[i]
            };
            slope[i] = if left {
                0.0
            } else if inside {
                dp
            } else {
                1.0
            };
        }
        (y, slope)
    }
}

/// A scalar function with its derivative.
#[derive(Debug, Clone, PartialEq)]
pub enum Activation {
    /// `x / (1 + e^-x)`.
    Silu,
    /// `ln(1 + e^x)`.
    Softplus,
    /// Piecewise polynomials of the fast plan.
    Pieces(Pieces),
    /// The paper's even residual.
    Even(Even),
}

#[inline(always)]
fn each<C: Curve>(curve: &C, x: &[f32], mut put: impl FnMut(usize, &[f32], &[f32])) {
    let (tiles, rest) = x.as_chunks::<TILE>();
    for (i, tile) in tiles.iter().enumerate() {
        let (y, slope) = curve.at(tile);
        put(i * TILE, &y, &slope);
    }
    if !rest.is_empty() {
        let mut tile = [0.0; TILE];
        tile[..rest.len()].copy_from_slice(rest);
        let (y, slope) = curve.at(&tile);
        put(tiles.len() * TILE, &y[..rest.len()], &slope[..rest.len()]);
    }
}

#[inline(always)]
fn values<C: Curve>(curve: &C, x: &[f32], y: &mut [f32]) {
    each(curve, x, |at, values, _| y[at..at + values.len()].copy_from_slice(values));
}

#[inline(always)]
fn both<C: Curve>(curve: &C, x: &[f32], y: &mut [f32], slope: &mut [f32]) {
    each(curve, x, |at, values, slopes| {
        y[at..at + values.len()].copy_from_slice(values);
        slope[at..at + slopes.len()].copy_from_slice(slopes);
    });
}

impl Activation {
    /// `y = f(x)`.
    ///
    /// # Panics
    /// If `y` is shorter than `x`.
    pub fn values(&self, x: &[f32], y: &mut [f32]) {
        Arch::new().dispatch(
            #[inline(always)]
            || match self {
                Self::Silu => values(&Silu, x, y),
                Self::Softplus => values(&Softplus, x, y),
                Self::Pieces(form) => values(form, x, y),
                Self::Even(form) => values(form, x, y),
            },
        );
    }

    /// `y = f(x)` and `slope = f'(x)`.
    ///
    /// # Panics
    /// If `y` or `slope` is shorter than `x`.
    pub fn values_and_slopes(&self, x: &[f32], y: &mut [f32], slope: &mut [f32]) {
        Arch::new().dispatch(
            #[inline(always)]
            || match self {
                Self::Silu => both(&Silu, x, y, slope),
                Self::Softplus => both(&Softplus, x, y, slope),
                Self::Pieces(form) => both(form, x, y, slope),
                Self::Even(form) => both(form, x, y, slope),
            },
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use fesc_approx::paper::even::Residual;
    use fesc_approx::{functions, silu, softplus};

    fn grid() -> Vec<f32> {
        (-2500..2503).map(|i| i as f32 * 0.01 + 0.0003).collect()
    }

    fn run(form: &Activation) -> (Vec<f32>, Vec<f32>) {
        let x = grid();
        let (mut y, mut slope, mut only) = (x.clone(), x.clone(), x.clone());
        form.values_and_slopes(&x, &mut y, &mut slope);
        form.values(&x, &mut only);
        assert_eq!(y, only);
        (y, slope)
    }

    fn check(form: &Activation, exact: impl Fn(f64) -> f64, tolerance: f64) {
        let (y, slope) = run(form);
        for ((x, y), slope) in grid().iter().zip(y).zip(slope) {
            let x = f64::from(*x);
            let want = exact(x);
            assert!((f64::from(y) - want).abs() <= tolerance * want.abs().max(0.1), "{form:?} at {x}: {y} {want}");
            let step = 1e-5;
            let (right, left) = (exact(x + step), exact(x - step));
            // A jump between the two points is no derivative.
            if (right - left).abs() < 1e-3 {
                let want = (right - left) / (2.0 * step);
                let found = f64::from(slope);
                let kink = (exact(x + step) - 2.0 * exact(x) + exact(x - step)).abs() > 1e-7;
                assert!(kink || (found - want).abs() < 2e-4, "{form:?} slope at {x}: {found} {want}");
            }
        }
    }

    #[test]
    fn forms_are_those_of_fesc_approx() {
        check(&Activation::Silu, functions::silu, 1e-6);
        check(&Activation::Softplus, functions::softplus, 1e-6);
        let fast = silu::preset().unwrap();
        check(&Activation::Pieces(Pieces::new(fast)), |x| fast.eval_f64(x), 1e-5);
        let fast = softplus::preset().unwrap();
        check(&Activation::Pieces(Pieces::new(fast)), |x| fast.eval_f64(x), 1e-5);
        for degree in [2, 4, 6] {
            for function in [Residual::Silu, Residual::Softplus] {
                let form = EvenResidual::paper(function, degree).unwrap();
                check(&Activation::Even(Even::new(&form)), |x| form.eval_f64(x), 1e-5);
            }
        }
    }
}
