//! One table of all forms with their measured errors, for the program to print.
//!
//! Ours are measured on the integer twin, both comparison carries and both truncation carries included; the
//! paper's on the real form, as the paper does. All figures are computed when asked for, none is stored.

use crate::error::ApproxError;
use crate::exp_square::ExpSquare;
use crate::fixed::FixedPiecewise;
use crate::functions::{rsqrt as exact_rsqrt, silu as exact_silu, softplus as exact_softplus};
use crate::paper::even::{EvenResidual, Residual};
use crate::paper::mmexp::MinimaxExp;
use crate::paper::nerms::NeRms;
use crate::rsqrt::Rsqrt;
use crate::scan::Errors;
use crate::{exp, silu, softplus};
use std::fmt;

/// One form.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The function and whose form.
    pub name: &'static str,
    /// Degree, steps or pieces.
    pub setting: String,
    /// Thresholds compared.
    pub thresholds: usize,
    /// Secret products (openings of a piecewise form not counted).
    pub products: usize,
    /// Largest absolute error.
    pub max_abs: f64,
    /// Largest relative error, where it means something.
    pub max_rel: Option<f64>,
    /// Value at 0, where it means something.
    pub at_zero: Option<f64>,
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.3e}"));
        let zero = self.at_zero.map_or_else(|| "-".to_owned(), |v| format!("{v:.5}"));
        write!(
            out,
            "{:<18} {:<28} {:>3} thresholds {:>2} products  abs {:.3e}  rel {:>9}  f(0) {zero}",
            self.name,
            self.setting,
            self.thresholds,
            self.products,
            self.max_abs,
            optional(self.max_rel),
        )
    }
}

/// All default forms of this crate and the paper's candidates.
///
/// # Errors
/// None with the constants of this crate.
pub fn report() -> Result<Vec<Row>, ApproxError> {
    let mut rows = vec![
        piecewise("SiLU, ours", silu::preset()?, exact_silu, silu::CORE, None),
        piecewise("SiLU, ours", silu::preset_fine()?, exact_silu, silu::CORE, None),
    ];
    for degree in [2, 4, 6] {
        rows.push(even("SiLU, paper", Residual::Silu, degree)?);
    }
    rows.push(piecewise("softplus, ours", softplus::preset()?, exact_softplus, softplus::CORE, Some(softplus::LEAST)));
    for degree in [2, 4, 6] {
        rows.push(even("softplus, paper", Residual::Softplus, degree)?);
    }
    for form in [exp::preset()?, exp::preset_fine()?] {
        let mut row = piecewise("exp, ours", form, f64::exp, exp::CORE, None);
        row.at_zero = Some(form.outcomes(0)[0]);
        rows.push(row);
    }
    rows.push(exp_square()?);
    for degree in 2..=8 {
        rows.push(mmexp(degree)?);
    }
    rows.push(rsqrt(&Rsqrt::preset(1.0 / 128.0, 20)?));
    rows.push(rsqrt(&Rsqrt::preset_few_rounds(1.0 / 128.0, 20)?));
    for steps in 1..=3 {
        rows.push(nerms(steps)?);
    }
    Ok(rows)
}

fn piecewise(
    name: &'static str,
    form: &FixedPiecewise,
    f: impl Fn(f64) -> f64,
    core: (f64, f64),
    relative_from: Option<f64>,
) -> Row {
    let thresholds = form.thresholds().len();
    let degree = if form.degree() == 2 { "quadratic" } else { "linear" };
    let max_rel = relative_from.map(|from| form.scan(&f, (from, core.1), 200_000).rel);
    Row {
        name,
        setting: format!("{} {degree} pieces, n = {}", thresholds + 1, form.cmp_bits()),
        thresholds,
        products: 0,
        max_abs: form.scan(&f, core, 200_000).abs,
        max_rel,
        at_zero: None,
    }
}

fn even(name: &'static str, function: Residual, degree: usize) -> Result<Row, ApproxError> {
    let form = EvenResidual::paper(function, degree)?;
    let mut errors = Errors::default();
    (-90_000..=200_000).map(|i| f64::from(i) / 1e4).for_each(|x| errors.note(x, form.eval_f64(x), function.exact(x)));
    Ok(Row {
        name,
        setting: format!("D{degree}, inner {:.2e}, tail {:.3}", form.inner_error, form.tail_jump()),
        thresholds: 2,
        products: degree / 2,
        max_abs: errors.abs,
        max_rel: (function == Residual::Softplus).then_some(errors.rel),
        at_zero: None,
    })
}

fn exp_square() -> Result<Row, ApproxError> {
    let form = ExpSquare::preset()?;
    Ok(Row {
        name: "exp, ours",
        setting: format!("power form, k = {}", form.k()),
        thresholds: 1,
        products: form.k() as usize + 1,
        max_abs: form.form_error() + form.rounding_bound(),
        max_rel: None,
        at_zero: Some(form.eval_f64(0.0)),
    })
}

fn mmexp(degree: usize) -> Result<Row, ApproxError> {
    let form = MinimaxExp::paper(degree)?;
    Ok(Row {
        name: "exp, paper",
        setting: format!("D{degree} on [-8, 0]"),
        thresholds: 1,
        products: degree,
        max_abs: form.inner_error.max((-form.tau).exp()),
        max_rel: None,
        at_zero: Some(form.at_zero()),
    })
}

/// Both carries throughout, on a geometric grid.
fn rsqrt(form: &Rsqrt) -> Row {
    let (lo, hi) = form.range();
    let (one, unit) = (f64::from(form.v_frac()).exp2(), (-f64::from(form.y_frac())).exp2());
    let ring = form.start().ring();
    let mut errors = Errors::default();
    for i in 0..=100_000 {
        let v = (lo * (hi / lo).powf(f64::from(i) / 1e5) * one).round();
        for high in [false, true] {
            let y = ring.to_signed(form.eval(v as u64, &mut || high)) as f64 * unit;
            errors.note(v / one, y, exact_rsqrt(v / one));
        }
    }
    Row {
        name: "rsqrt, ours",
        setting: format!("{} lines over 2^16, N{}", form.start().steps().len() + 1, form.steps()),
        thresholds: form.start().thresholds().len(),
        products: 3 * form.steps() as usize,
        max_abs: errors.abs,
        max_rel: Some(errors.rel),
        at_zero: None,
    }
}

fn nerms(steps: u32) -> Result<Row, ApproxError> {
    let form = NeRms::calibrate(1.0 / 128.0, 2.0, 8, steps)?;
    let rel = form.relative_error();
    Ok(Row {
        name: "rsqrt, paper",
        setting: format!("8 constants over 2^8, N{steps}"),
        thresholds: 7,
        products: 3 * steps as usize - 1,
        max_abs: rel * exact_rsqrt(form.range.0),
        max_rel: Some(rel),
        at_zero: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The table says what the modules promise, and its lines print.
    #[test]
    fn table_is_complete() {
        let rows = report().unwrap();
        rows.iter().for_each(|row| println!("{row}"));
        let find = |name: &str, start: &str| {
            let hit = rows.iter().find(|r| r.name == name && r.setting.starts_with(start));
            hit.unwrap_or_else(|| unreachable!("{name} {start}"))
        };
        assert!(find("SiLU, ours", "6 linear").max_abs < 0.03);
        assert!((find("SiLU, paper", "D4").max_abs - 0.0719).abs() < 1e-4);
        assert!((find("SiLU, paper", "D6").max_abs - 0.0719).abs() < 1e-4);
        assert!((find("softplus, paper", "D4").max_abs - 0.0181).abs() < 1e-4);
        assert_eq!(find("softplus, paper", "D4").max_rel, Some(1.0));
        assert!(find("softplus, ours", "18 quadratic").max_rel.unwrap() <= 0.003);
        assert_eq!(find("exp, ours", "8 linear").at_zero, Some(1.0));
        assert!(find("exp, paper", "D4").at_zero.unwrap() < 0.98);
        assert!(find("rsqrt, ours", "16 lines").max_rel.unwrap() < 5e-4);
        assert!(find("rsqrt, ours", "32 lines").max_rel.unwrap() < 5e-4);
        assert_eq!(rows.len(), 24);
        assert!(rows.iter().all(|r| r.to_string().contains(r.name)));
    }
}
