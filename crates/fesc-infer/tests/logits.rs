//! The bound on logits: it holds for plans under encryption, and a spoilt stage passes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_hybrid::verify::Deviation;
use fesc_infer::kernels::private_plan;
use fesc_infer::verify::{self, FLOOR, Logits, StageCheck};
use fesc_infer::{Reveal, Schedule, ServerSetup, Stage};
use fesc_model::float::Layer;
use fesc_model::twin::{Rounding, Twin};
use fesc_model::{Model, Shape, Weights};
use fesc_ring::Prg;

const TOKENS: usize = 21;

/// A private run by the model whose layers `spoil` has changed, against the twin of the model as it was.
fn run(plan: &str, shape: Shape, tokens: usize, spoil: impl Fn(&mut Layer)) -> Option<Logits> {
    let plan = private_plan(plan).unwrap();
    let (model, calibration) = calibrated(shape, tokens, 4);
    let twin = Twin::new(&model, &calibration, plan).unwrap();
    // The weights of `calibrated`.
    let mut weights = Weights::random(model.config(), Some(5), &mut Prg::from_seed([4; 16]));
    weights.layers.iter_mut().for_each(spoil);
    let spoilt = Model::new(model.config().clone(), weights).unwrap();
    let setup = ServerSetup::new(Twin::new(&spoilt, &calibration, plan).unwrap(), [9; 32]).unwrap();
    // Both have the same outline, so nothing but numbers tells them apart.
    let schedule = Schedule::new(twin.outline().unwrap(), tokens, Reveal::Logits).unwrap();
    // Shorter than the run: padding is in no logit.
    let ids = document(tokens - 1, 4);
    let (ran, streams, seen) = infer(&schedule, &setup, &ids);
    let stages = verify::stages(&schedule, &twin, &seen.circuits).unwrap();
    verify::logits(&twin, &ids, streams.last().unwrap(), &stages, Some(&ran.client)).unwrap()
}

/// One layer: a run takes seconds.
fn one() -> Shape {
    Shape { layers: 1, ..shape() }
}

#[test]
fn logits_are_within_the_bound_of_the_noise_formula() {
    let chunks = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 2, norm_groups: 1, ..shape() };
    for (plan, shape, tokens) in [
        ("paper", one(), TOKENS),
        ("paper,exp=stable", one(), TOKENS),
        ("fast", shape(), TOKENS),
        ("fast,scan=lanes", one(), 9),
        // Two parts: a state that is refreshed.
        ("fast,scan=chunks", chunks, 131),
    ] {
        let found = run(plan, shape, tokens, |_| ());
        let found = found.unwrap();
        println!("{plan}: {found:?}");
        assert!(found.within(), "{plan}: {found:?}");
        // A bound that lets anything pass is none: it is below a step of the revealed logits.
        assert!(found.bound < FLOOR && found.bits > 3.0, "{plan}: {found:?}");
        // And one that nothing comes near says as little.
        assert!(found.error > 0.002 * found.bound, "{plan}: {found:?}");
        assert!(found.revealed_error.unwrap() <= FLOOR + found.bound);
    }
    // The twin multiplies exps where the kernel takes exps of sums.
    assert!(run("fast,scan=he-dual", one(), 9, |_| ()).is_none());
}

#[test]
fn a_spoilt_stage_exceeds_the_bound() {
    for plan in ["paper", "paper,exp=stable"] {
        // A projection of which one output is the other way round; a scan whose skip is off by a quarter.
        let projection = |layer: &mut Layer| {
            let row = layer.out_proj.len() / shape().d_model;
            layer.out_proj[..row].iter_mut().for_each(|w| *w = -*w);
        };
        let scan = |layer: &mut Layer| layer.d.iter_mut().for_each(|d| *d += 0.25);
        for spoil in [&projection as &dyn Fn(&mut Layer), &scan] {
            let found = run(plan, one(), TOKENS, spoil).unwrap();
            println!("{plan}: {found:?}");
            assert!(found.error > 4.0 * found.bound && !found.within(), "{plan}: {found:?}");
        }
    }
}

/// The bound grows with the formula of any stage, and not with what happened in a run.
#[test]
fn the_bound_follows_the_formula_of_the_stages() {
    let plan = private_plan("paper,scan=chunks").unwrap();
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 2, norm_groups: 1, ..shape() };
    let twin = twin_by(plan, small, 140, 4);
    let ids = document(140, 4);
    let stream = twin.forward(&ids, &mut Rounding::nearest(), &mut |_| ()).unwrap();
    let with = |stages: &[StageCheck]| verify::logits(&twin, &ids, &stream, stages, None).unwrap().unwrap();
    let quiet = with(&[]);
    assert!(quiet.error == 0.0 && quiet.bound > 0.0 && quiet.revealed_error.is_none(), "{quiet:?}");
    for (stage, spread) in [
        (Stage::InProj, [0.03, 0.0]),
        (Stage::Scan, [0.03, 0.0]),
        (Stage::Scan, [0.0, 0.5]),
        (Stage::OutProj, [0.03, 0.0]),
    ] {
        let deviation = Deviation { rms: 0.0, formula: 0.0, largest: 0.0, deviations: 0.0, lanes: 1, spread };
        let noisy = with(&[StageCheck { stage, layer: 0, segment: 0, deviation }]);
        println!("{stage} {spread:?}: {} for {}", noisy.bound, quiet.bound);
        assert!(noisy.bound > 2.0 * quiet.bound, "{stage}: {noisy:?} for {quiet:?}");
        // Of no other layer.
        assert_eq!(with(&[StageCheck { stage, layer: 1, segment: 0, deviation }]).bound, quiet.bound);
    }
}
