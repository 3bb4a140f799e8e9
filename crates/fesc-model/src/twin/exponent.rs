//! exp of A Delta: the forms that a scan is given, and exp of sums, with the twin's carries.

use fesc_approx::exp_square::ExpSquare;
use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::mmexp::{MinimaxExp, MinimaxExpFixed};

use super::activation::{minimax_exp, piecewise};
use super::error::TwinError;
use super::range::{Local, Quantity as Q};
use crate::Result;
use crate::outline::Exponential;
use crate::outline::scale::DECAY;
use crate::plan::Minimax;

/// exp of a scan.
pub(super) enum Exp {
    /// Of sums: inside a chunk, over a segment.
    Sums(Box<[Exponential; 2]>),
    /// Of one token's A Delta.
    Token(MinimaxExpFixed),
}

impl Exp {
    /// The paper's, in the paper's numbers.
    pub(super) fn paper(layer: usize, form: Minimax) -> Result<Self> {
        let build = || MinimaxExp::paper(form.degree as usize)?.fixed(&PaperPlan::paper()?);
        Ok(Self::Token(build().map_err(|source| TwinError::Form { layer, what: "exp", source })?))
    }
}

/// exp of a sum at 22 bits.
#[inline]
pub(super) fn exponential(local: &mut Local, form: &Exponential, sum: i64) -> i64 {
    let z = local.round(Q::DecaySum, sum, DECAY, form.in_frac());
    match form {
        Exponential::Linear(form) => piecewise(local, form, Q::ExpInput, z),
        Exponential::Power(form) => power(local, form, z),
        Exponential::Minimax(form, out) => minimax_exp(local, form, z) << (out - form.plan().frac),
    }
}

/// The steps of [`ExpSquare`], with the twin's carries and every square checked.
fn power(local: &mut Local, form: &ExpSquare, z: i64) -> i64 {
    let fy = form.in_frac() + form.k();
    let m = piecewise(local, form.clamp(), Q::ExpInput, z) + (1 << fy);
    let first = m.saturating_mul(m).saturating_add(1 << (2 * fy));
    let mut q = local.round(Q::ExpSquare, first, form.first_trunc(), 0);
    for _ in 0..form.k() {
        q = local.round(Q::ExpSquare, q.saturating_mul(q), form.frac(), 0);
    }
    q
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::range::Run;
    use super::super::rounding::Rounding;
    use super::*;
    use crate::twin::ExpForm;
    use fesc_ring::Prg;

    #[test]
    fn errors_are_as_stated() {
        let forms = [(ExpForm::Coarse, 0.00505), (ExpForm::Fine, 0.00105), (ExpForm::Power, 0.00105)];
        for (form, bound) in forms {
            for mut rounding in [Rounding::nearest(), Rounding::jitter(Prg::from_seed([1; 16]))] {
                let mut run = Run::new(48, true, &mut rounding);
                let mut local = run.local();
                let chunk = Exponential::chunk(0, form, 22).unwrap();
                let one = f64::from(DECAY).exp2();
                let mut worst: f64 = 0.0;
                for i in 0..100_000i64 {
                    let sum = -i * 997;
                    let y = exponential(&mut local, &chunk, sum) as f64 / one;
                    assert!((0.0..=1.0).contains(&y));
                    worst = worst.max((y - (sum as f64 / one).exp()).abs());
                }
                assert!(worst < bound && worst > 0.8 * bound, "{form:?} {worst}");
                assert_eq!(exponential(&mut local, &chunk, 0), 1 << 22);
                assert!(exponential(&mut local, &chunk, -(2040i64 << DECAY)) < 100);
                run.settle(vec![local]).unwrap();
            }
        }
    }

    /// MMExp has its minimax error at both ends, is never above 1, and is 0 far below.
    #[test]
    fn mmexp_is_the_papers() {
        let degrees = [(2, 22, 0.147), (4, 22, 0.0203), (6, 22, 0.0016), (4, 17, 0.0203), (4, 12, 0.0203)];
        for (degree, out, error) in degrees {
            let form = ExpForm::Minimax(Minimax { degree });
            let (chunk, document) =
                (Exponential::chunk(0, form, out).unwrap(), Exponential::document(0, form, out).unwrap());
            assert!(chunk.in_frac() <= out && chunk.out_frac() == out);
            let one = f64::from(out).exp2();
            for mut rounding in [Rounding::nearest(), Rounding::jitter(Prg::from_seed([1; 16]))] {
                let mut run = Run::new(48, true, &mut rounding);
                let mut local = run.local();
                let (mut worst, mut least): (f64, f64) = (0.0, 0.0);
                for i in 0..100_000i64 {
                    let z = -(i as f64) * 1e-4;
                    let y = exponential(&mut local, &chunk, (z * f64::from(DECAY).exp2()) as i64) as f64 / one;
                    assert!(y <= 1.0);
                    (worst, least) = (worst.max((y - z.exp()).abs()), least.min(y));
                }
                let rounding = f64::from(chunk.in_frac()).exp2().recip();
                // In the zone of chance left of -8 the polynomial goes on a little.
                assert!(worst > 0.98 * error && worst < 1.2 * error + 4.0 * rounding, "D{degree}: {worst}");
                assert!(least < -0.6 * error && least > -1.2 * error - 4.0 * rounding, "D{degree}: {least}");
                let at_zero = exponential(&mut local, &chunk, 0) as f64 / one;
                assert!((1.0 - at_zero - error).abs() < 0.03 * error + 4.0 * rounding, "D{degree}: {at_zero}");
                assert_eq!(exponential(&mut local, &chunk, -(2190i64 << DECAY)), 0);
                assert_eq!(exponential(&mut local, &document, -(35_000i64 << DECAY)), 0);
                run.settle(vec![local]).unwrap();
                // Beyond what a sum can be the comparison would be wrong, and the twin says so.
                let mut local = run.local();
                exponential(&mut local, &chunk, -(4097i64 << DECAY));
                assert!(run.settle(vec![local]).unwrap_err().to_string().contains("input of exp"));
            }
        }
    }
}
