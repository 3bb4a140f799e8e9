//! Secrets of CKKS are gone from memory when it is freed (`fesc_ring::watch` says how that is seen).
#![allow(clippy::unwrap_used)]

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::{Encoder, Params, ParamsLiteral, RingMask};
use fesc_ring::Prg;
use fesc_ring::watch::{Freed, WatchingAllocator};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

fn params() -> Params {
    Params::new(&ParamsLiteral { log_n: 13, q_bits: vec![46, 38, 38, 38], p_bits: vec![48], log_scale: 38 }).unwrap()
}

/// Blocks of at least a polynomial's size, or half of it, all of them wiped.
fn wiped(freed: &[Freed], blocks: usize, bytes: usize) {
    let large: Vec<&Freed> = freed.iter().filter(|b| b.size >= 4096).collect();
    assert!(large.len() == blocks && large.iter().map(|b| b.size).sum::<usize>() == bytes, "{freed:?}");
    assert!(freed.iter().all(Freed::is_wiped), "{freed:?}");
}

/// The coefficients, and their transforms modulo all five primes.
#[test]
fn a_secret_key_is_wiped() {
    let (params, mut prg) = (params(), Prg::from_seed([1; 16]));
    let secret = HEAP.watch(|| SecretKey::generate(&params, &mut prg));
    wiped(&secret.release(), 2, (1 + 5) * 8192 * 8);
}

/// As it goes to its owner's file, and as it comes back.
#[test]
fn a_kept_secret_is_wiped_on_both_ways() {
    let (params, mut prg) = (params(), Prg::from_seed([1; 16]));
    let secret = SecretKey::generate(&params, &mut prg);
    let kept = HEAP.watch(|| secret.keep());
    assert!(kept.release().iter().all(Freed::is_wiped));
    let bytes = secret.keep();
    let again = HEAP.watch(|| SecretKey::restore(&params, &bytes).unwrap());
    wiped(&again.release(), 2, (1 + 5) * 8192 * 8);
}

/// Control: a key that nobody wipes, made by the same calls. What is public stays as it is.
#[test]
fn a_public_key_is_not_wiped_and_that_is_noticed() {
    let (params, mut prg) = (params(), Prg::from_seed([2; 16]));
    let secret = SecretKey::generate(&params, &mut prg);
    let public = HEAP.watch(|| KeyGenerator::new(&secret).public_key(&mut prg).unwrap());
    let freed = public.release();
    assert_eq!(freed.iter().filter(|b| b.size == 5 * 8192 * 8 && b.nonzero > b.size / 2).count(), 2, "{freed:?}");
}

/// The mask's polynomial, and its integers, which become the server's share.
#[test]
fn masks_and_shares_are_wiped() {
    let (params, mut prg) = (params(), Prg::from_seed([3; 16]));
    let uniform = HEAP.watch(|| RingMask::uniform(&params, 3, &mut prg).unwrap());
    wiped(&uniform.release(), 1, 4 * 8192 * 8);
    let bounded = HEAP.watch(|| RingMask::bounded(&params, 3, 42, 1 << 13, &mut prg).unwrap());
    wiped(&bounded.release(), 2, (4 + 2) * 8192 * 8);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    let plain = Encoder::new(&params).encode_real(&[1.0], 3, params.scale()).unwrap();
    let c = public.encrypt(&plain, &mut prg).unwrap();
    let zero = public.zero(3, &mut prg).unwrap();
    let share = HEAP.watch(|| {
        let mask = RingMask::bounded(&params, 3, 42, 1 << 13, &mut prg).unwrap();
        c.mask(zero, mask).unwrap().1
    });
    wiped(&share.release(), 1, 2 * 8192 * 8);
}

/// A buffer of four limbs, and no other. The lists of its pool hold places, not secrets.
fn buffer_wiped(freed: &[Freed]) {
    let large: Vec<&Freed> = freed.iter().filter(|b| b.size >= 4096).collect();
    assert!(large.len() == 1 && large[0].size == 4 * 8192 * 8 && large[0].is_wiped(), "{freed:?}");
}

/// A plaintext's buffer goes back to the pool of its set; it is wiped before. A pool that keeps nothing has a
/// slab for each buffer, and frees it at once.
#[test]
fn plaintexts_and_what_is_decrypted_are_wiped() {
    let (params, mut prg) = (params(), Prg::from_seed([4; 16]));
    params.set_pool_limit(0);
    let encoder = Encoder::new(&params);
    let plain = HEAP.watch(|| encoder.encode_real(&[1.0, 2.0, 3.0], 3, params.scale()).unwrap());
    buffer_wiped(&plain.release());
    let secret = SecretKey::generate(&params, &mut prg);
    let plain = encoder.encode_real(&[1.0, 2.0, 3.0], 3, params.scale()).unwrap();
    let owner = KeyGenerator::new(&secret).public_key(&mut prg).unwrap().id();
    let c = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().expand(owner);
    let decrypted = HEAP.watch(|| Decryptor::new(&secret).decrypt(&c).unwrap());
    buffer_wiped(&decrypted.release());
}
