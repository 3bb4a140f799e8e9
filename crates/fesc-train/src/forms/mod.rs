//! The nonlinearities that a model is trained with, as values and derivatives in f32.
//!
//! | set | SiLU, softplus | decay | rsqrt |
//! | --- | --- | --- | --- |
//! | `exact` | exact | exact | exact |
//! | `fast` | pieces of [`fesc_approx::silu::preset`], [`fesc_approx::softplus::preset`] | exact | exact |
//! | `paper` | even residual, degree 4, tau 4 | MMExp, degree 4 | 8 buckets, 1 Newton step |
//! | `d2` `d4` `d6` | even residual of that degree | exact | exact |
//! | `n1` `n2` `n3` | even residual, degree 4 | exact | 8 buckets, that many steps |
//! | `e2` `e4` `e6` | even residual, degree 4 | MMExp of that degree | 8 buckets, 1 step |
//!
//! Why `fast` has an exact decay: the fast plan takes exp of *cumulative sums* ([`fesc_approx::exp`]), with
//! an absolute error of 0.005 that enters once and does not compound. No per-token decay has that product, so
//! that training sees the exact one. Its rsqrt has a relative error of at most 6e-5 in fixed point
//! ([`fesc_approx::rsqrt`]), far below what SiLU's pieces do.
//!
//! The derivative of an approximated rsqrt is taken as `-r^3/2` with the approximated `r`: the derivative
//! that the true function would have at that value. The jumps between buckets have none.

mod activation;
mod exp;
mod rsqrt;

use std::fmt;
use std::str::FromStr;

use fesc_approx::paper::even::{EvenResidual, Residual};
use fesc_approx::paper::mmexp::MinimaxExp;
use serde::{Deserialize, Serialize};

use crate::{Result, TrainError};

pub use activation::{Activation, Even, Pieces};
pub use rsqrt::{BUCKETS, MARGIN, Range, Rsqrt};

/// Which form SiLU and softplus have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The true function.
    Exact,
    /// The fast plan's pieces.
    Fast,
    /// The paper's even residual of this degree.
    Even(usize),
}

/// A named set of forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FormSet {
    /// SiLU and softplus.
    pub shape: Shape,
    /// Degree of MMExp; `None` is the true exp.
    pub decay: Option<usize>,
    /// Newton steps after the buckets; `None` is the true rsqrt.
    pub newton: Option<u32>,
}

impl FormSet {
    /// The true functions.
    pub const EXACT: Self = Self { shape: Shape::Exact, decay: None, newton: None };
    /// The fast plan's.
    pub const FAST: Self = Self { shape: Shape::Fast, decay: None, newton: None };
    /// The paper's.
    pub const PAPER: Self = Self { shape: Shape::Even(4), decay: Some(4), newton: Some(1) };

    /// All names.
    pub const NAMES: [&'static str; 12] =
        ["exact", "fast", "paper", "d2", "d4", "d6", "n1", "n2", "n3", "e2", "e4", "e6"];

    /// Whether the norms must be calibrated first.
    pub fn needs_calibration(&self) -> bool {
        self.newton.is_some()
    }
}

impl FromStr for FormSet {
    type Err = TrainError;

    fn from_str(name: &str) -> Result<Self> {
        let even = |degree| Self { shape: Shape::Even(degree), decay: None, newton: None };
        Ok(match name {
            "exact" => Self::EXACT,
            "fast" => Self::FAST,
            "paper" => Self::PAPER,
            "d2" => even(2),
            "d4" => even(4),
            "d6" => even(6),
            "n1" => Self { newton: Some(1), ..even(4) },
            "n2" => Self { newton: Some(2), ..even(4) },
            "n3" => Self { newton: Some(3), ..even(4) },
            "e2" => Self { decay: Some(2), newton: Some(1), ..even(4) },
            "e4" => Self { decay: Some(4), newton: Some(1), ..even(4) },
            "e6" => Self { decay: Some(6), newton: Some(1), ..even(4) },
            _ => {
                let reason = format!("the forms are {}", Self::NAMES.join(", "));
                return Err(TrainError::Recipe { key: "forms".into(), value: name.into(), reason });
            }
        })
    }
}

impl TryFrom<String> for FormSet {
    type Error = TrainError;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl fmt::Display for FormSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.shape, self.decay, self.newton) {
            (Shape::Exact, ..) => f.write_str("exact"),
            (Shape::Fast, ..) => f.write_str("fast"),
            (Shape::Even(_), Some(4), _) => f.write_str("paper"),
            (Shape::Even(_), Some(degree), _) => write!(f, "e{degree}"),
            (Shape::Even(_), None, Some(steps)) => write!(f, "n{steps}"),
            (Shape::Even(degree), None, None) => write!(f, "d{degree}"),
        }
    }
}

impl From<FormSet> for String {
    fn from(set: FormSet) -> Self {
        set.to_string()
    }
}

/// The per-token decay `e(A Delta)` with its derivative.
#[derive(Debug, Clone, PartialEq)]
pub enum Decay {
    /// `e^z`.
    Exact,
    /// The paper's polynomial on `[-tau, 0]`, 0 to the left.
    Polynomial {
        /// Where the tail begins.
        tau: f32,
        /// Coefficients, highest first.
        coeffs: Vec<f32>,
    },
}

impl Decay {
    /// Value and derivative at `z <= 0`.
    #[inline]
    pub fn at(&self, z: f32) -> (f32, f32) {
        match self {
            Self::Exact => {
                let e = z.exp();
                (e, e)
            }
            Self::Polynomial { tau, .. } if z < -*tau => (0.0, 0.0),
            Self::Polynomial { coeffs, .. } => coeffs.iter().fold((0.0, 0.0), |(p, dp), c| (p * z + c, dp * z + p)),
        }
    }
}

/// A set of forms ready to compute.
#[derive(Debug, Clone, PartialEq)]
pub struct Forms {
    /// Which set.
    pub set: FormSet,
    /// SiLU of the convolution and of the gate.
    pub silu: Activation,
    /// Softplus of Delta.
    pub softplus: Activation,
    /// The decay.
    pub decay: Decay,
    /// One rsqrt per norm: two per layer (before the mixer, gated), then the final one. Empty where all are
    /// exact.
    rsqrt: Vec<Rsqrt>,
}

impl Forms {
    /// Builds a set. One with buckets needs the range of every norm's mean square, as [`crate::calibrate`]
    /// finds it.
    pub fn new(set: FormSet, ranges: Option<&[Range]>) -> Result<Self> {
        let even = |function, degree| EvenResidual::paper(function, degree).map(|f| Activation::Even(Even::new(&f)));
        let (silu, softplus) = match set.shape {
            Shape::Exact => (Activation::Silu, Activation::Softplus),
            Shape::Fast => {
                let pieces = |form| Activation::Pieces(Pieces::new(form));
                (pieces(fesc_approx::silu::preset()?), pieces(fesc_approx::softplus::preset()?))
            }
            Shape::Even(degree) => (even(Residual::Silu, degree)?, even(Residual::Softplus, degree)?),
        };
        let decay = match set.decay {
            None => Decay::Exact,
            Some(degree) => {
                let form = MinimaxExp::paper(degree)?;
                Decay::Polynomial {
                    tau: form.tau as f32,
                    coeffs: form.coeffs.iter().rev().map(|c| *c as f32).collect(),
                }
            }
        };
        let rsqrt = match (set.newton, ranges) {
            (None, _) => Vec::new(),
            (Some(_), None) => return Err(TrainError::NotCalibrated { forms: set.to_string() }),
            (Some(steps), Some(ranges)) => {
                ranges.iter().map(|range| Rsqrt::buckets(*range, steps)).collect::<Result<_>>()?
            }
        };
        Ok(Self { set, silu, softplus, decay, rsqrt })
    }

    /// The true functions.
    pub fn exact() -> Self {
        Self {
            set: FormSet::EXACT,
            silu: Activation::Silu,
            softplus: Activation::Softplus,
            decay: Decay::Exact,
            rsqrt: Vec::new(),
        }
    }

    /// The rsqrt of a norm.
    pub fn rsqrt(&self, site: usize) -> Rsqrt {
        self.rsqrt.get(site).cloned().unwrap_or(Rsqrt::Exact)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in FormSet::NAMES {
            let set: FormSet = name.parse().unwrap();
            let again: FormSet = set.to_string().parse().unwrap();
            assert_eq!(set, again, "{name}");
        }
        assert!("d3".parse::<FormSet>().is_err());
        assert!(matches!(Forms::new(FormSet::PAPER, None), Err(TrainError::NotCalibrated { .. })));
    }

    #[test]
    fn decay_is_mmexp_with_its_derivative() {
        let form = MinimaxExp::paper(4).unwrap();
        let forms = Forms::new(FormSet::PAPER, Some(&[Range { low: 0.1, high: 10.0 }])).unwrap();
        for i in 0..1000 {
            let z = -f64::from(i) * 0.00991;
            let (value, slope) = forms.decay.at(z as f32);
            assert!((f64::from(value) - form.eval_f64(z)).abs() < 1e-5, "{z}");
            let step = 1e-4;
            let want = (form.eval_f64(z + step) - form.eval_f64(z - step)) / (2.0 * step);
            assert!((z + 8.0).abs() < 0.01 || (f64::from(slope) - want).abs() < 1e-3, "{z}: {slope} {want}");
        }
        assert_eq!(forms.decay.at(-8.5), (0.0, 0.0));
    }
}
