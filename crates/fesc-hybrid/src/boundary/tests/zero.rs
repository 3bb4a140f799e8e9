//! The fresh encryption of zero in what leaves: what is seen without it, and that it is one.

use fesc_ckks::client::Decryptor;
use fesc_ckks::{Ciphertext, Encoder, FreshZero, Masked, RingMask, Share, noise};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::attacks::{received_with, second_half, shape};
use super::keys;

/// A client divides what came back by the `c1` that it sent: without the zero that is the weights, whatever
/// mask there is on `c0`.
#[test]
fn a_boundary_without_the_fresh_zero_gives_the_weights_away_and_with_it_not() {
    let keys = keys();
    let (params, modulus) = (&keys.params, keys.params.modulus(0));
    let c = keys.encrypt(&[Complex64::new(0.5, 0.0)], 2, &mut Prg::from_seed([1; 16]));
    let weights: Vec<i64> = (0..params.degree() as i64).map(|i| i % 7 - 3).collect();
    let encoded = Encoder::new(params).encode_coefficients(&weights, 2, 1.0).unwrap();
    let result = keys.evaluator.multiply_plain(&c, &encoded).unwrap();
    let shape = shape(&keys, 40);
    let forgotten = |level: usize, _: &mut Prg| FreshZero::forgotten(&keys.public, level);
    let fresh = |level: usize, prg: &mut Prg| keys.public.zero(level, prg);
    let half = |zeros: &(dyn Fn(usize, &mut Prg) -> fesc_ckks::Result<FreshZero> + Sync), c: &Ciphertext| {
        second_half(&keys, shape.level(), &received_with(zeros, &keys, &shape, c, 9))
    };
    let sent = half(&forgotten, &c);
    let found = |back: Vec<u64>| -> Vec<u64> {
        let divide = |(&s, &b): (&u64, &u64)| modulus.mul(b, modulus.pow(s, modulus.value() - 2));
        sent.iter().zip(&back).map(divide).collect()
    };
    let mut want: Vec<u64> = weights.iter().map(|&w| modulus.from_small_signed(w)).collect();
    params.ntt(0).forward(&mut want);
    let same = |found: Vec<u64>| found.iter().zip(&want).filter(|(f, w)| f == w).count();
    assert_eq!(same(found(half(&forgotten, &result))), params.degree(), "left out: every weight");
    assert_eq!(same(found(half(&fresh, &result))), 0, "there: none");
}

/// What the boundary adds to a phase besides the mask is the noise of one public-key encryption, no more and
/// no less: an encryption of zero without its errors would have less, one that came twice more.
#[test]
fn the_noise_that_a_boundary_adds_is_that_of_one_fresh_zero() {
    let keys = keys();
    let shape = shape(&keys, 40);
    let c = keys.encrypt_integers(&[], 3, &mut Prg::from_seed([1; 16]));
    let nothing = keys.evaluator.sub(&c, &c).unwrap();
    let variance = |zeros: &(dyn Fn(usize, &mut Prg) -> fesc_ckks::Result<FreshZero> + Sync)| {
        let bytes = received_with(zeros, &keys, &shape, &nothing, 10);
        let masked = Masked::<Ciphertext>::read(&keys.params, &bytes).unwrap();
        let view = Decryptor::new(&keys.secret).decrypt_share(&masked).unwrap();
        // The server's share, drawn again: the mask comes after the zero from the ciphertext's generator.
        let mut prg = Prg::from_seed([10; 16]).fork();
        let zero = zeros(shape.level(), &mut prg).unwrap();
        let mask = RingMask::bounded(&keys.params, shape.level(), 40, 1 << 13, &mut prg).unwrap();
        let dropped = keys.evaluator.drop_to_level(&nothing, shape.level()).unwrap();
        let (_, share) = dropped.mask(zero, mask).unwrap();
        let Share::Integers { values, .. } = &share else { panic!("a bounded mask has an integer share") };
        let squares = view.iter().zip(values).map(|(a, b)| ((a + b) as f64).powi(2));
        squares.sum::<f64>() / view.len() as f64
    };
    let stated = noise::fresh_public(&keys.params);
    let got = variance(&|level, prg| keys.public.zero(level, prg));
    // 8192 coefficients that depend on each other through one product: a tenth is three deviations or more.
    assert!((got / stated - 1.0).abs() < 0.1, "{got} and stated {stated}");
    assert_eq!(variance(&|level, _| FreshZero::forgotten(&keys.public, level)), 0.0, "control: nothing was added");
}
