#![allow(clippy::unwrap_used)]
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use super::*;

fn note() -> Note {
    Note { model: Hex32([1; 32]), plan: "fast".into(), bucket: 128, reveal: Reveal::Label, peer: Some("pin".into()) }
}

/// With the list of used stores beside it.
fn open(directory: &Path) -> StoreDirectory {
    StoreDirectory::open(directory, UsedList::open(&directory.with_extension("state"), Role::P0).unwrap()).unwrap()
}

fn count(stores: &StoreDirectory) -> usize {
    fs::read_dir(&stores.directory).unwrap().count()
}

fn put(stores: &StoreDirectory, id: u8) -> Hex32 {
    let id = Hex32([id; 32]);
    stores.draft(id, Role::P0, &note()).unwrap().commit().unwrap();
    id
}

fn mine(stores: &StoreDirectory, id: Hex32) -> Claim {
    match stores.claim(id, &note()).unwrap() {
        Claimed::Mine(claim) => claim,
        Claimed::Busy | Claimed::Absent | Claimed::Used => unreachable!("nobody else is here"),
    }
}

fn absent(stores: &StoreDirectory, id: Hex32, note: &Note) -> bool {
    matches!(stores.claim(id, note).unwrap(), Claimed::Absent)
}

#[test]
fn a_store_is_taken_once_and_only_for_what_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(&dir.path().join("stores"));
    let id = Hex32([7; 32]);
    let draft = stores.draft(id, Role::P0, &note()).unwrap();
    assert!(stores.ids().unwrap().is_empty() && absent(&stores, id, &note()), "a draft cannot be found");
    draft.commit().unwrap();
    for other in [
        Note { model: Hex32([2; 32]), ..note() },
        Note { bucket: 256, ..note() },
        Note { plan: "paper".into(), ..note() },
        Note { reveal: Reveal::Logits, ..note() },
        Note { peer: Some("another".into()), ..note() },
    ] {
        assert!(stores.claim_any(&other).unwrap().is_none() && absent(&stores, id, &other));
    }
    let claim = stores.claim_any(&note()).unwrap().unwrap();
    assert_eq!(claim.id(), id);
    let used = stores.mark_used(claim, Role::P0).unwrap();
    assert!(absent(&stores, id, &note()) && stores.claim_any(&note()).unwrap().is_none());
    // A process that is killed drops nothing but its locks.
    let UsedStore { store, directory } = used;
    std::mem::forget(directory);
    assert!(absent(&stores, id, &note()), "a crash after the marking leaves nothing to take");
    stores.sweep().unwrap();
    assert_eq!(count(&stores), 1, "somebody still uses it");
    drop(store);
    stores.sweep().unwrap();
    assert_eq!(count(&stores), 0);
}

#[test]
fn a_claim_keeps_others_away_and_marks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (open(dir.path()), open(dir.path()));
    let (first, second) = (put(&ours, 1), put(&ours, 2));
    let claim = ours.claim_any(&note()).unwrap().unwrap();
    assert_eq!(claim.id(), first);
    assert!(matches!(theirs.claim(first, &note()).unwrap(), Claimed::Busy));
    assert_eq!(theirs.claim_any(&note()).unwrap().unwrap().id(), second, "the next one");
    assert_eq!(theirs.expire(Duration::ZERO).unwrap(), 1, "a claimed store does not grow old");
    drop(claim);
    let again = theirs.claim_any(&note()).unwrap().unwrap();
    assert_eq!(again.id(), first, "a claim that was given back leaves it as good as before");
    theirs.discard(again).unwrap();
    assert_eq!(count(&ours), 0);
}

#[test]
fn many_takers_on_one_shelf_never_get_the_same_store() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    for id in 1..=12 {
        put(&stores, id);
    }
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                // Each as a process of its own: with its own handle of the directory, and sweeping when it
                // comes.
                let stores = open(dir.path());
                while let Some(claim) = stores.claim_any(&note()).unwrap() {
                    let id = claim.id();
                    let used = stores.mark_used(claim, Role::P0).unwrap();
                    stores.sweep().unwrap();
                    taken.lock().unwrap().push(id);
                    drop(used);
                }
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!((taken.len(), taken.iter().collect::<HashSet<_>>().len()), (12, 12));
    assert_eq!(count(&stores), 0);
}

/// As the handle of a process that is killed: the locks go, the files stay.
fn killed(mut draft: Draft) {
    draft.kept = true;
}

#[test]
fn whoever_opens_the_shelf_deletes_the_secrets_of_the_dead_and_nothing_of_the_living() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let living = stores.draft(Hex32([1; 32]), Role::P0, &note()).unwrap();
    killed(stores.draft(Hex32([2; 32]), Role::P0, &note()).unwrap());
    assert_eq!(count(&stores), 2);
    let again = open(dir.path());
    assert_eq!(count(&again), 1);
    living.commit().unwrap();
    assert_eq!(again.ids().unwrap(), [Hex32([1; 32])]);
}

#[test]
fn what_is_not_ours_stays_and_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let id = Hex32([3; 32]);
    let directories = ["notes.new", "letters.used", &Hex32([4; 32]).to_string()].map(|name| dir.path().join(name));
    let files =
        ["readme", "draft.new", &format!("{id}"), &format!("{id}.new"), &format!("{id}.used"), &format!("{id}.bak")]
            .map(|name| dir.path().join(name));
    directories.iter().for_each(|path| fs::create_dir(path).unwrap());
    files.iter().for_each(|path| fs::write(path, "something").unwrap());
    let stores = open(dir.path());
    assert_eq!(stores.expire(Duration::ZERO).unwrap(), 0);
    assert!(directories.iter().chain(&files).all(|path| path.exists()));
    let ours = put(&stores, 7);
    assert_eq!(stores.claim_any(&note()).unwrap().unwrap().id(), ours);
    assert!(stores.reserve(1, 1, Amount { stores: 100, bytes: PLENTY }).unwrap().is_ok());
}

#[test]
fn a_note_that_cannot_be_read_now_is_no_reason_to_say_that_there_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let path = stores.path(put(&stores, 7)).join(NOTE);
    // A disk that fails, as nearly as a test can have it.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(stores.claim(Hex32([7; 32]), &note()), Err(SessionError::Io { .. })));
    fs::remove_dir(&path).unwrap();
    assert!(absent(&stores, Hex32([7; 32]), &note()), "without a note it is none");
    fs::write(&path, "{").unwrap();
    assert!(absent(&stores, Hex32([7; 32]), &note()), "nor with one that says nothing");
}

#[test]
fn a_session_that_fails_before_its_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let (mut channel, peer) = fesc_net::Channel::memory_pair();
    drop(peer);
    let used = stores.mark_used(mine(&stores, put(&stores, 7)), Role::P0).unwrap();
    assert!(crate::session::source::prepared(used, &mut channel).is_err());
    assert_eq!(count(&stores), 0, "the peer died when the stores were to agree");
    // The wrong side's store is refused after it was marked.
    assert!(stores.mark_used(mine(&stores, put(&stores, 8)), Role::P1).is_err());
    assert_eq!(count(&stores), 0);
}

const PLENTY: u64 = 1 << 40;

#[test]
fn room_on_the_shelf_is_given_once() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let limit = Amount { stores: 3, bytes: PLENTY };
    let over = |reserved: Result<std::result::Result<Reservation, Amount>>| reserved.unwrap().err().map(|a| a.stores);
    let mut first = stores.reserve(2, 100, limit).unwrap().ok().unwrap();
    assert_eq!(over(stores.reserve(2, 100, limit)), Some(2), "nothing is made yet, and still it is taken");
    put(&stores, 1);
    first.kept();
    assert_eq!(over(stores.reserve(2, 100, limit)), Some(2));
    drop(first);
    assert!(stores.reserve(2, 100, limit).unwrap().is_ok());
}

#[test]
fn a_shelf_is_full_by_bytes_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let limit = |bytes| Amount { stores: 100, bytes };
    let each = 4 * 4096;
    let promise = stores.reserve(2, each, limit(2 * each)).unwrap().ok().unwrap();
    let full = stores.reserve(1, 1, limit(2 * each)).unwrap().err().unwrap();
    assert_eq!(full, Amount { stores: 2, bytes: 2 * each });
    drop(promise);
    put(&stores, 1);
    assert_eq!(stores.holds().unwrap(), Amount { stores: 1, bytes: each }, "an empty store is its fixed files");
    assert!(stores.reserve(1, each + 1, limit(2 * each)).unwrap().is_err());
    assert!(stores.reserve(1, each, limit(2 * each)).unwrap().is_ok());
    assert!(stores.reserve(usize::MAX, u64::MAX, limit(u64::MAX - 1)).unwrap().is_err(), "no sum wraps");
}

#[test]
fn old_stores_are_deleted_and_young_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    let (old, young) = (put(&stores, 1), put(&stores, 2));
    let days = |n: u64| Duration::from_secs(n * 86_400);
    let set = |id: Hex32, when: SystemTime| {
        File::options().append(true).open(stores.path(id).join(NOTE)).unwrap().set_modified(when).unwrap();
    };
    set(old, SystemTime::now() - days(31));
    set(young, SystemTime::now() + days(3));
    assert_eq!(stores.expire(days(30)).unwrap(), 1);
    assert_eq!((stores.ids().unwrap(), count(&stores)), (vec![young], 1), "nor does a clock that was set back delete");
}

#[test]
fn a_draft_that_is_not_finished_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let stores = open(dir.path());
    drop(stores.draft(Hex32([7; 32]), Role::P1, &note()).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
