//! The body of the fuzz target `ckks_wire`: a function of bytes that must not panic.
//!
//! The set is the smallest secure one, so nothing here reaches around the checks. What parses must write the same bytes again, and must go
//! through everything that its receiver does with it.

use std::sync::OnceLock;

use fesc_ring::Prg;

use crate::client::{Decryptor, SecretKey};
use crate::server::{EvaluationKeys, PublicKey, SeededKey};
use crate::{Encoder, Masked, Params, ParamsLiteral, RingMask, Upload, wire};

/// The set of the corpus: `N = 4096`, two data primes, one special prime.
pub fn literal() -> ParamsLiteral {
    ParamsLiteral { log_n: 12, q_bits: vec![33, 30], p_bits: vec![34], log_scale: 30 }
}

struct Fixed {
    params: Params,
    secret: SecretKey,
}

fn fixed() -> Option<&'static Fixed> {
    static FIXED: OnceLock<Option<Fixed>> = OnceLock::new();
    let make = || {
        let params = Params::new(&literal()).ok()?;
        let secret = SecretKey::generate(&params, &mut Prg::from_seed([1; 16]));
        Some(Fixed { params, secret })
    };
    FIXED.get_or_init(make).as_ref()
}

/// Bytes as each kind of object: as they are, and continued by zeros to the length of every object of the set, so that short inputs reach past
/// the check of lengths. Returns whether any was accepted.
///
/// # Panics
/// When a reader accepts what its writer would not have written.
pub fn wire(data: &[u8]) -> bool {
    let Some(fixed) = fixed() else { return false };
    let params = &fixed.params;
    let mut lengths = vec![wire::public_key_bytes(params), wire::switching_key_bytes(params)];
    lengths.extend((0..=params.levels()).flat_map(|l| [wire::upload_bytes(params, l), wire::masked_bytes(params, l)]));
    let mut accepted = one(fixed, data);
    for length in lengths.into_iter().filter(|&l| data.len() >= wire::HEADER_BYTES && data.len() < l) {
        let mut padded = data.to_vec();
        padded.resize(length, 0);
        accepted |= one(fixed, &padded);
    }
    accepted
}

fn one(Fixed { params, secret }: &Fixed, data: &[u8]) -> bool {
    let (encoder, decryptor) = (Encoder::new(params), Decryptor::new(secret));
    let mut prg = Prg::from_seed([2; 16]);
    let mut again = Vec::new();
    let mut accepted = false;
    if let Ok(key) = PublicKey::read(params, data) {
        accepted = true;
        assert!(key.write(&mut again).is_ok() && again == data);
        let zero = key.zero(0, &mut prg);
        let mask = RingMask::uniform(params, 0, &mut prg);
        if let (Ok(zero), Ok(mask), Ok(m)) = (zero, mask, encoder.encode_real(&[1.0], 0, params.scale())) {
            let masked = key.encrypt(&m, &mut prg).and_then(|c| c.mask(zero, mask));
            assert!(masked.is_ok());
        }
    }
    if let Ok(key) = SeededKey::read(params, data) {
        accepted = true;
        assert!(key.write(&mut again).is_ok() && again == data);
        assert!(EvaluationKeys::new(params).insert(key).is_ok());
    }
    if let Ok(upload) = Upload::read(params, data) {
        accepted = true;
        assert!(upload.write(&mut again).is_ok() && again == data);
        let plain = decryptor.decrypt(&upload.expand());
        assert!(plain.is_ok_and(|p| encoder.decode(&p).is_ok()));
    }
    if let Ok(masked) = Masked::read(params, data) {
        accepted = true;
        assert!(masked.write(&mut again).is_ok() && again == data);
        let plain = decryptor.decrypt(&masked);
        assert!(plain.is_ok_and(|p| encoder.decode(&p).is_ok() && encoder.decode_coefficients(&p).is_ok()));
    }
    accepted
}
