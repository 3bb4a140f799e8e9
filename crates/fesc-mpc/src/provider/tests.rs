//! Providers against the ideal functionality; single use, also across a crash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use fesc_net::Channel;
use fesc_ring::Prg;

use super::*;
use crate::correlation::{Bundle, DaBits};
use crate::testing::{check_provider, ring, sample_requests};
use crate::{MpcError, Request, Role};

/// Starts a dealer thread and returns the parties' channels to it.
fn dealer() -> (Channel, Channel, std::thread::JoinHandle<Result<u64, MpcError>>) {
    let (p0, d0) = Channel::memory_pair();
    let (p1, d1) = Channel::memory_pair();
    let handle = std::thread::spawn(move || serve_dealer(d0, d1, &mut Prg::from_seed([5; 16])));
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
fn a_queue_gives_what_was_prepared_once_and_in_order() {
    let (mut channel, _peer) = Channel::memory_pair();
    let requests = sample_requests();
    let mut queue = Queue::prepare(&mut Seeded::new(Role::P0, 3), &mut channel, &requests[..2]).unwrap();
    assert_eq!(queue.left(), 2);
    queue.take(&mut channel, &requests[0]).unwrap();
    assert!(matches!(queue.take(&mut channel, &requests[0]), Err(MpcError::WrongCorrelation { index: 1, .. })));
    assert!(matches!(queue.take(&mut channel, &requests[1]), Err(MpcError::Exhausted { .. })));
}

const SESSION: SessionId = [9; 32];

/// Two stores with `requests` in them.
fn filled(dir: &Path, requests: &[Request]) {
    let (mut channel, _peer) = Channel::memory_pair();
    for role in [Role::P0, Role::P1] {
        let mut store = Store::create(&dir.join(format!("{}", role.index())), SESSION, role).unwrap();
        let mut source = Seeded::new(role, 8);
        for r in requests {
            store.append(r, &source.take(&mut channel, r).unwrap()).unwrap();
        }
        store.sync().unwrap();
    }
}

fn open(dir: &Path, role: Role) -> Store {
    Store::open(&dir.join(format!("{}", role.index())), SESSION, role).unwrap()
}

#[test]
fn stored_halves_fit_together() {
    let dir = tempfile::tempdir().unwrap();
    let requests = sample_requests();
    filled(dir.path(), &requests);
    check_provider(&requests, |role, channel| Box::new(Prepared::start(open(dir.path(), role), channel).unwrap()));
    assert_eq!(open(dir.path(), Role::P0).left(), 0);
}

#[test]
fn a_used_correlation_is_gone_also_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let request = Request::Bundle(Bundle::squares(ring(48), 4));
    filled(dir.path(), &vec![request.clone(); 4]);
    // P0 takes two and dies without any farewell; P1 took one.
    for (role, used) in [(Role::P0, 2), (Role::P1, 1)] {
        let mut store = open(dir.path(), role);
        for _ in 0..used {
            store.take(&request).unwrap();
        }
    }
    // Reopened, the stores agree on the later position: P1 burns one, nothing is used twice.
    let (mut c0, mut c1) = Channel::memory_pair();
    let (left0, left1) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| Prepared::start(open(dir.path(), Role::P1), &mut c1).unwrap().left());
        (Prepared::start(open(dir.path(), Role::P0), &mut c0).unwrap().left(), peer.join().unwrap())
    });
    assert_eq!((left0, left1), (2, 2));
}

#[test]
fn stores_refuse_strangers_damage_and_a_second_user() {
    let dir = tempfile::tempdir().unwrap();
    let request = Request::DaBits(DaBits { ring: ring(48), words: 1 });
    filled(dir.path(), &vec![request.clone(); 2]);
    let p0 = dir.path().join("0");
    assert!(Store::create(&p0, SESSION, Role::P0).is_err(), "exists");
    assert!(matches!(Store::open(&p0, [1; 32], Role::P0), Err(MpcError::Store { .. })), "other session");
    assert!(matches!(Store::open(&p0, SESSION, Role::P1), Err(MpcError::Store { .. })), "other party");
    let first = open(dir.path(), Role::P0);
    assert!(matches!(Store::open(&p0, SESSION, Role::P0), Err(MpcError::Store { .. })), "in use");
    drop(first);

    let victim = p0.join("00000000.half");
    let mut bytes = std::fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    let mut store = open(dir.path(), Role::P0);
    assert!(matches!(store.take(&request), Err(MpcError::Store { .. })), "damaged");
    let other = Request::DaBits(DaBits { ring: ring(47), words: 1 });
    assert!(matches!(store.take(&other), Err(MpcError::WrongCorrelation { index: 1, .. })));
    assert!(matches!(store.take(&request), Err(MpcError::Exhausted { .. })), "a refused one is burnt");
}

#[cfg(unix)]
#[test]
fn stored_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), &[Request::DaBits(DaBits { ring: ring(48), words: 1 })]);
    let mode = std::fs::metadata(dir.path().join("0/00000000.half")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
