//! CKKS keys that outlive a session: uploaded once, kept by both ends, retired with a session that dies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::serving::limits;
use fesc_infer::session::client::{Finished, KeyUse, MyKeys};
use fesc_infer::session::keyring::{Grant, KeyLimits, Order, Wish};
use fesc_infer::session::server::Limits;
use fesc_infer::session::{Hex32, RefusalKind};
use fesc_infer::{Doing, Stage, Unwatched, Watch};
use fesc_model::twin::Rounding;
use world::{STRANGER, World, model, name, refused, schedule, wish};

/// Notes what a session says of its keys.
#[derive(Default)]
struct Said(Vec<Doing>);

impl Watch for Said {
    fn doing(&mut self, doing: Doing) {
        if matches!(doing, Doing::NewKeys(_) | Doing::KeptKeys | Doing::Keys(..)) {
            self.0.push(doing);
        }
    }
}

/// Dies when a session does this.
struct Dies(fn(&Doing) -> bool);

impl Watch for Dies {
    fn doing(&mut self, doing: Doing) {
        assert!(!self.0(&doing), "dies here");
    }
}

#[test]
fn keys_go_up_once_and_serve_the_next_session() {
    let world = World::new();
    let bytes = schedule().keys().bytes();
    let (fresh, again) =
        (KeyUse { sent_bytes: bytes, reused: false, kept: true }, KeyUse { sent_bytes: 0, reused: true, kept: true });
    let class = model().classify(&world.ids, &mut Rounding::nearest()).unwrap().class;
    world.serve(limits().keys, true, |session| {
        // Without a directory of its own it keeps nothing; it has the public part from now on.
        let once = session.run(0, None, &mut Unwatched).unwrap();
        assert_eq!((once.keys, world.counts()), (KeyUse { kept: false, ..fresh }, [0; 4]));
        let (mut first, mut second) = (Said::default(), Said::default());
        let one = session.run(0, Some(session.state(0)), &mut first).unwrap();
        let two = session.run(0, Some(session.state(0)), &mut second).unwrap();
        assert_eq!((one.keys, two.keys, world.counts()), (fresh, again, [1, 1, 0, 0]));
        assert_eq!([once.answer.class(), one.answer.class(), two.answer.class()], [class; 3]);
        // The size is said before a key is made, then how many have gone.
        assert_eq!(first.0[0], Doing::NewKeys(bytes));
        assert_eq!(first.0.len(), 1 + schedule().keys().iter().map(|s| 1 + s.count()).sum::<usize>());
        assert_eq!((first.0.last(), &second.0[..]), (Some(&Doing::Keys(bytes, bytes)), &[Doing::KeptKeys][..]));
        // Declared and counted: the second session sends a name (66 characters for `null`) and no keys.
        let sent = |finished: &Finished| finished.report.setup.sent_bytes;
        assert_eq!(sent(&one) - sent(&two) + 62, bytes, "of {} and {}", sent(&one), sent(&two));
        assert_eq!(one.report.online.bytes(), two.report.online.bytes());
    });
    // Both directories outlive the server.
    let [theirs, ours] = ["state", "state-0"].map(|state| name(&world.files(state)[0]));
    assert_eq!(theirs, ours, "one name");
    world.serve(limits().keys, true, |session| assert_eq!(session.keys(0), again));
}

#[test]
fn a_client_that_is_on_no_list_has_keys_for_one_session() {
    let world = World::new();
    let once = KeyUse { sent_bytes: schedule().keys().bytes(), reused: false, kept: false };
    world.serve(limits().keys, false, |session| {
        // A certificate of its own makes no identity where there is no list.
        for who in [STRANGER, 0, 0] {
            assert_eq!((session.keys(who), world.counts()), (once, [0; 4]));
        }
        let (kind, said) = refused(session.order(0, &Order::List));
        assert!(kind == RefusalKind::NotOffered && said.contains("listed clients"), "{said}");
    });
    // Keys that were kept for a list are nobody's without one; the client's half goes with the refusal.
    world.serve(limits().keys, true, |session| assert!(session.keys(0).kept));
    world.serve(limits().keys, false, |session| {
        let (kind, said) = refused(session.classify(0));
        assert!(kind == RefusalKind::Keys && said.contains("ask again"), "{said}");
        assert_eq!((world.counts(), session.keys(0)), ([1, 0, 0, 0], once));
    });
}

/// Another client's keys, keys that nobody has, and those that were retired: one sentence for all.
#[test]
fn another_clients_keys_are_refused_as_those_that_nobody_has() {
    let world = World::new();
    world.serve(limits().keys, true, |session| {
        assert!(session.keys(0).kept);
        let theirs = name(&world.files("state")[0]);
        let unknown = refused(session.ask(1, wish(Some(Hex32([9; 32])))));
        assert_eq!(unknown.0, RefusalKind::Keys);
        assert_eq!(refused(session.ask(1, wish(Some(theirs)))), unknown);
        // Also with the other client's own file.
        let (from, to) = (world.files("state-0").remove(0), session.state(1).join("keys-client"));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
        let fresh = session.keys(1);
        assert!(!fresh.reused && fresh.kept, "it is not taken for its own");
        // Control: its owner may use them.
        assert_eq!(session.ask(0, wish(Some(theirs))).unwrap().keys, Some(Grant::Use));
        // Another shape, and a plan that needs keys without any.
        let other = Wish { shape: Hex32([1; 32]), ..wish(None).unwrap() };
        let (kind, said) = refused(session.ask(0, Some(other)));
        assert!(kind == RefusalKind::Parameters && said.contains("sets or rotations"), "{said}");
        assert_eq!(refused(session.ask(0, None)).0, RefusalKind::Mismatch);
    });
}

#[test]
fn keys_over_a_quota_are_refused_with_numbers_before_a_byte_is_taken() {
    let world = World::new();
    let payload = schedule().keys().payload();
    let keys = KeyLimits { bytes: 3 * payload, client_bytes: 3 * payload / 2, ..limits().keys };
    world.serve(keys, true, |session| {
        assert!(session.keys(0).kept && session.keys(1).kept);
        // A second set of keys, as for another length: its own is in use by nobody and counts.
        let (kind, said) = refused(session.ask(0, wish(None)));
        assert_eq!(kind, RefusalKind::Full);
        for part in [format!("1 keys of {} bytes", payload + 4096), keys.client_bytes.to_string(), "--keys once".into()]
        {
            assert!(said.contains(&part), "{part}: {said}");
        }
        let (kind, said) = refused(session.classify(2));
        assert!(kind == RefusalKind::Full && said.contains(&format!("{} bytes of all clients", keys.bytes)), "{said}");
        assert_eq!(world.counts(), [2, 1, 1, 0], "nothing was written");
        let once = session.run(2, None, &mut Unwatched).unwrap();
        assert!(!once.keys.kept && world.counts() == [2, 1, 1, 0], "what is not kept needs no room");
        // Room that a client gives back is free at once.
        session.order(0, &Order::DeleteAll).unwrap();
        assert!(session.keys(2).kept);
    });
}

/// Either side dies in the middle: during the upload nothing stays, and behind the mark the keys are refused
/// by both ends, also when both put their files back from a copy.
#[test]
fn keys_of_a_session_that_dies_are_refused_by_both_ends() {
    let world = World::new();
    let stages: [fn(&Doing) -> bool; 3] = [
        |doing| matches!(doing, Doing::Keys(done, all) if 2 * done > *all),
        |doing| matches!(doing, Doing::Stage(Stage::Silu, ..)),
        |doing| matches!(doing, Doing::Stage(Stage::Reveal, ..)),
    ];
    world.serve(limits().keys, true, |session| {
        let failures = || session.failures.all().len();
        let die = |at: fn(&Doing) -> bool| {
            let before = failures();
            let ran = catch_unwind(AssertUnwindSafe(|| session.run(0, Some(session.state(0)), &mut Dies(at))));
            assert!(ran.is_err(), "it should have died");
            session.failed(before + 1);
            assert_eq!(world.counts(), [0; 4], "nothing stays on either side");
        };
        // In the session that brings them: they were never kept.
        stages.into_iter().for_each(die);
        // In one that uses kept ones. The first conversion to shares is before the first of these stages.
        for at in stages.into_iter().skip(1) {
            assert!(session.keys(0).kept);
            let files = ["state", "state-0"].map(|state| world.files(state).remove(0));
            let copies = files.each_ref().map(|file| std::fs::read(file).unwrap());
            die(at);
            for (file, copy) in files.iter().zip(&copies) {
                std::fs::write(file, copy).unwrap();
                #[cfg(unix)]
                std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            }
            let next = session.keys(0);
            assert!(!next.reused && next.kept, "at the client: {next:?}");
            assert!(files[0].exists() && !files[1].exists());
            // The server looks when it is asked: a client that forgot what it retired is refused.
            std::fs::write(&files[0], &copies[0]).unwrap();
            let before = failures();
            let unknown = refused(session.ask(1, wish(Some(Hex32([9; 32])))));
            assert_eq!(refused(session.ask(0, wish(Some(name(&files[0]))))), unknown, "at the server");
            assert!(!files[0].exists());
            session.order(0, &Order::DeleteAll).unwrap();
            session.failed(before + 2);
        }
    });
}

#[test]
fn keys_are_too_old_when_the_server_says_so() {
    let world = World::new();
    let once = KeyLimits { age: Duration::ZERO, ..limits().keys };
    world.serve(once, true, |session| {
        for _ in 0..2 {
            let keys = session.keys(0);
            assert!(!keys.reused && keys.sent_bytes > 0, "{keys:?}");
            assert_eq!(world.counts(), [1, 1, 0, 0], "the old ones are gone on both sides");
        }
    });
    // At the start too, and at the client whatever its next server keeps.
    world.serve(once, true, |_| assert_eq!(world.counts(), [0, 1, 0, 0]));
    world.serve(limits().keys, true, |session| assert!(!session.keys(0).reused && session.keys(0).reused));
    world.serve(once, true, |session| assert!(!session.keys(0).reused, "an age that became less"));
}

#[test]
fn several_clients_at_once_have_their_own_keys_and_one_client_has_some_for_each_session() {
    let world = World::new();
    world.serve(limits().keys, true, |session| {
        let round = |who: [usize; 3]| {
            let run = |who| session.keys(who);
            let mut uses = std::thread::scope(|scope| {
                who.map(|who| scope.spawn(move || run(who))).map(|thread| thread.join().unwrap())
            });
            uses.sort_by_key(|u| u.reused);
            uses
        };
        assert!(round([0, 1, 2]).iter().all(|u| u.kept && !u.reused));
        assert_eq!(world.counts(), [3, 1, 1, 1]);
        assert!(round([0, 1, 2]).iter().all(|u| u.kept && u.reused && u.sent_bytes == 0));
        // Two sessions of one client at once: whoever finds the keys taken makes others.
        let uses = round([0, 0, 1]);
        assert!(uses.iter().all(|u| u.kept) && uses[1].reused && uses[2].reused, "{uses:?}");
        let second = usize::from(!uses[0].reused);
        assert_eq!(world.counts(), [3 + second, 1 + second, 1, 1]);
    });
}

#[test]
fn a_client_lists_and_deletes_its_own_keys() {
    let world = World::new();
    world.serve(limits().keys, true, |session| {
        let empty = session.order(0, &Order::List).unwrap();
        assert!(empty.listing.kept.is_empty() && empty.here.is_empty());
        assert!(session.keys(0).kept && session.keys(1).kept);
        let MyKeys { listing, here } = session.order(0, &Order::List).unwrap();
        let [kept] = &listing.kept[..] else { panic!("{listing:?}") };
        assert_eq!((here, kept.bucket, kept.plan.as_str()), (vec![kept.name], 128, "fast,projection=ckks"));
        assert_eq!((kept.bytes, kept.sets[0].set.as_str()), (schedule().keys().payload(), "project"));
        assert!(kept.sets[0].keys > 1 && kept.age_s < 60 && kept.left_s > 3500 && !kept.in_use);
        // Another client's name deletes nothing, and says no more than one that nobody has.
        let theirs = session.order(1, &Order::Delete(vec![kept.name, Hex32([9; 32])])).unwrap();
        assert!(theirs.listing.deleted.is_empty() && theirs.listing.kept.len() == 1);
        let gone = session.order(0, &Order::Delete(vec![kept.name])).unwrap();
        assert_eq!((gone.listing.deleted, gone.listing.kept.len(), gone.here.len()), (vec![kept.name], 0, 0));
        assert_eq!(world.counts(), [1, 0, 1, 0]);
        assert!(!session.keys(0).reused, "fresh ones again");
        // The server lost its own, as when its operator deletes the directory: said once, then fresh ones.
        std::fs::remove_dir_all(world.path("state").join("keys-server")).unwrap();
        std::fs::create_dir(world.path("state").join("keys-server")).unwrap();
        assert_eq!(refused(session.classify(0)).0, RefusalKind::Keys);
        assert!(!session.keys(0).reused);
        assert!(session.failed(1)[0].contains("no such keys"));
    });
}

/// A client that is refused costs the server no more than the refusal.
#[test]
fn a_run_is_laid_out_after_its_budget_was_looked_at() {
    let world = World::new();
    world.budgets(["1", "0", "unlimited"]);
    world.serve(limits().keys, true, |session| {
        assert!(session.keys(0).kept && session.failures.laid_out() == 1);
        for who in [0, 1] {
            assert_eq!(refused(session.classify(who)).0, RefusalKind::Budget);
            assert_eq!(refused(session.ask(who, wish(None))).0, RefusalKind::Budget);
        }
        assert_eq!(session.failures.laid_out(), 1, "for nobody who is refused");
        assert!(session.keys(2).kept && session.failures.laid_out() == 2, "control");
    });
}

/// Asks as another client when a session computes.
struct Asks<'a>(&'a dyn Fn(), bool);

impl Watch for Asks<'_> {
    fn doing(&mut self, doing: Doing) {
        if matches!(doing, Doing::Stage(Stage::Silu, ..)) {
            self.0();
            self.1 = true;
        }
    }
}

/// Keys and ciphertexts of all sessions fit the memory that they may take together.
#[test]
fn a_session_whose_keys_and_ciphertexts_find_no_room_is_refused_with_numbers() {
    let (world, need) = (World::new(), schedule().encrypted_memory().unwrap());
    assert!(need > schedule().keys().memory(), "keys, and what is computed");
    let within = |encrypted_bytes| Limits { encrypted_bytes, ..limits() };
    world
        .serve_within(within(2 * need - 1), true, |session| {
            let ask = || session.ask(1, wish(None));
            let other = || {
                let (kind, said) = refused(ask());
                assert_eq!(kind, RefusalKind::Busy);
                for part in [format!("takes {need} bytes"), (2 * need - 1).to_string(), "try again later".into()] {
                    assert!(said.contains(&part), "{part}: {said}");
                }
            };
            let mut asks = Asks(&other, false);
            assert!(session.run(0, Some(session.state(0)), &mut asks).is_ok() && asks.1);
            session.failed(1);
            // It is free again, and there is nothing of the other client.
            // Counted before: who asks has a file until the server sees that it is gone.
            assert!(world.counts() == [1, 1, 0, 0] && ask().is_ok());
        })
        .unwrap();
    // Control: room for two.
    let admit = |session: &world::Session<'_>| assert!(session.ask(1, wish(None)).is_ok());
    world
        .serve_within(within(2 * need), true, |session| {
            let both = || admit(session);
            assert!(session.run(0, Some(session.state(0)), &mut Asks(&both, false)).is_ok());
        })
        .unwrap();
    let said = world.serve_within(within(need - 1), true, |_| ()).unwrap_err().to_string();
    for part in ["128 tokens", "fast,projection=ckks", &need.to_string(), "--encrypted-memory", "--plan"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
