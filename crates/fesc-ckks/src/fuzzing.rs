//! The body of the fuzz target `ckks_wire`: a function of bytes that must not panic.
//!
//! The set is the smallest secure one, so nothing here reaches around the checks. What parses must write the
//! same bytes again, and must go through everything that its receiver does with it.

use std::sync::OnceLock;

use fesc_ring::Prg;

use crate::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use crate::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, KeyPurpose, PublicKey, SeededKey};
use crate::{Ciphertext, Encoder, Masked, Params, ParamsLiteral, RingMask, Upload, wire};

/// The set of the corpus: `N = 4096`, three data primes, two special primes, two digits.
pub fn literal() -> ParamsLiteral {
    ParamsLiteral { log_n: 12, q_bits: vec![22, 20, 20], p_bits: vec![22, 21], log_scale: 20 }
}

struct Fixed {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    ciphertext: Ciphertext,
}

/// The keys that a server of the corpus waits for.
fn plan() -> EvaluationKeyPlan {
    EvaluationKeyPlan { rotations: vec![1], conjugation: true, relinearisation: true }
}

fn fixed() -> Option<&'static Fixed> {
    static FIXED: OnceLock<Option<Fixed>> = OnceLock::new();
    let make = || {
        let params = Params::new(&literal()).ok()?;
        let mut prg = Prg::from_seed([1; 16]);
        let secret = SecretKey::generate(&params, &mut prg);
        let generator = KeyGenerator::new(&secret);
        let public = generator.public_key(&mut prg).ok()?;
        let mut keys = EvaluationKeys::new(&params, &plan(), public.id());
        for key in generator.keys(&plan(), &mut prg) {
            keys.insert(key.ok()?).ok()?;
        }
        let evaluator = Evaluator::new(&params, keys).ok()?;
        let one = Encoder::new(&params).encode_real(&[1.0], params.levels(), params.scale()).ok()?;
        let ciphertext = SecretEncryptor::new(&secret).encrypt(&one, &mut prg).ok()?.expand(public.id());
        Some(Fixed { params, secret, public, evaluator, ciphertext })
    };
    FIXED.get_or_init(make).as_ref()
}

/// Bytes as each kind of object: as they are, and continued by zeros to the length of every object of the
/// set, so that short inputs reach past the check of lengths. Returns whether any was accepted.
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

fn one(fixed: &Fixed, data: &[u8]) -> bool {
    let Fixed { params, secret, .. } = fixed;
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
        let mut keys = EvaluationKeys::new(params, &plan(), fixed.public.id());
        let purpose = key.purpose();
        let streamed = keys.receive(&mut &data[..]);
        // What is in the plan is taken and computed with.
        match keys.insert(key) {
            Ok(()) => assert!(streamed == Ok(purpose) && computes(fixed, keys, purpose)),
            Err(_) => assert!(streamed.is_err()),
        }
    }
    if let Ok(upload) = Upload::read(params, data) {
        accepted = true;
        assert!(upload.write(&mut again).is_ok() && again == data);
        let c = upload.expand(fixed.public.id());
        serves(fixed, &c, &mut prg);
        let plain = decryptor.decrypt(&c);
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

/// Whether a key switch with these keys runs.
fn computes(fixed: &Fixed, keys: EvaluationKeys, purpose: KeyPurpose) -> bool {
    let Ok(evaluator) = Evaluator::new(&fixed.params, keys) else { return false };
    let c = &fixed.ciphertext;
    match purpose {
        KeyPurpose::Relinearisation => evaluator.multiply(c, c).is_ok() && evaluator.multiply_rescale(c, c).is_ok(),
        KeyPurpose::Galois(_) => evaluator.rotate(c, 1).is_ok() || evaluator.conjugate(c).is_ok(),
    }
}

/// What a server does with a ciphertext that it got. A product may be refused for its scale, nothing may
/// panic, and the mask must go on.
fn serves(fixed: &Fixed, c: &Ciphertext, prg: &mut Prg) {
    let e = &fixed.evaluator;
    assert!(e.rotate(c, 1).is_ok() && e.conjugate(c).is_ok() && e.add(c, c).is_ok());
    let _ = e.multiply(c, c).and_then(|c| e.rescale(&c));
    let _ = e.multiply_rescale(c, c);
    let (zero, mask) = (fixed.public.zero(c.level(), prg), RingMask::uniform(&fixed.params, c.level(), prg));
    let masked = zero.and_then(|zero| c.clone().mask(zero, mask?));
    assert!(masked.is_ok());
}
