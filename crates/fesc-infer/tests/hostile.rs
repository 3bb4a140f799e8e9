//! A peer that sends garbage: every run ends with an error or a class, none with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_ckks::wire::HEADER_BYTES;
use fesc_infer::kernels::private_plan;
use fesc_infer::{
    Ahead, Answer, FreshBlocks, InferError, Reveal, Schedule, ServerSetup, Unwatched, run_client, run_client_with,
    run_server, run_server_with,
};
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

/// Ciphertexts that are garbage, or whose bytes differ in one place: headers are refused, and residues that
/// are below their primes compute something.
#[test]
fn garbage_under_encryption_is_an_error_or_an_answer() {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() };
    let plan = private_plan("fast,projection=ckks,scan=he-dual").unwrap();
    let setup = ServerSetup::new(twin_by(plan, small, 40, 1), [7; 32]).unwrap();
    let schedule = Schedule::new(setup.outline().unwrap(), 9, Reveal::Label).unwrap();
    // Of ciphertexts all bytes, the kind in the header, or the lowest bit of a residue.
    let spoil = |party: &mut Party, place: Option<usize>| {
        let mut prg = Prg::from_seed([5; 16]);
        party.channel().set_tap(Box::new(move |tag, payload| match place {
            _ if tag.0 >> 8 != 7 => {}
            None => prg.fill_bytes(payload),
            Some(place) => payload[place] ^= 1,
        }));
    };
    for (victim, place) in
        [Role::P0, Role::P1].into_iter().flat_map(|v| [None, Some(6), Some(HEADER_BYTES)].map(|place| (v, place)))
    {
        let (mut mine, theirs) = keys(&schedule);
        let (schedule, setup, ids) = (&schedule, &setup, &document(9, 1));
        let ran = meet(
            |p| {
                if victim == Role::P0 {
                    spoil(p, place);
                }
                let (client, mut prg) = (setup.client_setup(), Prg::from_seed([2; 16]));
                let mut blocks = FreshBlocks::new(client, prg.fork());
                let ahead = Ahead { blocks: &mut blocks, keys: &mut mine };
                run_client_with(p, schedule, client, ids, &mut prg, ahead, &mut Unwatched)
            },
            |p| {
                if victim == Role::P1 {
                    spoil(p, place);
                }
                run_server_with(p, schedule, setup, &theirs, &mut Unwatched)
            },
        );
        assert_eq!(ran.0.is_ok(), place == Some(HEADER_BYTES), "{victim:?}, {place:?}: {:?}", ran.0.err());
    }
}
