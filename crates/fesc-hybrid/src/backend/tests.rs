#![allow(clippy::unwrap_used)]

use super::*;

fn values(n: usize, seed: u64) -> Vec<Complex64> {
    let mut prg = fesc_ring::Prg::from_seed([seed as u8; 16]);
    let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
    (0..n).map(|_| Complex64::new(next(), next())).collect()
}

/// Some of everything.
fn circuit<B: Backend>(b: &B, x: &B::Ct, y: &B::Ct) -> Result<Vec<B::Ct>> {
    let top = b.level(x);
    let mask = b.encode(&[Complex64::ONE, Complex64::I, Complex64::ZERO, Complex64::ONE], top)?;
    let first = b.combine(top, &[Term::Product(x, y), Term::Product(x, x), Term::Addend(y)])?;
    let masked = b.combine(top, &[Term::Plain(x, &mask)])?;
    let turned = b.rotate_many(&first, &[1, -2])?;
    let low = b.lower(x, top - 2)?;
    let second = b.combine(top - 1, &[Term::Product(&turned[0], &masked), Term::Addend(x)])?;
    let sum = b.add(&second, &b.times_i(&low)?)?;
    Ok(vec![b.fold(sum.clone(), 1, 4)?, b.halve(&b.sub(&b.conjugate(&sum)?, &sum)?)?])
}

fn expected(x: &[Complex64], y: &[Complex64]) -> Vec<Vec<Complex64>> {
    let n = x.len();
    let mask = [Complex64::ONE, Complex64::I, Complex64::ZERO, Complex64::ONE];
    let first: Vec<_> = (0..n).map(|i| x[i] * y[i] + x[i] * x[i] + y[i]).collect();
    let second: Vec<_> = (0..n).map(|i| first[(i + 1) % n] * x[i] * mask[i % 4] + x[i]).collect();
    let sum: Vec<_> = (0..n).map(|i| second[i] + Complex64::I * x[i]).collect();
    let fold = (0..n).map(|i| (0..4).map(|k| sum[(i + k) % n]).sum()).collect();
    vec![fold, sum.iter().map(|z| (z.conj() - z) * 0.5).collect()]
}

#[test]
fn plain_computes_and_counts_what_count_counts() {
    let chain = Chain::ideal(16, 40, 4, 2);
    let (plain, count) = (Plain::new(chain.clone()), Count::new(chain));
    let (x, y) = (values(16, 1), values(16, 2));
    let got = circuit(&plain, &plain.fresh(&x, 4).unwrap(), &plain.fresh(&y, 4).unwrap()).unwrap();
    for (got, want) in got.iter().zip(expected(&x, &y)) {
        assert!(got.slots().iter().zip(&want).all(|(g, w)| (g - w).norm() < 1e-12));
    }
    circuit(&count, &count.fresh(4), &count.fresh(4)).unwrap();
    let tally = count.operations().tally();
    assert_eq!(tally, plain.operations().tally());
    assert_eq!(tally.total(Operation::Product), 3);
    assert_eq!(tally.total(Operation::Relinearisation), 2);
    assert_eq!(tally.total(Operation::HoistedRotation), 2);
    assert_eq!(tally.total(Operation::Rotation), 2);
    assert_eq!(tally.total(Operation::Conjugation), 1);
    // The masked product and the value that was lowered.
    assert_eq!(tally.total(Operation::Rescale), 2);
    assert_eq!(tally.key_switches(), 7);
    let plan = count.operations().key_plan();
    assert_eq!(plan.rotations, [1, 2, 14]);
    assert!(plan.conjugation && plan.relinearisation);
    assert_eq!((count.live().now(), plain.live().most()), (0, count.live().most()));
}

#[test]
fn levels_and_scales_that_do_not_fit_are_refused() {
    let plain = Plain::new(Chain::ideal(8, 40, 3, 1));
    let x = plain.fresh(&values(8, 3), 3).unwrap();
    let low = plain.lower(&x, 2).unwrap();
    assert!(matches!(plain.add(&x, &low), Err(HybridError::Level { .. })));
    assert!(matches!(plain.combine(3, &[Term::Product(&x, &low)]), Err(HybridError::Level { .. })));
    assert!(matches!(plain.combine(3, &[Term::Addend(&low)]), Err(HybridError::Level { .. })));
    let half = plain.halve(&x).unwrap();
    assert!(matches!(plain.combine(3, &[Term::Product(&x, &half)]), Err(HybridError::Scale { .. })));
    assert!(matches!(plain.add(&x, &half), Err(HybridError::Scale { .. })));
    assert!(plain.empty_sum(0).is_err());
    assert!(plain.lower(&low, 3).is_err());
    assert!(plain.encode(&values(3, 1), 1).is_err());
}

#[test]
fn parts_hold_what_was_done_in_them_once() {
    let count = Count::new(Chain::ideal(16, 40, 3, 1));
    let x = count.fresh(3);
    let turn = || count.rotate(&x, 1).map(|_| ());
    turn().unwrap();
    count.part("outer", || count.part("inner", || count.part("outer", turn))).unwrap();
    count.part("inner", turn).unwrap();
    let parts = count.parts();
    let rotations = |name| parts.get(name).map(|t: &Tally| t.total(Operation::Rotation));
    assert_eq!([rotations("outer"), rotations("inner"), rotations("none")], [Some(1), Some(2), None]);
    assert_eq!(count.operations().tally().total(Operation::Rotation), 3);
}

/// Noise that is added, operation by operation, against what the formulas say of each slot, those included
/// that a mask or a factor makes zero.
#[test]
fn errors_of_slots_are_those_of_the_noise_that_is_added() {
    let params = fesc_ckks::sets::PROJECT.params().unwrap();
    let (exact, formula) = (Plain::new(Chain::of(&params)), Plain::of(&params));
    let noisy = Plain::noisy(&params, fesc_ring::Prg::from_seed([4; 16]));
    let n = params.slots();
    // One slot in four holds something, and one of those much less.
    let sparse = |seed| {
        let weight = |i: usize| [1.0, 0.0, 0.0, 1.0 / 64.0][i % 4];
        values(n, seed).into_iter().enumerate().map(|(i, z)| z * weight(i)).collect::<Vec<_>>()
    };
    let (x, y) = (sparse(5), sparse(6));
    let run = |b: &Plain| circuit(b, &b.fresh(&x, 4).unwrap(), &b.fresh(&y, 4).unwrap()).unwrap();
    for ((want, got), by) in run(&exact).iter().zip(run(&noisy)).zip(run(&formula)) {
        for place in 0..4 {
            let squares = |i: &usize| (want.slots()[*i] - got.slots()[*i]).norm_sqr();
            let measured: f64 = (place..n).step_by(4).map(|i| squares(&i)).sum();
            let expected: f64 = (place..n).step_by(4).map(|i| by.errors()[i]).sum();
            assert!((measured / expected - 1.0).abs() < 0.1, "place {place}: {measured:e} for {expected:e}");
        }
    }
    // A ciphertext plus itself, and times itself: its errors are not independent.
    let of = |b: &Plain| {
        let x = b.fresh(&x, 4).unwrap();
        [b.add(&x, &x).unwrap(), b.combine(4, &[Term::Product(&x, &x)]).unwrap()]
    };
    for ((want, got), by) in of(&exact).iter().zip(of(&noisy)).zip(of(&formula)) {
        let measured: f64 = want.slots().iter().zip(got.slots()).map(|(w, g)| (w - g).norm_sqr()).sum();
        let expected: f64 = by.errors().iter().sum();
        assert!((measured / expected - 1.0).abs() < 0.1, "{measured:e} for {expected:e}");
    }
    assert!(exact.fresh(&x, 4).unwrap().errors().is_empty());
}
