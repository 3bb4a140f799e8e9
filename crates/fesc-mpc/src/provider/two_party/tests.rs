//! Every kind of correlation from two parties, against the ideal functionality; declared bytes equal counted ones.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::correlation::{Bundle, DaBits, Leaves, Select};
use crate::testing::{check_provider, ring, sample_requests};

fn make(role: Role, channel: &mut Channel, kind: CotKind) -> TwoParty {
    TwoParty::setup(role, channel, kind, Prg::from_seed([role.index() as u8 + 90; 16])).unwrap()
}

#[test]
fn all_kinds_fit_together() {
    let mut requests = sample_requests();
    // Degenerate shapes and several chunks.
    requests.extend([
        Request::Bundle(Bundle::squares(ring(1), 3)),
        Request::Bundle(Bundle::squares(ring(48), 0)),
        Request::Bundle(Bundle::matmul(ring(20), 1, 2, 0, 3)),
        Request::Bundle(Bundle::matmul(ring(20), 1, 2, 3, 0)),
        Request::Bundle(Bundle::squares(ring(8), 5000)),
        Request::Select(Select { ring: ring(1), count: 5, thresholds: 1, degree: 1 }),
        Request::Select(Select { ring: ring(48), count: 9000, thresholds: 3, degree: 1 }),
        Request::Select(Select { ring: ring(48), count: 130, thresholds: 2, degree: 2 }),
        Request::DaBits(DaBits { ring: ring(1), words: 1 }),
        Request::DaBits(DaBits { ring: ring(64), words: 300 }),
        Request::Leaves(Leaves { sender: Role::P0, count: 20_000, planes: 128 }),
    ]);
    check_provider(&requests, |role, channel| Box::new(make(role, channel, CotKind::Iknp)));
}

#[test]
fn declared_bytes_are_the_counted_ones() {
    let requests = sample_requests();
    let (mut c0, mut c1) = Channel::memory_pair();
    let run = |role: Role, channel: &mut Channel| {
        let mut source = make(role, channel, CotKind::Silent);
        requests
            .iter()
            .map(|r| {
                let before = channel.stats().total;
                let declared = source.declared(r);
                source.take(channel, r).unwrap();
                let used = channel.stats().total.since(before);
                let counted = match role {
                    Role::P0 => (used.sent_bytes, used.received_bytes),
                    Role::P1 => (used.received_bytes, used.sent_bytes),
                };
                assert_eq!(declared, counted, "{r} at {role:?}");
            })
            .count()
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, &mut c1));
        assert_eq!(run(Role::P0, &mut c0), requests.len());
        peer.join().unwrap();
    });
}
