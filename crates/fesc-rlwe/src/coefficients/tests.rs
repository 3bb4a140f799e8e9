#![allow(clippy::unwrap_used)]

use super::holder::{key_mask, split};
use super::residues::{Basis, KEPT, PRIME_BITS, SPECIAL_BITS};
use super::sample::{Q_MASK, SeedPurpose, stream};
use super::switch::LEVELS;
use super::*;
use crate::RlweError;
use fesc_ring::Prg;
use fesc_ring::wide::{WORD, WORD_BITS};

pub(super) fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

pub(super) fn pair(seed: u8) -> (KeyHolder, Evaluator) {
    let (holder, key) = KeyHolder::new(&mut prg(seed)).unwrap();
    assert_eq!(key.len(), KEY_BYTES);
    (holder, Evaluator::new(&key).unwrap())
}

/// One vector, one result.
pub(super) fn whole() -> Piece {
    Piece::whole(DEGREE).unwrap()
}

fn ring() -> Ring {
    messages().unwrap()
}

/// `sum_j scalars[o][j] vectors[j]` modulo `2^48`.
fn product(scalars: &[u64], vectors: &[u64], k: usize, width: usize) -> Vec<u64> {
    let row = |m: &[u64]| -> Vec<u64> {
        (0..width).map(|c| (0..k).fold(0, |sum, j| ring().add(sum, ring().mul(m[j], vectors[j * width + c])))).collect()
    };
    scalars.chunks_exact(k).flat_map(row).collect()
}

/// How far the shares are from the values, at most `most`: the errors' mean magnitude and their deviation.
fn errors_of(a: &[u64], b: &[u64], want: &[u64], most: f64) -> (f64, f64) {
    assert!(a.len() == want.len() && b.len() == want.len());
    let (mut sum, mut squares) = (0.0, 0.0);
    for ((&a, &b), &w) in a.iter().zip(b).zip(want) {
        let error = ring().to_signed(ring().sub(ring().add(a, b), w)) as f64;
        assert!(error.abs() <= most, "{error}");
        sum += error.abs();
        squares += error * error;
    }
    let count = want.len().max(1) as f64;
    (sum / count, (squares / count).sqrt())
}

/// A whole product: its shares add up, and messages have the declared lengths.
fn run(holder: &KeyHolder, evaluator: &Evaluator, layout: &Layout, prg: &mut Prg) -> (f64, f64) {
    let (k, width, outputs) = (layout.vectors(), layout.width(), layout.outputs());
    let scalars = prg.ring_vec(ring(), outputs * k);
    let (upload, vectors) = holder.upload(layout, prg).unwrap();
    assert_eq!((upload.len(), vectors.len()), (layout.upload_bytes(), k * width));
    let (answer, own) = evaluator.answer(layout, &upload, scalars.as_slice().into(), prg).unwrap();
    assert_eq!(answer.len(), layout.response_bytes());
    let opened = holder.finish(layout, &answer).unwrap();
    if k == 0 {
        assert!(own.iter().chain(&opened).all(|&x| x == 0));
        return (0.0, 0.0);
    }
    // Unpacked, one at most.
    let most = if layout.pieces().iter().all(|p| p.pack == 1) { 1.0 } else { 1.0 + 7.0 * layout.noise() };
    errors_of(&own, &opened, &product(&scalars, &vectors, k, width), most)
}

#[test]
fn shares_of_every_layout_add_up() {
    let (holder, evaluator) = pair(1);
    let mut prg = prg(2);
    for (k, width, outputs) in [
        (1, 1, 1),
        (3, 4096, 2),
        (2, 4097, 2),
        (5, 1536, 3),
        (4, 2048, 1),
        (70, 64, 2),
        (70, 64, 64),
        (130, 64, 70),
        (5, 33, 40),
        (40, 100, 33),
        (7, 700, 9),
        (3, 5, 130),
        (9, 1000, 1),
        (2, 8192, 1),
        (33, 3072, 1),
        (0, 5, 3),
        (5, 0, 3),
        (5, 3, 0),
    ] {
        run(&holder, &evaluator, &Layout::new(k, width, outputs), &mut prg);
    }
}

/// The part of inexact results is the mean of the noise's magnitude, `noise sqrt(2 / pi)`.
#[test]
fn results_are_off_by_one_as_often_as_the_noise_says() {
    let (holder, evaluator) = pair(3);
    let mut prg = prg(4);
    for (k, width, outputs, stated) in [(16, 4096, 24, 0.064), (128, 4096, 12, 0.093)] {
        let (rate, _) = run(&holder, &evaluator, &Layout::new(k, width, outputs), &mut prg);
        let noise = noise(k, 1);
        let expected = noise * (2.0 / std::f64::consts::PI).sqrt();
        assert!((noise / stated - 1.0).abs() < 0.01, "the documentation's figure: {noise}");
        assert!((0.9..1.1).contains(&(rate / expected)), "{k}: {rate} against {expected}");
    }
    assert!(noise(MAX_SUMMANDS, 1) < 1.0 / 6.4, "an error of two is 6.4 deviations away: {}", noise(MAX_SUMMANDS, 1));
}

/// The longest sums that are taken, unpacked and packed.
#[test]
fn the_longest_sums_are_as_near_as_stated() {
    let (holder, evaluator) = pair(11);
    let mut prg = prg(12);
    for (width, outputs, pack) in [(4096, 8, 1), (64, 64, 64)] {
        let layout = Layout::new(MAX_SUMMANDS, width, outputs);
        assert_eq!(layout.pieces()[0].pack, pack);
        run(&holder, &evaluator, &layout, &mut prg);
    }
}

/// The figures that callers of rounded triples reckon with: two cross terms, each of the largest layout.
#[test]
fn a_triple_has_two_cross_terms() {
    let two = |terms: usize, pack: usize| noise(terms, pack) * 2f64.sqrt();
    assert!((noise(MAX_SUMMANDS, MAX_PACK) - 9.18).abs() < 0.01, "{}", noise(MAX_SUMMANDS, MAX_PACK));
    assert!((two(128, MAX_PACK) - 6.5).abs() < 0.01 && (two(MAX_SUMMANDS, MAX_PACK) - 13.0).abs() < 0.03);
    assert!(7.0 * two(MAX_SUMMANDS, MAX_PACK) < 91.0 && 7.0 * two(128, MAX_PACK) < 46.0);
    // No layout that is taken has more.
    for width in [1, 64, 100, 1536, 4096] {
        for outputs in [1, 64, 1000] {
            assert!(Layout::new(MAX_SUMMANDS, width, outputs).noise() <= noise(MAX_SUMMANDS, MAX_PACK));
        }
    }
}

/// Packed results are off by what the noise says, and by the floors of the shares: a sixth in the square.
#[test]
fn packed_results_are_off_by_the_noise() {
    let (holder, evaluator) = pair(30);
    let mut prg = prg(31);
    for (k, width, outputs, pack, stated) in
        [(128, 64, 64, 64, 4.60), (128, 128, 32, 32, 2.30), (16, 1024, 24, 4, 0.119)]
    {
        let layout = Layout::new(k, width, outputs);
        assert_eq!(layout.pieces()[0].pack, pack);
        let (_, deviation) = run(&holder, &evaluator, &layout, &mut prg);
        let noise = noise(k, pack);
        assert!((noise / stated - 1.0).abs() < 0.02, "the documentation's figure: {noise}");
        if noise > 1.0 {
            let expected = (noise * noise + 1.0 / 6.0).sqrt();
            assert!((0.9..1.1).contains(&(deviation / expected)), "{k}: {deviation} against {expected}");
        }
    }
}

#[test]
fn given_and_random_messages_mix() {
    let (holder, evaluator) = pair(5);
    let mut prg = prg(6);
    let given = prg.ring_vec(ring(), 700);
    let bytes = holder.encrypt(&given, &mut prg).unwrap();
    assert_eq!(bytes.len(), GIVEN_BYTES);
    let (random_bytes, random) = holder.random(&whole(), &mut prg).unwrap();
    assert_eq!((random_bytes.len(), random.len()), (RANDOM_BYTES, DEGREE));
    let ciphers = [evaluator.receive(&bytes).unwrap(), evaluator.receive_random(&whole(), &random_bytes).unwrap()];
    let mut vectors = given.clone();
    vectors.resize(DEGREE, 0);
    vectors.extend_from_slice(&random);
    // Also the scalars for which no noise grows, and the largest.
    let mut scalars = vec![0, 0, 1, 0, 0, 1, ring().neg(1), 0, 1 << 47, (1 << 47) - 1];
    scalars.extend(prg.ring_vec(ring(), 2));
    let sums = evaluator.combine(&ciphers, &whole(), 2, scalars.as_slice().into(), 6).unwrap();
    let want = product(&scalars, &vectors, 2, DEGREE);
    for (sum, want) in sums.iter().zip(want.chunks(DEGREE)) {
        let (answer, own) = evaluator.respond(sum, &mut prg).unwrap();
        errors_of(&own, &holder.open(&answer).unwrap(), want, 1.0);
    }
}

#[test]
fn messages_of_another_length_are_refused() {
    let (holder, evaluator) = pair(7);
    let mut prg = prg(8);
    let refused = |e: RlweError| matches!(e, RlweError::Length { .. });
    for bad in [0, 1, 15, 16, 17, KEY_BYTES - 1, KEY_BYTES + 1, RANDOM_BYTES - 1, GIVEN_BYTES + 1, RESPONSE_BYTES - 1] {
        let bytes = vec![0xff; bad];
        assert!(Evaluator::new(&bytes).is_err_and(refused));
        assert!(evaluator.receive(&bytes).is_err_and(refused));
        assert!(evaluator.receive_random(&whole(), &bytes).is_err_and(refused));
        assert!(holder.open(&bytes).is_err_and(refused));
    }
    // Any bytes of the right length are a message of somebody: garbage in, garbage out, no panic.
    assert!(
        Evaluator::new(&[0; KEY_BYTES]).is_ok() && evaluator.receive_random(&whole(), &[0xff; RANDOM_BYTES]).is_ok()
    );
    assert!(evaluator.receive(&[0xff; GIVEN_BYTES]).is_ok() && holder.open(&[0xff; RESPONSE_BYTES]).is_ok());
    // But residues that are not reduced are nobody's.
    assert!(Evaluator::new(&[0xff; KEY_BYTES]).is_err_and(|e| matches!(e, RlweError::Residue { .. })));
    assert!(holder.encrypt(&[0; DEGREE + 1], &mut prg).is_err_and(refused));

    let layout = Layout::new(3, 2000, 2);
    let (upload, _) = holder.upload(&layout, &mut prg).unwrap();
    assert!(evaluator.answer(&layout, &upload[1..], [0; 6].as_slice().into(), &mut prg).is_err_and(refused));
    assert!(evaluator.answer(&layout, &upload, [0; 5].as_slice().into(), &mut prg).is_err_and(refused));
    assert!(holder.finish(&layout, &upload).is_err_and(refused));
    let ciphers: Vec<Cipher> =
        (0..2).map(|_| evaluator.receive_random(&whole(), &[0; RANDOM_BYTES]).unwrap()).collect();
    let piece = Piece::whole(2000).unwrap();
    assert!(evaluator.combine(&ciphers, &piece, 5, [0; 5].as_slice().into(), 1).is_err_and(refused));
    assert!(matches!(Piece::whole(0), Err(RlweError::Width { .. })));
    assert!(matches!(Piece::whole(DEGREE + 1), Err(RlweError::Width { .. })));
    let (one, many) = (Piece::whole(1).unwrap(), MAX_SUMMANDS + 1);
    let error = evaluator.combine(&ciphers[..1], &one, many, vec![0; many].as_slice().into(), 1).err();
    assert_eq!(error, Some(RlweError::Summands { summands: many, most: MAX_SUMMANDS }));
}

/// The assumption is RLWE with errors of deviation 3.2: `p0 + p1 s` of the public key, and `k0 + k1 s` of
/// every automorphism key at the primes where it has no message, are such errors, and none serves twice.
/// 4,096 samples: 1.1 % is one deviation of the estimate.
#[test]
fn keys_have_errors_of_the_stated_size() {
    let (holder, bytes) = KeyHolder::new(&mut prg(13)).unwrap();
    let (seed, rest) = split("keys", &bytes, KEY_BYTES).unwrap();
    let (public, mut rest) = rest.split_at(8 * DEGREE);
    // -(p0 + p1 s) modulo 2^64, from the product modulo 2^104; and s itself.
    let p1 = key_mask(&seed);
    let words = [p1.iter().map(|p| p & WORD).collect(), p1.iter().map(|p| p >> WORD_BITS).collect()];
    let p0 = Ring::new(LOG_ANSWER).unwrap().unpack(public, DEGREE).unwrap();
    let mut minus: Vec<u128> = p0.iter().map(|&p| u128::from(p).wrapping_neg() & Q_MASK).collect();
    holder.secret.mul_sub(&mut minus, &words);
    let mut errors = vec![minus.iter().map(|&x| (x as u64 as i64).wrapping_neg()).collect::<Vec<_>>()];
    let (mut one, zeros) = (vec![0; DEGREE], vec![0; DEGREE]);
    one[0] = 1;
    let mut minus = vec![0; DEGREE];
    holder.secret.mul_sub(&mut minus, &[one, zeros]);
    let s: Vec<i64> = minus.iter().map(|&x| -((x << 24) as i128 >> 24) as i64).collect();
    assert!(s.iter().all(|s| (-1..=1).contains(s)));

    let basis = Basis::new().unwrap();
    let mut seeded = stream(SeedPurpose::Switch, &seed);
    for digit in (0..LEVELS).flat_map(|_| 0..KEPT) {
        let mut found = Vec::new();
        for (prime, ntt) in basis.ntt.iter().enumerate() {
            let (modulus, bits) = (ntt.modulus(), if prime < KEPT { PRIME_BITS } else { SPECIAL_BITS });
            let (head, tail) = rest.split_at(DEGREE * bits as usize / 8);
            rest = tail;
            let mut secret: Vec<u64> = s.iter().map(|&s| modulus.from_small_signed(s)).collect();
            ntt.forward(&mut secret);
            let mut product = basis.uniform(prime, &mut seeded);
            ntt.mul_assign(&mut product, &secret);
            ntt.inverse(&mut product);
            let k0 = Ring::new(bits).unwrap().unpack(head, DEGREE).unwrap();
            let error = k0.iter().zip(&product).map(|(&k, &p)| modulus.to_signed(modulus.add(k, p)));
            if prime != digit {
                found.push(error.collect::<Vec<_>>());
            }
        }
        assert!(found.iter().all(|error| *error == found[0]), "one error, modulo every prime");
        errors.extend(found.into_iter().take(1));
    }
    assert!(rest.is_empty() && errors.len() == 1 + LEVELS * KEPT);
    for (i, error) in errors.iter().enumerate() {
        let deviation = (error.iter().map(|&e| (e as f64).powi(2)).sum::<f64>() / DEGREE as f64).sqrt();
        assert!((deviation / 3.2 - 1.0).abs() < 0.05, "key {i}: {deviation}");
        assert!(errors[..i].iter().all(|before| before != error), "key {i}");
    }
}

#[test]
fn two_encryptions_share_nothing() {
    let (holder, evaluator) = pair(9);
    let mut prg = prg(10);
    let words = |bytes: &[u8]| bytes.chunks(8).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let common = |a: &[u8], b: &[u8]| words(a).iter().zip(words(b)).filter(|(a, b)| *a == b).count();
    let (first, second) = (holder.random(&whole(), &mut prg).unwrap(), holder.random(&whole(), &mut prg).unwrap());
    assert_eq!(common(&first.0, &second.0), 0);
    assert_eq!(first.1.iter().zip(&second.1).filter(|(a, b)| a == b).count(), 0);
    let given: Vec<_> = (0..2).map(|_| holder.encrypt(&[1, 2, 3], &mut prg).unwrap()).collect();
    assert_eq!(common(&given[0], &given[1]), 0);
    let cipher = evaluator.receive_random(&whole(), &first.0).unwrap();
    let sums = evaluator.combine(&[cipher], &whole(), 1, [77].as_slice().into(), 1).unwrap();
    let answers: Vec<_> = (0..2).map(|_| evaluator.respond(&sums[0], &mut prg).unwrap()).collect();
    assert_eq!(common(&answers[0].0, &answers[1].0), 0);
    assert_eq!(answers[0].1.iter().zip(&answers[1].1).filter(|(a, b)| a == b).count(), 0);
    // The control: the same stream gives the same bytes.
    let twice: Vec<_> = (0..2).map(|_| holder.random(&whole(), &mut Prg::from_seed([1; 16])).unwrap().0).collect();
    assert_eq!(twice[0], twice[1]);
}
