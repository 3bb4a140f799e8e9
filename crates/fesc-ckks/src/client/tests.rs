#![allow(clippy::unwrap_used)]

use super::*;
use crate::poly::Poly;
use crate::seed::{Label, stream, uniform};
use crate::server::{EvaluationKeyPlan, KeyPurpose, conjugation_element, rotation_element};
use crate::testing::{centred, integers, negacyclic, tiny};
use crate::{CkksError, Encoder, FreshZero, Params, Plaintext};
use fesc_ring::Prg;
use num_bigint::BigInt;

fn secret_integers(secret: &SecretKey) -> Vec<BigInt> {
    secret.small.coefficients().iter().map(|&x| BigInt::from(x)).collect()
}

/// Phase minus message, as small integers.
fn noise(secret: &SecretKey, c: &crate::Ciphertext, message: &Plaintext) -> Vec<f64> {
    let phase = Decryptor::new(secret).decrypt_integers(c).unwrap();
    let message = message.coefficients().unwrap();
    phase.iter().zip(&message).map(|(p, m)| (p - m) as f64).collect()
}

fn variance(samples: &[f64]) -> f64 {
    samples.iter().map(|x| x * x).sum::<f64>() / samples.len() as f64
}

fn message(params: &Params, level: usize, prg: &mut Prg) -> Plaintext {
    let values: Vec<i64> = (0..params.degree()).map(|_| prg.next_u64() as i64 >> 20).collect();
    Encoder::new(params).encode_coefficients(&values, level, params.scale()).unwrap()
}

#[test]
fn decryption_agrees_with_big_integers() {
    let params = tiny(4, 3);
    let mut prg = Prg::from_seed([1; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    for level in 0..=3 {
        let plain = message(&params, level, &mut prg);
        let by_secret = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().expand(public.id());
        let by_public = public.encrypt(&plain, &mut prg).unwrap();
        for c in [by_secret, by_public] {
            // c0 + c1 s over the integers, then modulo Q: no transform and no residue in it.
            let (c0, c1) = (integers(&params, &c.c0), integers(&params, &c.c1));
            let product = negacyclic(&c1, &secret_integers(&secret));
            let phase = c0.iter().zip(&product).map(|(a, b)| centred(&params, level + 1, &(a + b)));
            let got = Decryptor::new(&secret).decrypt_integers(&c).unwrap();
            assert!(phase.eq(got.iter().map(|&x| BigInt::from(x))), "level {level}");
            assert!(noise(&secret, &c, &plain).iter().all(|e| e.abs() < 400.0));
        }
    }
}

#[test]
fn noise_of_fresh_encryptions_is_what_the_formulas_say() {
    let params = tiny(11, 1);
    let mut prg = Prg::from_seed([2; 16]);
    let n = params.degree() as f64;
    let (mut by_secret, mut by_public) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let secret = SecretKey::generate(&params, &mut prg);
        let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
        let plain = message(&params, 1, &mut prg);
        let c = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().expand(public.id());
        by_secret.extend(noise(&secret, &c, &plain));
        by_public.extend(noise(&secret, &public.encrypt(&plain, &mut prg).unwrap(), &plain));
        let FreshZero { params: of, owner, level, c0, c1 } = public.zero(0, &mut prg).unwrap();
        let zero = crate::Ciphertext { params: of, owner, level, scale: 1.0, c0, c1 };
        let nothing = Encoder::new(&params).encode_coefficients(&[0i64], 0, 1.0).unwrap();
        by_public.extend(noise(&secret, &zero, &nothing));
    }
    // 12,288 samples: the variance is known to 1.3 percent, 10 percent is eight deviations.
    let sigma = 3.2f64 * 3.2;
    assert!((variance(&by_secret) / sigma - 1.0).abs() < 0.1, "{}", variance(&by_secret));
    // The rounding of the division by P; the errors themselves are divided away.
    let expected = (1.0 + 2.0 * n / 3.0) / 12.0;
    assert!((variance(&by_public) / expected - 1.0).abs() < 0.1, "{} for {expected}", variance(&by_public));
}

#[test]
fn switching_keys_are_encryptions_of_their_targets() {
    let params = tiny(4, 3);
    let mut prg = Prg::from_seed([3; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let s = secret_integers(&secret);
    let p: BigInt = (4..6).map(|i| BigInt::from(params.modulus(i).value())).product();
    for purpose in [KeyPurpose::Relinearisation, KeyPurpose::Galois(5), KeyPurpose::Galois(31)] {
        let target = match purpose {
            KeyPurpose::Relinearisation => negacyclic(&s, &s),
            KeyPurpose::Galois(g) => {
                // s(X^g), one term at a time.
                let mut out = vec![BigInt::from(0); 16];
                for (k, x) in s.iter().enumerate() {
                    let e = k * g as usize % 32;
                    if e < 16 { out[e] += x } else { out[e - 16] -= x }
                }
                out
            }
        };
        let key = generator.key(purpose, &mut prg).unwrap().expand();
        let parts = key.unpacked();
        assert_eq!(parts.len(), 2);
        for (d, [b, a]) in parts.iter().enumerate() {
            let masked = negacyclic(&integers(&params, a), &s);
            for (k, (b, m)) in integers(&params, b).iter().zip(&masked).enumerate() {
                // Prime by prime: P s' on the digit's primes and nothing on the others, up to an error that
                // all primes share.
                let rest = |i: usize| {
                    let q = BigInt::from(params.modulus(i).value());
                    let want = if params.digit(d, 3).contains(&i) { &p * &target[k] } else { BigInt::from(0) };
                    let rest = (((b + m - want) % &q) + &q) % &q;
                    if &rest * 2 > q { rest - q } else { rest }
                };
                let error = rest(5);
                assert!(error.magnitude() <= &43u32.into(), "digit {d}: {error}");
                assert!((0..6).all(|i| rest(i) == error), "digit {d}, coefficient {k}");
            }
        }
    }
}

#[test]
fn galois_elements_that_are_none_are_refused() {
    let params = tiny(4, 1);
    let mut prg = Prg::from_seed([4; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    for element in [0, 1, 2, 32, 33, u32::MAX] {
        let e = KeyGenerator::new(&secret).key(KeyPurpose::Galois(element), &mut prg).map(|_| ()).unwrap_err();
        assert_eq!(e, CkksError::Galois { element, order: 32 });
    }
}

#[test]
fn a_plan_says_its_size_and_makes_each_key_once() {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([5; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let plan = EvaluationKeyPlan { rotations: vec![1, -7, 9, 8, 0, -1], conjugation: true, relinearisation: true };
    // 1, -7 and 9 are one rotation of 8 slots; 8 and 0 are none.
    let purposes = plan.purposes(&params);
    assert_eq!(purposes.len(), 4);
    let generator = KeyGenerator::new(&secret);
    let mut bytes = Vec::new();
    let mut made = Vec::new();
    for key in generator.keys(&plan, &mut prg) {
        let key = key.unwrap();
        made.push(key.purpose());
        key.write(&mut bytes).unwrap();
    }
    assert_eq!((made, bytes.len()), (purposes, plan.bytes(&params)));
    // In memory the seeded halves are there too, and no headers.
    assert_eq!(plan.memory(&params), 2 * (plan.bytes(&params) - 4 * crate::wire::HEADER_BYTES));
    assert_eq!(rotation_element(&params, 1), 5);
    assert_eq!(rotation_element(&params, -1) * 5 % 32, 1);
    assert_eq!(conjugation_element(&params), 31);
    assert_eq!(EvaluationKeyPlan::default().bytes(&params), 0);
}

#[test]
fn nothing_fresh_is_ever_the_same_twice() {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([6; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let plain = message(&params, 1, &mut prg);
    let encryptor = SecretEncryptor::new(&secret);
    let (a, b) = (encryptor.encrypt(&plain, &mut prg).unwrap(), encryptor.encrypt(&plain, &mut prg).unwrap());
    assert!(a.seed != b.seed && a.c0.words() != b.c0.words());
    let generator = KeyGenerator::new(&secret);
    let (a, b) = (generator.relinearisation_key(&mut prg).unwrap(), generator.relinearisation_key(&mut prg).unwrap());
    assert!(a.seed != b.seed && a.b[0].words() != b.b[0].words() && a.b[0].words() != a.b[1].words());
}

#[test]
fn objects_of_another_set_are_refused() {
    let (params, other) = (tiny(4, 1), tiny(4, 2));
    let mut prg = Prg::from_seed([7; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    let foreign = message(&other, 0, &mut prg);
    let refused = |e: Option<CkksError>| assert!(matches!(e, Some(CkksError::ParamsMismatch { .. })));
    refused(SecretEncryptor::new(&secret).encrypt(&foreign, &mut prg).err());
    refused(public.encrypt(&foreign, &mut prg).err());
    let theirs = SecretKey::generate(&other, &mut prg);
    let c = SecretEncryptor::new(&theirs).encrypt(&foreign, &mut prg).unwrap().expand(public.id());
    refused(Decryptor::new(&secret).decrypt(&c).err());
    assert_eq!(public.zero(2, &mut prg).err(), Some(CkksError::Level { level: 2, max: 1 }));
}

#[test]
fn threads_do_not_change_a_bit() {
    let params = tiny(6, 4);
    let run = || {
        let mut prg = Prg::from_seed([8; 16]);
        let secret = SecretKey::generate(&params, &mut prg);
        let generator = KeyGenerator::new(&secret);
        let public = generator.public_key(&mut prg).unwrap();
        let plain = message(&params, 4, &mut prg);
        let c = public.encrypt(&plain, &mut prg).unwrap();
        let key = generator.key(KeyPurpose::Galois(5), &mut prg).unwrap().expand();
        let mut a = Poly::scratch(&params, 5);
        uniform(&params, &mut stream(&params, Label::Upload, [1; 16]), &mut a);
        let mut all = [c.c0.words(), c.c1.words(), a.words()].concat();
        key.unpacked().iter().flatten().for_each(|p| all.extend_from_slice(p.words()));
        all.extend(Decryptor::new(&secret).decrypt(&c).unwrap().poly.words());
        all
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let one = pool(1).install(run);
    for threads in [2, 3, 8] {
        assert!(pool(threads).install(run) == one, "{threads} threads");
    }
}

#[test]
fn messages_are_added_to_what_is_kept_of_an_upload() {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([9; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let owner = KeyGenerator::new(&secret).public_key(&mut prg).unwrap().id();
    let (mine, theirs) = (message(&params, 2, &mut prg), message(&params, 2, &mut prg));
    let mut kept = SecretEncryptor::new(&secret).encrypt(&mine, &mut prg).unwrap().keep(owner);
    kept.add_plain(&theirs).unwrap();
    let want: Vec<i128> =
        mine.coefficients().unwrap().iter().zip(theirs.coefficients().unwrap()).map(|(a, b)| a + b).collect();
    for c in [kept.expand(), kept.clone().into_ciphertext()] {
        assert_eq!((c.level(), c.scale(), c.owner), (2, params.scale(), owner));
        let got = Decryptor::new(&secret).decrypt_integers(&c).unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 30), "the sum, to the noise");
    }
    let coarse = Encoder::new(&params).encode_coefficients(&[1i64], 2, 2.0).unwrap();
    assert!(matches!(kept.add_plain(&coarse), Err(CkksError::ScaleMismatch { .. })));
    assert_eq!(kept.add_plain(&message(&params, 1, &mut prg)), Err(CkksError::LevelMismatch { left: 2, right: 1 }));
    let other = tiny(4, 3);
    assert!(matches!(kept.add_plain(&message(&other, 2, &mut prg)), Err(CkksError::ParamsMismatch { .. })));
}

/// Kept bytes are those of version 1 of a client's file, whatever becomes of the sampler.
#[test]
fn a_kept_secret_is_the_same_key_again_and_bytes_that_are_none_are_refused() {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([9; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let kept = secret.keep();
    assert_eq!(kept.len(), SecretKey::kept_bytes(&params));
    let again = SecretKey::restore(&params, &kept).unwrap();
    assert_eq!(again.small.coefficients(), secret.small.coefficients());
    assert!(again.poly.limbs().eq(secret.poly.limbs()));
    // 0, 1, -1, 0 in the first byte, and zeros behind them.
    let mut known = vec![0; kept.len()];
    known[0] = 0b0010_0100;
    let known = SecretKey::restore(&params, &known).unwrap();
    assert_eq!(known.small.coefficients()[..5], [0, 1, -1, 0, 0]);
    assert_eq!(known.keep()[0], 0b0010_0100);
    for place in 0..4 {
        let mut wrong = kept.to_vec();
        wrong[1] |= 3 << (2 * place);
        assert!(matches!(SecretKey::restore(&params, &wrong), Err(CkksError::Wire { what: "secret key", .. })));
    }
    assert!(SecretKey::restore(&params, &kept[1..]).is_err());
}
