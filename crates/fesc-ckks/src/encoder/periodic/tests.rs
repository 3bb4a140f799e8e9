#![allow(clippy::unwrap_used)]

use fesc_ring::Prg;
use num_complex::Complex64;

use crate::testing::tiny;
use crate::{CkksError, Encoder};

#[test]
fn a_periodic_plaintext_is_the_encoding_of_its_repeated_slots() {
    for (log_n, level) in [(1, 0), (2, 1), (5, 2), (8, 3), (12, 1)] {
        let params = tiny(log_n, 3);
        let (encoder, slots) = (Encoder::new(&params), params.slots());
        let mut prg = Prg::from_seed([log_n as u8; 16]);
        let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
        let mut period = 1;
        while period <= slots {
            let values: Vec<_> = (0..period).map(|_| Complex64::new(next(), next())).collect();
            let repeated: Vec<_> = (0..slots).map(|j| values[j % period]).collect();
            // A scale whose coefficients do not fit 64 bits too, where the level holds it.
            let wide = if level >= 2 { Some(2f64.powi(70)) } else { None };
            for scale in [2f64.powi(30), params.scale()].into_iter().chain(wide) {
                let periodic = encoder.encode_periodic(&values, level, scale).unwrap();
                assert_eq!((periodic.period(), periodic.words.len()), (period, 2 * period * (level + 1)));
                let mut whole = encoder.encode(&repeated, level, scale).unwrap();
                let want = whole.coefficients().unwrap();
                let run = slots / period;
                whole.poly.for_each_limb(|i, limb| {
                    limb.chunks_exact_mut(run).zip(periodic.limb(i)).for_each(|(run, &w)| run.fill(w));
                });
                let got = whole.coefficients().unwrap();
                // Doubles have 53 bits; the numbers are rounded after transforms of different lengths.
                let most = 1.max((scale / 2f64.powi(46)) as i128);
                assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= most), "{log_n} {period} {scale}");
                let power = slots / period;
                assert!(got.iter().enumerate().all(|(k, &g)| k % power == 0 || g == 0), "a polynomial in X^(N/2p)");
            }
            period *= 2;
        }
    }
}

#[test]
fn periods_that_do_not_divide_the_slots_are_refused() {
    let encoder = Encoder::new(&tiny(4, 1));
    for period in [0, 3, 6, 16] {
        let e = encoder.encode_periodic(&vec![Complex64::I; period], 1, 2.0).err();
        assert_eq!(e, Some(CkksError::Period { period, slots: 8 }));
    }
    let nothing = [Complex64::new(f64::NAN, 0.0)];
    assert_eq!(encoder.encode_periodic(&nothing, 1, 2.0).err(), Some(CkksError::NotFinite { index: 0 }));
    assert!(matches!(encoder.encode_periodic(&[Complex64::I], 2, 2.0), Err(CkksError::Level { level: 2, max: 1 })));
    let e = encoder.encode_periodic(&[Complex64::I], 0, 2f64.powi(49)).err();
    assert!(matches!(e, Some(CkksError::TooLarge { level: 0, .. })), "{e:?}");
}
