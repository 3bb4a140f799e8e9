//! Shares and correlations are gone from memory when it is freed (`fesc_ring::watch` says how that is seen).
#![allow(clippy::unwrap_used)]

use fesc_mpc::correlation::{BitTriples, DaBits, Request};
use fesc_mpc::provider::{Correlations, TwoParty};
use fesc_mpc::{Role, Shared, SharedBits};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::watch::{Freed, WatchingAllocator};
use fesc_ring::{Prg, Ring};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

#[test]
fn shares_are_wiped() {
    let (ring, mut prg) = (Ring::new(48).unwrap(), Prg::from_seed([1; 16]));
    let both = HEAP.watch(|| Shared::split(ring, &[5; 1000], &mut prg));
    assert_eq!(both.release(), [Freed { size: 8000, nonzero: 0 }; 2]);
    let sum = HEAP.watch(|| Shared::new(ring, vec![7; 1000]).scale(3).add_public(Role::P0, 1));
    assert_eq!(sum.release(), [Freed { size: 8000, nonzero: 0 }]);
    let bits = HEAP.watch(|| SharedBits::split(&[true; 6400], &mut prg));
    assert_eq!(bits.release(), [Freed { size: 800, nonzero: 0 }; 2]);
    // Control: what `join` gives is the secret itself, and the caller's.
    let (a, b) = Shared::split(ring, &[5; 1000], &mut prg);
    let open = HEAP.watch(|| a.join(&b).unwrap());
    assert!(open.release().iter().any(|f| f.size == 8000 && f.nonzero == 1000));
}

/// Halves of correlations, as the real provider makes them. The list of fields is what is left: addresses and
/// lengths.
#[test]
fn correlations_are_wiped() {
    let (mut left, mut right) = Channel::memory_pair();
    let run = |role: Role, channel: &mut Channel| {
        let prg = Prg::from_seed([role as u8 + 1; 16]);
        let mut provider = TwoParty::setup(role, channel, CotKind::Iknp, prg).unwrap();
        let ring = Ring::new(48).unwrap();
        let requests =
            [Request::BitTriples(BitTriples { words: 100, width: 2 }), Request::DaBits(DaBits { ring, words: 10 })];
        for request in requests {
            let half = HEAP.watch(|| provider.take(channel, &request).unwrap());
            let freed = half.release();
            assert!(freed.iter().filter(|b| b.size >= 80 && b.is_wiped()).count() >= 2, "{request:?}: {freed:?}");
            assert!(freed.iter().filter(|b| b.size > 256).all(Freed::is_wiped), "{request:?}: {freed:?}");
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| run(Role::P1, &mut right));
        run(Role::P0, &mut left);
    });
}
