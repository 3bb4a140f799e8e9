//! Whether bytes look uniform.
//!
//! Two statistics: chi-square over the 256 values of a byte, and the balance of each of its eight bits, which
//! says something of short messages too. They find a mask that is missing or too narrow. They do not find one
//! that is used twice, so payloads are also compared with each other.

use std::sync::OnceLock;

use fesc_ckks::wire::inspect::{Object, objects};
use fesc_ckks::{Params, sets};
use fesc_infer::audit::Cover;

/// Deviations that are too many: chance is 1e-9 for a balance, 1e-7 for the tail of chi-square with 255
/// degrees of freedom.
pub const LIMIT: f64 = 6.0;
/// Below these bytes a chi-square, and a balance, say nothing.
const CHI: usize = 2560;
const BALANCE: usize = 32;

/// The worst deviation of the two statistics.
pub fn excess(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1);
    let mut worst = 0.0f64;
    if bytes.len() >= BALANCE {
        for bit in 0..8 {
            let ones: u32 = counts.iter().enumerate().filter(|(b, _)| b >> bit & 1 == 1).map(|(_, &c)| c).sum();
            let total = bytes.len() as f64;
            worst = worst.max((f64::from(ones) - total / 2.0).abs() / (total / 4.0).sqrt());
        }
    }
    if bytes.len() >= CHI {
        let mean = bytes.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
        worst = worst.max((chi - 255.0).abs() / 510f64.sqrt());
    }
    worst
}

/// Ciphertexts or keys of a payload, of the sets that the sessions here use.
pub fn encrypted(payload: &[u8]) -> Vec<Object> {
    static SETS: OnceLock<Vec<Params>> = OnceLock::new();
    let sets = SETS.get_or_init(|| [sets::PROJECT, sets::SCAN_D10].iter().map(|set| set.params().unwrap()).collect());
    objects(sets, payload).unwrap()
}

/// The bytes of the payloads of one kind that must be uniform.
pub fn covered(cover: Cover, payloads: &[&[u8]]) -> Vec<u8> {
    match cover {
        // The last byte may have bits that no element uses.
        Cover::Uniform => payloads.iter().flat_map(|p| &p[..p.len().saturating_sub(1)]).copied().collect(),
        // The first and the last bit of an encoded point are zero. The nonce comes last.
        Cover::Points => payloads.iter().flat_map(|p| p.chunks(32)).flat_map(|p| &p[1..p.len() - 1]).copied().collect(),
        Cover::Ciphertexts => payloads.iter().flat_map(|p| encrypted(p)).flat_map(|object| object.residues).collect(),
        Cover::CardThenUniform => {
            let all = payloads.concat();
            let card = u64::from_le_bytes(all[8..16].try_into().unwrap()) as usize;
            all[16 + card..].to_vec()
        }
        Cover::Public | Cover::Dealt | Cover::Answer | Cover::GivenAway | Cover::TestData => Vec::new(),
    }
}

/// An upload as it is, and with a message in place of its encryption, which is what an upload without noise
/// and without a key would be.
#[test]
fn uploads_without_noise_or_key_are_noticed() {
    use fesc_ckks::client::{KeyGenerator, SecretEncryptor, SecretKey};
    use fesc_ckks::{Encoder, wire};
    use fesc_ring::{Prg, Ring};

    let (params, mut prg) = (sets::PROJECT.params().unwrap(), Prg::from_seed([1; 16]));
    let secret = SecretKey::generate(&params, &mut prg);
    let plain = Encoder::new(&params).encode_coefficients(&[1i64 << 40], 3, params.scale()).unwrap();
    let mut upload = Vec::new();
    SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().write(&mut upload).unwrap();
    // The same number of the first prime, transformed: it is the same everywhere.
    let mut bare = upload.clone();
    let limb = Ring::of_residues(params.modulus(0)).pack(&vec![1 << 40; params.degree()]);
    bare[wire::HEADER_BYTES..][..limb.len()].copy_from_slice(&limb);
    let of = |payload: &[u8]| excess(&covered(Cover::Ciphertexts, &[payload]));
    assert!(of(&upload) < LIMIT && of(&bare) > 10.0 * LIMIT, "{} and {}", of(&upload), of(&bare));
    // Keys too, whose primes are on both sides of a power of two: their bytes as they are would not do.
    let mut key = Vec::new();
    KeyGenerator::new(&secret).public_key(&mut prg).unwrap().write(&mut key).unwrap();
    let (taken_apart, as_they_are) = (of(&key), excess(&covered(Cover::Uniform, &[&key])));
    assert!(taken_apart < LIMIT && as_they_are > 2.0 * LIMIT, "{taken_apart} and {as_they_are}");
}
