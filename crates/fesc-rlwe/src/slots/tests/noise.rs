//! Measured noise against the formula of the module docs.

use zeroize::Zeroizing;

use super::super::basis::{LIMBS, PLAIN};
use super::super::evaluator::Blind;
use super::*;

/// Coefficients of `c0 + c1 s` modulo one prime, from transformed rows.
fn phase(holder: &KeyHolder, sum: &Sum, limb: usize) -> Vec<u64> {
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    let row = |i: usize| sum.rows[i * n..(i + 1) * n].to_vec();
    let (mut out, a) = (row(limb), row(LIMBS + limb));
    basis.limbs[limb].ntt().mul_acc(&mut out, &a, &holder.secret[limb * n..(limb + 1) * n]);
    basis.limbs[limb].inverse(&mut out);
    out
}

/// The smaller of `x` and `-x` modulo the product of the primes, by mixed radix digits.
fn magnitude(holder: &KeyHolder, residues: &[u64]) -> f64 {
    let limbs = &holder.params().basis().limbs[PLAIN..];
    let value = |negative: bool| {
        let mut digits: Vec<u64> = Vec::new();
        for (limb, &x) in limbs.iter().zip(residues) {
            let m = limb.modulus;
            let mut x = if negative { m.neg(x) } else { x };
            for (&digit, before) in digits.iter().zip(limbs) {
                x = m.mul(m.sub(x, m.reduce(digit)), m.inv(before.modulus.value()).unwrap());
            }
            digits.push(x);
        }
        digits.iter().zip(limbs).rev().fold(0.0, |acc, (&d, limb)| acc * limb.modulus.value() as f64 + d as f64)
    };
    value(false).min(value(true))
}

fn deviation(squares: impl Iterator<Item = f64>, n: usize) -> f64 {
    (squares.sum::<f64>() / n as f64).sqrt()
}

#[test]
fn measured_noise_is_the_formula() {
    let (holder, evaluator) = parties(20);
    let mut rng = prg(21);
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    for (terms, run) in [(96, 1), (64, 64), (1, 1)] {
        let mut sum = evaluator.sum();
        for _ in 0..terms {
            let cipher = evaluator.receive(&holder.encrypt(&values(&mut rng, n), &mut rng).unwrap()).unwrap();
            let m = evaluator.multiplier(&values(&mut rng, n / run), run).unwrap();
            evaluator.mul_add(&mut sum, &cipher, &m);
        }
        // Modulo the primes of P there is no message, only noise.
        let phases: Vec<Vec<u64>> = (PLAIN..LIMBS).map(|limb| phase(&holder, &sum, limb)).collect();
        let noise = |i: usize| magnitude(&holder, &phases.iter().map(|p| p[i]).collect::<Vec<_>>());
        let before = deviation((0..n).map(|i| noise(i).powi(2)), n);
        let t: f64 = basis.limbs[..PLAIN].iter().map(|l| l.modulus.value() as f64).product();
        let formula = 3.2 * t / 2.0 * (terms as f64 * (n / run) as f64).sqrt();
        assert!((0.95..1.05).contains(&(before / formula)), "{terms} {run}: {}", before / formula);

        let (d0, d1) = evaluator.switch(sum, &Blind::fresh(n, &mut rng));
        let limb = &basis.limbs[PLAIN];
        let row = PLAIN * n..(PLAIN + 1) * n;
        let mut out = d1[row.clone()].to_vec();
        limb.forward(&mut out);
        limb.ntt().mul_assign(&mut out, &holder.secret[row.clone()]);
        limb.inverse(&mut out);
        let after = out.iter().zip(&d0[row]).map(|(&x, &y)| limb.modulus.to_signed(limb.modulus.add(x, y)));
        let after = deviation(after.map(|x| (x as f64).powi(2)), n);
        let formula = holder.params().noise(terms, run);
        assert!((0.95..1.05).contains(&(after / formula)), "{terms} {run}: {}", after / formula);
    }
}

#[test]
fn failures_are_as_rare_as_the_docs_say() {
    let params = SlotParams::standard().unwrap();
    let below = |(noise, lift): (f64, f64), a: f64, b: f64| noise < 2f64.powf(a) && lift < 2f64.powf(b);
    assert!(below(params.failure(1, 1), -39.0, -37.8) && below(params.failure(2, 1), -38.6, -37.3));
    assert!(below(params.failure(2048, 1), -33.9, -32.3) && below(params.failure(128, 64), -38.6, -34.3));
    // The worst 128 products of 48-bit values, not the average ones.
    assert!(params.log_t() >= 94 + 7 + 42);
    assert_eq!(params.log_q(), 349);
    // The control: each group of primes is needed. One bit less of t, of P' or of D, and the most frequent
    // answer fails clearly more often.
    let total = |plain, kept, dropped| {
        let (noise, lift) = SlotParams::new(16384, plain, kept, dropped).unwrap().failure(1, 1);
        noise + lift
    };
    let standard = total(48, 29, 49);
    for (plain, kept, dropped) in [(47, 29, 49), (48, 28, 49), (48, 29, 48)] {
        assert!(total(plain, kept, dropped) > 1.5 * standard, "{plain} {kept} {dropped}");
    }
}

#[test]
fn a_blind_of_zeros_adds_nothing() {
    let (_, evaluator) = parties(22);
    let n = evaluator.params().slots();
    let zero = Blind { secret: Zeroizing::new(vec![0; n]), noise: Zeroizing::new(vec![0; n]) };
    let (d0, d1) = evaluator.switch(evaluator.sum(), &zero);
    assert!(d0.iter().chain(&d1).all(|&x| x == 0));
}
