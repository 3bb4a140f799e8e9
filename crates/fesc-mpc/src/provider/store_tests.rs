//! The store on disk: single use, also across a crash; strangers, damage and hostile files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;

use fesc_net::Channel;

use super::*;
use crate::correlation::{Bundle, DaBits};
use crate::provider::Seeded;
use crate::testing::{check_provider, ring, sample_requests};

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
    assert!(matches!(Store::open(&p0, SESSION, Role::P0), Err(MpcError::StoreInUse { .. })), "in use");
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

fn dabits(words: usize) -> Request {
    Request::DaBits(DaBits { ring: ring(48), words })
}

#[test]
fn a_used_up_store_keeps_its_position() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), &vec![dabits(1); 3]);
    for (role, used) in [(Role::P0, 3), (Role::P1, 2)] {
        let mut store = open(dir.path(), role);
        (0..used).for_each(|_| drop(store.take(&dabits(1)).unwrap()));
    }
    let (mut c0, mut c1) = Channel::memory_pair();
    let left = std::thread::scope(|scope| {
        let peer = scope.spawn(|| Prepared::start(open(dir.path(), Role::P1), &mut c1).unwrap().left());
        (Prepared::start(open(dir.path(), Role::P0), &mut c0).unwrap().left(), peer.join().unwrap())
    });
    assert_eq!(left, (0, 0));
    // What is made later gets numbers of its own.
    let mut store = open(dir.path(), Role::P0);
    let (mut channel, _peer) = Channel::memory_pair();
    store.append(&dabits(1), &Seeded::new(Role::P0, 3).take(&mut channel, &dabits(1)).unwrap()).unwrap();
    assert!(dir.path().join("0/00000003.half").exists());
}

#[test]
fn files_that_were_never_synced_or_have_odd_names_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), &[dabits(300)]);
    let p0 = dir.path().join("0");
    // A crash after the file was made, before its bytes.
    std::fs::write(p0.join("00000001.half"), b"").unwrap();
    assert_eq!(open(dir.path(), Role::P0).left(), 1);
    // A half made for a larger request is named and burnt.
    let mut store = open(dir.path(), Role::P0);
    assert!(matches!(store.take(&dabits(1)), Err(MpcError::WrongCorrelation { index: 0, .. })));
    assert_eq!(store.left(), 0);
    drop(store);
    std::fs::write(p0.join("+5.half"), b"x").unwrap();
    assert!(matches!(Store::open(&p0, SESSION, Role::P0), Err(MpcError::Store { .. })));
    std::fs::remove_file(p0.join("+5.half")).unwrap();
    std::fs::write(p0.join("18446744073709551615.half"), b"x").unwrap();
    assert_eq!(open(dir.path(), Role::P0).left(), 0);
}

#[test]
fn a_peer_that_prepared_something_else_is_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), &[dabits(1)]);
    for (session, end) in [([1; 32], 1u64), (SESSION, 2)] {
        let (mut ours, mut theirs) = Channel::memory_pair();
        let hello = [&session[..], &0u64.to_le_bytes(), &end.to_le_bytes()].concat();
        theirs.send(SYNC, hello).unwrap();
        let started = Prepared::start(open(dir.path(), Role::P0), &mut ours);
        assert!(matches!(started, Err(MpcError::PeerStore { .. })), "{end}");
        assert_eq!(open(dir.path(), Role::P0).left(), 1, "nothing is burnt for it");
    }
}
