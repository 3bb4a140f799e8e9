#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use fesc_model::twin::Calibration;
use fesc_model::{Config, Model, Outline, Plan, Shape, Weights};
use fesc_ring::Prg;

use crate::kernels::private_plan;
use crate::schedule::{Reveal, Schedule};
use crate::session::bucket::is_bucket;

/// What the documents promise of an inference (docs/SECURITY-ARGUMENTS.md, L).
const PROMISED: f64 = -40.0;
/// Longest document of the plans.
const LONGEST: usize = 8192;

/// Ranges of one layer of a shape, found on few words and tokens.
fn ranges(shape: &Shape) -> (Shape, Calibration) {
    let shape = Shape { layers: 1, vocab: 40, ..*shape };
    let config = Config::new(shape).unwrap();
    let weights = Weights::random(&config, Some(5), &mut Prg::from_seed([3; 16]));
    let ids: Vec<u32> = (0..24).map(|i| i * 7 % 40).collect();
    (shape, Calibration::collect(&Model::new(config, weights).unwrap(), [ids]).unwrap())
}

/// The outline of as many such layers.
fn outline(shape: &Shape, calibration: &Calibration, layers: usize, plan: Plan) -> Outline {
    let mut calibration = calibration.clone();
    let one = calibration.layers[0].clone();
    calibration.layers = vec![one; layers];
    let config = Config::new(Shape { layers, ..*shape }).unwrap();
    Outline::new(&config, &calibration, plan).unwrap().with_classes(5).unwrap()
}

/// The sum over all conversions of an inference. Layers are alike, so one is declared; what an inference
/// converts in all is counted for as many as there are.
fn log_distance(schedule: &Schedule) -> f64 {
    let layers = schedule.outline().shape().layers as f64;
    let one: f64 = schedule.works_of(1).unwrap().iter().map(|w| w.work.log_distance.exp2()).sum();
    (layers * one).log2()
}

/// Every plan that is accepted, at every bucket up to 8,192 tokens, is within what is promised; where the
/// masks have no room, there is an error.
#[test]
fn every_accepted_plan_is_within_the_promised_distance() {
    let kernels = ["hybrid", "lanes", "chunks", "he-dual"];
    let with = |first: &str| kernels.map(|kernel| format!("{first},scan={kernel},exp=stable"));
    let small = Shape { vocab: 40, d_model: 8, heads: 2, head_dim: 4, state: 4, groups: 2, norm_groups: 1, ..tiny() };
    let buckets: Vec<usize> = (1..=LONGEST).filter(|&tokens| is_bucket(tokens)).collect();
    // Scans with projections at every length; either alone, and a wider shape, at the longest.
    let all: Vec<(String, Shape, &[usize])> = with("paper")
        .into_iter()
        .map(|plan| (plan, small, &buckets[..]))
        .chain(with("fast").into_iter().map(|plan| (plan, small, &[LONGEST][..])))
        .chain(["paper", "fast,projection=ckks"].map(|plan| (plan.into(), tiny(), &[LONGEST][..])))
        .collect();
    let (mut declared, mut farthest) = (0, f64::NEG_INFINITY);
    for (plan, shape, buckets) in &all {
        let (shape, calibration) = ranges(shape);
        let most = [(LONGEST, 48)].into_iter();
        for (tokens, layers) in buckets.iter().map(|&tokens| (tokens, 12)).chain(most) {
            let outline = outline(&shape, &calibration, layers, private_plan(plan).unwrap());
            let distance = log_distance(&Schedule::new(&outline, tokens, Reveal::Label).unwrap());
            let what =
                format!("{plan} at {tokens} tokens, {layers} layers of width {}: 2^{distance:.2}", shape.d_model);
            println!("{what}");
            assert!(distance <= PROMISED, "{what}");
            // What is too small says that something was not counted.
            assert!(distance > PROMISED - 4.0, "{what}");
            (declared, farthest) = (declared + 1, distance.max(farthest));
        }
    }
    println!("{declared} schedules, the farthest 2^{farthest:.2}");
    assert_eq!(declared, 4 * buckets.len() + 4 + 2 + all.len());
}

fn tiny() -> Shape {
    *Config::named("tiny").unwrap().shape()
}
