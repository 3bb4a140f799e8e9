#![allow(clippy::unwrap_used)]

use super::*;
use fesc_ring::Prg;

/// Largest relative error of the twin, random carries, geometric grid over the range.
fn worst(f: &Rsqrt, points: u32) -> f64 {
    let mut prg = Prg::from_seed([3; 16]);
    let (lo, hi) = f.range();
    let limit = 1i128 << (f.start.ring().bits() - 2);
    let mut worst: f64 = 0.0;
    for i in 0..=points {
        let v = lo * (hi / lo).powf(f64::from(i) / f64::from(points));
        let int = (v * f64::from(f.v_frac()).exp2()).round().max(1.0);
        let shifts = f.shifts();
        let mut seen = |i: usize, p: i128| assert!(p.abs() + (1 << shifts[i]) < limit, "product {i} at {v}");
        let y = f.run(int as u64, &mut || prg.next_u64() & 1 == 1, &mut seen);
        let y = f.start.ring().to_signed(y) as f64 / f64::from(f.y_frac()).exp2();
        worst = worst.max((y / exact(int / f64::from(f.v_frac()).exp2()) - 1.0).abs());
    }
    worst
}

#[test]
fn start_errors_are_those_of_the_review() {
    let f = Rsqrt::new(RING48, 1.0 / 128.0, 16, 1, 0, 20).unwrap();
    let e = worst(&f, 60_000);
    assert!(e > 0.022 && e < 0.027, "{e}");
    let f = Rsqrt::new(RING48, 1.0 / 128.0, 16, 1, 1, 20).unwrap();
    let e = worst(&f, 60_000);
    assert!(e > 7e-4 && e < 1.1e-3, "{e}");
}

#[test]
fn presets_stay_below_5e_4_without_overflow() {
    for (v_min, v_frac) in [(1.0 / 128.0, 20), (1e-5, 28), (1e-5, 31), (0.01, 20), (3.0, 11), (1e-3, 22), (100.0, 0)] {
        for f in [Rsqrt::preset(v_min, v_frac).unwrap(), Rsqrt::preset_few_rounds(v_min, v_frac).unwrap()] {
            let e = worst(&f, 40_000);
            assert!(e < 2.5e-4, "v_min {v_min}, {} thresholds: {e}", f.start.thresholds().len());
        }
    }
    let f = Rsqrt::preset(1.0 / 128.0, 20).unwrap();
    assert_eq!((f.start.thresholds().len(), f.steps()), (15, 2));
    let real = (1..5_000).map(|i| 1.0 / 128.0 + f64::from(i) * 0.1).map(|v| (f.eval_f64(v) / exact(v) - 1.0).abs());
    assert!(real.fold(0.0, f64::max) < 3e-6);
}

/// Below v_min, down to 0: no overflow, and the result stays bounded, for every shape that is taken.
#[test]
fn saturates_below_the_range() {
    let limit = 1i128 << 46;
    for (v_min, v_frac) in [(1.0 / 128.0, 20), (1e-5, 28), (0.01, 20), (3.0, 11), (100.0, 0)] {
        for (per_octave, steps) in (1..=4).flat_map(|p| (0..=4).map(move |s| (p, s))) {
            let f = Rsqrt::new(RING48, v_min, 16, per_octave, steps, v_frac).unwrap();
            let bound = 1.5f64.powi(steps as i32 + 1) / v_min.sqrt();
            for v in 0..(v_min * f64::from(v_frac).exp2()) as u64 {
                for high in [false, true] {
                    let y = f.run(v, &mut || high, &mut |i, p| assert!(p.abs() + (1 << f.shifts()[i]) < limit));
                    let y = f.start.ring().to_signed(y) as f64 / f64::from(f.y_frac()).exp2();
                    assert!(y > 0.0 && y < bound, "{v_min} {per_octave} {steps} {v}: {y}");
                }
            }
        }
    }
    let many = Rsqrt::new(RING48, 1.0 / 128.0, 16, 1, 5, 20);
    assert!(matches!(many, Err(ApproxError::Overflow { what: "y (3 - v y^2)", .. })), "{many:?}");
}

#[test]
fn refusals() {
    assert!(matches!(Rsqrt::preset(0.0, 20), Err(ApproxError::Parameter { what: "v_min", .. })));
    assert!(matches!(Rsqrt::preset(f64::NAN, 20), Err(ApproxError::Parameter { what: "v_min", .. })));
    assert!(matches!(Rsqrt::preset(1e-5, 20), Err(ApproxError::Parameter { what: "v_min", .. })));
    assert!(matches!(Rsqrt::preset(1.0, 20), Err(ApproxError::Overflow { what: "v y", .. })));
    assert!(matches!(Rsqrt::new(RING48, 1.0, 0, 1, 2, 10), Err(ApproxError::Parameter { what: "buckets", .. })));
    assert!(Rsqrt::new(Ring::new(32).unwrap(), 1.0, 16, 1, 2, 10).is_err());
}
