#![allow(clippy::unwrap_used, clippy::panic)]
use super::super::file::tests::note;
use super::*;

fn name(n: u8) -> Hex32 {
    Hex32([n; 32])
}

pub(in super::super) fn put(shelf: &Shelf, name: Hex32, note: &Note) {
    let note = Note { stamp: Stamp { made: note.stamp.made, ..shelf.stamp().unwrap() }, ..note.clone() };
    let mut draft = shelf.draft(name, &note).unwrap();
    draft.write_all(b"keys").unwrap();
    draft.commit(name).unwrap();
}

/// A note of keys that are made now.
pub(in super::super) fn young(shelf: &Shelf) -> Note {
    Note { stamp: shelf.stamp().unwrap(), ..note() }
}

fn mine(claimed: Claimed<'_>) -> Claim<'_> {
    let Claimed::Mine(claim) = claimed else { panic!("it should be ours") };
    claim
}

fn files(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(state.join("keys-client")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn keys_belong_to_one_session_at_a_time_and_come_back_when_it_ends_well() {
    let state = tempfile::tempdir().unwrap();
    let [one, two] = [0, 1].map(|_| Shelf::open(state.path(), Role::P0).unwrap());
    put(&one, name(1), &young(&one));
    let mut claim = mine(one.claim(name(1)).unwrap());
    assert!(matches!(two.claim(name(1)).unwrap(), Claimed::Busy) && !two.delete(name(1)).unwrap());
    claim.begin().unwrap();
    assert_eq!(files(state.path()), [format!("{}.taken", name(1))], "the mark is on the disk");
    assert!(matches!(two.claim(name(1)).unwrap(), Claimed::Busy) && two.list().unwrap()[0].taken);
    // Another process opens the directory: this one lives.
    drop(Shelf::open(state.path(), Role::P0).unwrap());
    let mut bytes = [0; 4];
    let mut reader = claim.keys().unwrap();
    reader.read_exact(&mut bytes).unwrap();
    reader.finish(name(1)).unwrap();
    assert_eq!(&bytes, b"keys");
    claim.end().unwrap();
    // One that never began is as before, too.
    drop(mine(two.claim(name(1)).unwrap()));
    drop(mine(one.claim(name(1)).unwrap()));
    assert!(matches!(one.claim(name(2)).unwrap(), Claimed::Absent));
    assert!(two.delete(name(1)).unwrap() && files(state.path()).is_empty());
    assert!(two.delete(name(1)).unwrap(), "what is not there is deleted");
    // The two sides of one machine have directories of their own.
    drop(Shelf::open(state.path(), Role::P1).unwrap());
    assert!(state.path().join("keys-server").is_dir());
}

/// The session ends with an error, or its process is killed: in both cases the keys serve nobody again, also
/// when they are put back from a copy.
#[test]
fn a_session_that_dies_behind_its_mark_retires_its_keys() {
    let state = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(state.path(), Role::P0).unwrap();
    let whole = |n| shelf.path(name(n), Kind::Whole);
    for n in [1, 2] {
        put(&shelf, name(n), &young(&shelf));
        let copy = fs::read(whole(n)).unwrap();
        if n == 1 {
            let mut claim = mine(shelf.claim(name(n)).unwrap());
            claim.begin().unwrap();
        } else {
            // What a killed process leaves: the mark, and no lock.
            fs::rename(whole(n), shelf.path(name(n), Kind::Taken)).unwrap();
            drop(Shelf::open(state.path(), Role::P0).unwrap());
        }
        assert!(files(state.path()).is_empty(), "{n}");
        assert!(matches!(shelf.claim(name(n)).unwrap(), Claimed::Absent));
        fs::write(whole(n), copy).unwrap();
        #[cfg(unix)]
        fs::set_permissions(whole(n), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert!(matches!(shelf.claim(name(n)).unwrap(), Claimed::Absent), "{n}: put back from a copy");
        assert!(files(state.path()).is_empty(), "{n}");
        // The same keys once more, under a new note.
        let draft = shelf.draft(name(9), &young(&shelf)).unwrap();
        assert!(draft.check(name(n)).is_err() && draft.check(name(8)).is_ok());
        assert!(draft.commit(name(n)).is_err() && files(state.path()).is_empty());
    }
    // Control: keys that nobody computed with come back from a copy.
    put(&shelf, name(3), &young(&shelf));
    let (path, copy) = (whole(3), fs::read(whole(3)).unwrap());
    fs::write(&path, copy).unwrap();
    mine(shelf.claim(name(3)).unwrap());
    // A name that is here is not written over.
    let draft = shelf.draft(name(9), &young(&shelf)).unwrap();
    assert!(draft.check(name(3)).is_err() && draft.commit(name(3)).is_err());
    mine(shelf.claim(name(3)).unwrap());
}

#[test]
fn half_written_keys_go_with_their_process_and_foreign_files_stay() {
    let state = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(state.path(), Role::P0).unwrap();
    let directory = state.path().join("keys-client");
    let foreign = ["notes.txt".to_string(), format!("{}.taken", name(7)), format!("{}.keys", name(8)), "x.new".into()];
    for file in &foreign {
        fs::write(directory.join(file), "mine").unwrap();
        #[cfg(unix)]
        fs::set_permissions(directory.join(file), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let mut draft = shelf.draft(name(1), &young(&shelf)).unwrap();
    draft.write_all(b"half").unwrap();
    // One of a process that was killed has no lock.
    let dead = directory.join(format!("{}.new", name(2)));
    fs::write(&dead, "FESC").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&draft.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&dead, PermissionsExt::from_mode(0o600)).unwrap();
    }
    drop(Shelf::open(state.path(), Role::P0).unwrap());
    assert!(draft.path.exists() && !dead.exists());
    drop(draft);
    shelf.expire(Duration::ZERO).unwrap();
    assert!(shelf.list().unwrap().is_empty() && matches!(shelf.claim(name(8)).unwrap(), Claimed::Absent));
    let mut left = foreign.to_vec();
    left.sort();
    assert_eq!(files(state.path()), left);
}

#[test]
fn keys_that_are_too_old_are_deleted_and_others_stay() {
    let state = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(state.path(), Role::P0).unwrap();
    let now = shelf.stamp().unwrap().made;
    let old = |days: u64, serve: u64| {
        let stamp = Stamp { made: now - 86_400 * days, ..shelf.stamp().unwrap() };
        Note { stamp, serve_s: 86_400 * serve, ..note() }
    };
    for (n, days, serve) in [(1, 1, 30), (2, 9, 30), (3, 3, 2), (4, 2, 3)] {
        put(&shelf, name(n), &old(days, serve));
    }
    let left = || shelf.list().unwrap().into_iter().map(|e| e.name).collect::<Vec<_>>();
    shelf.expire(Duration::from_secs(86_400 * 9)).unwrap();
    assert_eq!(left(), [name(1), name(4)], "by the limit of now, and by their own");
    // A session may end with keys that have become too old.
    let mut claim = mine(shelf.claim(name(4)).unwrap());
    claim.begin().unwrap();
    shelf.expire(Duration::ZERO).unwrap();
    assert_eq!(left(), [name(4)]);
    claim.end().unwrap();
    shelf.expire(Duration::ZERO).unwrap();
    assert!(left().is_empty());
}

#[cfg(unix)]
#[test]
fn keys_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let state = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(state.path(), Role::P0).unwrap();
    put(&shelf, name(1), &young(&shelf));
    fs::set_permissions(shelf.path(name(1), Kind::Whole), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(shelf.claim(name(1)), Err(SessionError::Exposed { mode: 0o640, .. })));
}
