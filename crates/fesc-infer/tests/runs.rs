//! Whole private runs against the twin, and their declared costs.
//!
//! How close: the rule is `fesc_infer::verify`'s. Measured: 2 to 105 ulps of 2^-16 by layer, as the noisy
//! twins; the carries and the noise alone make 2 to 5, and the rest comes from single values inside a zone of
//! chance (one token: a layer is off by 5, 55 or 778 ulps, as one or another SiLU falls).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_hybrid::verify::Witness;
use fesc_infer::kernels::private_plan;
use fesc_infer::{
    Ahead, Answer, BlocksAhead, Embedding, KeySets, Reveal, Schedule, ServerSetup, Unwatched, run_client_with,
    run_server, verify,
};
use fesc_model::plan::stages;
use fesc_model::twin::{Rounding, Twin};
use fesc_model::{Outline, Plan, Pooling, Shape};
use fesc_mpc::Cost;
use fesc_ring::Prg;

/// The embedding is the twin's, up to a rounding.
fn check_embedding(twin: &Twin, ids: &[u32], stream: &[i64]) {
    let width = twin.outline().unwrap().shape().d_model;
    let rows = ids.iter().flat_map(|&id| twin.table(id as usize..id as usize + 1).unwrap());
    assert_eq!(stream.len(), ids.len() * width);
    for (&got, row) in stream.iter().zip(rows) {
        assert!((got as f64 - row as f64 / 16384.0).abs() <= 1.1, "{got} for {row}");
    }
}

/// Declared costs are the counted ones, stage by stage in the order in which they ran.
fn check_costs(schedule: &Schedule, ran: &Ran<Answer, ()>, seen: &Streams) {
    let costs = schedule.costs().unwrap();
    let sum = costs.iter().fold(Cost::default(), |sum, c| Cost {
        p0_to_p1_bytes: sum.p0_to_p1_bytes + c.online.p0_to_p1_bytes,
        p1_to_p0_bytes: sum.p1_to_p0_bytes + c.online.p1_to_p0_bytes,
        rounds: sum.rounds + c.online.rounds,
    });
    assert_eq!(sum, ran.cost, "declared (left) and counted (right)");
    let demand: Vec<_> = costs.iter().flat_map(|c| c.demand.clone()).collect();
    assert_eq!(demand, ran.demand, "declared and used correlations");
    let lazily: Vec<_> = schedule.demand().collect::<Result<_, _>>().unwrap();
    assert_eq!(lazily, demand);
    let names: Vec<_> = costs.iter().map(|c| (c.stage, c.layer, c.segment)).collect();
    assert_eq!(names, seen.stages);
}

/// Every stage under encryption is as far from the same in the clear as the noise formula says, and a lane
/// that is not is found.
fn check_circuits(twin: &Twin, schedule: &Schedule, seen: &Streams) {
    let checked = verify::stages(schedule, twin, &seen.circuits).unwrap();
    let named = |(stage, layer, segment)| (stage, Some(layer), segment);
    let works: Vec<_> = schedule.works().unwrap().iter().map(|w| named((w.stage, w.layer, w.segment))).collect();
    assert_eq!(checked.iter().map(|c| named((c.stage, c.layer, c.segment))).collect::<Vec<_>>(), works);
    for (check, witness) in checked.iter().zip(&seen.circuits) {
        let d = check.deviation;
        println!("{check:?}, at most {:.1}", d.limit());
        assert!(d.within(), "{check:?}");
        // A formula that is too large would let anything pass.
        assert!(d.rms > 0.5 * d.formula, "{check:?}");
        assert_eq!(d.lanes, 2 * witness.parts.last().unwrap().len());
    }
    let Some(last) = seen.circuits.len().checked_sub(1) else { return };
    let mut wrong: Vec<Witness> = Vec::new();
    for (i, w) in seen.circuits.iter().enumerate() {
        let mut parts = w.parts.clone();
        // Half a unit of value in one lane of the last circuit.
        parts.last_mut().unwrap()[5] += i64::from(i == last) << 15;
        wrong.push(Witness { parts });
    }
    let found = verify::stages(schedule, twin, &wrong).unwrap();
    let bad: Vec<usize> = found.iter().enumerate().filter(|(_, c)| !c.deviation.within()).map(|(i, _)| i).collect();
    assert_eq!(bad, [last], "one lane is wrong");
    let fewer = verify::stages(schedule, twin, &wrong[..last]).err().unwrap().to_string();
    assert!(fewer.contains("circuits of a run"), "{fewer}");
}

/// A document of `real` tokens in a schedule of `tokens`.
fn check_run(shape: Shape, tokens: usize, real: usize, reveal: Reveal, seed: u8) {
    check_plan("fast", shape, tokens, real, reveal, seed);
}

/// The same by a plan.
fn check_plan(plan: &str, shape: Shape, tokens: usize, real: usize, reveal: Reveal, seed: u8) {
    let twin = &twin_by(private_plan(plan).unwrap(), shape, tokens, seed);
    let setup = ServerSetup::new(twin, [9; 32]).unwrap();
    let schedule = Schedule::new(twin.outline().unwrap(), tokens, reveal).unwrap();
    let mut ids = document(real, seed);
    let (ran, streams, seen) = infer(&schedule, &setup, &ids);
    check_costs(&schedule, &ran, &seen);
    ids.resize(tokens, 0);
    check_embedding(twin, &ids, &streams[0]);
    check_layers(twin, &streams);
    check_circuits(twin, &schedule, &seen);
    // Logits from the private stream: the head is exact, the norm and the pooling round.
    let last = twin.finish(streams.last().unwrap(), real, &mut Rounding::nearest()).unwrap();
    let whole = twin.classify_padded(&ids, real, &mut Rounding::nearest()).unwrap();
    let mut sorted = whole.logits.clone();
    sorted.sort_by(f64::total_cmp);
    println!("{tokens} tokens: logits {:.4?}, from the private stream {:.4?}", whole.logits, last.logits);
    assert!(sorted[4] - sorted[3] > 0.01, "a tie proves nothing: take another seed");
    assert_eq!(ran.client.class(), whole.class);
    if let Answer::Logits { integers, .. } = &ran.client {
        for (got, want) in integers.iter().zip(&last.revealed) {
            assert!((got - want).abs() <= 1, "{integers:?} {:?}", last.revealed);
        }
    }
}

/// One layer of two heads of four channels.
fn small() -> Shape {
    Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 2, norm_groups: 1, ..shape() }
}

#[test]
fn one_token() {
    check_run(shape(), 1, 1, Reveal::Label, 3);
}

#[test]
fn a_ragged_chunk() {
    check_run(shape(), 127, 127, Reveal::Logits, 4);
}

#[test]
fn a_document_shorter_than_its_schedule() {
    check_run(Shape { pooling: Pooling::Last, ..shape() }, 129, 100, Reveal::Label, 5);
}

#[test]
fn norms_by_constants() {
    check_plan("fast,norm=nerms", shape(), 40, 40, Reveal::Logits, 4);
    check_plan("fast,norm=nerms,buckets=16,steps=3", shape(), 9, 9, Reveal::Label, 3);
}

/// The paper's forms on shares, one by one and all together; the clamp and the carries are ours.
#[test]
fn polynomials_on_shares() {
    for (plan, tokens, seed) in [
        ("fast,activations=polynomial", 40, 4),
        ("fast,exp=mmexp", 150, 5),
        ("fast,activations=polynomial,exp=mmexp,norm=nerms", 33, 3),
        ("paper,scan=dual,projection=rlwe", 130, 6),
        ("paper,scan=dual,projection=rlwe,degree=6,tau=5,exp-degree=6", 21, 4),
    ] {
        println!("{plan}");
        check_plan(plan, shape(), tokens, tokens, Reveal::Label, seed);
    }
}

/// Every choice of every stage, in a plan that has no other beside it but what it needs.
#[test]
fn every_choice_is_what_its_twin_computes() {
    for (stage, choices) in stages().filter(|(stage, _)| *stage != "clamp") {
        for choice in choices {
            let plan = format!("fast,{stage}={choice}");
            println!("{plan}");
            check_plan(&plan, Shape { layers: 1, ..shape() }, 11, 11, Reveal::Label, 4);
        }
    }
}

/// Two segments: the convolution's past and the scan's state cross the border; 2,049 tokens are also two
/// blocks of the ring.
#[test]
fn a_document_of_two_segments() {
    check_run(small(), 2049, 2049, Reveal::Label, 6);
}

/// What is under CKKS, stage by stage and together: odd lengths, one token, a past that crosses segments.
#[test]
fn plans_under_encryption() {
    let one = Shape { layers: 1, ..shape() };
    for (plan, tokens, seed) in [
        ("paper", 33, 4),
        ("paper,degree=2", 7, 3),
        ("paper,degree=6,tau=5", 12, 5),
        ("fast,scan=lanes", 1, 3),
        ("fast,scan=he-dual", 21, 5),
    ] {
        println!("{plan}");
        check_plan(plan, one, tokens, tokens, Reveal::Label, seed);
    }
    check_plan("fast,projection=ckks", small(), 2049, 2049, Reveal::Label, 6);
}

/// Every combination of stages is one that parties and twin have, or that both refuse with what to take.
#[test]
fn every_combination_runs_or_is_refused() {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() };
    let (model, calibration) = calibrated(small, 60, 3);
    let mut plans = vec!["fast".to_string()];
    // Without the clamp no two parties run.
    for (stage, choices) in stages().filter(|(stage, _)| *stage != "clamp") {
        let with = |plan: &String| choices.iter().map(|c| format!("{plan},{stage}={c}")).collect::<Vec<_>>();
        plans = plans.iter().flat_map(with).collect();
    }
    let (mut ran, ids) = (0, document(9, 3));
    for text in &plans {
        let plan = Plan::parse(text).unwrap();
        let twin = Twin::new(&model, &calibration, plan);
        match private_plan(text) {
            Ok(_) => {
                let twin = twin.unwrap();
                twin.classify(&ids, &mut Rounding::nearest()).unwrap();
                let schedule = Schedule::new(twin.outline().unwrap(), 9, Reveal::Label).unwrap();
                assert!(schedule.costs().unwrap().iter().all(|c| c.online.total_bytes() > 0), "{text}");
                ran += 1;
            }
            Err(refused) => {
                let remedy = plan.misfit().filter(|why| why.contains(": take ")).unwrap();
                assert!(refused.to_string().contains(remedy), "{refused}");
                assert!(twin.err().unwrap().to_string().contains(remedy), "{text}");
            }
        }
    }
    let odd = |text: &&String| Plan::parse(text).unwrap().misfit().is_some();
    assert_eq!(ran, plans.len() - plans.iter().filter(odd).count());
    assert!(plans.len() >= 240 && ran >= 204, "{ran} of {}", plans.len());
}

/// Kernels whose state stays under encryption take more than a segment at once.
#[test]
fn long_documents_under_encryption() {
    for plan in ["fast,scan=lanes", "fast,scan=hybrid", "fast,scan=he-dual"] {
        println!("{plan}");
        check_plan(plan, small(), 2049, 2049, Reveal::Label, 6);
    }
}

/// Segments of a schedule, and the longest document of a plan.
#[test]
fn segments_follow_the_scan() {
    let segments = |plan: &str, tokens: usize| {
        let twin = twin_by(private_plan(plan).unwrap(), small(), 60, 6);
        let schedule = Schedule::new(twin.outline().unwrap(), tokens, Reveal::Label);
        schedule.map(|s| s.costs().unwrap().iter().map(|c| c.segment).max().unwrap() + 1)
    };
    assert_eq!(segments("fast", 8192).unwrap(), 4);
    assert_eq!(segments("fast,scan=chunks", 4096).unwrap(), 2);
    for plan in ["fast,scan=lanes", "fast,scan=hybrid", "fast,scan=he-dual"] {
        assert_eq!(segments(plan, 8192).unwrap(), 1);
        assert!(segments(plan, 16384).unwrap_err().to_string().contains("8192"));
    }
}

/// A public table, and blocks from a thread: the same answer.
#[test]
fn a_public_table_and_blocks_made_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let twin = twin(shape(), 20, 7);
    let setup = ServerSetup::in_directory(&twin, [9; 32], Embedding::Public, directory.path()).unwrap();
    let schedule = Schedule::new(setup.outline().unwrap(), 20, Reveal::Label).unwrap();
    let ids = document(20, 7);
    let refused = run(&schedule, &setup, &ids);
    assert!(refused.is_err(), "an encrypted schedule with a public table");
    let schedule = schedule.with_embedding(Embedding::Public);
    let answer = run(&schedule, &setup, &ids).unwrap();
    assert_eq!(answer.class(), twin.classify(&ids, &mut Rounding::nearest()).unwrap().class);
    assert_eq!(schedule.costs().unwrap()[0].online, Cost::default(), "nothing is sent for a public table");
}

/// With prepared blocks from a thread.
fn run(schedule: &Schedule, setup: &ServerSetup, ids: &[u32]) -> fesc_infer::Result<Answer> {
    let client = setup.client_setup();
    let ran = both(
        |p| {
            let mut pads = BlocksAhead::start(client.clone(), schedule, 2, Prg::from_seed([1; 16]))?;
            let ahead = Ahead { blocks: &mut pads, keys: &mut KeySets::default() };
            Ok(run_client_with(p, schedule, client, ids, &mut Prg::from_seed([2; 16]), ahead, &mut Unwatched))
        },
        |p| Ok(run_server(p, schedule, setup, &mut Unwatched)),
    );
    ran.server.and(ran.client)
}

/// What does not fit is refused before the first byte.
#[test]
fn misfits_are_refused() {
    let setup = ServerSetup::new(twin(shape(), 20, 7), [9; 32]).unwrap();
    let other = ServerSetup::new(twin(shape(), 20, 8), [9; 32]).unwrap();
    let outline = setup.outline().unwrap();
    assert!(
        Schedule::new(outline, 0, Reveal::Label).is_err() && Schedule::new(outline, 1 << 21, Reveal::Label).is_err()
    );
    // An outline that names a kernel without what it needs, as a server may send it.
    let named = outline.to_json().replacen('{', "{\"scan\":{\"he_scan\":\"hybrid\"},", 1);
    let refused = Outline::from_json(&named).err().unwrap().to_string();
    assert!(refused.contains("ranges of a scan"), "{refused}");
    let schedule = Schedule::new(outline, 20, Reveal::Label).unwrap();
    let client = |ids: &[u32], setup: &ServerSetup| {
        let ids = ids.to_vec();
        let ran = both(
            |p| {
                let mut prg = Prg::from_seed([2; 16]);
                let client = setup.client_setup();
                Ok(fesc_infer::run_client(p, &schedule, client, &ids, &mut prg, &mut Unwatched).is_err())
            },
            |p| Ok(run_server(p, &schedule, &other, &mut Unwatched).is_err()),
        );
        assert_eq!(ran.cost.total_bytes(), 0);
        assert!(ran.client && ran.server);
    };
    client(&[], &setup);
    client(&[0; 21], &setup);
    client(&[1, VOCAB as u32], &setup);
    client(&[1, 2], &other);
}
