//! How private results spread around the twin: random carries and RLWE noise.
//!
//! What is stated, in ulps (2^-16) of the residual stream of a random model with the default forms: the deviation after block k is below
//! 64 k, and no value is further off than 25 deviations. Almost all of it comes from SiLU: its pieces do not meet, so that inside a zone
//! of chance (1/32 wide at each threshold) the sharing decides between two results that differ by up to 0.05. Carries of truncations
//! and RLWE noise alone are a few ulps. A layer-by-layer comparison should therefore start every layer from the private input
//! ([`Twin::layer`]), and compare deviations, not single values.

use super::*;
use crate::Tensor;

/// Deviation of runs from the twin, in ulps of the residual stream, after each block; and whether all classes agree.
fn spread(twin: &Twin, ids: &[u32], noise: bool, runs: u8) -> (Vec<f64>, f64, bool) {
    let streams = |rounding: &mut Rounding| {
        let mut streams: Vec<Vec<i64>> = Vec::new();
        let mut see = |shown: Shown<'_>| {
            if shown.site.tensor == Tensor::Residual {
                streams.push(shown.values.to_vec());
            }
        };
        let (outcome, _) = twin.classify_with(ids, ids.len(), rounding, &mut see).unwrap();
        (streams, outcome.class)
    };
    let (centre, class) = streams(&mut Rounding::nearest());
    let mut squares = vec![0.0f64; centre.len()];
    let (mut largest, mut agree) = (0.0f64, true);
    for seed in 0..runs {
        let prg = Prg::from_seed([seed; 16]);
        let (run, got) = streams(&mut if noise { Rounding::noisy(prg) } else { Rounding::jitter(prg) });
        agree &= got == class;
        for (sum, (a, b)) in squares.iter_mut().zip(run.iter().zip(&centre)) {
            for (a, b) in a.iter().zip(b) {
                let d = (a - b) as f64;
                *sum += d * d / (f64::from(runs) * centre[0].len() as f64);
                largest = largest.max(d.abs());
            }
        }
    }
    (squares.into_iter().map(f64::sqrt).collect(), largest, agree)
}

#[test]
fn private_results_stay_close() {
    let model = model_with(shape(32, 4, 16, 16), 80, |_| ());
    let twin = twin(&model, 300, Preset::FAST);
    let ids = document(300, 10);
    let (jitter, _, same) = spread(&twin, &ids, false, 6);
    let (noisy, largest, also) = spread(&twin, &ids, true, 6);
    println!("deviation in ulps by block: carries {jitter:.1?}, with noise {noisy:.1?}, largest {largest}");
    assert!(same && also, "a class differs");
    // The embedding: one rounding, deviation at most half an ulp (and no noise that matters at 30 bits).
    assert!(jitter[0] <= 0.6 && noisy[0] <= 0.6, "{jitter:?} {noisy:?}");
    for (block, deviation) in noisy.iter().enumerate().skip(1) {
        assert!(*deviation < 64.0 * block as f64 && *deviation > 1.0, "{noisy:?}");
    }
    assert!(largest < 25.0 * noisy[2], "{largest} {noisy:?}");
}

/// From the private stream of a layer the twin finds that layer's private output: drift does not add up.
#[test]
fn layers_can_be_checked_one_by_one() {
    let model = model_with(shape(32, 4, 16, 16), 80, |_| ());
    let twin = twin(&model, 300, Preset::FAST);
    let ids = document(300, 10);
    let mut private: Vec<Vec<i64>> = Vec::new();
    let mut noisy = Rounding::noisy(Prg::from_seed([4; 16]));
    let mut see = |shown: Shown<'_>| {
        if shown.site.tensor == Tensor::Residual {
            private.push(shown.values.to_vec());
        }
    };
    let (outcome, _) = twin.classify_with(&ids, 300, &mut noisy, &mut see).unwrap();
    for layer in 0..2 {
        let mut stream = private[layer].clone();
        twin.layer(layer, &mut stream, &mut Rounding::nearest()).unwrap();
        let sum: f64 = stream.iter().zip(&private[layer + 1]).map(|(a, b)| ((a - b) as f64).powi(2)).sum();
        let deviation = (sum / stream.len() as f64).sqrt();
        assert!(deviation < 64.0, "layer {layer}: {deviation}");
    }
    let last = twin.finish(&private[2], 300, &mut Rounding::nearest()).unwrap();
    assert_eq!(last.class, outcome.class);
    for (a, b) in last.logits.iter().zip(&outcome.logits) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
    assert!(twin.layer(2, &mut [0; 32], &mut Rounding::nearest()).is_err());
    assert!(twin.layer(0, &mut [0; 31], &mut Rounding::nearest()).is_err());
}
