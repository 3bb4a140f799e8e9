//! Secrets of oblivious transfer are gone from memory when it is freed (`fesc_ring::watch` says how that is
//! seen).
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use fesc_net::Channel;
use fesc_ot::{CotKind, OtReceiver, OtSender};
use fesc_ring::Prg;
use fesc_ring::watch::{Freed, WatchingAllocator};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

/// Transfers, so that some are left over.
const COUNT: usize = 1000;

/// Both parties, each on a thread of its own; each says what is left of it.
fn parties<A: Send>(
    kind: CotKind,
    sender: impl FnOnce(&mut Channel, &dyn Fn(&mut Channel) -> Box<OtSender>) -> A + Send,
) -> (A, Vec<Freed>) {
    let (mut left, mut right) = Channel::memory_pair();
    std::thread::scope(|s| {
        let receiver = s.spawn(move || {
            let made = HEAP.watch(|| {
                let mut receiver = OtReceiver::setup(&mut right, kind, &mut Prg::from_seed([2; 16])).unwrap();
                receiver.random(&mut right, COUNT).unwrap();
                Box::new(receiver)
            });
            made.release()
        });
        let make = |channel: &mut Channel| {
            let mut sender = OtSender::setup(channel, kind, &mut Prg::from_seed([1; 16])).unwrap();
            sender.random(channel, COUNT).unwrap();
            Box::new(sender)
        };
        (sender(&mut left, &make), receiver.join().unwrap())
    })
}

/// The global secret, which the generator gives first.
fn delta() -> &'static [u8] {
    let delta = Prg::from_seed([1; 16]).next_u128() | 1;
    Box::leak(Box::new(delta.to_le_bytes()))
}

/// From set-up to the end no block of the sender's is freed with the global secret in it.
#[test]
fn the_global_secret_is_wiped() {
    for kind in [CotKind::Iknp, CotKind::Silent] {
        let (delta, mut told) = (delta(), 0);
        let (found, _) = parties(kind, |channel, make| {
            HEAP.freed_with(delta, || {
                let sender = make(channel);
                told = sender.delta();
            })
        });
        assert_eq!((found, &told.to_le_bytes()[..]), (0, delta), "{kind:?}");
        // Control.
        assert_eq!(HEAP.freed_with(delta, || drop(black_box(vec![told; 3]))), 1);
    }
}

/// Transfers that are made and not used, the choices among them, and the generators of the columns: of each
/// generator a place and a count are left, less than a twentieth.
#[test]
fn unused_transfers_and_choices_are_wiped() {
    let (sender, receiver) = parties(CotKind::Iknp, |channel, make| HEAP.watch(|| make(channel)).release());
    for (freed, who) in [(sender, "sender"), (receiver, "receiver")] {
        let stock = freed.iter().filter(|b| b.size >= 16 * COUNT && b.nonzero == 0).count();
        assert!(stock >= 1, "{who}: {freed:?}");
        let columns = freed.iter().filter(|b| b.size > 128 * 600).count();
        assert!(columns >= 1, "{who}: {freed:?}");
        let large = |b: &&Freed| b.size >= 1024;
        assert!(freed.iter().filter(large).all(|b| b.nonzero * 20 < b.size), "{who}: {freed:?}");
    }
}
