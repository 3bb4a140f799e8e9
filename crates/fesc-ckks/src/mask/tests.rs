#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::Encoder;
use crate::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use crate::server::PublicKey;
use crate::testing::tiny;

struct Parties {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    prg: Prg,
}

fn parties(log_n: u32, levels: usize) -> Parties {
    let params = tiny(log_n, levels);
    let mut prg = Prg::from_seed([log_n as u8; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    Parties { params, secret, public, prg }
}

impl Parties {
    fn encrypt(&mut self, values: &[i64], level: usize) -> Ciphertext {
        let plain = Encoder::new(&self.params).encode_coefficients(values, level, 1.0).unwrap();
        SecretEncryptor::new(&self.secret).encrypt(&plain, &mut self.prg).unwrap().expand(self.public.id())
    }

    /// The weights that a client finds by dividing what came back by what it sent, limb 0.
    fn quotient(&self, sent: &Poly, back: &Poly) -> Vec<u64> {
        let modulus = self.params.modulus(0);
        let divide = |(&s, &b): (&u64, &u64)| modulus.mul(b, modulus.pow(s, modulus.value() - 2));
        sent.limb(0).iter().zip(back.limb(0)).map(divide).collect()
    }
}

/// A server may send anything. What a client does with it must not tell whether the phase was in range.
#[test]
fn a_phase_out_of_range_is_a_share_like_any_other() {
    let mut p = parties(5, 3);
    let (encoder, ring) = (Encoder::new(&p.params), fesc_ring::Ring::new(48).unwrap());
    let scale = 2f64.powi(40);
    let decryptor = Decryptor::new(&p.secret);
    // Uniform modulo 170 bits: hardly a coefficient fits 128.
    let plain = encoder.encode_coefficients(&[5i64; 32], 3, scale).unwrap();
    let c = SecretEncryptor::new(&p.secret).encrypt(&plain, &mut p.prg).unwrap().expand(p.public.id());
    let mask = RingMask::uniform(&p.params, 3, &mut p.prg).unwrap();
    let (masked, _) = c.mask(p.public.zero(3, &mut p.prg).unwrap(), mask).unwrap();
    // The control: the other way stops at it.
    assert!(matches!(decryptor.decrypt_integers(&masked), Err(CkksError::Integer { level: 3, .. })));
    let share = decryptor.decrypt_share(&masked).unwrap();
    let phase = crate::testing::integers(&p.params, &decryptor.decrypt(&masked).unwrap().poly);
    let modulus = num_bigint::BigInt::from(1) << 128;
    assert!(phase.iter().zip(&share).all(|(x, &y)| ((x - y) % &modulus) == num_bigint::BigInt::from(0)));
    assert!(share.iter().any(|x| x.unsigned_abs() > 1 << 122), "nothing is out of range");
    assert_eq!(encoder.decode_share(&share, 120, scale, 16, ring).unwrap().len(), 16);
    // In range it is the integers of the other.
    let c = p.encrypt(&[7; 32], 3);
    let zero = p.public.zero(3, &mut p.prg).unwrap();
    let (masked, _) = c.mask(zero, RingMask::bounded(&p.params, 3, 20, 32, &mut p.prg).unwrap()).unwrap();
    let decryptor = Decryptor::new(&p.secret);
    assert_eq!(decryptor.decrypt_share(&masked).unwrap(), decryptor.decrypt_integers(&masked).unwrap());
}

#[test]
fn shares_add_up_to_the_phase() {
    let mut p = parties(6, 2);
    let values: Vec<i64> = (0..64).map(|i| (i - 30) << 20).collect();
    let close = |got: i128, want: i64| (got - i128::from(want)).abs() < 400;
    let c = p.encrypt(&values, 2);
    let zero = p.public.zero(2, &mut p.prg).unwrap();
    let mask = RingMask::bounded(&p.params, 2, 27, 1 << 20, &mut p.prg).unwrap();
    let (masked, share) = c.clone().mask(zero, mask).unwrap();
    let client = Decryptor::new(&p.secret).decrypt_integers(&masked).unwrap();
    let Share::Integers { values: server, scale } = &share else { panic!("a bounded mask has an integer share") };
    assert_eq!(*scale, 1.0);
    for ((a, b), v) in client.iter().zip(server).zip(&values) {
        assert!(close(a + b, *v), "{a} + {b} for {v}: over the integers, no modulus");
        assert!(a.unsigned_abs() > 1 << 40, "and neither is small");
    }
    let zero = p.public.zero(2, &mut p.prg).unwrap();
    let (masked, share) = c.mask(zero, RingMask::uniform(&p.params, 2, &mut p.prg).unwrap()).unwrap();
    let mut sum = Decryptor::new(&p.secret).decrypt(&masked).unwrap();
    let Share::Residues(server) = &share else { panic!("a uniform mask has a share of residues") };
    sum.poly.for_each_limb(|i, limb| p.params.prime(i).add_assign(limb, server.poly.limb(i)));
    assert!(sum.coefficients().unwrap().iter().zip(&values).all(|(&g, &v)| close(g, v)));
}

#[test]
fn without_the_fresh_zero_the_weights_are_found_and_with_it_not() {
    let mut p = parties(8, 1);
    let sent = p.encrypt(&[1, 2, 3], 1);
    let weights = Encoder::new(&p.params).encode_coefficients(&[7i64, -5, 11, 0, 3], 1, 1.0).unwrap();
    // A server's computation: a product with its plaintext. The mask hides c0 and leaves c1.
    let mut result = sent.clone();
    let params = p.params.clone();
    for part in [&mut result.c0, &mut result.c1] {
        part.for_each_limb(|i, limb| params.ntt(i).mul_assign(limb, weights.poly.limb(i)));
    }
    let mask = |p: &mut Parties| RingMask::uniform(&p.params, 1, &mut p.prg).unwrap();
    let forgotten = FreshZero::forgotten(&p.public, 1).unwrap();
    let m = mask(&mut p);
    let (naive, _) = result.clone().mask(forgotten, m).unwrap();
    assert_eq!(p.quotient(&sent.c1, &naive.hidden().c1), weights.poly.limb(0), "every weight, exactly");
    let zero = p.public.zero(1, &mut p.prg).unwrap();
    let m = mask(&mut p);
    let (proper, _) = result.mask(zero, m).unwrap();
    let found = p.quotient(&sent.c1, &proper.hidden().c1);
    assert!(found.iter().zip(weights.poly.limb(0)).all(|(f, w)| f != w), "not one");
}

/// How many deviations apart the means of the client's views of two messages are.
fn separation(p: &mut Parties, width: u32, bound: i64) -> f64 {
    let count = p.params.degree() as f64;
    let views = [bound, -bound].map(|value| {
        let c = p.encrypt(&vec![value; p.params.degree()], 2);
        let zero = p.public.zero(2, &mut p.prg).unwrap();
        let mask = RingMask::with_width(&p.params, 2, width, &mut p.prg);
        let (masked, _) = c.mask(zero, mask).unwrap();
        let view = Decryptor::new(&p.secret).decrypt_integers(&masked).unwrap();
        view.iter().map(|&x| x as f64).sum::<f64>() / count
    });
    // A uniform number in [-2^w, 2^w) has deviation 2^w / sqrt(3).
    let deviation = 2f64.powi(width as i32) / 3f64.sqrt() * (2.0 / count).sqrt();
    (views[0] - views[1]).abs() / deviation
}

#[test]
fn a_narrow_mask_is_noticed() {
    let mut p = parties(12, 2);
    let (bits, count) = (30, 1 << 12);
    assert!(separation(&mut p, bits + 2, 1 << bits) > 12.0, "two bits over the message: seen in one ciphertext");
    let width = mask_width(bits + 1, count);
    assert!(separation(&mut p, width, 1 << bits) < 5.0, "the stated width: not seen");
}

#[test]
fn the_phase_under_a_uniform_mask_is_uniform() {
    let mut p = parties(12, 0);
    let c = p.encrypt(&vec![1 << 40; 4096], 0);
    let zero = p.public.zero(0, &mut p.prg).unwrap();
    let (masked, _) = c.mask(zero, RingMask::uniform(&p.params, 0, &mut p.prg).unwrap()).unwrap();
    let q = i128::from(p.params.modulus(0).value());
    let mut buckets = [0f64; 16];
    for x in Decryptor::new(&p.secret).decrypt_integers(&masked).unwrap() {
        buckets[(x.rem_euclid(q) * 16 / q) as usize] += 1.0;
    }
    // Chi-square with 15 degrees of freedom: 50 is a chance of 1e-5, and the seed is fixed.
    let chi: f64 = buckets.iter().map(|b| (b - 256.0) * (b - 256.0) / 256.0).sum();
    assert!(chi < 50.0, "{chi}");
}

#[test]
fn widths_follow_the_formula() {
    // ceil(log2 B) + 40 + ceil(log2 n), by counting.
    for (bits, count, want) in
        [(45, 1, 85), (45, 2, 86), (45, 3, 87), (45, 1 << 28, 113), (45, (1 << 28) + 1, 114), (0, 0, 40)]
    {
        assert_eq!(mask_width(bits, count), want);
    }
    assert_eq!(mask_width(u32::MAX, u64::MAX), u32::MAX);
    let params = tiny(3, 1);
    let mask = RingMask::with_width(&params, 1, 60, &mut Prg::from_seed([3; 16]));
    let integers = mask.integers.as_ref().unwrap();
    assert!(
        integers.iter().all(|x| (-(1 << 60)..1 << 60).contains(x))
            && integers.iter().any(|x| x.unsigned_abs() >> 58 != 0)
    );
}

#[test]
fn masks_that_would_wrap_or_overflow_are_refused() {
    let params = tiny(4, 3);
    let mut prg = Prg::from_seed([4; 16]);
    // Levels 0 to 3 hold 50, 90, 130 and 170 bits.
    for (level, phase_bits, fits) in [(0, 9, false), (1, 48, true), (1, 49, false), (2, 83, true), (1, 84, false)] {
        let got = RingMask::bounded(&params, level, phase_bits, 1, &mut prg).err();
        let width = phase_bits + 40;
        match got {
            None => assert!(fits, "level {level}, {phase_bits} bits"),
            Some(CkksError::MaskWraps { width: w, need, .. }) => assert!(!fits && w == width && need == width + 2),
            Some(e) => panic!("{e}"),
        }
    }
    let e = RingMask::bounded(&params, 3, 85, 1, &mut prg).err();
    assert_eq!(e, Some(CkksError::MaskWidth { width: 125, max: MAX_WIDTH }));
    assert!(matches!(RingMask::bounded(&params, 4, 1, 1, &mut prg), Err(CkksError::Level { level: 4, max: 3 })));
    assert!(matches!(RingMask::uniform(&params, 4, &mut prg), Err(CkksError::Level { .. })));
}

/// Whatever the message is, the fresh zero's noise is in the phase: at `N = 64` six deviations are 11.4.
#[test]
fn a_mask_that_does_not_cover_the_noise_is_refused() {
    let mut p = parties(6, 2);
    for (phase_bits, taken) in [(0, false), (3, false), (4, true)] {
        let zero = p.public.zero(2, &mut p.prg).unwrap();
        let mask = RingMask::bounded(&p.params, 2, phase_bits, 1, &mut p.prg).unwrap();
        let result = p.encrypt(&[0], 2).mask(zero, mask).map(|_| ());
        let want = if taken { Ok(()) } else { Err(CkksError::MaskNarrow { phase_bits, need: 4 }) };
        assert_eq!(result, want);
    }
}

#[test]
fn masks_and_zeros_of_another_level_or_set_are_refused() {
    let mut p = parties(5, 2);
    let c = p.encrypt(&[1], 1);
    let zero = |p: &mut Parties, level| p.public.zero(level, &mut p.prg).unwrap();
    let mask = |p: &mut Parties, level| RingMask::uniform(&p.params, level, &mut p.prg).unwrap();
    for (zero_level, mask_level) in [(0, 1), (2, 1), (1, 0), (1, 2)] {
        let (z, m) = (zero(&mut p, zero_level), mask(&mut p, mask_level));
        assert!(matches!(c.clone().mask(z, m), Err(CkksError::LevelMismatch { left: 1, .. })));
    }
    let mut other = parties(5, 1);
    let (z, m) = (zero(&mut other, 1), mask(&mut p, 1));
    assert!(matches!(c.clone().mask(z, m), Err(CkksError::ParamsMismatch { .. })));
    let (z, m) = (zero(&mut p, 1), mask(&mut other, 1));
    assert!(matches!(c.mask(z, m), Err(CkksError::ParamsMismatch { .. })));
}

/// Another client of the same set.
fn stranger(p: &Parties) -> Parties {
    let params = p.params.clone();
    let mut prg = Prg::from_seed([99; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    Parties { params, secret, public, prg }
}

#[test]
fn a_zero_of_another_clients_key_is_refused() {
    let mut p = parties(5, 2);
    let mut other = stranger(&p);
    let c = p.encrypt(&[1], 1);
    let mask = |p: &mut Parties| RingMask::uniform(&p.params, 1, &mut p.prg).unwrap();
    let (theirs, m) = (other.public.zero(1, &mut other.prg).unwrap(), mask(&mut p));
    let e = c.clone().mask(theirs, m).err();
    let (left, right) = (p.public.id().to_string(), other.public.id().to_string());
    assert_eq!(e, Some(CkksError::KeyMismatch { left, right }));
    // Control: its own zero, also from a copy of the key that came over the wire a second time.
    let mut bytes = Vec::new();
    p.public.write(&mut bytes).unwrap();
    let copy = PublicKey::read(&p.params, &bytes).unwrap();
    assert_eq!(copy.id(), p.public.id());
    for key in [&p.public, &copy] {
        let (zero, m) = (key.zero(1, &mut p.prg).unwrap(), RingMask::uniform(&p.params, 1, &mut p.prg).unwrap());
        assert!(c.clone().mask(zero, m).is_ok());
    }
    // Another key of the same client is another key.
    let second = KeyGenerator::new(&p.secret).public_key(&mut p.prg).unwrap();
    assert_ne!(second.id(), p.public.id());
    assert!(!format!("{:?}", second.id()).is_empty());
}

/// What the check prevents. A server multiplies by a weight and masks; two clients, or one that came twice,
/// have both keys.
#[test]
fn a_zero_of_another_key_would_let_weights_be_guessed() {
    let mut p = parties(6, 2);
    let mut other = stranger(&p);
    let (params, weight) = (p.params.clone(), 71i64);
    let sent = p.encrypt(&[3, -1, 4], 2);
    let mut result = sent.clone();
    let times = |poly: &mut Poly, by: i64| {
        poly.for_each_limb(|i, limb| {
            let by = by.rem_euclid(params.modulus(i).value() as i64) as u64;
            limb.iter_mut().for_each(|x| *x = params.modulus(i).mul(*x, by));
        });
    };
    times(&mut result.c0, weight);
    times(&mut result.c1, weight);
    let found = |mut zero: FreshZero, p: &mut Parties| -> Vec<i64> {
        zero.owner = result.owner;
        let mask = RingMask::bounded(&params, 2, 12, 64, &mut p.prg).unwrap();
        let (masked, _) = result.clone().mask(zero, mask).unwrap();
        let small = |guess: i64| {
            // c0 + c1 s' of what came back, less what that would be for this weight: c1 (s' - s) guess.
            let mut left = masked.hidden().c0.clone();
            let mut own = sent.c1.clone();
            times(&mut own, guess);
            left.for_each_limb(|i, limb| {
                let (s, t) = (p.secret.poly.limb(i), other.secret.poly.limb(i));
                let difference: Vec<u64> = t.iter().zip(s).map(|(&t, &s)| params.modulus(i).sub(t, s)).collect();
                let mut known = own.limb(i).to_vec();
                params.ntt(i).mul_assign(&mut known, &difference);
                params.ntt(i).mul_acc(limb, masked.hidden().c1.limb(i), t);
                params.prime(i).sub_assign(limb, &known);
            });
            // A mask of 58 bits, of the 130 that the modulus has.
            crate::testing::integers(&params, &left).iter().all(|x| x.magnitude().bits() < 62)
        };
        (1..100).filter(|&guess| small(guess)).collect()
    };
    let wrong = other.public.zero(2, &mut other.prg).unwrap();
    assert_eq!(found(wrong, &mut p), [weight], "the weight, and no other");
    let right = p.public.zero(2, &mut p.prg).unwrap();
    assert_eq!(found(right, &mut p), [0i64; 0], "nothing");
}

#[test]
fn a_mask_for_phases_below_the_scale_is_refused() {
    let mut p = parties(5, 3);
    for (scale, phase_bits, taken) in
        [(30.0f64, 29, false), (30.0, 30, true), (30.5, 30, false), (30.5, 31, true), (40.0, 12, false)]
    {
        let plain = Encoder::new(&p.params).encode_coefficients(&[0i64], 3, scale.exp2()).unwrap();
        let c = p.public.encrypt(&plain, &mut p.prg).unwrap();
        let zero = p.public.zero(3, &mut p.prg).unwrap();
        let mask = RingMask::bounded(&p.params, 3, phase_bits, 1, &mut p.prg).unwrap();
        match c.mask(zero, mask).map(|_| ()) {
            Ok(()) => assert!(taken, "{scale} {phase_bits}"),
            Err(CkksError::MaskBelowScale { phase_bits: got, log_scale }) => {
                assert!(!taken && got == phase_bits && (log_scale - scale).abs() < 1e-9, "{scale} {phase_bits}");
            }
            Err(e) => panic!("{e}"),
        }
        // A uniform mask covers any phase.
        let c = p.public.encrypt(&plain, &mut p.prg).unwrap();
        let zero = p.public.zero(3, &mut p.prg).unwrap();
        assert!(c.mask(zero, RingMask::uniform(&p.params, 3, &mut p.prg).unwrap()).is_ok());
    }
}

#[test]
fn masks_say_how_far_they_are_from_hiding_everything() {
    let params = tiny(4, 3);
    let mut prg = Prg::from_seed([5; 16]);
    let bounded = RingMask::bounded(&params, 3, 45, 1 << 20, &mut prg).unwrap();
    assert_eq!(bounded.distance(), Distance::of_bounded(45, 1 << 20));
    assert_eq!(bounded.distance().log2(), -41.0);
    assert_eq!(RingMask::uniform(&params, 3, &mut prg).unwrap().distance(), Distance::NONE);
}
