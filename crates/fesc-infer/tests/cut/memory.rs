//! In memory, at every message of a run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fesc_infer::{Answer, Result, Reveal, Schedule, ServerSetup, Unwatched, run_client, run_server};
use fesc_mpc::{Party, Role};
use fesc_net::Hangup;
use fesc_ring::Prg;

use super::common::{document, meet};
use super::{gone, model, of_channel};

/// The two ends of a line, to be cut together.
#[derive(Default)]
struct Ends(Mutex<Vec<Hangup>>);

impl Ends {
    fn cut(&self) {
        self.0.lock().unwrap().iter().for_each(Hangup::now);
    }
}

/// Counts the messages that a party receives, and cuts the line after the `at`-th.
fn count(party: &mut Party, ends: &Arc<Ends>, at: Option<usize>) -> Arc<AtomicUsize> {
    ends.0.lock().unwrap().push(party.channel().hangup().unwrap());
    let (line, received) = (Arc::clone(ends), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&received);
    party.channel().set_tap(Box::new(move |_, _| {
        if Some(counted.fetch_add(1, Ordering::Relaxed) + 1) == at {
            line.cut();
        }
    }));
    received
}

/// What became of a party, and how many messages it had received.
type Ended<T> = (Result<T>, usize);

fn run(
    setup: &ServerSetup,
    schedule: &Schedule,
    ids: &[u32],
    cut: Option<(Role, usize)>,
) -> (Ended<Answer>, Ended<()>) {
    let at = |role| cut.and_then(|(victim, at)| (victim == role).then_some(at));
    let ends = Arc::default();
    let client = |p: &mut Party| {
        let received = count(p, &ends, at(Role::P0));
        let ended = run_client(p, schedule, setup.client_setup(), ids, &mut Prg::from_seed([2; 16]), &mut Unwatched);
        (ended, received.load(Ordering::Relaxed))
    };
    let server = |p: &mut Party| {
        let received = count(p, &ends, at(Role::P1));
        (run_server(p, schedule, setup, &mut Unwatched), received.load(Ordering::Relaxed))
    };
    meet(client, server)
}

/// The peer's end, and no other cause.
fn check<T>(ended: &Ended<T>, all: usize, what: &str) {
    match &ended.0 {
        Ok(_) => assert_eq!(ended.1, all, "{what}: a result without all messages"),
        Err(e) => assert!(of_channel(e).is_some_and(gone), "{what}: {e}"),
    }
}

#[test]
fn a_run_cut_at_any_message_ends_on_both_sides() {
    let setup = model();
    let ids = document(3, 1);
    let schedule = Schedule::new(setup.outline().unwrap(), 3, Reveal::Label).unwrap();
    let (client, server) = run(&setup, &schedule, &ids, None);
    assert!(client.0.is_ok() && server.0.is_ok());
    let all = [client.1, server.1];
    assert!(all.iter().all(|n| *n > 60), "{all:?}");
    for victim in [Role::P0, Role::P1] {
        for at in 1..=all[victim.index()] {
            let (client, server) = run(&setup, &schedule, &ids, Some((victim, at)));
            let what = format!("{victim:?} has its line cut after message {at}");
            check(&client, all[0], &format!("{what}, the client"));
            check(&server, all[1], &format!("{what}, the server"));
            let cut = if victim == Role::P0 { client.1 } else { server.1 };
            assert_eq!(cut, at, "{what}: nothing arrives on a line that was cut");
        }
    }
}
