#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::tiny;
use fesc_ring::Prg;

/// Uniform in the square of side 2 around 0.
fn random(count: usize, prg: &mut Prg) -> Vec<Complex64> {
    let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
    (0..count).map(|_| Complex64::new(next(), next())).collect()
}

/// `m(zeta^(5^j))` by definition: `N` terms per slot, exponents reduced as integers.
fn evaluate(coefficients: &[f64]) -> Vec<Complex64> {
    let order = 2 * coefficients.len();
    let root = |e: usize| Complex64::from_polar(1.0, std::f64::consts::TAU * e as f64 / order as f64);
    let mut element = 1;
    let mut slots = Vec::new();
    for _ in 0..coefficients.len() / 2 {
        slots.push(coefficients.iter().enumerate().map(|(k, &c)| root(k * element % order) * c).sum());
        element = element * 5 % order;
    }
    slots
}

fn distance(a: &[Complex64], b: &[Complex64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
}

#[test]
fn encoding_agrees_with_the_definition() {
    for log_n in [2, 3, 6, 9] {
        let params = tiny(log_n, 1);
        let encoder = Encoder::new(&params);
        let values = random(params.slots(), &mut Prg::from_seed([log_n as u8; 16]));
        let scale = 2f64.powi(40);
        let mut integers = vec![0; params.degree()];
        encoder.encode_slots_to_integers(&values, scale, &mut integers).unwrap();
        let floats: Vec<f64> = integers.iter().map(|&x| x as f64 / scale).collect();
        // Rounding moves each of N coefficients by at most half a unit.
        let bound = params.degree() as f64 * 0.51 / scale;
        assert!(distance(&evaluate(&floats), &values) < bound);
        // And the plaintext holds exactly these integers.
        let plaintext = encoder.encode(&values, 1, scale).unwrap();
        assert!(plaintext.coefficients().unwrap().iter().zip(&integers).all(|(&a, &b)| a == i128::from(b)));
        assert!(distance(&encoder.decode(&plaintext).unwrap(), &values) < bound);
    }
}

#[test]
fn decoding_agrees_with_the_definition() {
    let params = tiny(5, 3);
    let encoder = Encoder::new(&params);
    let mut prg = Prg::from_seed([9; 16]);
    for (level, bits) in [(0, 48), (1, 88), (2, 120), (3, 126)] {
        let integers: Vec<i128> = (0..32).map(|_| prg.next_u128() as i128 >> (128 - bits)).collect();
        let plaintext = encoder.encode_coefficients(&integers, level, 2f64.powi(40)).unwrap();
        let want: Vec<f64> = integers.iter().map(|&x| x as f64 / 2f64.powi(40)).collect();
        let got = encoder.decode(&plaintext).unwrap();
        let largest = want.iter().fold(0f64, |m, x| m.max(x.abs()));
        assert!(distance(&got, &evaluate(&want)) < largest * 32.0 * 2f64.powi(-50), "level {level}");
    }
}

#[test]
fn slots_come_back_at_every_level_and_count() {
    let params = tiny(6, 3);
    let encoder = Encoder::new(&params);
    let mut prg = Prg::from_seed([7; 16]);
    for level in 0..=3 {
        for count in [0, 1, 2, 3, 17, 31, 32] {
            let values = random(count, &mut prg);
            let got = encoder.decode(&encoder.encode(&values, level, 2f64.powi(40)).unwrap()).unwrap();
            let mut padded = values.clone();
            padded.resize(32, Complex64::new(0.0, 0.0));
            assert_eq!(got.len(), 32);
            assert!(distance(&got, &padded) < 2f64.powi(-34), "level {level}, {count} values");
            let real: Vec<f64> = values.iter().map(|z| z.re).collect();
            let got = encoder.decode(&encoder.encode_real(&real, level, 2f64.powi(40)).unwrap()).unwrap();
            assert!(got.iter().zip(&real).all(|(g, r)| (g - r).norm() < 2f64.powi(-34)));
        }
    }
}

#[test]
fn one_slot_ring_and_single_values() {
    // Degree 2 has one slot.
    let params = tiny(1, 1);
    let encoder = Encoder::new(&params);
    for z in [Complex64::new(1.5, -0.25), Complex64::new(0.0, 1.0), Complex64::new(-300.0, 0.0)] {
        let got = encoder.decode(&encoder.encode(&[z], 0, 2f64.powi(40)).unwrap()).unwrap();
        assert!(got.len() == 1 && (got[0] - z).norm() < 2f64.powi(-38));
    }
}

#[test]
fn large_scales_take_the_wide_path_and_agree() {
    let params = tiny(5, 4);
    let encoder = Encoder::new(&params);
    let values = random(16, &mut Prg::from_seed([5; 16]));
    for log_scale in [40, 50, 51, 52, 60, 64, 90, 124] {
        let scale = 2f64.powi(log_scale);
        let got = encoder.decode(&encoder.encode(&values, 4, scale).unwrap()).unwrap();
        let bound = (32.0 / scale).max(2f64.powi(-48));
        assert!(distance(&got, &values) < bound, "scale 2^{log_scale}");
    }
}

#[test]
fn rounding_is_to_nearest_with_ties_to_even() {
    let params = tiny(1, 1);
    let encoder = Encoder::new(&params);
    let mut out = [0; 2];
    // One slot: the coefficients are the real and the imaginary part.
    for (x, want) in [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (-2.5, -2),
        (0.49, 0),
        (2251799813685246.5, 2251799813685246),
        (4503599627370495.5, 4503599627370496),
        (-2f64.powi(61), -1 << 61),
    ] {
        encoder.encode_slots_to_integers(&[Complex64::new(x, -x)], 1.0, &mut out).unwrap();
        assert_eq!(out, [want, -want], "{x}");
    }
}

#[test]
fn coefficients_come_back_with_the_corners() {
    let params = tiny(3, 2);
    let encoder = Encoder::new(&params);
    let half = i128::from((params.modulus(0).value() - 1) / 2);
    let values = [half, -half, 0, 1, -1];
    let plaintext = encoder.encode_coefficients(&values, 0, 1.0).unwrap();
    assert_eq!(encoder.decode_coefficients(&plaintext).unwrap(), [half, -half, 0, 1, -1, 0, 0, 0]);
    for too_large in [half + 1, -half - 1] {
        let e = encoder.encode_coefficients(&[too_large], 0, 1.0).map(|_| ()).unwrap_err();
        assert!(matches!(e, CkksError::TooLarge { level: 0, .. }), "{e}");
    }
    let plaintext = encoder.encode_coefficients(&[i128::MAX, i128::MIN], 2, 1.0);
    assert!(plaintext.is_ok() == (params.log_q(2).unwrap() > 128.0));
    let short = encoder.encode_coefficients(&[i64::MAX, i64::MIN], 1, 1.0).unwrap();
    assert_eq!(short.coefficients().unwrap()[..2], [i128::from(i64::MAX), i128::from(i64::MIN)]);
}

#[test]
fn values_that_cannot_be_encoded_are_refused_with_the_numbers() {
    let params = tiny(4, 2);
    let encoder = Encoder::new(&params);
    let one = Complex64::new(1.0, 0.0);
    let refused = |values: &[Complex64], level, scale| encoder.encode(values, level, scale).map(|_| ()).unwrap_err();
    let scale = 2f64.powi(40);
    assert_eq!(refused(&[one; 9], 0, scale), CkksError::TooMany { what: "slots", got: 9, max: 8 });
    assert_eq!(refused(&[one], 3, scale), CkksError::Level { level: 3, max: 2 });
    assert!(matches!(refused(&[one], 0, 0.0), CkksError::Scale { .. }));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(refused(&[one, one, Complex64::new(0.0, bad)], 0, scale), CkksError::NotFinite { index: 2 });
        assert_eq!(refused(&[Complex64::new(bad, 1.0)], 0, scale), CkksError::NotFinite { index: 0 });
    }
    for huge in [2f64.powi(12), 1e100, f64::MAX] {
        let e = refused(&[Complex64::new(huge, huge); 8], 0, scale);
        assert!(matches!(e, CkksError::TooLarge { bits, .. } if bits > 49.0), "{e}");
    }
    let e = encoder.encode_coefficients(&[0i64; 17], 0, scale).map(|_| ()).unwrap_err();
    assert_eq!(e, CkksError::TooMany { what: "coefficients", got: 17, max: 16 });
    let mut out = [0; 15];
    assert!(encoder.encode_slots_to_integers(&[one], scale, &mut out).is_err());
    let mut out = [0; 16];
    assert!(encoder.encode_slots_to_integers(&[one; 8], 2f64.powi(62), &mut out).is_err());
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.5] {
        let e = encoder.encode_slots_to_integers(&[one], bad, &mut out);
        assert!(matches!(e, Err(CkksError::Scale { .. })), "{bad}");
    }
    let other = Encoder::new(&tiny(4, 1)).encode(&[one], 0, scale).unwrap();
    assert!(matches!(encoder.decode(&other), Err(CkksError::ParamsMismatch { .. })));
}

/// A phase that no message has, as a uniform mask or another key leave it: above what `f64` holds.
#[test]
fn numbers_above_every_message_are_an_error_and_not_infinite() {
    let params = tiny(4, 27);
    let encoder = Encoder::new(&params);
    let mut poly = crate::poly::Poly::zero(&params, 28);
    let mut prg = fesc_ring::Prg::from_seed([9; 16]);
    for i in 0..28 {
        fesc_ring::sample::uniform_mod(&mut prg, params.modulus(i), poly.limb_mut(i));
    }
    let full = Plaintext::new(&params, 27, params.scale(), poly).unwrap();
    assert_eq!(encoder.decode(&full), Err(CkksError::NoMessage { level: 27 }));
}

#[test]
fn known_answer() {
    // Slots 1, i, -1, 0.5 - 0.25i of degree 8 at scale 2^20. The coefficients by the inverse's definition, in
    // Python: round(2^20 * 2/8 * sum((z[j] * exp(-1j * pi * (k * 5**j % 16) / 8)).real for j in range(4)))
    // for k in range(8).
    let params = tiny(3, 1);
    let encoder = Encoder::new(&params);
    let values = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.5, -0.25)].map(|(re, im)| Complex64::new(re, im));
    let mut out = [0; 8];
    encoder.encode_slots_to_integers(&values, 2f64.powi(20), &mut out).unwrap();
    assert_eq!(out, [131072, 837275, -231705, -45856, 196608, -204939, -46341, -231801]);
}
