//! What each side sees, with controls: the same attack succeeds when the protection is left out.

use zeroize::Zeroizing;

use super::super::basis::{KEPT, LIMBS, PLAIN};
use super::super::evaluator::Blind;
use super::super::key::transform_small;
use super::*;

fn no_blind(n: usize) -> Blind {
    Blind { secret: Zeroizing::new(vec![0; n]), noise: Zeroizing::new(vec![0; n]) }
}

/// One product of a fresh encryption of `x` by `m` on runs.
fn one_product(holder: &KeyHolder, evaluator: &Evaluator, x: &[i64], m: &[i64], run: usize) -> (Cipher, Sum) {
    let cipher = evaluator.receive(&holder.encrypt(x, &mut prg(99)).unwrap()).unwrap();
    let mut sum = evaluator.sum();
    evaluator.mul_add(&mut sum, &cipher, &evaluator.multiplier(m, run).unwrap());
    (cipher, sum)
}

/// `d0 + d1 s` as it is without a mask.
fn bare_phase(holder: &KeyHolder, d0: &[u64], mut d1: Vec<u64>) -> Vec<u64> {
    let n = holder.params().slots();
    let rows = d1.chunks_exact_mut(n).zip(d0.chunks_exact(n)).zip(holder.secret.chunks_exact(n));
    for (((row, d0), secret), limb) in rows.zip(&holder.params().basis().limbs) {
        limb.forward(row);
        limb.ntt().mul_assign(row, secret);
        limb.inverse(row);
        limb.add(row, d0);
    }
    d1
}

/// The key holder knows `a` and tries multipliers: `d1 = round(v a / D)` needs eight coefficients to decide.
/// The multiplier is the evaluator's share of a mask, and what it hides is opened online as `w - m`: for a
/// weight of 12 bits there are 4096 multipliers to try.
#[test]
fn without_the_encryption_of_zero_the_multiplier_is_found() {
    const LOOK: usize = 8;
    let (holder, evaluator) = parties(50);
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    let (weight, mask) = (-1234, (prg(49).next_u64() as i64) >> 17);
    let opened = weight - mask;
    let find = |blind: &Blind| -> Vec<i64> {
        let (cipher, sum) = one_product(&holder, &evaluator, &[5; 100], &[mask], n);
        let (_, d1) = evaluator.switch(sum, blind);
        let first: Vec<&[u64]> = d1.chunks_exact(n).map(|row| &row[..LOOK]).collect();
        let mut a = cipher.rows[LIMBS * n..].to_vec();
        a.chunks_exact_mut(n).zip(&basis.limbs).for_each(|(row, limb)| limb.inverse(row));
        let matches = |m: i64, turns: u64| {
            let mut rows = Vec::new();
            for (row, limb) in a.chunks_exact(n).zip(&basis.limbs) {
                let p = &limb.modulus;
                // The lift of a value is it, or it and a multiple of t.
                let t = basis.limbs[..PLAIN].iter().fold(1, |t, l| p.mul(t, p.reduce(l.modulus.value())));
                let turned = p.mul(t, p.reduce(p.value() + turns - 1));
                let v = p.add(m.rem_euclid(p.value() as i64) as u64, turned);
                rows.extend(row[..LOOK].iter().map(|&x| p.mul(x, v)));
            }
            basis.rescale(&mut rows);
            rows.chunks_exact(LOOK).zip(&first).all(|(guess, seen)| &guess == seen)
        };
        (-2048..2048).filter(|w| (0..3).any(|turns| matches(w - opened, turns))).collect()
    };
    assert_eq!(find(&no_blind(n)), [weight], "the weight");
    assert_eq!(find(&Blind::fresh(n, &mut prg(51))), [0i64; 0]);
}

/// The key holder opens what it gets as if there were no mask.
#[test]
fn without_the_mask_the_operand_is_read() {
    let (holder, evaluator) = parties(52);
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    let m: Vec<i64> = values(&mut prg(53), n).iter().map(|v| v.abs()).collect();
    let (_, sum) = one_product(&holder, &evaluator, &vec![1; n], &m, 1);
    let (d0, d1) = evaluator.switch(sum, &Blind::fresh(n, &mut prg(54)));
    let mut phase = bare_phase(&holder, &d0, d1);
    let read = |rows: &mut [u64]| {
        let slots = basis.slots_of_floor(rows, false);
        slots.iter().zip(&m).filter(|&(&got, &m)| got == m as u64).count()
    };
    let kept: u64 = basis.limbs[PLAIN..KEPT].iter().map(|l| l.modulus.value()).product();
    // Half of P' turns the floor into rounding, which takes the noise away.
    for (row, limb) in phase.chunks_exact_mut(n).zip(&basis.limbs) {
        let half = limb.modulus.reduce(kept / 2);
        row.iter_mut().for_each(|x| *x = limb.modulus.add(*x, half));
    }
    assert_eq!(read(&mut phase), n);
    let (_, sum) = one_product(&holder, &evaluator, &vec![1; n], &m, 1);
    let (response, _) = evaluator.respond(sum, &mut prg(55));
    assert_eq!(read(&mut holder.phase(&response).unwrap()), 0);
}

/// The key holder knows its own noise `e`. Of forty multipliers it looks for the one whose `M e / D` is in
/// the phase.
#[test]
fn a_mask_on_the_message_alone_shows_the_noise() {
    let (holder, evaluator) = parties(56);
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    let mut rng = prg(57);
    let candidates: Vec<Vec<i64>> = (0..40).map(|_| values(&mut rng, n)).collect();
    let (cipher, sum) = one_product(&holder, &evaluator, &values(&mut rng, n), &candidates[17], 1);
    let limb = &basis.limbs[PLAIN];
    let row = |from: usize| from * n..(from + 1) * n;
    let secret = &holder.secret[row(PLAIN)];
    // Modulo P' there is no message: b + a s is e. One of its primes is enough for all of this.
    let mut e = cipher.rows[row(PLAIN)].to_vec();
    limb.ntt().mul_acc(&mut e, &cipher.rows[row(LIMBS + PLAIN)], secret);
    limb.inverse(&mut e);
    let e: Vec<i64> = e.iter().map(|&x| limb.modulus.to_signed(x)).collect();
    assert!(e.iter().all(|x| x.abs() < 43));
    let predictions: Vec<Vec<f64>> = candidates
        .iter()
        .map(|m| {
            let mut rows = evaluator.multiplier(m, 1).unwrap().rows.to_vec();
            for (row, limb) in rows.chunks_exact_mut(n).zip(&basis.limbs) {
                let mut small = vec![0; n];
                transform_small(limb, &e, &mut small);
                limb.ntt().mul_assign(row, &small);
                limb.inverse(row);
            }
            basis.rescale(&mut rows);
            rows[row(PLAIN)].iter().map(|&x| limb.modulus.to_signed(x) as f64).collect()
        })
        .collect();
    // Correlations in units of their deviation under chance.
    let scores = |phase: &[u64]| -> Vec<f64> {
        let noise: Vec<f64> = phase.iter().map(|&x| limb.modulus.to_signed(x) as f64).collect();
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let product = |a: &[f64]| a.iter().zip(&noise).map(|(x, y)| x * y).sum::<f64>();
        predictions.iter().map(|p| product(p) / norm(p) / norm(&noise) * (n as f64).sqrt()).collect()
    };
    // A mask that is a multiple of P' does not touch the residue modulo P'.
    let (d0, d1) = evaluator.switch(sum, &Blind::fresh(n, &mut rng));
    let phase = bare_phase(&holder, &d0, d1);
    let found = scores(&phase[row(PLAIN)]);
    assert!(found[17] > 8.0, "{}", found[17]);
    assert!(found.iter().enumerate().all(|(i, &s)| i == 17 || s.abs() < 5.0));
    let (_, sum) = one_product(&holder, &evaluator, &[], &candidates[17], 1);
    let (response, _) = evaluator.respond(sum, &mut rng);
    assert!(scores(&holder.phase(&response).unwrap()[row(PLAIN)]).iter().all(|s| s.abs() < 5.0));
}

/// Chi-square of 64 equal bins; 63 expected, deviation 11.
fn chi_square(values: &[u64], modulus: u64) -> f64 {
    let mut bins = [0.0; 64];
    values.iter().for_each(|&x| bins[(u128::from(x) * 64 / u128::from(modulus)) as usize] += 1.0);
    let expected = values.len() as f64 / 64.0;
    bins.iter().map(|b: &f64| (b - expected).powi(2) / expected).sum()
}

#[test]
fn the_phase_is_uniform() {
    const MOST: f64 = 63.0 + 6.0 * 11.2;
    let (holder, evaluator) = parties(58);
    let (basis, n) = (holder.params().basis(), holder.params().slots());
    let product = || one_product(&holder, &evaluator, &[1; 64], &[1; 64], 1).1;
    let (response, own) = evaluator.respond(product(), &mut prg(59));
    let phase = holder.phase(&response).unwrap();
    for (row, limb) in phase.chunks_exact(n).zip(&basis.limbs) {
        assert!(chi_square(row, limb.modulus.value()) < MOST, "modulo {}", limb.modulus.value());
    }
    assert!(chi_square(&own, 1 << 48) < MOST);
    assert!(chi_square(&holder.open(&response).unwrap(), 1 << 48) < MOST);
    // The control: without the mask the residue modulo P' is the noise.
    let (d0, d1) = evaluator.switch(product(), &Blind::fresh(n, &mut prg(59)));
    let bare = bare_phase(&holder, &d0, d1);
    assert!(chi_square(&bare[PLAIN * n..(PLAIN + 1) * n], basis.limbs[PLAIN].modulus.value()) > 1e5);
}

#[test]
fn nothing_is_reused() {
    let (holder, evaluator) = parties(60);
    let n = holder.params().slots();
    let mut rng = prg(61);
    let uploads: Vec<Vec<u8>> = (0..3).map(|_| holder.encrypt(&[7; 10], &mut rng).unwrap()).collect();
    let responses: Vec<Vec<u8>> = (0..3).map(|_| evaluator.respond(evaluator.sum(), &mut rng).0).collect();
    for messages in [&uploads, &responses] {
        for (i, a) in messages.iter().enumerate() {
            for b in &messages[..i] {
                assert!(a[..16] != b[..16], "seeds");
                // Bytes of independent messages agree in one of 256.
                let equal = a.iter().zip(b).filter(|(x, y)| x == y).count();
                assert!(equal < a.len() / 128, "{equal} of {}", a.len());
            }
        }
    }
    // The encryption of zero differs even when the seed of d0 does not matter.
    let rows = |seed: u8| evaluator.switch(evaluator.sum(), &Blind::fresh(n, &mut prg(seed))).1;
    assert!(rows(1).iter().zip(&rows(2)).filter(|(a, b)| a == b).count() < 4);
}
