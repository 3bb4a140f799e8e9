//! Every range can be left, and the error names the tensor.
//!
//! Not reachable by construction, and only held to it: the steps inside exp, the inverse roots and the
//! polynomials, whose inputs are checked first.

use fesc_approx::ApproxError;
use fesc_approx::paper::nerms::NeRms;

use super::super::activation::Steps;
use super::super::exponent::Exp;
use super::super::norm::Norm;
use super::super::quantize::Quantizer;
use super::super::range::Run;
use super::super::scan::{self, Packet};
use super::*;
use crate::Result;
use crate::outline::{Exponential, NormForm, Root, Softplus};
use crate::plan::Minimax;

/// The tensor that a range error names.
fn named<T>(result: Result<T>) -> &'static str {
    match result {
        Err(crate::ModelError::Twin(TwinError::Range { tensor, .. })) => tensor,
        Err(other) => panic!("{other}"),
        Ok(_) => "nothing",
    }
}

pub(super) const SCALES: Scales = Scales {
    norm: 16,
    gate_weight: 14,
    conv_weight: 12,
    conv_tap: 10,
    step_weight: 14,
    x: 16,
    bc: 14,
    exp: 22,
    score: 16,
    mixed: 22,
    column: 20,
    weighted: 22,
    state: 22,
    scanned: 16,
    gated: 20,
    out_weight: 14,
};

/// One head of one channel and one state that is fed the same real values at every token.
#[derive(Clone, Copy)]
struct Feed {
    tokens: usize,
    x: f64,
    b: f64,
    c: f64,
    delta: f64,
    z: f64,
    state: u32,
}

const FEED: Feed = Feed { tokens: 2, x: 1.0, b: 1.0, c: 1.0, delta: 0.1, z: 0.0, state: 22 };

impl Feed {
    fn run(self, plan: Plan) -> &'static str {
        let shape = shape(4, 1, 1, 1);
        let paper = plan == Plan::PAPER_44;
        let (wide, narrow, fine) = if paper { (19, 19, 19) } else { (16, 14, 22) };
        let int = |v: f64, frac: u32| (v * f64::from(frac).exp2()) as i64;
        let row = [int(self.x, wide), int(self.b, narrow), int(self.c, narrow)];
        let xbc = row.repeat(self.tokens);
        let (delta, z) = (vec![int(self.delta, fine); self.tokens], vec![int(self.z, fine); self.tokens]);
        let packet = Packet { shape: &shape, xbc: &xbc, delta: &delta, z: &z, last: false };
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(plan.ring_bits(), true, &mut nearest);
        let form = ExpForm::Power;
        let (skip, exp) = match paper {
            true => (20.0, Exp::paper(0, Minimax { degree: 4 }).unwrap()),
            false => {
                let sums = [Exponential::chunk(0, form, 22).unwrap(), Exponential::document(0, form, 22).unwrap()];
                (0.0, Exp::Sums(Box::new(sums)))
            }
        };
        let q = Quantizer { layer: 0, bits: plan.ring_bits() };
        let scan = scan::new(&q, &plan, &Scales { state: self.state, ..SCALES }, exp, &[skip]).unwrap();
        named(scan.run(&mut run, &packet))
    }
}

#[test]
fn scan() {
    let fast = |feed: Feed| feed.run(Plan::FAST);
    assert_eq!(fast(FEED), "nothing");
    assert_eq!(fast(Feed { z: -(3.4e7), ..FEED }), "cumulative sum of A Delta");
    assert_eq!(fast(Feed { z: -3000.0, tokens: 4, ..FEED }), "input of exp");
    assert_eq!(fast(Feed { delta: 5.0, tokens: 4, ..FEED }), "exp times Delta");
    assert_eq!(fast(Feed { delta: 5.0, ..FEED }), "decay matrix Lt");
    assert_eq!(fast(Feed { b: 600.0, c: 600.0, ..FEED }), "C B^T");
    assert_eq!(fast(Feed { b: 60.0, c: 60.0, ..FEED }), "M = C B^T o Lt");
    assert_eq!(fast(Feed { x: 2e4, c: 0.0, tokens: 129, ..FEED }), "col o X");
    assert_eq!(fast(Feed { x: 50.0, b: 10.0, c: 0.0, tokens: 129, ..FEED }), "chunk state B^T (col o X)");
    assert_eq!(fast(Feed { tokens: 129, ..FEED }), "state H");
    assert_eq!(fast(Feed { c: 400.0, tokens: 129, state: 20, ..FEED }), "C H");
    assert_eq!(fast(Feed { x: 2000.0, delta: 1.0, ..FEED }), "scan output y");
}

#[test]
fn paper_scan() {
    let paper = |feed: Feed| feed.run(Plan::PAPER_44);
    let small = Feed { x: 0.5, ..FEED };
    assert_eq!(paper(small), "nothing");
    assert_eq!(paper(FEED), "D x");
    assert_eq!(paper(Feed { delta: 100.0, ..small }), "Delta x");
    assert_eq!(paper(Feed { delta: 10.0, b: 10.0, c: 0.1, ..small }), "Delta x B");
    assert_eq!(paper(Feed { c: 1000.0, ..small }), "h C");
    assert_eq!(paper(Feed { delta: 30.0, c: 0.0, tokens: 4, ..small }), "state H");
}

#[test]
fn norms() {
    let span = Span { min: 0.5, max: 2.0 };
    let norm = |data: &mut [i64], plan: Plan, square: u32| {
        let norm = if plan == Plan::FAST {
            Norm::Fast(NormForm::new(plan.norm, 0, 4, square, 1e-5, Root::choose(plan.norm, 4, span, 1e-5)).unwrap())
        } else {
            Norm::new(0, &plan, None, 4, span, 1e-5).unwrap()
        };
        let mut nearest = Rounding::nearest();
        named(norm.run(&mut Run::new(plan.ring_bits(), true, &mut nearest), data, 4, plan.frac()))
    };
    assert_eq!(norm(&mut [1 << 16; 4], Plan::FAST, 16), "nothing");
    assert_eq!(norm(&mut [1 << 46; 4], Plan::FAST, 12), "residual stream");
    assert_eq!(norm(&mut [1 << 22; 4], Plan::FAST, 16), "sum of squares of a norm");
    assert_eq!(norm(&mut [1 << 19; 4], Plan::FAST, 16), "variance of a norm");
    assert_eq!(norm(&mut [1 << 10; 4], Plan::FAST, 16), "variance of a norm");
    assert_eq!(norm(&mut [1 << 19; 4], Plan::PAPER_44, 19), "nothing");
    assert_eq!(norm(&mut [5 << 19; 4], Plan::PAPER_44, 19), "square of one value");
    assert_eq!(norm(&mut [3 << 19; 4], Plan::PAPER_44, 19), "variance of a norm");
    // A vector of one large value: 16 times the mean does not fit 44 bits.
    let lone = Norm::new(0, &Plan::PAPER_44, None, 4096, Span { min: 1e-3, max: 2e-3 }, 1e-5).unwrap();
    let mut data = vec![0; 4096];
    data[0] = 3 << 18;
    let mut nearest = Rounding::nearest();
    assert_eq!(named(lone.run(&mut Run::new(44, false, &mut nearest), &mut data, 4096, 19)), "normed stream");
}

/// Why the paper plan's norm is computed in 48 bits.
#[test]
fn nerms_does_not_fit_44_bits() {
    let form = NeRms::calibrate(0.1, 2.0, 8, 1).unwrap();
    let fixed = |bits: u32| form.fixed(fesc_ring::Ring::new(bits).unwrap(), 19, 0, bits);
    assert!(matches!(fixed(44), Err(ApproxError::Overflow { what: "y (3 - v y^2)", .. })), "{:?}", fixed(44));
    assert!(fixed(48).is_ok());
}

#[test]
fn decay_without_a_threshold() {
    let mut nearest = Rounding::nearest();
    let mut run = Run::new(48, true, &mut nearest);
    let softplus = Softplus::new(0, Plan::FAST.activations, (0.0, 50.0)).unwrap();
    let steps = Steps::Fast { softplus, rates: vec![100 << 18], thresholds: vec![i64::MAX], clamp: true };
    let mut local = run.local();
    steps.eval(&mut local, 0, 1 << 12);
    assert_eq!(named(run.settle(vec![local])), "A Delta");
}

/// Weights that grew after calibration: the error says where and what to do.
#[test]
fn models_that_outgrew_their_calibration() {
    let calm = model_with(shape(16, 2, 8, 4), 90, |_| ());
    let calibration = Calibration::collect(&calm, [document(60, 1)]).unwrap();
    let grown = |change: &dyn Fn(&mut Weights)| {
        let model = model_with(shape(16, 2, 8, 4), 90, change);
        let twin = Twin::new(&model, &calibration, Plan::FAST).unwrap();
        named(twin.classify(&document(60, 2), &mut Rounding::nearest()))
    };
    let rows = |w: &mut Weights, from: usize, to: usize, by: f32| {
        w.layers[0].in_proj[from * 16..to * 16].iter_mut().for_each(|v| *v *= by);
    };
    assert_eq!(grown(&|_| ()), "nothing");
    assert_eq!(grown(&|w| w.embedding.fill(7e4)), "embedding");
    assert_eq!(grown(&|w| rows(w, 0, 16, 1e5)), "gate input z");
    assert_eq!(grown(&|w| rows(w, 0, 16, 300.0)), "input of the gate's SiLU");
    assert_eq!(grown(&|w| rows(w, 16, 40, 1e5)), "convolution output");
    assert_eq!(grown(&|w| w.layers[0].conv_bias.fill(200.0)), "input of the convolution's SiLU");
    assert_eq!(grown(&|w| rows(w, 40, 42, 1e6)), "time step dt");
    assert_eq!(grown(&|w| w.layers[0].dt_bias.fill(60.0)), "input of softplus");
    assert_eq!(grown(&|w| w.layers[0].out_proj.fill(1e5)), "output of a block");
    assert_eq!(grown(&|w| w.head.as_mut().unwrap().bias.fill(2e4)), "logit");
}

#[test]
fn gate_and_pooling() {
    // A product of two values at 16 bits, and a mean of states, as the stages truncate them.
    let mut nearest = Rounding::nearest();
    let mut run = Run::new(48, true, &mut nearest);
    assert_eq!(named(run.round(Quantity::Gated, &mut [1 << 46], 1, 32, 20)), "gated output");
    assert_eq!(named(run.round(Quantity::Pooled, &mut [1 << 46], 1, 40, 16)), "pooled state");
    // The last value inside passes.
    assert_eq!(named(run.round(Quantity::Pooled, &mut [(1 << 46) - (1 << 24) - 1], 1, 40, 16)), "nothing");
}

#[test]
fn calibrations_without_room_are_refused() {
    let model = model_with(shape(16, 2, 8, 4), 90, |_| ());
    let mut calibration = Calibration::collect(&model, [document(60, 1)]).unwrap();
    calibration.layers[1].conv = 1e9;
    let error = Twin::new(&model, &calibration, Plan::FAST).err().unwrap().to_string();
    assert!(error.contains("layer 1: convolution output"), "{error}");
    let huge = model_with(shape(16, 2, 8, 4), 90, |w| w.layers[0].a_log[1] = 21.0);
    let calibration = Calibration::collect(&huge, [document(60, 1)]).unwrap();
    let error = Twin::new(&huge, &calibration, Plan::FAST).err().unwrap().to_string();
    assert!(error.contains("layer 0: a weight of A is 1.3"), "{error}");
}
