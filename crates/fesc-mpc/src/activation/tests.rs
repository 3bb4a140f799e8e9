//! Every activation against its twin: each result must be one that the twin gives for some carries; costs
//! exact.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::even::{EvenResidual as EvenForm, Residual};
use fesc_approx::paper::mmexp::MinimaxExp as ExpForm;
use fesc_approx::paper::nerms::NeRms as NeRmsForm;
use fesc_approx::{FixedPiecewise, Folded as FoldedForm, Plan, RING48, exp, exp_square, rsqrt, silu, softplus};
use fesc_ring::Prg;

use super::*;
use crate::testing::{on_shares, ring};

/// Runs the activation on all inputs and checks results and cost. `twin(x, carry)` is the plaintext twin.
fn check(
    act: &(impl Activation + Sync),
    inputs: &[u64],
    carries: u32,
    twin: &dyn Fn(u64, &mut dyn FnMut() -> bool) -> u64,
) {
    let ring = act.ring();
    for n in [0, 1, inputs.len()] {
        let (got, outcome) = on_shares(&[(ring, &inputs[..n])], |party, x| act.run(party, &x[0]));
        outcome.assert_declared(|l| act.declare(n, l).unwrap());
        for (&x, &y) in inputs.iter().zip(&got) {
            let allowed: BTreeSet<u64> = (0..1u64 << carries)
                .map(|bits| {
                    let mut next = 0;
                    twin(x, &mut || {
                        next += 1;
                        bits >> (next - 1) & 1 == 1
                    })
                })
                .collect();
            assert!(allowed.contains(&y), "{}: got {}", ring.to_signed(x), ring.to_signed(y));
        }
        assert_eq!(got.len(), n);
    }
}

/// Random inputs over `lo..hi` (real numbers) with the ends and the sign corners first.
fn spread(ring: Ring, frac: u32, lo: f64, hi: f64, count: usize) -> Vec<u64> {
    let one = f64::from(frac).exp2();
    let mut prg = Prg::from_seed([77; 16]);
    let mut out: Vec<i64> = vec![(lo * one) as i64, (hi * one) as i64];
    out.extend([0, 1, -1].into_iter().filter(|&v| v as f64 >= lo * one && v as f64 <= hi * one));
    out.extend(
        (0..count).map(|_| ((lo + (hi - lo) * (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64) * one) as i64),
    );
    out.into_iter().map(|v| ring.from_signed(v)).collect()
}

fn check_table(table: &FixedPiecewise, inputs: &[u64]) {
    check_table_into(table, table.ring(), inputs);
}

/// The result in another ring: the same integers.
fn check_table_into(table: &FixedPiecewise, ring: Ring, inputs: &[u64]) {
    let act = Piecewise::new(table).into_ring(ring);
    assert_eq!((act.ring(), act.result()), (table.ring(), ring));
    check(&act, inputs, 2, &|x, carry| {
        let (j, c) = (carry(), carry());
        ring.from_signed(table.ring().to_signed(table.eval_jitter(x, j, c)))
    });
}

#[test]
fn silu_ours() {
    for table in [silu::preset().unwrap(), silu::preset_fine().unwrap()] {
        let (lo, hi) = table.input_range();
        check_table(table, &spread(table.ring(), table.in_frac(), -8.0, 8.0, 1000));
        check_table(table, &spread(table.ring(), table.in_frac(), lo, hi, 300));
    }
}

/// To both ends of the range, around 0 and around both thresholds, for every outcome of the three chances.
#[test]
fn silu_folded() {
    for (out, into) in [(16, 48), (12, 48), (15, 24), (15, 48), (10, 20), (20, 64), (4, 24)] {
        let form = FoldedForm::new(out).unwrap();
        let (own, into) = (form.ring(), ring(into));
        let act = Folded::new(form).into_ring(into);
        assert_eq!((act.ring(), act.result()), (own, into));
        let mut inputs = spread(own, form.in_frac(), -8.0, 8.0, 700);
        inputs.extend(spread(own, form.in_frac(), -124.0, 124.0, 300));
        let (low, high) = form.input_range_int();
        let around = |at: i64| (at - 35..at + 5).chain(-at - 5..35 - at);
        let edges = (-40..40).chain(form.thresholds().into_iter().flat_map(|t| around(32 * t as i64)));
        inputs.extend(edges.chain([low, low + 1, high - 1, high]).map(|v| own.from_signed(v)));
        check(&act, &inputs, 3, &|x, carry| {
            let (sign, magnitude, last) = (carry(), carry(), carry());
            into.from_signed(form.eval(own.to_signed(x), sign, magnitude, last))
        });
    }
}

/// Into rings that are wider and narrower than the table's, with and without a truncation, to the ends of the
/// range.
#[test]
fn results_in_another_ring() {
    for table in [silu::preset().unwrap(), silu::preset_fine().unwrap()] {
        let ((lo, hi), (pieces, taus)) = (table.input_range(), (table.pieces_int(), table.thresholds_int()));
        let ends = [table.input_range_int().0, table.input_range_int().1].map(|v| table.ring().from_signed(v));
        for (out_frac, rings) in [(16, [25, 33, 34, 48, 64]), (14, [25, 33, 34, 48, 64]), (25, [34, 35, 36, 48, 64])] {
            let plan = Plan { out_frac, ..silu::PLAN };
            let form = FixedPiecewise::from_integers(&plan, &taus, pieces.to_vec(), None).unwrap();
            for bits in rings {
                let mut inputs = spread(form.ring(), form.in_frac(), lo, hi, 150);
                inputs.extend(ends);
                check_table_into(&form, ring(bits), &inputs);
            }
        }
    }
    // Quadratic pieces, from the ring of the stages into a narrow one.
    let table = softplus::preset().unwrap();
    check_table_into(table, ring(30), &spread(table.ring(), table.in_frac(), -12.0, 8.0, 150));
}

#[test]
fn softplus_ours_with_quadratic_pieces() {
    let table = softplus::preset().unwrap();
    assert_eq!(table.degree(), 2);
    let (lo, hi) = table.input_range();
    check_table(table, &spread(table.ring(), table.in_frac(), -12.0, 8.0, 1000));
    check_table(table, &spread(table.ring(), table.in_frac(), lo, hi, 300));
}

#[test]
fn exp_ours_down_to_the_end_of_the_ring() {
    for table in [exp::preset().unwrap(), exp::preset_fine().unwrap()] {
        let ring = table.ring();
        let mut inputs = spread(ring, table.in_frac(), -20.0, 0.0, 500);
        inputs.extend([table.input_range_int().0, table.input_range_int().1].map(|v| ring.from_signed(v)));
        inputs.extend(
            (20..47).flat_map(|b| [-(1i64 << b), -(1i64 << b) - 1, -(3i64 << b) / 2]).map(|v| ring.from_signed(v)),
        );
        check_table(table, &inputs);
    }
}

#[test]
fn exp_by_squaring() {
    let form = exp_square::ExpSquare::preset().unwrap();
    let ring = form.clamp().ring();
    let mut inputs = spread(ring, form.in_frac(), -12.0, 0.0, 300);
    inputs.extend([-(1i64 << 40), -(1i64 << 46), -(1i64 << 47)].map(|v| ring.from_signed(v)));
    check(&ExpSquare::new(form.clone()), &inputs, 2 + form.k(), &|x, carry| form.eval(x, carry));
}

#[test]
fn rsqrt_ours_over_sixteen_octaves() {
    let forms =
        [rsqrt::Rsqrt::preset(1.0 / 1024.0, 20).unwrap(), rsqrt::Rsqrt::preset_few_rounds(1.0 / 1024.0, 20).unwrap()];
    for form in forms {
        let ring = form.start().ring();
        let (lo, hi) = form.range();
        let inputs: Vec<u64> = (0..=100)
            .map(|i| lo * (hi / lo).powf(f64::from(i) / 100.0))
            .map(|v| ring.from_signed((v * f64::from(form.v_frac()).exp2()).round() as i64))
            .collect();
        check(&Rsqrt::new(form.clone()), &inputs, 2 + 3 * form.steps(), &|x, carry| form.eval(x, carry));
    }
}

#[test]
fn mosilu_and_mosoft() {
    for plan in [PaperPlan::DEFAULT, PaperPlan::paper().unwrap()] {
        for (function, degree) in [
            (Residual::Silu, 2),
            (Residual::Silu, 4),
            (Residual::Softplus, 4),
            (Residual::Silu, 6),
            (Residual::Softplus, 6),
        ] {
            let form = EvenForm::paper(function, degree).unwrap().fixed(&plan).unwrap();
            let inputs = spread(plan.ring, plan.frac, -10.0, 10.0, 200);
            check(&EvenResidual::new(form.clone()), &inputs, 2 + degree as u32 / 2, &|x, carry| form.eval(x, carry));
        }
    }
}

#[test]
fn mmexp() {
    for plan in [PaperPlan::DEFAULT, PaperPlan::paper().unwrap()] {
        for degree in [2, 3, 4, 6, 8] {
            let form = ExpForm::paper(degree).unwrap().fixed(&plan).unwrap();
            let inputs = spread(plan.ring, plan.frac, -12.0, 0.0, 100);
            check(&MinimaxExp::new(form.clone()), &inputs, degree as u32 + 1, &|x, carry| form.eval(x, carry));
        }
    }
}

#[test]
fn nerms() {
    for steps in 1..=3 {
        let form = NeRmsForm::calibrate(1.0 / 64.0, 4.0, 8, steps).unwrap().fixed(RING48, 20, 8, 18).unwrap();
        let inputs = spread(RING48, 20, 1.0 / 64.0, 4.0, 60);
        check(&NeRms::new(form.clone()), &inputs, 3 * steps, &|x, carry| form.eval(x, carry));
    }
}

/// All that is sent, correlations included: half of what five thresholds take.
#[test]
fn folded_silu_is_within_its_budget() {
    let n = 1 << 20;
    let mut ledger = Ledger::new();
    Folded::new(FoldedForm::new(16).unwrap()).into_ring(RING48).declare(n, &mut ledger).unwrap();
    let bytes = ledger.cost().total_bytes() as f64 / n as f64;
    // 75 + 138 bits of comparisons, 48 + 100 of muxes, 2 of the last step.
    assert!((bytes - 363.0 / 8.0).abs() < 0.01, "{bytes} bytes online per element");
    assert_eq!(ledger.cost().rounds, 13);
}

#[test]
fn silu_is_within_its_budget() {
    let (table, n) = (silu::preset().unwrap(), 1 << 20);
    assert_eq!(table.thresholds().len(), 5);
    let mut ledger = Ledger::new();
    Piecewise::new(table).into_ring(RING48).declare(n, &mut ledger).unwrap();
    let bytes = ledger.cost().total_bytes() as f64 / n as f64;
    assert!(bytes < 51.0, "{bytes} bytes online per element");
    assert_eq!(ledger.cost().rounds, 6);
}
