//! Providers against the ideal functionality; single use, also across a crash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_net::{Channel, Tag};
use fesc_ring::Prg;

use super::*;
use crate::correlation::DaBits;
use crate::testing::{check_provider, ring, sample_requests};
use crate::{MpcError, Request, Role};

/// Starts a dealer thread and returns the parties' channels to it.
fn dealer() -> (Channel, Channel, std::thread::JoinHandle<Result<u64, MpcError>>) {
    let (p0, d0) = Channel::memory_pair();
    let (p1, d1) = Channel::memory_pair();
    let handle = std::thread::spawn(move || serve_dealer(d0, d1, &mut Prg::from_seed([5; 16]), &Budget::unlimited()));
    (p0, p1, handle)
}

#[test]
fn seeded_halves_fit_together() {
    check_provider(&sample_requests(), |role, _| Box::new(Seeded::new(role, 1)));
}

#[test]
fn dealt_halves_fit_together_and_bytes_are_declared() {
    let requests = sample_requests();
    let (p0, p1, handle) = dealer();
    let run = |role: Role, link: Channel| {
        let (mut unused, _) = Channel::memory_pair();
        let mut source = Dealer::new(role, link);
        for r in &requests {
            let before = source.channel().stats().total;
            source.take(&mut unused, r).unwrap();
            let used = source.channel().stats().total.since(before);
            assert_eq!((used.sent_bytes, used.received_bytes), dealer_cost(r, role), "{r}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(Role::P1, p1));
        run(Role::P0, p0);
    });
    assert_eq!(handle.join().unwrap().unwrap(), requests.len() as u64);

    let (p0, p1, handle) = dealer();
    let links = std::sync::Mutex::new([Some(p0), Some(p1)]);
    check_provider(&requests, |role, _| {
        Box::new(Dealer::new(role, links.lock().unwrap()[role.index()].take().unwrap()))
    });
    drop(links);
    assert_eq!(handle.join().unwrap().unwrap(), requests.len() as u64);
}

#[test]
fn the_dealer_refuses_parties_that_disagree() {
    let (p0, p1, handle) = dealer();
    let ask = |role, link, words| {
        let (mut unused, _) = Channel::memory_pair();
        Dealer::new(role, link).take(&mut unused, &Request::DaBits(DaBits { ring: ring(48), words })).is_err()
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| ask(Role::P1, p1, 2));
        assert!(ask(Role::P0, p0, 1));
        assert!(peer.join().unwrap());
    });
    assert!(matches!(handle.join().unwrap(), Err(MpcError::DealerDisagreement { .. })));
}

#[test]
fn a_stranger_cannot_make_the_dealer_allocate_gigabytes() {
    let (mut p0, d0) = Channel::memory_pair();
    let (mut p1, d1) = Channel::memory_pair();
    // Few bytes packed, and 16 GiB in the two halves: validated, and refused before the first of them.
    let request = Request::DaBits(DaBits { ring: ring(2), words: 1 << 24 });
    request.validate().unwrap();
    let ask = request.encode();
    for link in [&mut p0, &mut p1] {
        link.send(Tag(0x0401), (ask.len() as u32).to_le_bytes().to_vec()).unwrap();
        link.send(Tag(0x0402), ask.clone()).unwrap();
    }
    let dealt = serve_dealer(d0, d1, &mut Prg::from_seed([5; 16]), &Budget::new(1 << 30, 4 << 30));
    let Err(MpcError::DealerFull { bytes, limit }) = dealt else { panic!("dealt") };
    assert!(bytes > 8 << 30 && limit == 1 << 30, "{bytes} {limit}");
}

#[test]
fn a_queue_gives_what_was_prepared_once_and_in_order() {
    let (mut channel, _peer) = Channel::memory_pair();
    let requests = sample_requests();
    let mut queue = Queue::prepare(&mut Seeded::new(Role::P0, 3), &mut channel, &requests[..2]).unwrap();
    assert_eq!(queue.left(), 2);
    queue.take(&mut channel, &requests[0]).unwrap();
    assert!(matches!(queue.take(&mut channel, &requests[0]), Err(MpcError::WrongCorrelation { index: 1, .. })));
    assert!(matches!(queue.take(&mut channel, &requests[1]), Err(MpcError::Exhausted { .. })));
}
