//! CKKS keys that outlive a session: uploaded once, kept by both ends, retired with a session that dies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::serving::*;
use common::{document, shape, twin_by};
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Finished, KeyUse, MyKeys, RunOptions, Visit, order};
use fesc_infer::session::handshake::{Accept, Granted, Greeting, Offer, Purpose, Reply, Step, VERSION};
use fesc_infer::session::keyring::{Grant, KeyLimits, Order, Wish};
use fesc_infer::session::message::Talk;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Limits, Server};
use fesc_infer::session::{Dial, Hex32, Provider, Randomness, RefusalKind, SessionError, dealer, hello};
use fesc_infer::{Doing, Reveal, Schedule, ServerSetup, Stage, Unwatched, Watch};
use fesc_model::Shape;
use fesc_model::plan::Projection;
use fesc_model::twin::{Plan, Rounding, Twin};
use fesc_net::{ClientSecurity, Config, Identity, Listener, ServerSecurity, connect};

const ENCRYPTED: Plan = Plan { projection: Projection::Ckks, ..Plan::FAST };

fn model() -> Twin {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() };
    twin_by(ENCRYPTED, small, 40, 5)
}

fn schedule() -> Schedule {
    Schedule::new(&model().outline().unwrap(), 128, Reveal::Label).unwrap()
}

/// A dealer, a server with a list, and three clients; the server's disk and the clients' outlive a server.
struct World {
    place: tempfile::TempDir,
    identity: [PathBuf; 2],
    clients: [Arc<Identity>; 3],
    dealer: String,
    ids: Vec<u32>,
}

impl World {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let identity = ["server.key", "server.crt"].map(|name| place.path().join(name));
        Identity::generate().unwrap().save(&identity[0], &identity[1]).unwrap();
        let clients: [_; 3] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
        let line = |(n, identity): (usize, &Arc<Identity>)| {
            format!("client-{n} {} sessions=unlimited\n", identity.fingerprint())
        };
        let list: String = clients.iter().enumerate().map(line).collect();
        std::fs::write(place.path().join("clients"), list).unwrap();
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
        let dealer = listener.address().to_string();
        // It ends with the process of the tests.
        std::thread::spawn(move || dealer::serve(&listener, &Randomness::os(), &AtomicBool::new(false), &|_| {}));
        Self { place, identity, clients, dealer, ids: document(20, 5) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn third(&self) -> Dial {
        let security = ClientSecurity::InsecurePlaintext;
        Dial { address: self.dealer.clone(), security, config: Config::default(), cancel: None }
    }

    /// Serves while `visit` runs, with a list or without.
    fn serve<T>(&self, keys: KeyLimits, listed: bool, visit: impl FnOnce(&Session<'_>) -> T) -> T {
        let mut options = options(Limits { sessions: 4, keys, ..limits() }, None, &self.path("state"));
        options.access.clients = listed.then(|| self.path("clients"));
        options.dealer = Some(self.third());
        let failures = Failures::default();
        let hosted = Hosted::new(ServerSetup::new(model(), [7; 32]).unwrap(), None).unwrap();
        let server = Arc::new(Server::new(hosted, options, Box::new(failures.clone())).unwrap());
        let identity = Identity::load(&self.identity[0], &self.identity[1]).unwrap();
        let pin = identity.fingerprint();
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default()).unwrap();
        let (address, stop) = (listener.address().to_string(), AtomicBool::new(false));
        let dial = |who: Option<usize>| {
            let security = match who {
                Some(n) => ClientSecurity::TlsAs(pin, Arc::clone(&self.clients[n])),
                None => ClientSecurity::Tls(pin),
            };
            Dial { address: address.clone(), security, config: Config::default(), cancel: None }
        };
        let session = Session { world: self, failures, dials: [Some(0), Some(1), Some(2), None].map(dial) };
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&listener, &Randomness::os(), &stop));
            // The server stops also when the visit panics: the scope waits for it.
            let visited = catch_unwind(AssertUnwindSafe(|| visit(&session)));
            stop.store(true, Ordering::Relaxed);
            serving.join().unwrap().unwrap();
            visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Files of the server's keys, or of those of a client.
    fn files(&self, state: &str) -> Vec<PathBuf> {
        let directories = ["keys-server", "keys-client"].map(|name| self.path(state).join(name));
        let files = directories.iter().filter_map(|d| std::fs::read_dir(d).ok()).flatten();
        let mut files: Vec<PathBuf> = files.map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Files at the server, and at each of the clients.
    fn counts(&self) -> [usize; 4] {
        ["state", "state-0", "state-1", "state-2"].map(|name| self.files(name).len())
    }
}

/// A client without a certificate.
const STRANGER: usize = 3;

/// A server that runs.
struct Session<'a> {
    world: &'a World,
    failures: Failures,
    dials: [Dial; 4],
}

impl Session<'_> {
    fn state(&self, who: usize) -> PathBuf {
        self.world.path(&format!("state-{who}"))
    }

    fn options(&self, keys: Option<PathBuf>) -> RunOptions {
        RunOptions { keys, ..label(Provider::Dealer(self.world.third())) }
    }

    fn run(&self, who: usize, keys: Option<PathBuf>, watch: &mut dyn Watch) -> Result<Finished, SessionError> {
        let cache = Cache::open(&self.world.path("cache")).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let visit = loop {
            match Visit::start(&self.dials[who], &cache, None, 1 << 30, &Randomness::os(), watch) {
                Err(SessionError::Refused { kind: RefusalKind::Busy, .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                visit => break visit?,
            }
        };
        visit.classify(&self.world.ids, &self.options(keys), watch)
    }

    /// A document of a client that keeps its keys.
    fn classify(&self, who: usize) -> Result<Finished, SessionError> {
        self.run(who, Some(self.state(who)), &mut Unwatched)
    }

    fn keys(&self, who: usize) -> KeyUse {
        self.classify(who).unwrap().keys
    }

    fn order(&self, who: usize, what: &Order) -> Result<MyKeys, SessionError> {
        order(&self.dials[who], &self.state(who), what, &Randomness::os())
    }

    /// What the server says to a wish, by a client that has no keys at all.
    fn ask(&self, who: usize, keys: Option<Wish>) -> Result<Granted, SessionError> {
        let Dial { address, security, config, .. } = &self.dials[who];
        let mut channel = connect(address, security, &hello(), config)?;
        let mut talk = Talk::default();
        let greeting = Greeting { version: VERSION, nonce: Hex32([4; 32]), purpose: Purpose::Session };
        talk.tell(&mut channel, "greeting", &greeting)?;
        let terms = talk.hear::<Reply<Offer>>(&mut channel, "offer")?.granted()?.terms;
        let (reveal, provider) = (Reveal::Label, Provider::Dealer(()));
        let accept = Accept { terms, bucket: 128, reveal, provider, verify: false, keys };
        talk.tell(&mut channel, "step", &Step::Run(accept))?;
        talk.hear::<Reply<Granted>>(&mut channel, "answer")?.granted()
    }

    /// Waits until the server has seen that a client is gone.
    fn failed(&self, times: usize) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(20);
        while self.failures.all().len() < times && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.failures.all()
    }
}

fn refused<T>(result: Result<T, SessionError>) -> (RefusalKind, String) {
    match result {
        Err(SessionError::Refused { kind, message }) => (kind, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was granted"),
    }
}

fn wish(kept: Option<Hex32>) -> Option<Wish> {
    Some(Wish { shape: Hex32(schedule().keys().digest()), kept, keep: true })
}

/// The name of the keys in a file.
fn name(path: &Path) -> Hex32 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

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
