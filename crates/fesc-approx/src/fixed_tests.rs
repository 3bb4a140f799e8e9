#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use proptest::prelude::*;

fn ring(bits: u32) -> Ring {
    Ring::new(bits).unwrap()
}

/// |x| in three pieces: -x, 0, x with knots at -1 and 1.
fn vee() -> Piecewise {
    Piecewise { knots: vec![-1.0, 1.0], pieces: vec![[0.0, -1.0, 0.0], [0.0; 3], [0.0, 1.0, 0.0]] }
}

#[test]
fn tails_are_exact_for_every_carry() {
    let f = FixedPiecewise::new(&vee(), ring(48), 16, 16, 32, 11, 13).unwrap();
    let (lo, hi) = f.input_range_int();
    for x in [lo, lo + 1, -70_000, 70_000, hi - 1, hi] {
        for (j, c) in [(false, false), (false, true), (true, false), (true, true)] {
            let y = f.eval_jitter(f.ring().from_signed(x), j, c);
            assert_eq!(f.ring().to_signed(y), x.abs(), "x = {x}");
        }
    }
    assert_eq!(f.eval_f64(-3.25), 3.25);
    assert_eq!(f.eval_f64(0.5), 0.0);
}

/// Just outside the stated range a threshold's sign flips: the range is tight.
#[test]
fn range_is_tight() {
    let f = FixedPiecewise::new(&vee(), ring(48), 16, 16, 32, 11, 13).unwrap();
    let (lo, hi) = f.input_range_int();
    let at = |x: i64, j| f.ring().to_signed(f.eval_jitter(f.ring().from_signed(x), j, false));
    assert_ne!(at(hi + 1, true), hi + 1);
    assert_ne!(at(lo - 2, false), 2 - lo);
}

#[test]
fn steps_telescope() {
    let form =
        Piecewise { knots: vec![-2.0, 0.3], pieces: vec![[0.1, 0.2, 0.3], [-0.7, 0.1, -0.2], [1.0, -1.0, 0.01]] };
    let f = FixedPiecewise::new(&form, ring(48), 12, 16, 36, 7, 11).unwrap();
    assert_eq!(f.degree(), 2);
    let r = f.ring();
    let mut sum = *f.base();
    for (k, step) in f.steps().iter().enumerate() {
        sum = std::array::from_fn(|j| r.add(sum[j], step[j]));
        for (j, &got) in sum.iter().enumerate() {
            assert_eq!(r.to_signed(got), f.pieces[k + 1][j] - i64::from(j == 0));
        }
    }
}

/// Every value of a small ring against the rule "any piece whose zone holds x, floor or ceiling".
#[test]
fn small_ring_exhaustive() {
    let form =
        Piecewise { knots: vec![-0.4, 0.6], pieces: vec![[-0.25, 0.0, 0.0], [0.0, 0.5, 0.0], [0.25, 0.25, 0.0]] };
    let f = FixedPiecewise::new(&form, ring(12), 4, 4, 8, 2, 6).unwrap();
    let (lo, hi) = f.input_range_int();
    for x in lo..=hi {
        for j in [false, true] {
            let k = (0..3).filter(|&k| (f.reach_int(k).0..=f.reach_int(k).1).contains(&x)).collect::<Vec<_>>();
            let values: Vec<f64> = k.iter().map(|&k| poly2(&f.real(&f.pieces[k]), x as f64 / 16.0) * 16.0).collect();
            let got = [false, true].map(|c| f.ring().to_signed(f.eval_jitter(f.ring().from_signed(x), j, c)) as f64);
            assert!(values.iter().any(|v| [v.floor(), v.ceil()] == got), "x = {x}: {got:?} not from {values:?}");
        }
    }
}

#[test]
fn refusals() {
    let bad = |form: &Piecewise, f, o, s, sh, n| FixedPiecewise::new(form, ring(48), f, o, s, sh, n).unwrap_err();
    let short = Piecewise { knots: vec![0.0], pieces: vec![[0.0; 3]] };
    assert!(matches!(bad(&short, 16, 16, 32, 11, 13), ApproxError::PieceCount { knots: 1, pieces: 1 }));
    let nan = Piecewise { knots: vec![f64::NAN], pieces: vec![[0.0; 3]; 2] };
    assert!(matches!(bad(&nan, 16, 16, 32, 11, 13), ApproxError::NotFinite { what: "knot", .. }));
    let inf = Piecewise { knots: vec![0.0], pieces: vec![[0.0; 3], [0.0, f64::INFINITY, 0.0]] };
    assert!(matches!(bad(&inf, 16, 16, 32, 11, 13), ApproxError::NotFinite { what: "piece", index: 1 }));
    assert!(matches!(bad(&vee(), 16, 16, 32, 11, 38), ApproxError::CompareWidth { .. }));
    assert!(matches!(bad(&vee(), 16, 16, 32, 48, 2), ApproxError::CompareWidth { .. }));
    assert!(matches!(bad(&vee(), 16, 16, 32, u32::MAX, 2), ApproxError::CompareWidth { .. }));
    assert!(matches!(bad(&vee(), 16, 16, 32, 11, 6), ApproxError::ThresholdRange { .. }));
    assert!(matches!(bad(&vee(), 16, 16, 15, 11, 13), ApproxError::SumScale { need: 16, .. }));
    assert!(matches!(bad(&vee(), 16, 16, 42, 11, 13), ApproxError::Overflow { .. }));
    let near = Piecewise { knots: vec![0.0, 0.001], pieces: vec![[0.0; 3]; 3] };
    assert!(matches!(bad(&near, 16, 16, 32, 11, 13), ApproxError::KnotOrder { index: 0, .. }));
    let steep = Piecewise { knots: vec![0.0], pieces: vec![[0.0; 3], [0.0, 1e12, 0.0]] };
    assert!(matches!(bad(&steep, 16, 16, 32, 11, 13), ApproxError::CoefficientRange { piece: 1, power: 1, .. }));
}

/// The protocol on real shares: every result is one of the twin's, and the final truncation is unbiased.
#[test]
fn shares_give_what_the_twin_says() {
    let form = Piecewise { knots: vec![-3.0, 2.0], pieces: vec![[0.0; 3], [0.3, 0.21, 0.037], [0.0, 1.0, 0.0]] };
    let f = FixedPiecewise::new(&form, ring(48), 16, 16, 36, 11, 13).unwrap();
    let (r, cmp) = (f.ring(), ring(f.cmp_bits()));
    let mut prg = fesc_ring::Prg::from_seed([9; 16]);
    let (mut bias, trials) = (0.0, 40_000);
    for i in 0..trials {
        let x = r.from_signed((i - trials / 2) * 17);
        let x0 = prg.next_u64() & r.mask();
        let x1 = r.sub(x, x0);
        // Truncate-reduce: one ulp added by one party, each shifts its share.
        let s = f.cmp_shift();
        let reduced = cmp.reduce((r.add(x0, 1 << s) >> s) + (x1 >> s));
        let j = reduced != cmp.reduce(trunc(r, x, s, false));
        let y = f.sum(x, j);
        // Known-sign truncation: offset and one ulp, wrap bit from the top bits.
        let t = f.trunc_bits();
        let y0 = prg.next_u64() & r.mask();
        let y1 = r.sub(r.add(y, (1 << 46) + (1 << t)), y0);
        let wrap = (y0 >> 47) | (y1 >> 47);
        let got = r.sub((y0 >> t) + (y1 >> t), (wrap << (48 - t)) + (1 << (46 - t)));
        assert!([false, true].map(|c| f.eval_jitter(x, j, c)).contains(&got), "x = {x}");
        bias += r.to_signed(got) as f64 - (r.to_signed(y) as f64 + 1.0) / f64::from(t).exp2();
    }
    // The standard deviation of the mean is at most 0.5 / 200.
    assert!((bias / trials as f64).abs() < 0.012, "{}", bias / trials as f64);
}

/// What rounding takes from the square goes into the line: an error of at most rest (b - a)^2 / 8, not rest
/// b^2.
#[test]
fn coarse_squares_are_made_good() {
    let form = Piecewise { knots: vec![6.0, 8.0], pieces: vec![[0.0; 3], [1.0, 0.5, 0.0307], [0.0, 1.0, 0.0]] };
    let f = FixedPiecewise::new(&form, ring(48), 16, 16, 36, 11, 13).unwrap();
    let rest = 0.5 / 16.0;
    for i in 0..=200 {
        let x = 6.0 + f64::from(i) / 100.0;
        let error = (f.eval_piece(1, x) - poly2(&form.pieces[1], x)).abs();
        assert!(error <= rest * (2.0f64 + 1.0 / 32.0).powi(2) / 8.0 + 1e-4, "{x}: {error}");
    }
}

#[test]
fn promised_limits_narrow_the_range() {
    let plan = Plan { ring: ring(48), in_frac: 16, out_frac: 16, sum_frac: 42, cmp_shift: 11, cmp_bits: 13 };
    assert!(matches!(FixedPiecewise::with_plan(&vee(), &plan, None), Err(ApproxError::Overflow { .. })));
    let f = FixedPiecewise::with_plan(&vee(), &plan, Some((-8.0, 8.0))).unwrap();
    assert_eq!(f.input_range(), (-8.0, 8.0));
    assert!(FixedPiecewise::with_plan(&vee(), &plan, Some((1.0, -1.0))).is_err());
}

proptest! {
    /// Any plan and any form is taken or refused, never a panic; what is taken can be evaluated.
    #[test]
    fn constructor_never_panics(
        bits in 1u32..=64,
        fracs in prop::array::uniform5(prop_oneof![0u32..70, any::<u32>()]),
        knots in prop::collection::vec(prop_oneof![-200.0..200.0f64, any::<f64>()], 0..4),
        coeff in prop_oneof![-2.0..2.0f64, any::<f64>()],
        x: u64,
        j: bool,
    ) {
        let pieces = (0..=knots.len()).map(|k| [coeff * k as f64, coeff, if k % 2 == 0 { coeff } else { 0.0 }]).collect();
        let [i, o, s, shift, n] = fracs;
        let form = Piecewise { knots, pieces };
        if let Ok(f) = FixedPiecewise::new(&form, ring(bits), i, o, s, shift, n) {
            prop_assert!(f.eval_jitter(x, j, j) <= ring(bits).mask());
            prop_assert!(f.input_range_int().0 <= f.input_range_int().1);
        }
    }

    /// Away from the zones the integer result is within one output ulp of the rounded real form.
    #[test]
    fn twin_follows_the_real_form(x in -7_900_000i64..7_900_000, j: bool, c: bool) {
        let form = Piecewise { knots: vec![-3.0, 2.0], pieces: vec![[0.0; 3], [0.3, 0.21, 0.037], [0.0, 1.0, 0.0]] };
        let f = FixedPiecewise::new(&form, ring(48), 16, 16, 36, 11, 13).unwrap();
        let inside = (0..3).filter(|&k| (f.reach_int(k).0..=f.reach_int(k).1).contains(&x)).count();
        prop_assume!(inside == 1);
        let y = f.ring().to_signed(f.eval_jitter(f.ring().from_signed(x), j, c)) as f64;
        let want = f.eval_f64(x as f64 / 65536.0) * 65536.0;
        prop_assert!((y - want).abs() < 1.0 + 1e-6, "{y} against {want}");
    }
}
