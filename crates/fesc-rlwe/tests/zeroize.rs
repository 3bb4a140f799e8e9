//! Secrets of the RLWE protocols are gone from memory when it is freed (`fesc_ring::watch` says how that is
//! seen).
#![allow(clippy::unwrap_used)]

use fesc_ring::Prg;
use fesc_ring::sample::ternary;
use fesc_ring::watch::{Freed, WatchingAllocator};
use fesc_rlwe::embedding::Owner;
use fesc_rlwe::linear::{Block, Domain, Prepared, Server, Shape};
use fesc_rlwe::slots::SlotParams;
use fesc_rlwe::{Params, Secrets, Seed, coefficients, slots};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

/// The first coefficients of the ternary secret that a generator with this seed gives next.
fn next_secret(prg: &mut Prg, degree: usize) -> &'static [u8] {
    let mut secret = vec![0i64; degree];
    ternary(prg, &mut secret);
    let bytes: Vec<u8> = secret[..64].iter().flat_map(|x| x.to_le_bytes()).collect();
    secret.fill(0);
    bytes.leak()
}

fn wiped(freed: &[Freed], size: usize) -> usize {
    freed.iter().filter(|b| b.size == size && b.is_wiped()).count()
}

fn secrets(seed: u8) -> Secrets {
    Secrets::random(&mut Prg::from_seed([seed; 16]))
}

/// Weights, taps and masks of a matrix; and the client's pads of a block.
#[test]
fn secrets_of_a_linear_layer_are_wiped() {
    let (params, shape) = (Params::linear().unwrap(), Shape::new(6, 5, 4).unwrap());
    let domain = Domain { seed: Seed([1; 32]), layer: 0, matrix: 0 };
    let (weights, taps) = (vec![3i64; 30], vec![-2i64; 20]);
    let publish = || Server::publish(params, shape, domain, &weights, &taps, &secrets(1)).unwrap();
    let server = HEAP.watch(|| publish().0);
    let freed = server.release();
    assert!([30 * 8, 20 * 8, 5 * params.degree()].iter().all(|&size| wiped(&freed, size) == 1), "{freed:?}");
    assert!(freed.iter().all(Freed::is_wiped), "{freed:?}");
    // Control: the hint is public.
    let hint = HEAP.watch(|| publish().1);
    assert!(hint.release().iter().any(|b| b.nonzero > b.size / 2));

    let hint = publish().1;
    let block = Block::cut(&params, &shape, 100).unwrap().remove(0);
    let secret = next_secret(&mut Prg::from_seed([2; 16]), params.degree());
    let prepare = || Prepared::new(&hint, block, &mut Prg::from_seed([2; 16])).unwrap();
    let freed = HEAP.watch(prepare).release();
    assert!(wiped(&freed, 8 * params.degree()) == 1 && freed.iter().all(Freed::is_wiped), "{freed:?}");
    assert_eq!(HEAP.freed_with(secret, || drop(prepare())), 0);
}

/// The key of an embedding's table. The tables of its transform are public and stay.
#[test]
fn the_key_of_an_embedding_is_wiped() {
    let params = Params::linear().unwrap();
    let make = || Owner::new(params, 16, 3, Seed([1; 32]), &secrets(3)).unwrap().0;
    let freed = HEAP.watch(make).release();
    assert_eq!(wiped(&freed, 8 * params.degree()), 1, "{freed:?}");
}

/// The session keys of both engines of products.
#[test]
fn session_keys_of_products_are_wiped() {
    let params = SlotParams::standard().unwrap();
    let n = params.slots();
    let slots = || slots::KeyHolder::new(params.clone(), &mut Prg::from_seed([4; 16])).0;
    let freed = HEAP.watch(slots).release();
    assert!(freed.iter().any(|b| b.size >= 8 * n && b.is_wiped()), "{freed:?}");
    assert!(freed.iter().filter(|b| b.size >= 1024).all(Freed::is_wiped), "{freed:?}");
    let secret = next_secret(&mut Prg::from_seed([4; 16]), n);
    assert_eq!(HEAP.freed_with(secret, || drop(slots())), 0);

    let scalars = || coefficients::KeyHolder::new(&mut Prg::from_seed([5; 16])).unwrap().0;
    let freed = HEAP.watch(scalars).release();
    // Transformed twice: for the uploads and for the answers.
    assert_eq!(wiped(&freed, 8 * 4096), 2, "{freed:?}");
    let secret = next_secret(&mut Prg::from_seed([5; 16]), 4096);
    assert_eq!(HEAP.freed_with(secret, || drop(scalars())), 0);
    // Control: the search finds what is not wiped.
    let mut copy = vec![0i64; 4096];
    ternary(&mut Prg::from_seed([5; 16]), &mut copy);
    assert_eq!(HEAP.freed_with(secret, || drop(std::hint::black_box(copy))), 1);
}
