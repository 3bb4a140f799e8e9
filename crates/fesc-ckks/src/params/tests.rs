#![allow(clippy::unwrap_used)]

use super::*;

fn literal(log_n: u32, q: &[u32], p: &[u32], log_scale: u32) -> ParamsLiteral {
    ParamsLiteral { log_n, q_bits: q.to_vec(), p_bits: p.to_vec(), log_scale }
}

fn refused(l: &ParamsLiteral) -> CkksError {
    Params::new(l).map(|p| format!("{p:?} was accepted")).unwrap_err()
}

#[test]
fn degrees_outside_the_range_are_refused() {
    for log_n in [0, 11, 17, u32::MAX] {
        let e = refused(&literal(log_n, &[30], &[31], 20));
        assert_eq!(e, CkksError::Degree { log_n, min: 12, max: 16 });
    }
}

#[test]
fn sizes_of_primes_outside_the_range_are_refused() {
    for bits in [0, 19, 51, u32::MAX] {
        let e = refused(&literal(13, &[40, bits], &[45], 20));
        assert_eq!(e, CkksError::PrimeBits { role: "data", index: 1, bits, min: 20, max: 50 });
        let e = refused(&literal(13, &[40], &[bits], 20));
        assert_eq!(e, CkksError::PrimeBits { role: "special", index: 0, bits, min: 20, max: 50 });
    }
}

#[test]
fn empty_and_overlong_chains_are_refused() {
    for (q, p, role, count) in [(0, 1, "data", 0), (1, 0, "special", 0), (57, 1, "data", 57), (1, 57, "special", 57)] {
        let e = refused(&literal(16, &vec![40; q], &vec![45; p], 20));
        assert_eq!(e, CkksError::PrimeCount { role, count, max: MAX_PRIMES });
    }
}

#[test]
fn a_modulus_over_the_limit_is_refused_with_special_primes_counted() {
    for log_n in MIN_LOG_N..=MAX_LOG_N {
        let limit = security::limit(log_n).unwrap();
        // One special prime of 50 bits, the rest in data primes of equal sizes.
        let with_sum = |sum: u32| {
            let (rest, count) = (sum - 50, (sum - 50).div_ceil(50));
            let q: Vec<u32> = (0..count).map(|i| rest / count + u32::from(i < rest % count)).collect();
            assert_eq!(q.iter().sum::<u32>() + 50, sum);
            literal(log_n, &q, &[50], 20)
        };
        let params = Params::new(&with_sum(limit - 1)).unwrap();
        assert!((params.log_qp() - f64::from(limit - 1)).abs() < 0.1);
        assert!(params.security() > 129.0 && params.security() < 133.0, "{}", params.security());
        let e = refused(&with_sum(limit + 1));
        let over = f64::from(limit + 1);
        assert!(
            matches!(e, CkksError::Weak { log_n: n, log_qp, limit: l, bits } if (n, l) == (log_n, limit) && (log_qp - over).abs() < 0.1 && bits < 130.0),
            "{e}"
        );
    }
}

#[test]
fn a_special_modulus_below_a_digit_is_refused() {
    let e = refused(&literal(13, &[40, 40], &[39], 30));
    assert!(matches!(e, CkksError::SpecialTooSmall { digit: 0, log_p, .. } if log_p < 39.01), "{e}");
    // Two special primes make digits of two: 35 + 45 bits in the second digit against 76.
    let e = refused(&literal(14, &[35, 35, 35, 45], &[38, 38], 30));
    assert!(
        matches!(e, CkksError::SpecialTooSmall { digit: 1, log_digit, .. } if (log_digit - 80.0).abs() < 0.1),
        "{e}"
    );
    assert!(Params::new(&literal(14, &[35, 35, 35, 40], &[38, 38], 30)).is_ok());
}

#[test]
fn a_default_scale_outside_the_modulus_is_refused() {
    for log_scale in [0, 70, 71, u32::MAX] {
        let e = refused(&literal(13, &[40, 30], &[41], log_scale));
        assert!(matches!(e, CkksError::DefaultScale { log_scale: l, .. } if l == log_scale), "{e}");
    }
    assert!(Params::new(&literal(13, &[40, 30], &[41], 69)).is_ok());
}

#[test]
fn what_is_accepted_is_what_was_asked_for() {
    let params = Params::new(&literal(13, &[40, 34, 34], &[42, 42], 34)).unwrap();
    assert_eq!((params.degree(), params.slots(), params.levels(), params.specials()), (8192, 4096, 2, 2));
    assert_eq!((params.primes(), params.first_special()), (5, 3));
    assert_eq!(params.scale(), 2f64.powi(34));
    let primes: Vec<u64> = (0..5).map(|i| params.modulus(i).value()).collect();
    for (i, (&p, bits)) in primes.iter().zip([40, 34, 34, 42, 42]).enumerate() {
        assert!(p % 16384 == 1 && ((p as f64).log2() - f64::from(bits)).abs() < 0.01, "{i}: {p}");
    }
    let mut distinct = primes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 5);
    // Digits of two primes.
    assert_eq!([0, 1, 2].map(|l| params.digits(l)), [1, 1, 2]);
    assert_eq!((params.digit(0, 2), params.digit(1, 2), params.digit(0, 0)), (0..2, 2..3, 0..1));
    assert!((params.log_qp() - 192.0).abs() < 0.01 && (params.log_p() - 84.0).abs() < 0.01);
    assert!((params.log_q(1).unwrap() - 74.0).abs() < 0.01);
    assert_eq!(params.log_q(3), Err(CkksError::Level { level: 3, max: 2 }));
    // Two halves of two digits; a prime just above a power of two has a bit more.
    let bits: usize = primes.iter().map(|p| p.ilog2() as usize + 1).sum();
    assert_eq!(params.key_memory(), 2 * 2 * bits * 8192 / 8);
}

#[test]
fn digests_tell_sets_apart_and_are_stable() {
    let base = literal(12, &[36, 32], &[37], 32);
    let params = Params::new(&base).unwrap();
    let same = Params::new(&base).unwrap();
    assert!(params == same && params == params.clone());
    let others = [
        literal(13, &[36, 32], &[37], 32),
        literal(12, &[36, 31], &[37], 32),
        literal(12, &[36, 32], &[36], 32),
        literal(12, &[36, 32], &[37], 31),
    ];
    for other in &others {
        let other = Params::new(other).unwrap();
        assert!(params != other);
        assert!(matches!(params.check_same(&other), Err(CkksError::ParamsMismatch { .. })));
    }
    // Known answer: a change of the hash, of the primes or of the roots breaks the wire.
    assert_eq!(params.short_digest(), "f5d420314b2a");
}

#[test]
fn scales_are_checked_against_their_level() {
    let params = Params::new(&literal(12, &[36, 32], &[37], 32)).unwrap();
    for scale in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.5, 2f64.powi(36), 2f64.powi(300)] {
        assert!(matches!(params.check_scale(0, scale), Err(CkksError::Scale { level: 0, .. })), "{scale}");
    }
    assert!(params.check_scale(0, 2f64.powi(35)).is_ok() && params.check_scale(1, 2f64.powi(60)).is_ok());
    assert!(matches!(params.check_scale(2, 2.0), Err(CkksError::Level { level: 2, max: 1 })));
}

#[test]
fn the_literal_is_serialised_by_name_and_refuses_what_it_does_not_know() {
    use serde::de::value::{Error, MapDeserializer};
    let known = [("log_n", 12u32), ("log_scale", 30)];
    // Missing lists, and a field that does not exist.
    let missing = ParamsLiteral::deserialize(MapDeserializer::<_, Error>::new(known.into_iter()));
    assert!(missing.unwrap_err().to_string().contains("q_bits"));
    let unknown = ParamsLiteral::deserialize(MapDeserializer::<_, Error>::new([("insecure", 1u32)].into_iter()));
    assert!(unknown.unwrap_err().to_string().contains("insecure"));
}

#[test]
fn memory_of_ciphertexts_is_counted() {
    let params = crate::testing::tiny(4, 2);
    assert_eq!((params.bytes_in_use(), params.peak_bytes()), (0, 0));
    let plain = crate::Encoder::new(&params).encode(&[], 2, params.scale()).unwrap();
    let bytes = 3 * 16 * 8;
    assert_eq!(params.bytes_in_use(), bytes);
    drop(plain.clone());
    assert_eq!((params.bytes_in_use(), params.peak_bytes()), (bytes, 2 * bytes));
    params.reset_peak();
    assert_eq!(params.peak_bytes(), bytes);
    params.set_pool_limit(0);
    drop(plain);
    assert_eq!((params.bytes_in_use(), params.pool().idle_words()), (0, 0));
}
