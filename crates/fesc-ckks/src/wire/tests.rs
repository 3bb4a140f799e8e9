#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use crate::server::EvaluationKeyPlan;
use crate::testing::tiny;
use crate::{Encoder, RingMask};
use fesc_ring::{Prg, Ring};
use sha2::{Digest, Sha256};

struct Bench {
    params: Params,
    secret: SecretKey,
    objects: Vec<(ObjectKind, Vec<u8>)>,
}

fn bench() -> Bench {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([42; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let public = generator.public_key(&mut prg).unwrap();
    let plain = Encoder::new(&params).encode_coefficients(&[5i64 << 30, -7 << 30], 1, 2f64.powi(30)).unwrap();
    let upload = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap();
    let zero = public.zero(1, &mut prg).unwrap();
    let mask = RingMask::bounded(&params, 1, 33, 16, &mut prg).unwrap();
    let (masked, _) = public.encrypt(&plain, &mut prg).unwrap().mask(zero, mask).unwrap();
    let key = generator.key(KeyPurpose::Galois(5), &mut prg).unwrap();
    let relinearisation = generator.relinearisation_key(&mut prg).unwrap();
    let bytes = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        out
    };
    let objects = vec![
        (ObjectKind::PublicKey, bytes(&|o| public.write(o))),
        (ObjectKind::SwitchingKey, bytes(&|o| key.write(o))),
        (ObjectKind::SwitchingKey, bytes(&|o| relinearisation.write(o))),
        (ObjectKind::Upload, bytes(&|o| upload.write(o))),
        (ObjectKind::Masked, bytes(&|o| masked.write(o))),
    ];
    Bench { params, secret, objects }
}

/// Reads an object of a kind and writes it again.
fn again(params: &Params, kind: ObjectKind, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match kind {
        ObjectKind::PublicKey => PublicKey::read(params, bytes)?.write(&mut out),
        ObjectKind::SwitchingKey => SeededKey::read(params, bytes)?.write(&mut out),
        ObjectKind::Upload => Upload::read(params, bytes)?.write(&mut out),
        ObjectKind::Masked => Masked::read(params, bytes)?.write(&mut out),
    }
    .unwrap();
    Ok(out)
}

fn refusal(params: &Params, kind: ObjectKind, bytes: &[u8]) -> WireError {
    match again(params, kind, bytes) {
        Err(CkksError::Wire { what, cause }) if what == kind.name() => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn objects_come_back_as_they_were() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        assert_eq!(again(&b.params, *kind, bytes).unwrap(), *bytes);
        let size = match kind {
            ObjectKind::PublicKey => public_key_bytes(&b.params),
            ObjectKind::SwitchingKey => switching_key_bytes(&b.params),
            ObjectKind::Upload => upload_bytes(&b.params, 1),
            ObjectKind::Masked => masked_bytes(&b.params, 1),
        };
        assert_eq!(bytes.len(), size);
    }
    assert_eq!((upload_bytes(&b.params, 3), masked_bytes(&b.params, 3)), (0, 0));
    let upload = Upload::read(&b.params, &b.objects[3].1).unwrap();
    assert_eq!((upload.level(), upload.scale()), (1, 2f64.powi(30)));
    let got = Decryptor::new(&b.secret).decrypt_integers(&upload.expand(KeyId::RECEIVED)).unwrap();
    assert!((got[0] - (5 << 30)).abs() < 50 && (got[1] + (7 << 30)).abs() < 50 && got[2].abs() < 50);
    let key = SeededKey::read(&b.params, &b.objects[1].1).unwrap();
    assert_eq!(key.purpose(), KeyPurpose::Galois(5));
    let key = SeededKey::read(&b.params, &b.objects[2].1).unwrap();
    assert_eq!(key.purpose(), KeyPurpose::Relinearisation);
}

/// A key from a stream is the key from bytes; a stream that ends is an error wherever it ends.
#[test]
fn a_streamed_key_is_the_same_and_a_short_stream_is_an_error() {
    let b = bench();
    let plan = EvaluationKeyPlan { rotations: vec![1], conjugation: false, relinearisation: true };
    for (_, bytes) in b.objects.iter().filter(|(kind, _)| *kind == ObjectKind::SwitchingKey) {
        let read = SeededKey::read(&b.params, bytes).unwrap();
        let purpose = read.purpose();
        let mut keys = EvaluationKeys::new(&b.params, &plan, KeyId::RECEIVED);
        assert_eq!(keys.receive(&mut &bytes[..]), Ok(purpose));
        let words = |key: &SwitchingKey| -> Vec<u64> {
            key.unpacked().iter().flatten().flat_map(|poly| poly.words().to_vec()).collect()
        };
        assert!(words(keys.get(purpose).unwrap()) == words(&read.expand()));
        for end in [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, bytes.len() / 2, bytes.len() - 1] {
            let mut keys = EvaluationKeys::new(&b.params, &plan, KeyId::RECEIVED);
            let cause = WireError::Stream { kind: std::io::ErrorKind::UnexpectedEof };
            assert_eq!(
                keys.receive(&mut &bytes[..end]),
                Err(CkksError::Wire { what: "switching key", cause }),
                "{end}"
            );
            assert_eq!(keys.purposes().count(), 0);
        }
        let mut wrong = bytes.clone();
        let end = wrong.len();
        wrong[end - 8..].fill(0xff);
        let e = keys.receive(&mut &wrong[..]).unwrap_err();
        assert!(matches!(e, CkksError::Wire { cause: WireError::Residue { limb: 9, .. }, .. }), "{e}");
    }
}

#[test]
fn known_answer() {
    // Keys, errors and masks from fixed seeds: a change of sampler, stream, primes, order or format shows
    // here.
    let hashes: Vec<String> = bench()
        .objects
        .iter()
        .map(|(_, bytes)| Sha256::digest(bytes).iter().take(4).map(|b| format!("{b:02x}")).collect())
        .collect();
    assert_eq!(hashes, ["4917d698", "8184ac23", "d8cfb481", "a1f7c296", "7ea5e901"]);
}

/// The object with some bytes replaced.
fn with(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[at..at + new.len()].copy_from_slice(new);
    out
}

#[test]
fn a_wrong_magic_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        assert_eq!(refusal(&b.params, *kind, &with(bytes, 3, b"T")), WireError::Magic);
    }
}

#[test]
fn another_version_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        let e = refusal(&b.params, *kind, &with(bytes, 4, &[2, 0]));
        assert_eq!(e, WireError::Version { expected: 1, got: 2 });
    }
}

#[test]
fn another_kind_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        for other in [ObjectKind::PublicKey, ObjectKind::SwitchingKey, ObjectKind::Upload, ObjectKind::Masked] {
            if other != *kind {
                let e = refusal(&b.params, other, bytes);
                assert_eq!(e, WireError::Kind { expected: other as u8, got: *kind as u8 });
            }
        }
    }
}

#[test]
fn a_set_reserved_byte_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        assert_eq!(refusal(&b.params, *kind, &with(bytes, 7, &[1])), WireError::NotZero { field: "reserved" });
    }
}

#[test]
fn another_parameter_set_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        assert!(matches!(refusal(&b.params, *kind, &with(bytes, 39, &[!bytes[39]])), WireError::Digest { .. }));
        assert!(matches!(refusal(&tiny(4, 3), *kind, bytes), WireError::Digest { .. }));
    }
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        for level in [3u32, 4, u32::MAX] {
            let e = refusal(&b.params, *kind, &with(bytes, 40, &level.to_le_bytes()));
            assert!(matches!(e, WireError::Level { max: 2, got, .. } if got == level), "{e}");
        }
        // Keys have the highest level only; a ciphertext of another level has another length.
        let e = refusal(&b.params, *kind, &with(bytes, 40, &0u32.to_le_bytes()));
        match kind {
            ObjectKind::PublicKey | ObjectKind::SwitchingKey => {
                assert_eq!(e, WireError::Level { min: 2, max: 2, got: 0 })
            }
            _ => assert!(matches!(e, WireError::Length { .. }), "{e}"),
        }
    }
}

#[test]
fn a_galois_element_that_is_none_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        for element in [1u32, 2, 32, 33, u32::MAX] {
            let e = refusal(&b.params, *kind, &with(bytes, 44, &element.to_le_bytes()));
            match kind {
                ObjectKind::SwitchingKey => assert_eq!(e, WireError::Galois { element, max: 31 }),
                _ => assert_eq!(e, WireError::NotZero { field: "galois element" }),
            }
        }
    }
}

#[test]
fn an_impossible_scale_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        for scale in [f64::NAN, f64::INFINITY, -1.0, 0.5, 2f64.powi(91), f64::MIN_POSITIVE] {
            let e = refusal(&b.params, *kind, &with(bytes, 48, &scale.to_bits().to_le_bytes()));
            match kind {
                ObjectKind::PublicKey | ObjectKind::SwitchingKey => {
                    assert_eq!(e, WireError::NotZero { field: "scale" })
                }
                _ => assert!(matches!(e, WireError::Scale { .. }), "{e}"),
            }
        }
    }
}

#[test]
fn a_seed_of_a_masked_ciphertext_is_refused() {
    let b = bench();
    assert_eq!(
        refusal(&b.params, ObjectKind::Masked, &with(&b.objects[4].1, 71, &[1])),
        WireError::NotZero { field: "seed" }
    );
}

#[test]
fn a_residue_that_is_not_reduced_is_refused_in_every_limb() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        let (polys, limbs) = match kind {
            ObjectKind::PublicKey => (1, 5),
            ObjectKind::SwitchingKey => (2, 5),
            ObjectKind::Upload => (1, 2),
            ObjectKind::Masked => (2, 2),
        };
        let mut at = HEADER_BYTES;
        for limb in 0..polys * limbs {
            let (i, size) = (limb % limbs, b.params.limb_bytes(limb % limbs));
            // All ones is above every prime of that many bits; so is the prime itself as the first residue.
            let e = refusal(&b.params, *kind, &with(bytes, at + size - 8, &[0xff; 8]));
            assert_eq!(e, WireError::Residue { limb, prime: b.params.modulus(i).value() });
            let ring = b.params.packing(i);
            let mut residues = ring.unpack(&bytes[at..at + size], 16).unwrap();
            residues[0] = b.params.modulus(i).value();
            let e = refusal(&b.params, *kind, &with(bytes, at, &ring.pack(&residues)));
            assert_eq!(e, WireError::Residue { limb, prime: b.params.modulus(i).value() });
            residues[0] -= 1;
            assert!(again(&b.params, *kind, &with(bytes, at, &ring.pack(&residues))).is_ok());
            at += size;
        }
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn every_other_length_is_refused() {
    let b = bench();
    for (kind, bytes) in &b.objects {
        for len in 0..bytes.len() {
            assert!(matches!(refusal(&b.params, *kind, &bytes[..len]), WireError::Length { got, .. } if got == len));
        }
        let mut longer = bytes.clone();
        longer.push(0);
        let e = refusal(&b.params, *kind, &longer);
        assert_eq!(e, WireError::Length { expected: bytes.len(), got: bytes.len() + 1 });
    }
}

#[test]
fn garbage_is_refused_and_what_is_accepted_is_what_was_sent() {
    let b = bench();
    let mut prg = Prg::from_seed([9; 16]);
    for (kind, bytes) in &b.objects {
        for round in 0..2000 {
            let mut spoilt = bytes.clone();
            for _ in 0..=round % 3 {
                let word = prg.next_u64();
                let at = if word & 1 == 0 { word as usize >> 8 } else { word as usize >> 8 & 127 } % spoilt.len();
                spoilt[at] ^= 1 << (word >> 1 & 7);
            }
            if let Ok(same) = again(&b.params, *kind, &spoilt) {
                assert_eq!(same, spoilt);
            }
        }
        let mut noise = vec![0; bytes.len()];
        prg.fill_bytes(&mut noise);
        assert_eq!(refusal(&b.params, *kind, &noise), WireError::Magic);
    }
}

/// A message of all objects, taken apart.
#[test]
fn recorded_objects_are_taken_apart() {
    let b = bench();
    let message: Vec<u8> = b.objects.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let sets = [tiny(4, 3), b.params.clone()];
    let found = inspect::objects(&sets, &message).unwrap();
    assert_eq!(found.len(), b.objects.len());
    for (object, (kind, bytes)) in found.iter().zip(&b.objects) {
        assert_eq!((&object.header[..], &object.seed[..]), (&bytes[..56], &bytes[56..72]), "{}", kind.name());
    }
    // Uploads and what is masked are at level 1: 16 residues of two primes, two bytes each.
    assert_eq!((found[3].residues.len(), found[4].residues.len()), (64, 128));
    let packed = &b.objects[3].1[72..][..b.params.limb_bytes(0)];
    let first = Ring::of_residues(b.params.modulus(0)).unpack(packed, 16).unwrap();
    let want = first.iter().flat_map(|&x| {
        let place = (x as f64 / b.params.modulus(0).value() as f64 * 256.0) as u8;
        [place, x as u8]
    });
    assert!(want.eq(found[3].residues[..32].iter().copied()));
    for wrong in [&message[..message.len() - 1], &message[1..], &message[..71]] {
        assert!(matches!(inspect::objects(&sets, wrong), Err(CkksError::Wire { .. })));
    }
    assert!(inspect::objects(&[tiny(4, 3)], &message).is_err(), "of a set that nobody knows");
}
