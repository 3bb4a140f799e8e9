//! A whole run without any third party: correlations by oblivious transfer, with the RLWE generator of products in place (bundles of this
//! size stay with Gilboa where that is cheaper; `fesc_rlwe::products` has tests of its own).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_infer::{Flow, Reveal, ServerSetup, Unwatched, run_client, run_server};
use fesc_model::Shape;
use fesc_model::twin::Rounding;
use fesc_mpc::provider::TwoParty;
use fesc_mpc::{Party, Role};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::Prg;
use fesc_rlwe::products::Rlwe;

fn party(role: Role, mut channel: Channel) -> Party {
    let seed = |n: u8| Prg::from_seed([n + role.index() as u8; 16]);
    let source = TwoParty::setup(role, &mut channel, CotKind::Iknp, seed(10)).unwrap();
    let products = Rlwe::setup(role, &mut channel, seed(20)).unwrap();
    Party::new(role, channel, Box::new(source.with_products(Box::new(products))))
}

#[test]
fn the_answer_is_the_twins() {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() };
    let setup = ServerSetup::new(twin(small, 40, 5), [7; 32]).unwrap();
    let flow = Flow::new(setup.outline().unwrap(), 20, Reveal::Label).unwrap();
    let ids = document(20, 5);
    let (c0, c1) = Channel::memory_pair();
    let answer = std::thread::scope(|scope| {
        let server = scope.spawn(|| run_server(&mut party(Role::P1, c1), &flow, &setup, &mut Unwatched));
        let client = setup.client_setup();
        let mut prg = Prg::from_seed([3; 16]);
        let answer = run_client(&mut party(Role::P0, c0), &flow, client, &ids, &mut prg, &mut Unwatched);
        server.join().unwrap().unwrap();
        answer.unwrap()
    });
    let outcome = setup.twin().classify(&ids, &mut Rounding::nearest()).unwrap();
    assert_eq!(answer.class(), outcome.class, "{:?}", outcome.logits);
}
