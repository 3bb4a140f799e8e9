//! Secrets are gone from memory when it is freed: an allocator looks at every block of a value as it goes.
#![allow(clippy::unwrap_used)]

// Also in the library under the feature `testing`, for the tests of other crates.
#[path = "../src/watch.rs"]
mod watch;

use fesc_ring::aligned::Aligned;
use fesc_ring::block::Aes;
use fesc_ring::cpu::Path;
use fesc_ring::gemm::{Update, gemm};
use fesc_ring::poly::PolyRing;
use fesc_ring::{Prg, Ring, View, wide};
use std::hint::black_box;
use watch::{Freed, WatchingAllocator};
use zeroize::{Zeroize, Zeroizing};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

/// No byte of a secret is zero, and the same one is everywhere.
const MARK: u64 = 0x5ec2_e75e_c2e7_5ec3;
const MARKS: &[u8] = &bytes_of(MARK);

const fn bytes_of(mark: u64) -> [u8; 16] {
    let mut out = [0; 16];
    let (low, mut i) = (mark.to_le_bytes(), 0);
    while i < 16 {
        out[i] = low[i % 8];
        i += 1;
    }
    out
}

/// The control of all these tests: what is dropped as it is, is noticed.
#[test]
fn a_secret_that_is_not_wiped_is_noticed() {
    let plain = HEAP.watch(|| black_box(vec![MARK; 1000]));
    assert_eq!(plain.release(), [Freed { size: 8000, nonzero: 8000 }]);
    let aligned = HEAP.watch(|| black_box(Aligned::from_slice(&[MARK; 1000])));
    assert_eq!(aligned.release(), [Freed { size: 8000, nonzero: 8000 }]);
    // In a box, with only one byte left.
    let mut boxed = HEAP.watch(|| Box::new([0u8; 64]));
    boxed.get()[63] = 1;
    black_box(boxed.get());
    assert_eq!(boxed.release(), [Freed { size: 64, nonzero: 1 }]);
    // A vector that grew leaves its old block behind.
    let grown = HEAP.freed_with(MARKS, || {
        let mut v = Vec::with_capacity(4);
        v.extend([MARK; 4]);
        black_box(&mut v).extend([MARK; 100]);
        v.zeroize();
    });
    assert_eq!(grown, 1);
    assert_eq!(HEAP.freed_with(MARKS, || drop(black_box(vec![1u64; 100]))), 0);
}

/// What comes and goes on other threads is not this thread's.
#[test]
fn threads_do_not_see_each_other() {
    std::thread::scope(|s| {
        for k in 1..5usize {
            s.spawn(move || {
                for _ in 0..200 {
                    let watched = HEAP.watch(|| black_box(vec![MARK; 10 * k]));
                    std::thread::yield_now();
                    assert_eq!(watched.release(), [Freed { size: 80 * k, nonzero: 80 * k }]);
                }
            });
        }
    });
}

#[test]
fn zeroised_buffers_are_empty_when_freed() {
    let vector = HEAP.watch(|| Zeroizing::new(black_box(vec![MARK; 1000])));
    assert!(vector.release().iter().all(Freed::is_wiped));
    // Lines, and huge pages.
    for len in [1000, 1 << 20] {
        let aligned = HEAP.watch(|| Zeroizing::new(Aligned::from_slice(&vec![MARK; len])));
        assert_eq!(aligned.release(), [Freed { size: 8 * len, nonzero: 0 }]);
    }
}

/// Round keys, on every path of this processor; on the portable one they are in a block of their own. What is
/// left is which path it was, in 16 bytes.
#[test]
fn keys_of_a_cipher_are_wiped() {
    let key = u128::from(MARK) << 64 | u128::from(MARK);
    for path in Path::available() {
        let mut aes = HEAP.watch(|| Box::new(Aes::with_path(key, path)));
        aes.get().encrypt(&mut [1u128]);
        let mut freed = Vec::new();
        assert_eq!(HEAP.freed_with(MARKS, || freed = aes.release()), 0, "{}: the key itself", path.name());
        assert!(freed.iter().any(|b| b.size >= 176), "{}: {freed:?}", path.name());
        assert!(freed.iter().all(|b| b.nonzero <= 16), "{}: {freed:?}", path.name());
    }
}

/// Seed, counter and the words kept ahead. What is left is the path and how many words were used.
#[test]
fn a_generator_is_wiped() {
    let mut prg = HEAP.watch(|| Box::new(Prg::from_seed([0x77; 16])));
    let drawn = prg.get().next_u64() & prg.get().next_u64();
    assert_ne!(drawn, 0);
    let freed = prg.release();
    assert!(freed.iter().map(|b| b.size).sum::<usize>() >= 176 + 512, "{freed:?}");
    assert!(freed.iter().all(|b| b.nonzero <= 16), "{freed:?}");
    // Control: the same generator without its end.
    let mut kept = HEAP.watch(|| Box::new(std::mem::ManuallyDrop::new(Prg::from_seed([0x77; 16]))));
    black_box(kept.get().next_u64());
    assert!(kept.release().iter().any(|b| b.nonzero > 600));
}

#[test]
fn a_prepared_secret_and_its_products_are_wiped() {
    let polys = PolyRing::new(Ring::new(48).unwrap(), 1024, 1).unwrap();
    let small: Vec<i64> = (0..1024).map(|i| i % 3 - 1).collect();
    let prepared = HEAP.watch(|| polys.prepare_small(&small).unwrap());
    assert_eq!(prepared.release(), [Freed { size: 8192, nonzero: 0 }]);
    // The product by 1 is the secret: no freed block has eight of its coefficients in a row.
    let (one, secret) = (
        {
            let mut one = vec![0; 1024];
            one[0] = 1;
            polys.prepare_full(&one).unwrap()
        },
        polys.prepare_small(&[1; 1024]).unwrap(),
    );
    let mut out = vec![0; 1024];
    let ones: &'static [u8] = bytemuck::bytes_of(&[1u64; 8]);
    assert_eq!(HEAP.freed_with(ones, || polys.mul_add(&mut out, &one, &secret).unwrap()), 0);
    assert_eq!(out, [1; 1024]);
    assert_eq!(HEAP.freed_with(ones, || drop(black_box(polys.mul(&one, &secret).unwrap()))), 1, "control: the result");
}

/// Packed copies of operands: small ones are kept for the next product, wiped (a test of the module); large
/// ones are freed.
#[test]
fn copies_of_operands_of_a_matrix_product_are_wiped() {
    let ring = Ring::new(64).unwrap();
    for n in [20, 600] {
        let (a, b, mut out) = (vec![MARK; n * n], vec![MARK; n * n], vec![0; n * n]);
        let (a, b) = (View::new(&a, n, n).unwrap(), View::new(&b, n, n).unwrap());
        assert_eq!(HEAP.freed_with(MARKS, || gemm(ring, a, b, &mut out, Update::Set).unwrap()), 0, "{n}");
        assert_eq!(out[0], MARK.wrapping_mul(MARK).wrapping_mul(n as u64));
    }
}

/// Packed scalars; the rows are public. One thread, since only this one is watched.
#[test]
fn packed_scalars_of_a_wide_sum_are_wiped() {
    const SCALAR: i64 = 0x0003_1234_5678_9abc;
    // As it is packed, made positive, and as it is.
    let positive: &'static [u8] = const { &bytes_of(SCALAR as u64 + (1 << 51)) };
    let plain: &'static [u8] = const { &bytes_of(SCALAR as u64) };
    let run = || {
        let shape = wide::Shape { terms: 50, cols: 64, wide: true, shift: 20 };
        let (scalars, mut out) = (Zeroizing::new(vec![SCALAR; 50 * 8]), Zeroizing::new(vec![0; 64 * 8]));
        wide::combine(shape, &scalars, |_, _, lo, hi| [lo, hi].map(|x| x.fill(1)).into_iter().collect(), &mut out)
            .unwrap();
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for needle in [positive, plain] {
        assert_eq!(pool.install(|| HEAP.freed_with(needle, run)), 0);
    }
}
