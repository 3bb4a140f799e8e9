//! What goes wrong when a step of the protocol is left out, beside the same attack on the protocol as it is.
#![allow(clippy::unwrap_used)]

use fesc_ring::Prg;

use super::holder::{answer_mask, split};
use super::sample::{Q_MASK, errors, small, uniform};
use super::tests::{pair, prg, whole};
use super::*;

/// The scalar `m`, `|m| <= 2^47`, for which the top 56 bits of `m a mod 2^104` are nearest to `top`: a
/// closest vector in the lattice of `(x, x a mod 2^104)`, by the two convergents of `a / 2^104` of about 52
/// bits.
fn recover(a: u128, top: u64) -> i128 {
    // (q, rho): q a = rho mod 2^104, by Euclid's algorithm until both are about 2^52.
    let (mut old, mut new) = ((0i128, 1i128 << LOG_Q), (1i128, a as i128));
    while new.1 > 1 << 52 {
        let quotient = old.1 / new.1;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    // (0, top 2^48) = alpha old + beta new; the determinant is +-2^104.
    let round = |x: i128| (x + (1 << 55)) >> 56;
    let sign = if old.0 * new.1 - old.1 * new.0 > 0 { 1 } else { -1 };
    let (alpha, beta) = (round(-sign * i128::from(top) * new.0), round(sign * i128::from(top) * old.0));
    alpha * old.0 + beta * new.0
}

/// One ciphertext of the key holder's and its `a`, with what the evaluator makes of it.
fn one_product(holder: &KeyHolder, evaluator: &Evaluator, scalar: u64, prg: &mut Prg) -> (Vec<u8>, Vec<u64>, Sum) {
    let (upload, messages) = holder.random(&whole(), prg).unwrap();
    let cipher = evaluator.receive_random(&whole(), &upload).unwrap();
    let sum = evaluator.combine(&[cipher], &whole(), 1, [scalar].as_slice().into(), 1).unwrap().remove(0);
    (upload, messages, sum)
}

fn number(words: &[Vec<u64>; 2], i: usize) -> u128 {
    u128::from(words[0][i]) | u128::from(words[1][i]) << 52
}

/// The scalar is the evaluator's share of a mask; with what is opened online, `w - m`, it gives the weight.
#[test]
fn without_the_zero_encryption_the_scalars_are_read_off() {
    let (holder, evaluator) = pair(20);
    let (ring, mut prg) = (messages().unwrap(), prg(21));
    let mut found = [0; 2];
    for weight in [1i64, -1, 37, -800, 2047, -2048, 12_345, 0] {
        let scalar = prg.ring_vec(ring, 1)[0];
        let opened = ring.sub(ring.from_signed(weight), scalar);
        let (upload, _, sum) = one_product(&holder, &evaluator, scalar, &mut prg);
        let (seed, _) = split("upload", &upload, RANDOM_BYTES).unwrap();
        let a = uniform(&seed);
        let zeros = [0; DEGREE];
        let (bare, _) = evaluator.respond_with(&sum, &zeros, &zeros, &mut prg).unwrap();
        let (whole, _) = evaluator.respond(&sum, &mut prg).unwrap();
        for (found, response) in found.iter_mut().zip([bare, whole]) {
            let (_, d1) = split("answer", &response, RESPONSE_BYTES).unwrap();
            let d1 = Ring::new(56).unwrap().unpack(d1, DEGREE).unwrap();
            // A coefficient whose convergents are far from 2^52 may miss; the attacker sees which value comes
            // twice.
            let weights = (0..8).map(|i| ring.add(ring.from_signed(recover(number(&a, i), d1[i]) as i64), opened));
            let hits = weights.filter(|&w| ring.to_signed(w) == weight).count();
            *found += usize::from(hits >= 2);
        }
    }
    assert_eq!(found, [8, 0], "all weights without, none with");
}

/// The error of an upload as the key holder knows it, the rounding included.
fn upload_errors(holder: &KeyHolder, upload: &[u8], messages: &[u64]) -> Vec<f64> {
    let (seed, b) = split("upload", upload, RANDOM_BYTES).unwrap();
    let b = Ring::new(52).unwrap().unpack(b, DEGREE).unwrap();
    let mut minus: Vec<u128> = b
        .iter()
        .zip(messages)
        .map(|(&b, &m)| (u128::from(m) << DELTA).wrapping_sub(u128::from(b) << UPLOAD_DROP) & Q_MASK)
        .collect();
    holder.secret.mul_sub(&mut minus, &uniform(&seed));
    minus.iter().map(|&x| -(((x << 24) as i128 >> 24) as f64)).collect()
}

/// 64 classes of the low 16 bits: chi squared, of mean 63 and deviation 11 for uniform ones.
fn chi_squared(phase: &[u64]) -> f64 {
    let mut counts = [0f64; 64];
    phase.iter().for_each(|p| counts[(p >> 10 & 63) as usize] += 1.0);
    let mean = phase.len() as f64 / 64.0;
    counts.iter().map(|c| (c - mean).powi(2) / mean).sum()
}

/// A mask on the message alone leaves the noise `m e` in the low part of the phase, and the key holder knows
/// `e`.
#[test]
fn without_the_mask_the_phase_tells_the_operand() {
    let (holder, evaluator) = pair(22);
    let (ring, mut prg) = (messages().unwrap(), prg(23));
    let scale = 2f64.powi(40);
    for scalar in [(1i64 << 47) - 12_345, -1 << 46, -(1 << 47) + 1] {
        let (upload, values, sum) = one_product(&holder, &evaluator, ring.from_signed(scalar), &mut prg);
        let e = upload_errors(&holder, &upload, &values);
        assert!(e.iter().all(|e| e.abs() < 60.0) && e.iter().any(|e| e.abs() > 8.0), "errors as drawn and rounded");
        let (r, f) = (small(&mut prg), errors(&mut prg));
        let (response, share) = evaluator.respond_with(&sum, &r, &f, &mut prg).unwrap();
        let phase = holder.phase(&response).unwrap();
        // What a mask that is a multiple of 2^16 would leave in the low part: the phase without the mask.
        let (seed, _) = split("answer", &response, RESPONSE_BYTES).unwrap();
        let zero = evaluator.polys.mul(&evaluator.key, &evaluator.polys.prepare_small(&r).unwrap()).unwrap();
        let true_d0 = sum.c0.iter().zip(&zero).map(|(c, z)| c.wrapping_add(*z));
        let bare: Vec<u64> = phase
            .iter()
            .zip(answer_mask(&seed))
            .zip(true_d0)
            .map(|((&p, mask), d0)| p.wrapping_sub(mask).wrapping_add(d0))
            .collect();
        for (i, (&bare, &v)) in bare.iter().zip(&values).enumerate() {
            let want = ring.mul(v, ring.from_signed(scalar));
            let near = ring.to_signed(ring.sub(bare.wrapping_add(1 << 15) >> 16, want));
            assert_eq!(near, 0, "coefficient {i}: the bare phase is the product");
        }
        // Least squares of the low part over the errors, in units of 2^40: the deviation of the estimate is
        // 11 without the mask.
        let estimate = |phase: &[u64]| -> f64 {
            let low = phase.iter().map(|&p| f64::from(p as u16 as i16));
            let squares: f64 = e.iter().map(|e| e * e).sum();
            low.zip(&e).map(|(l, e)| l * e).sum::<f64>() / squares
        };
        let error = estimate(&bare) - scalar as f64 / scale;
        assert!(error.abs() < 66.0, "{error}: the top bits of the scalar are known");
        assert!(chi_squared(&bare) > 1000.0);
        // As it is: uniform, and the sum of the shares is still right.
        assert!((20.0..130.0).contains(&chi_squared(&phase)), "{}", chi_squared(&phase));
        let opened = holder.open(&response).unwrap();
        for ((&a, &b), &v) in opened.iter().zip(&share).zip(&values) {
            let want = ring.mul(v, ring.from_signed(scalar));
            assert!(ring.to_signed(ring.sub(ring.add(a, b), want)).abs() <= 1);
        }
    }
}

/// Both parts of a sample with random messages are uniform, and so is what they have to do with each other.
#[test]
fn random_messages_are_uniform_beside_what_is_sent() {
    let (holder, _) = pair(24);
    let mut prg = prg(25);
    let mut classes = [0f64; 64];
    for _ in 0..16 {
        let (upload, values) = holder.random(&whole(), &mut prg).unwrap();
        let (_, b) = split("upload", &upload, RANDOM_BYTES).unwrap();
        let b = Ring::new(52).unwrap().unpack(b, DEGREE).unwrap();
        // The top bits of what is sent border on the low bits of the message.
        b.iter().zip(&values).for_each(|(b, v)| classes[(b >> 49 << 3 | v & 7) as usize] += 1.0);
        assert!(chi_squared(&values) < 130.0 && chi_squared(&b) < 130.0);
    }
    let mean = (16 * DEGREE / 64) as f64;
    let chi: f64 = classes.iter().map(|c| (c - mean).powi(2) / mean).sum();
    assert!((20.0..130.0).contains(&chi), "{chi}");
}

/// A packed answer is a function of the scalars that the key holder can compute too: without the zero
/// encryption it confirms a guess. Without the mask the phase is the results. With both it does neither, and
/// every coefficient is uniform, used or not.
#[test]
fn packed_answers_tell_no_more_than_others() {
    let (holder, evaluator) = pair(26);
    let (ring, mut prg) = (messages().unwrap(), prg(27));
    let (vectors, width, outputs) = (5, 64, 40);
    let layout = Layout::new(vectors, width, outputs);
    let piece = layout.pieces()[0];
    assert_eq!((layout.pieces().len(), piece.pack()), (1, 64));
    let (upload, values) = holder.upload(&layout, &mut prg).unwrap();
    let cipher = || [evaluator.receive_random(&piece, &upload).unwrap()];
    let scalars = prg.ring_vec(ring, outputs * vectors);
    let combine = |scalars: &[u64]| evaluator.combine(&cipher(), &piece, vectors, scalars.into(), outputs).unwrap();
    let sum = combine(&scalars).remove(0);

    let sent = |response: &[u8]| split("answer", response, RESPONSE_BYTES).unwrap().1.to_vec();
    let zeros = [0; DEGREE];
    let guess = combine(&scalars).remove(0);
    let mut other = scalars.clone();
    other[77] ^= 1 << 20;
    let wrong = combine(&other).remove(0);
    let answer = |sum: &Sum, bare: bool, prg: &mut Prg| {
        let made = if bare { evaluator.respond_with(sum, &zeros, &zeros, prg) } else { evaluator.respond(sum, prg) };
        sent(&made.unwrap().0)
    };
    let bare = answer(&sum, true, &mut prg);
    assert!(bare == answer(&guess, true, &mut prg) && bare != answer(&wrong, true, &mut prg), "a guess is confirmed");
    let whole = answer(&sum, false, &mut prg);
    assert!(whole != answer(&guess, true, &mut prg) && whole != answer(&guess, false, &mut prg));

    let (r, f) = (small(&mut prg), errors(&mut prg));
    let (response, share) = evaluator.respond_with(&sum, &r, &f, &mut prg).unwrap();
    let phase = holder.phase(&response).unwrap();
    let (seed, _) = split("answer", &response, RESPONSE_BYTES).unwrap();
    let zero = evaluator.polys.mul(&evaluator.key, &evaluator.polys.prepare_small(&r).unwrap()).unwrap();
    let d0 = sum.c0.iter().zip(&zero).map(|(c, z)| c.wrapping_add(*z));
    let masks = answer_mask(&seed);
    let unmasked: Vec<u64> =
        phase.iter().zip(&masks).zip(d0).map(|((&p, &mask), d0)| p.wrapping_sub(mask).wrapping_add(d0)).collect();
    let opened = holder.open(&response).unwrap();
    let (mut read, mut still) = (0, 0);
    for o in 0..outputs {
        for (p, at) in piece.places(o).enumerate() {
            let terms = (0..vectors).map(|j| ring.mul(scalars[o * vectors + j], values[j * width + p]));
            let want = terms.fold(0, |sum, x| ring.add(sum, x));
            let near = |x: u64| ring.to_signed(ring.sub(x, want)).abs() <= 16;
            assert!(near(ring.add(opened[at], share[at])), "result {o}, value {p}");
            read += usize::from(near(unmasked[at] >> ANSWER_DELTA));
            still += usize::from(near(phase[at] >> ANSWER_DELTA));
        }
    }
    assert_eq!((read, still), (outputs * width, 0), "all results without the mask, none with it");
    // All coefficients, in their low and in their high bits.
    let high: Vec<u64> = phase.iter().map(|p| p >> 48).collect();
    assert!((20.0..130.0).contains(&chi_squared(&phase)) && (20.0..130.0).contains(&chi_squared(&high)));
}
