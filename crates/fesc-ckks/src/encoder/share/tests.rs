//! Shares decoded alone and added: against the sum, against doubles, at the limits; and the way back.
#![allow(clippy::unwrap_used)]

use fesc_ring::{Prg, Ring};

use crate::testing::tiny;
use crate::{CkksError, Encoder};

/// Integers of this many bits and a sign.
fn integers(prg: &mut Prg, count: usize, bits: u32) -> Vec<i128> {
    (0..count).map(|_| prg.next_u128() as i128 >> (127 - bits)).collect()
}

/// Slots of such integers.
fn slots(prg: &mut Prg, count: usize, bits: u32) -> Vec<[i128; 2]> {
    (0..count).map(|_| [(); 2].map(|()| prg.next_u128() as i128 >> (127 - bits))).collect()
}

fn ring(bits: u32) -> Ring {
    Ring::new(bits).unwrap()
}

/// Distance of the sum of two fixed-point vectors from a third, as signed numbers of the ring.
fn distance(ring: Ring, a: &[[u64; 2]], b: &[[u64; 2]], sum: &[[u64; 2]]) -> u64 {
    let parts = a.as_flattened().iter().zip(b.as_flattened()).zip(sum.as_flattened());
    parts.map(|((&a, &b), &s)| ring.to_signed(ring.sub(ring.add(a, b), s)).unsigned_abs()).max().unwrap()
}

/// `phase + mask` and `-mask`.
fn shares(prg: &mut Prg, phase: &[i128], width: u32) -> [Vec<i128>; 2] {
    let mask = integers(prg, phase.len(), width);
    [phase.iter().zip(&mask).map(|(p, m)| p + m).collect(), mask.iter().map(|m| -m).collect()]
}

/// The fixed-point shares as doubles would have them.
fn decoded_in_doubles(encoder: &Encoder, share: &[i128], scale: f64, fraction: u32, ring: Ring) -> Vec<[u64; 2]> {
    let slots = encoder.decode(&encoder.encode_coefficients(share, 3, scale).unwrap()).unwrap();
    let fixed = |x: f64| ring.reduce((x * 2f64.powi(fraction as i32)).round_ties_even() as i128 as u64);
    slots.iter().map(|z| [fixed(z.re), fixed(z.im)]).collect()
}

#[test]
fn shares_decoded_alone_add_up_to_the_value() {
    for log_n in [1, 2, 4, 8, 12, 15, 16] {
        let params = tiny(log_n, 3);
        let encoder = Encoder::new(&params);
        let mut prg = Prg::from_seed([log_n as u8; 16]);
        // Not a power of two, like every scale after a rescaling.
        let scale = params.modulus(1).value() as f64;
        let phase = integers(&mut prg, params.degree(), 48);
        let [mine, theirs] = shares(&mut prg, &phase, 118);
        for (fraction, bits) in [(16, 48), (16, 64), (12, 34), (0, 20)] {
            let ring = ring(bits);
            let decode = |x: &[i128]| encoder.decode_share(x, 118, scale, fraction, ring).unwrap();
            let (a, b, sum) = (decode(&mine), decode(&theirs), decode(&phase));
            assert_eq!(a.len(), params.slots());
            assert!(distance(ring, &a, &b, &sum) <= 1, "degree {} fraction {fraction}", params.degree());
            // The phase is small enough for doubles: they agree.
            let zero = vec![[0; 2]; params.slots()];
            let plain = decoded_in_doubles(&encoder, &phase, scale, fraction, ring);
            assert!(distance(ring, &plain, &zero, &sum) <= 1);
        }
        // A control: doubles lose it.
        let ring = ring(48);
        let lossy = [&mine, &theirs].map(|x| decoded_in_doubles(&encoder, x, scale, 16, ring));
        let sum = encoder.decode_share(&phase, 118, scale, 16, ring).unwrap();
        assert!(distance(ring, &lossy[0], &lossy[1], &sum) > 1 << 20);
    }
}

#[test]
fn slots_of_a_share_are_those_of_big_integers() {
    // Degree 2: the slot is c_0 + i c_1, so the result is known exactly.
    let encoder = Encoder::new(&tiny(1, 1));
    let scale = 3.0 * 2f64.powi(40);
    for x in [0, 1, -1, 3 << 39, -(3 << 39), (1 << 106) - 1, 1 - (1 << 106), 12345678901234567890123456789012] {
        for fraction in [0, 16, 30] {
            // round(x 2^f / (3 2^40)): no ties but at multiples of one half.
            let (top, bottom) = (x << fraction.min(10), 3i128 << (40 - fraction + fraction.min(10)));
            let floor = (2 * top + bottom).div_euclid(2 * bottom);
            let got = encoder.decode_share(&[x, -x], 107, scale, fraction, ring(64)).unwrap()[0];
            let off = (got[0].wrapping_sub(floor as u64) as i64).unsigned_abs();
            // A third is not exact, so a half may go either way.
            let tie = (2 * top + bottom) % (2 * bottom) == 0;
            assert!(off <= u64::from(tie), "{x} {fraction}: {got:?}");
            assert!(tie || got[0] == got[1].wrapping_neg(), "{x} {fraction}: {got:?}");
        }
    }
}

#[test]
fn corners_of_sign_and_size() {
    for log_n in [1, 5, 10] {
        let params = tiny(log_n, 3);
        let encoder = Encoder::new(&params);
        let (degree, ring) = (params.degree(), ring(48));
        let (scale, fraction) = (2f64.powi(40), 16);
        let bits = encoder.share_width(scale, fraction).unwrap();
        let decode = |x: &[i128]| encoder.decode_share(x, bits, scale, fraction, ring);
        let limit = 1i128 << bits;
        assert_eq!(bits, 124);
        // The largest of either sign: only the sum of the two remains.
        for value in [0, 1, -1, limit, -limit] {
            let (a, b) = (decode(&vec![value; degree]).unwrap(), decode(&vec![-value; degree]).unwrap());
            assert_eq!(distance(ring, &a, &b, &vec![[0; 2]; params.slots()]), 0, "{value}");
        }
        // A share that is a little wider than its mask is itself; what is far outside is reduced silently.
        let (around, close) = (4 * limit, limit + (limit >> 1));
        let [itself, wrapped] = [close, close - 2 * limit].map(|x| decode(&vec![x; degree]).unwrap());
        // In degree 2 a wrap is a multiple of 2^48.
        assert!(log_n == 1 || itself != wrapped);
        for (value, same) in [(around, 0), (around + 5, 5), (-around - 7, -7), (i128::MAX, -1)] {
            assert_eq!(decode(&vec![value; degree]).unwrap(), decode(&vec![same; degree]).unwrap(), "{value}");
        }
        let e = encoder.decode_share(&vec![0; degree], bits + 1, scale, fraction, ring).unwrap_err();
        assert_eq!(e, CkksError::ShareTooLarge { bits: bits + 1, max: bits, scale, fraction });
        // One slot's value, the others zero, and all: through the encoding and two shares.
        let mut prg = Prg::from_seed([77; 16]);
        for count in [0, 1, params.slots()] {
            let values = slots(&mut prg, count, 33);
            let phase = encoder.encode_share(&values, 34, fraction, scale).unwrap();
            let [mine, theirs] = shares(&mut prg, &phase, 124);
            let mut want: Vec<[u64; 2]> = values.iter().map(|z| z.map(|x| ring.from_signed(x as i64))).collect();
            want.resize(params.slots(), [0; 2]);
            assert!(distance(ring, &decode(&mine).unwrap(), &decode(&theirs).unwrap(), &want) <= 1, "{count}");
        }
    }
}

/// The width that the boundary needs: 124 bits, with fractions up to 20 bits, at the two largest degrees.
#[test]
fn the_widest_shares_keep_twenty_fractional_bits() {
    for (log_n, most) in [(15, 40), (16, 38)] {
        let params = tiny(log_n, 3);
        let (encoder, scale, ring) = (Encoder::new(&params), 2f64.powi(40), ring(64));
        let mut prg = Prg::from_seed([90 + log_n as u8; 16]);
        let phase = integers(&mut prg, params.degree(), 70);
        let [mine, theirs] = shares(&mut prg, &phase, 124);
        for fraction in [16, 20, 30] {
            let decode = |x: &[i128]| encoder.decode_share(x, 124, scale, fraction, ring).unwrap();
            let sum = decode(&phase);
            assert!(distance(ring, &decode(&mine), &decode(&theirs), &sum) <= 1, "{log_n} {fraction}");
            assert!(encoder.decode_error(124, scale, fraction).unwrap() < 2f64.powi(fraction as i32 - 36));
        }
        let widths = [most, most + 1].map(|f| encoder.share_width(scale, f).unwrap());
        assert_eq!(widths, [124, 123], "{log_n}");
    }
}

#[test]
fn encoded_shares_add_up_and_agree_with_the_plain_encoder() {
    for log_n in [1, 3, 8, 15] {
        let params = tiny(log_n, 3);
        let encoder = Encoder::new(&params);
        let mut prg = Prg::from_seed([50 + log_n as u8; 16]);
        let scale = params.modulus(2).value() as f64;
        // Values of 24 bits in parts of many.
        let value = slots(&mut prg, params.slots(), 23);
        let floats: Vec<_> = value.iter().map(|z| num_complex::Complex64::new(z[0] as f64, z[1] as f64)).collect();
        let mut plain = vec![0; params.degree()];
        encoder.encode_slots_to_integers(&floats, scale / 65536.0, &mut plain).unwrap();
        for bits in [24, 62, 90, 100] {
            let encode = |x: &[[i128; 2]]| encoder.encode_share(x, bits, 16, scale).unwrap();
            let theirs = slots(&mut prg, params.slots(), bits);
            let mine: Vec<[i128; 2]> = value.iter().zip(&theirs).map(|(v, t)| [v[0] - t[0], v[1] - t[1]]).collect();
            let (whole, a, b) = (encode(&value), encode(&mine), encode(&theirs));
            let off = whole.iter().zip(a.iter().zip(&b)).map(|(w, (a, b))| (w - a - b).unsigned_abs()).max().unwrap();
            let most = 1.5 + 3.0 * encoder.encode_error(bits, 16, scale).unwrap();
            assert!(most < 2.0 && off as f64 <= most, "degree {} {bits} bits: {off}", params.degree());
            // Coefficients have up to 48 bits, and doubles 53.
            assert!(whole.iter().zip(&plain).all(|(w, &p)| (w - i128::from(p)).abs() <= 1));
            // Values beyond the width are reduced silently.
            let far: Vec<[i128; 2]> = value.iter().map(|z| z.map(|x| x + (4 << bits))).collect();
            assert_eq!(encode(&far), whole);
            assert_eq!(encode(&[[i128::MAX; 2]]), encode(&[[-1; 2]]));
        }
    }
}

#[test]
fn encoding_has_its_limits_too() {
    let most = |log_n: u32, fraction: u32, log_scale: i32| {
        let encoder = Encoder::new(&tiny(log_n, 1));
        let encode = |values: [i128; 2], bits| encoder.encode_share(&[values], bits, fraction, 2f64.powi(log_scale));
        let bits = (0..=125).rev().find(|&bits| encode([0; 2], bits).is_ok()).unwrap();
        // Whatever the values are: the width is refused, not they.
        for values in [[0; 2], [i128::MIN; 2]] {
            let e = encode(values, bits + 1).unwrap_err();
            assert!(matches!(e, CkksError::ShareTooLarge { max, .. } if max == bits), "{e}");
        }
        bits
    };
    // Coefficients of 125 bits; numbers of 124; and precision, if hardly a bit is fractional.
    assert_eq!([most(15, 16, 40), most(15, 16, 52), most(4, 20, 40), most(4, 0, 120)], [101, 89, 105, 5]);
    assert_eq!([most(15, 40, 20), most(15, 0, 0)], [124, 101]);
}

#[test]
fn what_cannot_be_a_share_is_refused_with_the_numbers() {
    let encoder = Encoder::new(&tiny(3, 1));
    let (zeros, ring) = ([0; 8], ring(32));
    for scale in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 0.5, 2f64.powi(121), f64::MAX] {
        let refused = |e: CkksError| matches!(e, CkksError::ShareScale { max_log_scale: 120, max_fraction: 63, .. });
        assert!(refused(encoder.decode_share(&zeros, 20, scale, 16, ring).unwrap_err()), "{scale}");
        assert!(refused(encoder.encode_share(&[[1; 2]], 20, 16, scale).unwrap_err()), "{scale}");
        assert!(refused(encoder.share_width(scale, 16).unwrap_err()), "{scale}");
    }
    let e = encoder.decode_share(&zeros, 20, 2.0, 64, ring).unwrap_err();
    assert!(matches!(e, CkksError::ShareScale { scale: 2.0, fraction: 64, .. }), "{e}");
    for got in [0, 7, 9] {
        let e = encoder.decode_share(&vec![0; got], 20, 2.0, 1, ring).unwrap_err();
        assert_eq!(e, CkksError::Length { what: "coefficients", got, expected: 8 });
    }
    let e = encoder.encode_share(&[[0; 2]; 5], 20, 1, 2.0).unwrap_err();
    assert_eq!(e, CkksError::TooMany { what: "slots", got: 5, max: 4 });
    // The integers' width is a limit of its own.
    assert_eq!(encoder.share_width(2f64.powi(120), 0).unwrap(), 124);
}
