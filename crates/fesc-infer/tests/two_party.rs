//! A whole run without any third party: correlations by oblivious transfer, with the RLWE generator of
//! products in place (bundles of this size stay with Gilboa where that is cheaper; `fesc_rlwe::products` has
//! tests of its own).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::*;
use fesc_infer::session::phase;
use fesc_infer::session::source::Timed;
use fesc_infer::{Reveal, Schedule, ServerSetup, Unwatched, run_client, run_server};
use fesc_model::Shape;
use fesc_model::twin::Rounding;
use fesc_mpc::provider::TwoParty;
use fesc_mpc::{Party, Role};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::Prg;
use fesc_rlwe::products::Rlwe;

/// A party whose generator is on the channel of the protocol, counted apart.
fn party(role: Role, mut channel: Channel) -> Party {
    let seed = |n: u8| Prg::from_seed([n + role.index() as u8; 16]);
    let source = TwoParty::setup(role, &mut channel, CotKind::Iknp, seed(10)).unwrap();
    let products = Rlwe::setup(role, &mut channel, seed(20)).unwrap();
    channel.begin(phase::ONLINE);
    let (timed, _) = Timed::new(Box::new(source.with_products(Box::new(products))));
    Party::new(role, channel, Box::new(timed))
}

/// Bytes and rounds of the protocol are the declared ones, however many messages of the generator lie between
/// its own.
fn check_counted(schedule: &Schedule, party: &mut Party) {
    let costs = schedule.costs().unwrap();
    let online = party.channel().stats().phase(phase::ONLINE);
    let bytes: u64 = costs.iter().map(|c| c.online.total_bytes()).sum();
    let rounds: u64 = costs.iter().map(|c| c.online.rounds).sum();
    assert_eq!((online.sent_bytes + online.received_bytes, online.rounds), (bytes, rounds), "{:?}", party.role());
    assert!(party.channel().stats().phase(phase::OFFLINE).rounds > rounds, "the generator spoke");
}

#[test]
fn the_answer_is_the_twins() {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() };
    let twin = twin(small, 40, 5);
    let setup = ServerSetup::new(&twin, [7; 32]).unwrap();
    let schedule = Schedule::new(setup.outline().unwrap(), 20, Reveal::Label).unwrap();
    let ids = document(20, 5);
    let (c0, c1) = Channel::memory_pair();
    let answer = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut server = party(Role::P1, c1);
            run_server(&mut server, &schedule, &setup, &mut Unwatched).unwrap();
            check_counted(&schedule, &mut server);
        });
        let (mut client, mut prg) = (party(Role::P0, c0), Prg::from_seed([3; 16]));
        let answer = run_client(&mut client, &schedule, setup.client_setup(), &ids, &mut prg, &mut Unwatched);
        server.join().unwrap();
        check_counted(&schedule, &mut client);
        answer.unwrap()
    });
    let outcome = twin.classify(&ids, &mut Rounding::nearest()).unwrap();
    assert_eq!(answer.class(), outcome.class, "{:?}", outcome.logits);
}

/// Long enough for both RLWE engines: the masks of chunk states that one of them chooses go through the whole
/// scan, and layers are the twin's.
#[test]
fn layers_are_the_twins_with_masks_that_the_generator_chose() {
    let wide = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 64, state: 16, groups: 1, norm_groups: 1, ..shape() };
    let tokens = 300;
    let twin = twin(wide, tokens, 6);
    let setup = ServerSetup::new(&twin, [7; 32]).unwrap();
    let schedule = Schedule::new(setup.outline().unwrap(), tokens, Reveal::Label).unwrap();
    let ids = document(tokens, 6);
    let (c0, c1) = Channel::memory_pair();
    let (mut seen, mut other) = (Streams::default(), Streams::default());
    let heard: Arc<Mutex<BTreeMap<u16, usize>>> = Arc::default();
    let answer = std::thread::scope(|scope| {
        let server = scope.spawn(|| run_server(&mut party(Role::P1, c1), &schedule, &setup, &mut other));
        let (mut client, notes) = (party(Role::P0, c0), Arc::clone(&heard));
        client.channel().set_tap(Box::new(move |tag, _| *notes.lock().unwrap().entry(tag.0).or_default() += 1));
        let mut prg = Prg::from_seed([3; 16]);
        let answer = run_client(&mut client, &schedule, setup.client_setup(), &ids, &mut prg, &mut seen);
        server.join().unwrap().unwrap();
        check_counted(&schedule, &mut client);
        answer.unwrap()
    });
    for (tag, what) in [(0x0421, "uploads of slots"), (0x0424, "uploads of vectors")] {
        assert!(heard.lock().unwrap().contains_key(&tag), "{what}");
    }
    let streams: Vec<_> = seen.shares.iter().zip(&other.shares).map(|(a, b)| join(a, b)).collect();
    check_layers(&twin, &streams);
    let outcome = twin.classify(&ids, &mut Rounding::nearest()).unwrap();
    assert_eq!(answer.class(), outcome.class, "{:?}", outcome.logits);
}
