//! What an inference converts is counted, and what travels tells nothing but the plan.

use fesc_ckks::client::SecretEncryptor;
use fesc_ckks::{CkksError, Encoder, RingMask, wire};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::attacks::{received_with, shape};
use super::back::{ENCODING, values};
use super::{keys, ring};
use crate::HybridError;
use crate::boundary::{Fixed, Layout, MaskBound, ToCiphertexts, ToShares, log_together};

#[test]
fn an_inference_that_counts_less_than_one_of_its_conversions_is_refused() {
    let keys = keys();
    let down = |ciphertexts, masked| {
        let (bound, fixed) = (MaskBound { phase_bits: 36, masked }, Fixed { ring: ring(48), fraction: 16 });
        ToShares::new(&keys.params, ciphertexts, keys.params.scale(), bound, fixed).map(|s| s.masked())
    };
    assert_eq!(down(3, 3 << 13).unwrap(), 3 << 13);
    // Slots are half as many as coefficients, and all coefficients are masked.
    let e = down(3, 3 << 12).unwrap_err();
    assert!(matches!(e, HybridError::Undercounted { own: 24_576, inference: 12_288, .. }), "{e}");
    let up = |count, inference| {
        let layout = Layout::compact(&keys.params, count).unwrap();
        ToCiphertexts::new(&keys.params, layout, values(16, inference), ENCODING).map(|_| ())
    };
    up(64, 64).unwrap();
    let e = up(65, 64).unwrap_err();
    assert!(matches!(e, HybridError::Undercounted { own: 65, inference: 64, .. }), "{e}");
}

/// An inference that makes a conversion more often than was counted is farther from hiding than each of its
/// conversions says; the sum over them shows it.
#[test]
fn the_sum_over_conversions_takes_no_word_for_their_number() {
    let keys = keys();
    let (bound, fixed) = (MaskBound { phase_bits: 36, masked: 1 << 16 }, Fixed { ring: ring(48), fraction: 16 });
    let down = ToShares::new(&keys.params, 4, keys.params.scale(), bound, fixed).unwrap().report().unwrap();
    // Half of the coefficients of the inference: half of its distance.
    assert_eq!((down.log_distance, down.log_own), (-41.0, -42.0));
    assert_eq!((log_together([(&down, 2)]), log_together([(&down, 64)])), (-41.0, -36.0));
    let layout = Layout::compact(&keys.params, 1 << 10).unwrap();
    let up = ToCiphertexts::new(&keys.params, layout, values(16, 1 << 12), ENCODING).unwrap().report().unwrap();
    assert_eq!((up.log_failures, up.log_own), (-41.0, -43.0));
    assert_eq!(log_together([(&down, 2), (&up, 4)]), -40.0);
    assert_eq!(log_together([(&up, u64::MAX)]), 0.0);
}

/// A phase bound that covers no value of 1, or not even the fresh zero, is refused before there is data.
#[test]
fn bounds_that_cannot_be_ones_are_refused_with_the_shape() {
    let keys = keys();
    let refused = |phase_bits| {
        let (bound, fixed) = (MaskBound { phase_bits, masked: 1 << 13 }, Fixed { ring: ring(48), fraction: 8 });
        ToShares::new(&keys.params, 1, keys.params.scale(), bound, fixed).map(|_| ()).unwrap_err()
    };
    assert!(matches!(refused(29), HybridError::Ckks(CkksError::MaskBelowScale { phase_bits: 29, .. })));
    assert!(matches!(refused(3), HybridError::Ckks(CkksError::MaskNarrow { phase_bits: 3, .. })));
}

/// A ciphertext's scale is the result of its circuit's roundings. What travels has the plan's, to the bit; a
/// scale that roundings do not explain is refused.
#[test]
fn headers_have_the_scale_of_the_plan_whatever_was_computed() {
    let keys = keys();
    let (params, shape, encoder) = (&keys.params, shape(&keys, 40), Encoder::new(&keys.params));
    let encrypted = |factor: f64| {
        let plain = encoder.encode(&[Complex64::new(0.5, 0.25)], 3, params.scale() * factor).unwrap();
        let upload = SecretEncryptor::new(&keys.secret).encrypt(&plain, &mut Prg::from_seed([3; 16])).unwrap();
        upload.expand(keys.public.id())
    };
    let near = 1.0 + 2f64.powi(-44);
    let zeros = |level: usize, prg: &mut Prg| keys.public.zero(level, prg);
    let headers = [1.0, near].map(|factor| {
        let bytes = received_with(&zeros, &keys, &shape, &encrypted(factor), 6);
        bytes[..wire::HEADER_BYTES].to_vec()
    });
    assert_eq!(headers[0], headers[1], "one plan, one header");
    // Control: a ciphertext that is masked as it is shows its own scale.
    let naive = [1.0, near].map(|factor| {
        let mut prg = Prg::from_seed([6; 16]);
        let mask = RingMask::bounded(params, 3, 40, 1 << 13, &mut prg).unwrap();
        let (masked, _) = encrypted(factor).mask(keys.public.zero(3, &mut prg).unwrap(), mask).unwrap();
        let mut bytes = Vec::new();
        masked.write(&mut bytes).unwrap();
        bytes[..wire::HEADER_BYTES].to_vec()
    });
    assert_ne!(naive[0], naive[1]);
    let far = encrypted(1.0 + 2f64.powi(-38));
    assert!(matches!(
        keys.evaluator.drop_to(&far, shape.level(), params.scale()).err(),
        Some(CkksError::ScaleMismatch { .. })
    ));
}
