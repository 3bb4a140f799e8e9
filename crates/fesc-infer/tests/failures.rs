//! What a private run asks for: how often it is wrong, as the RLWE generator plans it, and how much a dealer
//! makes at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_infer::session::dealer::HALF_BYTES;
use fesc_infer::{Reveal, Schedule};
use fesc_model::outline::Outline;
use fesc_model::twin::{Calibration, Plan};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::correlation::Bundle;
use fesc_mpc::{Request, Role};
use fesc_ring::Prg;
use fesc_rlwe::products::{Failures, failures};
use fesc_rlwe::slots::SlotParams;

/// A model of this name. The scales come from one random layer: they change shifts, not shapes.
fn outline(name: &str) -> Outline {
    let config = Config::named(name).unwrap();
    let one = Config::new(Shape { layers: 1, vocab: 256, ..*config.shape() }).unwrap();
    let model = Model::new(one.clone(), Weights::random(&one, Some(13), &mut Prg::from_seed([1; 16]))).unwrap();
    let mut calibration = Calibration::collect(&model, [(0..40).collect::<Vec<u32>>()]).unwrap();
    calibration.layers = vec![calibration.layers[0].clone(); config.shape().layers];
    Outline::new(&config, &calibration, Plan::FAST).unwrap().with_classes(13).unwrap()
}

/// All answers of the slots engine in a run of this length.
fn odds(outline: &Outline, tokens: usize, params: &SlotParams) -> Failures {
    let schedule = Schedule::new(outline, tokens, Reveal::Label).unwrap();
    let mut known: Vec<(Bundle, Failures)> = Vec::new();
    let mut sum = Failures::default();
    for request in schedule.demand() {
        let Request::Bundle(bundle) = request.unwrap() else { continue };
        let found = known.iter().find(|(b, _)| *b == bundle).map(|(_, found)| *found);
        sum = sum
            + found.unwrap_or_else(|| {
                let found = failures(&bundle, params).unwrap();
                known.push((bundle, found));
                found
            });
    }
    sum
}

/// Noise and lift together, over the whole run. Nothing else in the generated products can be wrong
/// (`fesc_rlwe::products::failures`).
#[test]
fn failures_of_an_inference_as_it_is_planned() {
    let (outline, params) = (outline("base"), SlotParams::standard().unwrap());
    assert_eq!(outline.shape().layers, 12);
    let run = odds(&outline, 2048, &params);
    println!("2,048 tokens: {run:?}, 2^{:.2}", run.total().log2());
    assert!(run.answers > 20_000 && run.total() < 2f64.powi(-22), "{run:?}");
    let long = odds(&outline, 8192, &params);
    println!("8,192 tokens: {long:?}, 2^{:.2}", long.total().log2());
    assert!(long.answers > 3 * run.answers && long.total() < 2f64.powi(-20), "{long:?}");
    // The control: the set before this one (50 bits kept, in two primes here), or one bit less for each prime
    // of one group, misses the bound.
    for (plain, kept, dropped) in [(47, 25, 48), (47, 29, 49), (48, 28, 49)] {
        let weaker = odds(&outline, 2048, &SlotParams::new(16384, plain, kept, dropped).unwrap());
        println!("{plain} {kept} {dropped}: 2^{:.2}", weaker.total().log2());
        assert!(weaker.total() > 2f64.powi(-22), "{plain} {kept} {dropped}: {weaker:?}");
    }
}

/// Longer documents ask for no larger ones: they are computed in segments of 2,048 tokens.
#[test]
fn every_request_of_a_run_is_within_a_dealers_limit() {
    for name in Config::NAMES {
        let schedule = Schedule::new(&outline(name), 2048, Reveal::Logits).unwrap();
        let half = |r: Request| r.half_bytes(Role::P0).max(r.half_bytes(Role::P1));
        let largest = schedule.demand().map(|r| half(r.unwrap())).max().unwrap();
        println!("{name}: {largest} bytes");
        assert!(largest <= HALF_BYTES, "{name}: {largest}");
    }
}
