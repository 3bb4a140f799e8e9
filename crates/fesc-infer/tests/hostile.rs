//! A peer that sends garbage: every run ends with an error or a class, none with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_infer::{Answer, InferError, Reveal, Schedule, ServerSetup, Unwatched, run_client, run_server};
use fesc_model::Shape;
use fesc_mpc::{Party, Role};
use fesc_ring::Prg;

/// Spoils every `every`-th message that a party receives.
fn spoil(party: &mut Party, every: usize, seed: u8) {
    let (mut prg, mut count) = (Prg::from_seed([seed; 16]), 0);
    party.channel().set_tap(Box::new(move |_, payload| {
        count += 1;
        if count % every == 0 {
            prg.fill_bytes(payload);
        }
    }));
}

#[test]
fn garbage_is_an_error_or_an_answer() {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() };
    let setup = ServerSetup::new(twin(small, 40, 1), [7; 32]).unwrap();
    let ids = document(9, 1);
    for reveal in [Reveal::Label, Reveal::Logits] {
        let schedule = Schedule::new(setup.outline().unwrap(), 9, reveal).unwrap();
        for victim in [Role::P0, Role::P1] {
            for every in [1, 2, 7, 31] {
                // The party that fails first leaves; the other then meets a closed channel.
                let (schedule, setup, ids) = (&schedule, &setup, &ids);
                let ran = meet(
                    |p| {
                        if victim == Role::P0 {
                            spoil(p, every, 3);
                        }
                        let client = setup.client_setup();
                        run_client(p, schedule, client, ids, &mut Prg::from_seed([2; 16]), &mut Unwatched)
                    },
                    |p| {
                        if victim == Role::P1 {
                            spoil(p, every, 4);
                        }
                        run_server(p, schedule, setup, &mut Unwatched)
                    },
                );
                match ran.0 {
                    Ok(Answer::Label(class) | Answer::Logits { class, .. }) => assert!(class < 5),
                    Err(InferError::Answer { classes }) => assert_eq!(classes, 5),
                    Err(error) => println!("{error}"),
                }
            }
        }
    }
}
