//! The twin against float on odd shapes.
//!
//! Bound. Against the reference with the same SiLU and softplus a block's output has a relative error of
//! about
//!
//! ```text
//! e = 2 * 0.00103              exp: two factors on each path
//!   + 2 * 2.5e-4               two inverse roots
//!   + 2^-13 sqrt(d)            weights of rms 1/sqrt(3 d), rounded to 12 bits, twice: projection and taps
//!   + 2^-16 / rms(stream)      an ulp of the stream that enters
//! ```
//!
//! (relative to the rms of the stream that it adds to), and a block may enlarge the error of its input by a
//! small factor: the bound is `e` after the first block and `2 e` after the second. Of the embedding it is
//! one rounding, `0.35 ulp`.

use super::super::activation::Steps;
use super::super::range::Run;
use super::reference::Reference;
use super::*;
use crate::outline::Softplus;
use crate::outline::scale::REVEAL;
use crate::{Matrix, Tensor};

/// Largest relative error over blocks, in units of the bound; and the same for logits.
fn worst(model: &Model, length: usize, plan: Plan) -> (f64, f64) {
    let ids = document(length, 7);
    let twin = twin(model, length, plan);
    let reference = Reference::new(model);
    let streams = reference.streams(&ids);
    let mut worst: f64 = 0.0;
    let mut see = |shown: Shown<'_>| {
        if shown.site.tensor != Tensor::Residual {
            return;
        }
        let unit = (-f64::from(shown.frac)).exp2();
        let float = streams[shown.site.layer].iter().flatten().copied();
        let gap = Gap::of(shown.values.iter().map(|&v| v as f64 * unit), float);
        let layer = shown.site.layer;
        let first = (streams[0].iter().flatten().map(|v| v * v).sum::<f64>() / shown.values.len() as f64).sqrt();
        let e = 2.0 * 0.00103 + 2.0 * 2.5e-4 + (shown.cols as f64).sqrt() / 8192.0 + 1.0 / 65536.0 / first;
        let bound = match layer {
            0 => 0.35 / 65536.0 / first,
            1 => e,
            _ => 2.0 * e,
        };
        println!("layer {layer}: {:.2e} of {bound:.2e}", gap.rms / gap.scale);
        worst = worst.max(gap.rms / gap.scale / bound);
    };
    let (outcome, _) = twin.classify_with(&ids, length, &mut Rounding::nearest(), &mut see).unwrap();
    let want = reference.logits(streams.last().unwrap());
    let gap = Gap::of(outcome.logits.iter().copied(), want.iter().copied());
    (worst, gap.rms / gap.scale)
}

#[test]
fn odd_shapes() {
    let base = shape(24, 4, 8, 8);
    let cases = [
        (Shape { groups: 2, norm_groups: 2, ..base }, 300),
        (Shape { groups: 2, norm_groups: 4, conv_width: 3, ..base }, 129),
        (Shape { conv_width: 2, pooling: Pooling::Last, ..base }, 127),
        (Shape { conv_width: 1, ..shape(17, 1, 10, 1) }, 300),
        (shape(16, 3, 5, 7), 1),
        (shape(16, 3, 5, 7), 2),
        (Shape { delta_limit: (0.005, 0.05), ..shape(32, 2, 16, 16) }, 257),
    ];
    for (i, (shape, length)) in cases.into_iter().enumerate() {
        let model = model_with(shape, 30 + i as u8, |_| ());
        let (stream, logits) = worst(&model, length, Plan::FAST);
        println!("case {i}: stream {stream:.3} of its bound, logits off by {logits:.4}");
        assert!(stream < 1.0, "case {i}: {stream} times its bound");
        assert!(logits < 0.01, "case {i}: logits off by {logits}");
    }
}

/// A = 36,315 and 0.0004 with Delta around 0.1.
fn extreme() -> Model {
    model_with(shape(24, 4, 8, 8), 50, |weights| {
        for layer in &mut weights.layers {
            for (a, rate) in layer.a_log.iter_mut().zip([36_315.0f32, 0.0004, 50.0, 0.2]) {
                *a = rate.ln();
            }
            layer.dt_bias.fill(0.1f32.exp_m1().ln());
        }
    })
}

#[test]
fn extreme_heads_are_right() {
    let model = extreme();
    let (stream, logits) = worst(&model, 300, Plan::FAST);
    assert!(stream < 1.0 && logits < 0.01, "{stream} {logits}");
}

/// A Delta of 256 and a little is a little modulo 2^48 at 40 bits: without the clamp a head that should
/// forget at every token remembers.
#[test]
fn without_the_clamp_a_violent_head_remembers() {
    let mut nearest = Rounding::nearest();
    let mut run = Run::new(48, true, &mut nearest);
    let dt = 0.1f32.exp_m1().ln();
    let limit = (0.0, f32::INFINITY);
    let steps = Steps::fast(Softplus::new(0, Plan::FAST.activations, limit).unwrap(), vec![1 << 18], limit, true);
    let mut local = run.local();
    let (delta, _) = steps.eval(&mut local, 0, (dt * 4096.0).round() as i64);
    run.settle(vec![local]).unwrap();
    let rate = 256.05 / (delta as f64 / f64::from(1 << 22));
    let shape = shape(4, 1, 1, 1);
    let (tokens, rates) = (200, [rate as f32]);
    let xbc = Matrix::from_rows(tokens, 3, vec![1.0; 3 * tokens]).unwrap();
    let steps = Matrix::from_rows(tokens, 1, vec![dt; tokens]).unwrap();
    let heads = Heads { shape: &shape, xbc: &xbc, steps: &steps, rates: &rates };
    let state = |plan| states(&heads, plan, &mut Rounding::nearest()).unwrap()[0][0];
    // Only the last token's Delta x B is left.
    assert!((state(Plan::FAST) - 0.1).abs() < 0.001, "{}", state(Plan::FAST));
    assert!(state(Plan { clamp: false, ..Plan::FAST }) > 1.0, "{}", state(Plan { clamp: false, ..Plan::FAST }));
}

/// The twin computes what the plan says and nothing else: no choice is replaced by another.
#[test]
fn choices_without_a_common_twin_are_refused_by_name() {
    use crate::plan::{HeScanKernel, Norm, Scan};
    let model = model_with(shape(32, 4, 16, 16), 61, |_| ());
    let calibration = Calibration::collect(&model, [document(150, 9)]).unwrap();
    let others = [
        (Plan { exp: Plan::FAST.exp, ..Plan::PAPER_44 }, "exp Power"),
        (Plan { clamp: true, ..Plan::PAPER_44 }, "clamp true"),
        (Plan { scan: Scan::HeScan(HeScanKernel::Dual), ..Plan::PAPER }, "exp=mmexp; he-dual"),
        (Plan { scan: Scan::HeScan(HeScanKernel::Dual), exp: ExpForm::Fine, ..Plan::FAST }, "scan HeScan(Dual)"),
        (Plan { scan: Scan::Dual, ..Plan::PAPER_44 }, "scan Dual"),
        (Plan { norm: Norm::Buckets, ..Plan::PAPER_44 }, "norm Buckets"),
        (Plan { activations: Plan::FAST.activations, ..Plan::PAPER_44 }, "activations Five"),
    ];
    let xbc = Matrix::from_rows(3, 96, vec![0.5; 3 * 96]).unwrap();
    let steps = Matrix::from_rows(3, 4, vec![0.1; 12]).unwrap();
    let shape = *model.config().shape();
    let heads = Heads { shape: &shape, xbc: &xbc, steps: &steps, rates: &[1.0; 4] };
    for (plan, name) in others {
        let refused = Twin::new(&model, &calibration, plan).err().unwrap().to_string();
        assert!(refused.contains(name), "{refused}");
        // The scan alone has no norm.
        let alone = states(&heads, plan, &mut Rounding::nearest());
        assert_eq!(alone.is_err(), !name.starts_with("norm"), "{name}");
    }
    for plan in [Plan::FAST, Plan::PAPER, Plan { scan: Scan::Dual, ..Plan::PAPER }, Plan::PAPER_44] {
        assert!(
            Twin::new(&model, &calibration, plan).is_ok() && states(&heads, plan, &mut Rounding::nearest()).is_ok()
        );
    }
}

/// Against the exact float model the forms' own errors dominate; finer forms are closer.
#[test]
fn finer_silu_is_closer_and_reports_say_so() {
    let model = model_with(shape(32, 4, 16, 16), 60, |_| ());
    let ids = document(300, 8);
    let report = |plan| twin(&model, 300, plan).report(&model, &ids).unwrap();
    let (five, ten) = (report(Plan::FAST), report(Plan::FAST.with_activations(Activations::Ten)));
    let last = |r: &Report| r.layers.last().unwrap().gap;
    assert!(last(&ten).rms < 0.6 * last(&five).rms, "{:?} {:?}", last(&ten), last(&five));
    assert_eq!((five.layers.len(), five.tokens, &five.plan[..]), (2 * 4 + 1, 300, "fast"));
    assert_eq!((five.float_class, five.closest.len()), (five.twin_class, 5));
    assert!(five.closest.windows(2).all(|w| w[0].used >= w[1].used) && five.closest[0].used < 1.0);
    let json = serde_json::to_string(&five).unwrap();
    assert!(json.contains("\"closest\"") && json.contains("\"residual\""), "{json}");
}

/// Inputs at ten fractional bits instead of sixteen do not show beside the form's own error.
#[test]
fn folded_silu_is_as_close_as_five_thresholds() {
    for seed in [60, 61, 62] {
        let model = model_with(shape(32, 4, 16, 16), seed, |_| ());
        let ids = document(300, 8);
        let report = |activations| {
            let report = twin(&model, 300, Plan::FAST.with_activations(activations)).report(&model, &ids).unwrap();
            report.layers.last().unwrap().gap.rms
        };
        let (five, folded) = (report(Activations::Five), report(Activations::Folded));
        println!("five {five:.5}, folded {folded:.5}");
        assert!(folded < 1.1 * five, "{seed}: {folded} {five}");
    }
}

/// The paper's plan runs where its 44 bits suffice, and is further away.
#[test]
fn paper_plan_runs() {
    let model = model_with(shape(32, 4, 16, 16), 60, |_| ());
    let ids = document(200, 8);
    let report = |plan| twin(&model, 200, plan).report(&model, &ids).unwrap();
    let (fast, paper) = (report(Plan::FAST), report(Plan::PAPER_44));
    let delta = |r: &Report| r.layers.iter().find(|g| g.tensor == "delta").unwrap().gap.bits;
    assert!(delta(&paper) < 4.0 && delta(&fast) > 7.0, "{} {}", delta(&paper), delta(&fast));
    assert!(paper.layers.last().unwrap().gap.bits > 1.0, "{:?}", paper.layers.last());
}

/// Padding on the right changes nothing: the same integers for the document's tokens, the same logits.
#[test]
fn padding_changes_nothing() {
    let model = model_with(shape(24, 4, 8, 8), 70, |_| ());
    let twin = twin(&model, 300, Plan::FAST);
    let ids = document(200, 9);
    let mut padded = ids.clone();
    padded.resize(256, 0);
    let plain = twin.classify(&ids, &mut Rounding::nearest()).unwrap();
    assert_eq!(twin.classify_padded(&padded, 200, &mut Rounding::nearest()).unwrap(), plain);
    assert_ne!(twin.classify(&padded, &mut Rounding::nearest()).unwrap().integers, plain.integers);
    assert_eq!(plain.revealed[0], (plain.logits[0] * f64::from(1u32 << REVEAL)).floor() as i64);
    let best = plain.logits.iter().copied().fold(f64::MIN, f64::max);
    assert_eq!(plain.logits[plain.class], best);
}
