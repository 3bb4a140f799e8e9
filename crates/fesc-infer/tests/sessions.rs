//! Sessions from outside: a server on a socket, and clients that do not behave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::serving::*;
use common::*;
use fesc_infer::session::handshake::{Greeting, Reply, Step, Terms};
use fesc_infer::session::message::Talk;
use fesc_infer::session::server::Limits;
use fesc_infer::session::source::stores::{Amount, StoreDirectory, UsedList, bytes_of};
use fesc_infer::session::{CancelHandle, Dial, Provider, RefusalKind, SessionError, hello};
use fesc_infer::{Embedding, Reveal, Schedule, Unwatched};
use fesc_model::twin::Rounding;
use fesc_mpc::Role;
use fesc_net::{ClientSecurity, Config, Listener, ServerSecurity};

#[test]
fn silent_connections_keep_nobody_out() {
    let cache = tempfile::tempdir().unwrap();
    let ids = document(20, 5);
    let class = with_server(limits(), None, |dial, _| {
        // More than a server of one session has places for; each would be heard for 10 seconds.
        let _silent: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(&dial.address).unwrap()).collect();
        let visit = visit(dial, cache.path()).unwrap();
        // And again before the second connection.
        let _more: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(&dial.address).unwrap()).collect();
        let choice = label(Provider::Ahead);
        let finished = visit.classify(&ids, &choice, &mut Unwatched);
        finished.unwrap().answer.class()
    });
    assert_eq!(class, small_twin().classify(&ids, &mut Rounding::nearest()).unwrap().class);
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn prepared_correlations_are_used_once_and_nothing_of_them_stays() {
    let root = tempfile::tempdir().unwrap();
    let places = ["cache", "ours", "theirs"].map(|name| root.path().join(name));
    let [cache, ours, theirs] = places.each_ref().map(PathBuf::as_path);
    let ids = document(20, 5);
    with_server(limits(), Some(theirs), |dial, _| {
        let visit = || visit_soon(dial, cache);
        let two = visit().prepare(128, Reveal::Label, 2, &place(ours), &mut Unwatched);
        assert!(matches!(two, Err(SessionError::Refused { .. })), "the server keeps one");
        visit().prepare(128, Reveal::Label, 1, &place(ours), &mut Unwatched).unwrap();
        let schedule = schedule();
        for (directory, role) in [(ours, Role::P0), (theirs, Role::P1)] {
            let spent = UsedList::open(&place(directory).state, role).unwrap();
            let held = StoreDirectory::open(directory, spent).unwrap().holds().unwrap();
            assert_eq!(
                held,
                Amount { stores: 1, bytes: bytes_of(&schedule, role).unwrap() },
                "the size is known before"
            );
        }
        let again = visit().prepare(128, Reveal::Label, 1, &place(ours), &mut Unwatched);
        assert!(matches!(again, Err(SessionError::Refused { .. })), "there is no room for another");
        let choice = label(Provider::Prepared(place(ours)));
        let classify = || visit().classify(&ids, &choice, &mut Unwatched);
        let class = classify().unwrap().answer.class();
        assert_eq!(class, small_twin().classify(&ids, &mut Rounding::nearest()).unwrap().class);
        assert!(matches!(classify(), Err(SessionError::NothingPrepared { .. })));
    });
    assert_eq!((entries(ours), entries(theirs)), (0, 0));
}

/// All files of a directory in another, which has nothing else then.
fn copied(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copied(&path, &to);
        } else {
            std::fs::copy(path, to).unwrap();
        }
    }
}

/// A directory that was copied, used and put back has its correlations again; the list of used ones, which is
/// elsewhere, refuses them, and a new list refuses what belonged to another. Were both sides' lists put back
/// too, correlations would serve twice: the control.
#[test]
fn a_shelf_that_was_put_back_is_refused_on_both_sides() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (ours, theirs, state) = (at("ours"), at("theirs"), at("server"));
    let mut limits = limits();
    limits.prepared.stores = 4;
    let ids = document(20, 5);
    serve(options(limits, Some(&theirs), &state), |dial, failures| {
        let visit = || visit_soon(dial, &at("cache"));
        let classify = || {
            let choice = label(Provider::Prepared(place(&ours)));
            visit().classify(&ids, &choice, &mut Unwatched).map(|f| f.answer.class())
        };
        visit().prepare(128, Reveal::Label, 1, &place(&ours), &mut Unwatched).unwrap();
        let lists = [place(&ours).state.join("spent-client.jsonl"), state.join("spent-server.jsonl")];
        let kept = lists.each_ref().map(|list| std::fs::read(list).unwrap());
        copied(&ours, &at("ours-kept"));
        copied(&theirs, &at("theirs-kept"));
        let put_back = || {
            copied(&at("ours-kept"), &ours);
            copied(&at("theirs-kept"), &theirs);
        };
        let class = classify().unwrap();
        put_back();
        let spent = |refused: SessionError| matches!(refused, SessionError::UsedBefore { .. });
        assert!(spent(classify().unwrap_err()), "the client's own list");
        std::fs::remove_file(&lists[0]).unwrap();
        assert!(spent(classify().unwrap_err()), "and a new list does not know it");
        std::fs::write(&lists[0], &kept[0]).unwrap();
        let refused = classify().unwrap_err();
        let kind = RefusalKind::Prepared;
        assert!(
            matches!(&refused, SessionError::Refused { kind: k, message } if *k == kind && message.contains("used before"))
        );
        assert_eq!(entries(&ours), 0, "the client has thrown its half away");
        assert!(failures.all().iter().any(|f| f.contains("used before")));
        put_back();
        lists.iter().zip(&kept).for_each(|(list, kept)| std::fs::write(list, kept).unwrap());
        assert_eq!(classify().unwrap(), class, "the control: nothing else stands in the way");
    });
}

fn schedule() -> Schedule {
    Schedule::new(model().outline().unwrap(), 128, Reveal::Label).unwrap()
}

#[test]
fn a_client_cannot_fill_the_servers_disk() {
    let root = tempfile::tempdir().unwrap();
    let places = ["cache", "ours", "theirs"].map(|name| root.path().join(name));
    let [cache, ours, theirs] = places.each_ref().map(PathBuf::as_path);
    let each = bytes_of(&schedule(), Role::P1).unwrap();
    let limits = Limits { prepared: Amount { stores: 100, bytes: 2 * each }, ..limits() };
    let failures = with_server(limits, Some(theirs), |dial, failures| {
        let prepare = |count| visit_soon(dial, cache).prepare(128, Reveal::Label, count, &place(ours), &mut Unwatched);
        let refused = prepare(3).unwrap_err();
        assert!(matches!(refused, SessionError::Refused { kind: RefusalKind::Full, .. }), "{refused}");
        for number in [each, 2 * each] {
            assert!(refused.to_string().contains(&number.to_string()), "{refused}");
        }
        prepare(2).unwrap();
        let refused = prepare(1).unwrap_err();
        assert!(matches!(refused, SessionError::Refused { kind: RefusalKind::Full, .. }), "{refused}");
        assert!(!refused.to_string().contains("wait here"), "what is here already is others' business: {refused}");
        // Those that nobody has used for too long make room.
        let day_before_yesterday = SystemTime::now() - Duration::from_secs(2 * 86_400);
        for store in std::fs::read_dir(theirs).unwrap() {
            let note = File::options().append(true).open(store.unwrap().path().join("note.json")).unwrap();
            note.set_modified(day_before_yesterday).unwrap();
        }
        prepare(1).unwrap();
        assert_eq!((entries(ours), entries(theirs)), (3, 1));
        // A half whose other one is gone is told so, and forgotten; the good one is found in the end.
        let ids = document(20, 5);
        let choice = label(Provider::Prepared(place(ours)));
        let classify = || visit_soon(dial, cache).classify(&ids, &choice, &mut Unwatched);
        let told = (0..3).map_while(|_| classify().err()).map(|e| e.to_string()).collect::<Vec<_>>();
        assert!(told.iter().all(|t| t.contains("older than 1 days")), "{told:?}");
        // The next visit has a seat when the server is done with the last.
        drop(visit_soon(dial, cache));
        assert_eq!(entries(theirs), 0);
        failures.clone()
    });
    // The server's own log has it, as a refusal of its own. It is whole when the server has ended.
    let (here, log) = (format!("2 of {} bytes wait here", 2 * each), failures.all());
    assert!(log.iter().any(|f| f.starts_with("refused: ") && f.contains(&here)), "{log:?}");
    assert!(!log.iter().any(|f| f.contains("the peer refused")), "{log:?}");
}

#[test]
fn a_client_that_says_nothing_gives_its_seat_to_another() {
    let cache = tempfile::tempdir().unwrap();
    let limits = Limits { reply_timeout: Duration::from_secs(3), ..limits() };
    with_server(limits, None, |dial, failures| {
        // The public part is there: for who has just taken it there is more time.
        drop(visit_soon(dial, cache.path()));
        // Connected and greeted; the offer came; and now it is silent.
        let silent = visit_soon(dial, cache.path());
        assert!(matches!(visit(dial, cache.path()), Err(SessionError::Refused { kind: RefusalKind::Busy, .. })));
        let second = visit_soon(dial, cache.path());
        let finished = second.classify(&document(20, 5), &label(Provider::Inline), &mut Unwatched);
        assert!(finished.is_ok(), "a run may take longer than a word");
        assert!(failures.all().iter().any(|f| f.contains("did not say what it wants within 3s")));
        drop(silent);
    });
}

#[test]
fn a_client_that_has_just_taken_the_public_part_has_longer_to_speak() {
    let cache = tempfile::tempdir().unwrap();
    let limits = Limits { reply_timeout: Duration::from_secs(3), ..limits() };
    with_server(limits, None, |dial, _| {
        let visit = visit(dial, cache.path()).unwrap();
        // As if the last window came over a slow line: longer than a word may take, and less than four times
        // that.
        std::thread::sleep(Duration::from_secs(4));
        let ids = document(20, 5);
        visit.classify(&ids, &label(Provider::Inline), &mut Unwatched).unwrap();
    });
}

#[test]
fn a_cut_client_ends_and_so_does_its_session() {
    let cache = tempfile::tempdir().unwrap();
    with_server(limits(), None, |dial, _| {
        let lines = CancelHandle::default();
        let visit = visit_soon(&Dial { cancel: Some(lines.clone()), ..dial.clone() }, cache.path());
        lines.cut();
        let choice = label(Provider::Ahead);
        let ended = visit.classify(&document(20, 5), &choice, &mut Unwatched);
        assert!(matches!(ended, Err(SessionError::Net(_))));
        drop(visit_soon(dial, cache.path()));
    });
}

#[test]
fn an_offer_with_another_embedding_is_refused_before_anything_is_used() {
    let cache = tempfile::tempdir().unwrap();
    let mut offer = with_server(limits(), None, |dial, _| visit_soon(dial, cache.path()).offer().clone());
    offer.terms = Terms { embedding: Embedding::Public, ..offer.terms };
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
    let (address, security) = (listener.address().to_string(), ClientSecurity::InsecurePlaintext);
    let dial = Dial { address, security, config: Config::default(), cancel: None };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut channel = listener.accept().unwrap().establish(&hello()).unwrap();
            let mut talk = Talk::default();
            talk.hear::<Greeting>(&mut channel, "greeting").unwrap();
            talk.tell(&mut channel, "offer", &Reply::Ok(offer)).unwrap();
            assert!(talk.hear::<Step>(&mut channel, "step").is_err(), "the client goes without another word");
        });
        let Err(refused) = visit(&dial, cache.path()) else { panic!("it goes on") };
        assert!(matches!(refused, SessionError::Mismatch { what: "the embedding", .. }), "{refused}");
    });
}
