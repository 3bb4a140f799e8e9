//! A peer's bytes are hostile: garbage of the right length in place of any message, in any protocol, ends in
//! a result or an error on both sides, never in a panic or a hang. (Wrong lengths, tags and orders are
//! refused by the channel and tested there.)
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::Prg;

use crate::activation::{Activation, ExpSquare, Folded, Piecewise, Rsqrt};
use crate::provider::{Budget, Correlations, Dealer, Seeded, TwoParty, serve_dealer};
use crate::testing::{ring, sample_requests};
use crate::{MpcError, Party, Role, Shared};

/// Replaces the payload of message `index` by random bytes, counts the messages.
fn spoil(channel: &mut Channel, index: usize) -> Arc<AtomicUsize> {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    channel.set_tap(Box::new(move |_, payload| {
        if counter.fetch_add(1, Ordering::SeqCst) == index {
            Prg::from_seed([index as u8; 16]).fill_bytes(payload);
        }
    }));
    seen
}

/// Runs both parties once per message of the victim, spoiling that message.
fn each_message<E: std::fmt::Debug + Send>(run: impl Fn(Role, Channel) -> Result<(), E> + Sync) {
    for victim in [Role::P0, Role::P1] {
        let mut index = 0;
        loop {
            let (c0, c1) = Channel::memory_pair();
            let mut ends = [c0, c1];
            let seen = spoil(&mut ends[victim.index()], index);
            let [c0, c1] = ends;
            std::thread::scope(|scope| {
                let peer = scope.spawn(|| run(Role::P1, c1));
                let _ = run(Role::P0, c0);
                let _ = peer.join().expect("no panic");
            });
            index += 1;
            if index > seen.load(Ordering::SeqCst) {
                break;
            }
        }
        assert!(index > 1, "at least one message was spoilt");
    }
}

#[test]
fn activations_survive_garbage() {
    let forms: Vec<Box<dyn Activation + Sync>> = vec![
        Box::new(Piecewise::new(fesc_approx::silu::preset().unwrap()).into_ring(ring(48))),
        Box::new(Folded::new(fesc_approx::Folded::new(12).unwrap()).into_ring(ring(48))),
        Box::new(Piecewise::new(fesc_approx::softplus::preset().unwrap())),
        Box::new(ExpSquare::new(fesc_approx::exp_square::ExpSquare::preset().unwrap())),
        Box::new(Rsqrt::new(fesc_approx::rsqrt::Rsqrt::preset(1.0 / 1024.0, 20).unwrap())),
    ];
    for form in &forms {
        each_message(|role, channel| {
            let mut party = Party::new(role, channel, Box::new(Seeded::new(role, 4)));
            form.run(&mut party, &Shared::new(form.ring(), vec![12_345; 70])).map(drop)
        });
    }
}

#[test]
fn generation_between_two_parties_survives_garbage() {
    let requests = sample_requests();
    each_message(|role, mut channel| -> Result<(), MpcError> {
        let prg = Prg::from_seed([role.index() as u8 + 1; 16]);
        let mut source = TwoParty::setup(role, &mut channel, CotKind::Iknp, prg)?;
        requests.iter().try_for_each(|r| source.take(&mut channel, r).map(drop))
    });
}

#[test]
fn the_dealer_and_its_clients_survive_garbage() {
    let requests = sample_requests();
    // P0 is the client under attack or the attacker; the dealer sits at the other end.
    each_message(|role, channel| -> Result<(), MpcError> {
        match role {
            Role::P0 => {
                let (mut unused, _peer) = Channel::memory_pair();
                let mut source = Dealer::new(Role::P0, channel);
                requests.iter().try_for_each(|r| source.take(&mut unused, r).map(drop))
            }
            Role::P1 => {
                let (honest, dealer_end) = Channel::memory_pair();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let (mut unused, _peer) = Channel::memory_pair();
                        let mut source = Dealer::new(Role::P1, honest);
                        let _ = requests.iter().try_for_each(|r| source.take(&mut unused, r).map(drop));
                    });
                    serve_dealer(channel, dealer_end, &mut Prg::from_seed([1; 16]), &Budget::unlimited()).map(drop)
                })
            }
        }
    });
}
