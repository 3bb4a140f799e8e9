//! One value's way from a client to a server and back, over the wire, with the public interface and secure
//! sets only.
#![allow(clippy::unwrap_used, clippy::panic)]

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::mask::mask_width;
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, KeyPurpose, PublicKey, SeededKey};
use fesc_ckks::{Ciphertext, CkksError, Encoder, Masked, Params, ParamsLiteral, RingMask, Share, Upload, wire};
use fesc_ring::{Prg, Ring};
use num_complex::Complex64;

fn params() -> Params {
    // 160 + 48 bits of 214 at N = 8192.
    Params::new(&ParamsLiteral { log_n: 13, q_bits: vec![46, 38, 38, 38], p_bits: vec![48], log_scale: 38 }).unwrap()
}

fn bytes(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

#[test]
fn up_masked_and_back() {
    let params = params();
    let encoder = Encoder::new(&params);
    let mut client_prg = Prg::from_seed([1; 16]);
    let mut server_prg = Prg::from_seed([2; 16]);
    let values: Vec<Complex64> =
        (0..params.slots()).map(|i| Complex64::from_polar(1.0, i as f64) * (i % 7) as f64).collect();

    // The client: keys and one upload.
    let secret = SecretKey::generate(&params, &mut client_prg);
    let public = bytes(|o| KeyGenerator::new(&secret).public_key(&mut client_prg).unwrap().write(o));
    let plain = encoder.encode(&values, 3, params.scale()).unwrap();
    let upload = bytes(|o| SecretEncryptor::new(&secret).encrypt(&plain, &mut client_prg).unwrap().write(o));
    assert_eq!((public.len(), upload.len()), (wire::public_key_bytes(&params), wire::upload_bytes(&params, 3)));

    // The server: everything from bytes. It masks what it got.
    let public = PublicKey::read(&params, &public).unwrap();
    let c: Ciphertext = Upload::read(&params, &upload).unwrap().expand(public.id());
    let zero = public.zero(c.level(), &mut server_prg).unwrap();
    // Slots below 7 at scale 2^38, and the noise of the fresh zero, which is small beside: a phase below
    // 2^42.
    let mask = RingMask::bounded(&params, c.level(), 42, 1 << 13, &mut server_prg).unwrap();
    let (masked, share) = c.mask(zero, mask).unwrap();
    let masked = bytes(|o| masked.write(o));
    assert_eq!(masked.len(), wire::masked_bytes(&params, 3));

    // The client decrypts its share. Each decodes its own alone, to fixed point modulo 2^48; the two add up
    // in that ring.
    let masked = Masked::read(&params, &masked).unwrap();
    let mine = Decryptor::new(&secret).decrypt_share(&masked).unwrap();
    let Share::Integers { values: theirs, scale } = &share else { panic!("a bounded mask gives integers") };
    let (ring, fraction) = (Ring::new(48).unwrap(), 30);
    let [a, b] =
        [&mine, theirs].map(|x| encoder.decode_share(x, mask_width(42, 1 << 13), *scale, fraction, ring).unwrap());
    let part = |a: u64, b: u64| ring.to_signed(ring.add(a, b)) as f64 / 2f64.powi(fraction as i32);
    let got = a.iter().zip(&b).map(|(a, b)| Complex64::new(part(a[0], b[0]), part(a[1], b[1])));
    let error = got.zip(&values).map(|(g, v)| (g - v).norm()).fold(0.0, f64::max);
    // Deviation in a slot: sqrt(N (3.2^2 + (1 + 2N/3) / 12)) / 2^38 = 2^-27; the largest of 4096 is within 5
    // of them.
    assert!(error < 2f64.powf(-24.6), "2^{}", error.log2());
    // Without the zero: 3.2^2 alone, 2^-29.8, and the largest about 2^-28.
    assert!(error > 2f64.powf(-27.0), "the noise of the fresh zero is missing: 2^{}", error.log2());
}

#[test]
fn keys_are_streamed_one_at_a_time() {
    let params = params();
    let mut prg = Prg::from_seed([3; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let plan = EvaluationKeyPlan { rotations: vec![1, 2, -1], conjugation: true, relinearisation: true };
    let generator = KeyGenerator::new(&secret);
    let owner = generator.public_key(&mut prg).unwrap().id();
    let mut keys = EvaluationKeys::new(&params, &plan, owner);
    let mut sent = 0;
    for key in generator.keys(&plan, &mut prg) {
        let message = bytes(|o| key.unwrap().write(o));
        assert_eq!(message.len(), wire::switching_key_bytes(&params));
        sent += message.len();
        // From a stream, limb by limb, or whole: the same key.
        assert!(keys.receive(&mut &message[..]).is_ok());
        keys.insert(SeededKey::read(&params, &message).unwrap()).unwrap();
    }
    assert_eq!(sent, plan.bytes(&params));
    assert!(keys.purposes().eq(plan.purposes(&params)));
    // One that is not in the plan is refused, and from a stream before its body.
    let key = generator.key(KeyPurpose::Galois(25 * 5), &mut prg).unwrap();
    let message = bytes(|o| key.write(o));
    assert!(matches!(keys.receive(&mut &message[..wire::HEADER_BYTES]), Err(CkksError::UnplannedKey { .. })));
    assert!(matches!(keys.insert(key), Err(CkksError::UnplannedKey { .. })));
    // The generator is free again, and so is the randomness.
    assert!(generator.public_key(&mut prg).unwrap().params() == &params);
}

#[test]
fn a_key_of_another_set_is_refused() {
    let params = params();
    let other = Params::new(&ParamsLiteral { log_n: 12, q_bits: vec![36], p_bits: vec![37], log_scale: 30 }).unwrap();
    let mut prg = Prg::from_seed([4; 16]);
    let secret = SecretKey::generate(&other, &mut prg);
    let key = KeyGenerator::new(&secret).relinearisation_key(&mut prg).unwrap();
    let owner = KeyGenerator::new(&secret).public_key(&mut prg).unwrap().id();
    let message = bytes(|o| key.write(o));
    assert!(matches!(SeededKey::read(&params, &message), Err(CkksError::Wire { .. })));
    assert!(matches!(
        EvaluationKeys::new(&params, &EvaluationKeyPlan::default(), owner).insert(key),
        Err(CkksError::ParamsMismatch { .. })
    ));
}
