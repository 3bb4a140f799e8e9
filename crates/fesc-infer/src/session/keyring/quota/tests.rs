#![allow(clippy::unwrap_used, clippy::panic)]
use super::super::shelf::tests::{put, young};
use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn keyring(state: &Path, bytes: u64, client_bytes: u64) -> Keyring {
    Keyring::open(state, KeyLimits { bytes, client_bytes, age: 30 * DAY }).unwrap()
}

fn keep(ring: &Keyring, n: u8, client: &str, bytes: u64) {
    let note = Note { client: Some(client.into()), bytes, ..young(&ring.shelf) };
    put(&ring.shelf, Hex32([n; 32]), &note);
}

#[test]
fn room_is_reserved_before_bytes_come_for_each_client_and_for_all() {
    let state = tempfile::tempdir().unwrap();
    let ring = keyring(state.path(), 100_000, 60_000);
    keep(&ring, 1, "a", 10_000);
    let own = |keys, bytes| Over::Own { keys, bytes };
    let over = |client: &str, bytes| ring.reserve(client, bytes).unwrap().err();
    assert_eq!(over("a", 60_000), Some(own(1, 14_096)), "with what a file takes besides");
    let room = ring.reserve("a", 30_000).unwrap().ok().unwrap();
    assert_eq!(over("a", 10_000), Some(own(2, 48_192)), "keys on their way count");
    assert_eq!(over("b", 50_000), Some(Over::All));
    assert_eq!(over("b", 56_000), Some(own(0, 0)), "its own limit first: it can do something about that");
    let other = ring.reserve("b", 40_000).unwrap().ok().unwrap();
    assert_eq!(over("c", 4_000), Some(Over::All));
    drop(room);
    assert_eq!(over("a", 10_000), None);
    drop(other);
    assert_eq!(over("c", u64::MAX), Some(own(0, 0)));
    // However small: an answer lists all of them.
    let ring = keyring(state.path(), u64::MAX, u64::MAX);
    let rooms: Vec<Room> = (1..MOST_KEYS).map(|_| ring.reserve("a", 1).unwrap().ok().unwrap()).collect();
    assert!(matches!(ring.reserve("a", 1).unwrap(), Err(Over::Own { keys: MOST_KEYS, .. })));
    assert!(ring.reserve("b", 1).unwrap().is_ok());
    drop(rooms);
}

#[test]
fn a_clients_keys_are_there_for_no_other_client_and_for_no_other_shape() {
    let state = tempfile::tempdir().unwrap();
    let ring = keyring(state.path(), 1 << 30, 1 << 30);
    keep(&ring, 1, "a", 1000);
    let (name, shape) = (Hex32([1; 32]), young(&ring.shelf).shape);
    let absent = |name, client: &str, shape| matches!(ring.claim(name, client, shape).unwrap(), Claimed::Absent);
    assert!(absent(name, "b", shape) && absent(name, "a", Hex32([9; 32])) && absent(Hex32([2; 32]), "a", shape));
    let held = ring.claim(name, "a", shape).unwrap();
    assert!(matches!(held, Claimed::Mine(_)) && matches!(ring.claim(name, "a", shape).unwrap(), Claimed::Busy));
    assert!(absent(name, "b", shape), "in use or not, a stranger hears the same");
    drop(held);
    // An order touches its own client's keys alone.
    keep(&ring, 2, "a", 2000);
    keep(&ring, 3, "b", 3000);
    let names = |listing: &Listing| listing.kept.iter().map(|k| k.name.0[0]).collect::<Vec<_>>();
    let listing = ring.obey(&Order::List, "a").unwrap();
    assert!(names(&listing) == [1, 2] && listing.deleted.is_empty() && listing.kept[1].bytes == 2000);
    assert!(listing.kept[0].age_s < 60 && listing.kept[0].left_s > 29 * DAY.as_secs() && !listing.kept[0].in_use);
    let listing = ring.obey(&Order::Delete([3, 1].map(|n| Hex32([n; 32])).to_vec()), "a").unwrap();
    assert!(names(&listing) == [2] && listing.deleted == [name]);
    let held = ring.claim(Hex32([2; 32]), "a", shape).unwrap();
    let busy = ring.obey(&Order::DeleteAll, "a").unwrap();
    assert!(names(&busy) == [2] && busy.deleted.is_empty(), "a session has them");
    drop(held);
    assert_eq!(ring.obey(&Order::DeleteAll, "a").unwrap().deleted, [Hex32([2; 32])]);
    assert_eq!(names(&ring.obey(&Order::List, "b").unwrap()), [3]);
    // A server that starts again has what it kept, unless it keeps things for a shorter time now.
    drop(ring);
    assert_eq!(names(&keyring(state.path(), 0, 0).obey(&Order::List, "b").unwrap()), [3]);
    let none = KeyLimits { bytes: 1 << 30, client_bytes: 1 << 30, age: Duration::ZERO };
    assert!(names(&Keyring::open(state.path(), none).unwrap().obey(&Order::List, "b").unwrap()).is_empty());
}
