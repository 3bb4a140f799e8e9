//! The private scan against the twin and against the recurrence.
//!
//! Stated: with Delta to 0.2 and x, B, C to 1 a private result deviates from the twin ([`Rounding::nearest`])
//! by less than 1.5 ulps of y (2^-16), and no value is further off than 8; it is the twin's bit for bit where
//! no rounding has anything to round.

use fesc_model::float::{Factors, recurrence};
use fesc_model::outline::scale::SEGMENT;
use fesc_model::plan::Minimax;
use fesc_model::twin::{ExpForm, Rounding};
use fesc_ring::Prg;

use super::support::{Decay, Document, Layer, MadeBy, distance, document, layer, private, with_exp};
use crate::Dual;

/// The kernels of a document: one per segment.
fn kernels(layer: &Layer, tokens: usize) -> Vec<(Dual, usize)> {
    let segments = tokens.div_ceil(SEGMENT);
    let kernel = |i: usize| {
        let here = (tokens - i * SEGMENT).min(SEGMENT);
        (Dual::new(&layer.shape, &layer.forms, here, i > 0, i + 1 < segments).unwrap(), here)
    };
    (0..segments).map(kernel).collect()
}

fn twin(layer: &Layer, document: &Document) -> Vec<i64> {
    let xbc = document.xbc(&layer.shape);
    layer.twin.scan(0, &xbc, &document.delta, &document.z, &mut Rounding::nearest()).unwrap()
}

/// Deviation and largest distance of the private result from the twin's, in ulps. It costs what was declared.
fn against_twin(layer: &Layer, tokens: usize, decay: Decay) -> (f64, f64) {
    let document = document(layer, tokens, decay, false, tokens as u8);
    let kernels = kernels(layer, tokens);
    let outcome = private(layer, &document, &kernels, MadeBy::Dealer);
    outcome.assert_declared(&kernels);
    outcome.assert_steps(&kernels);
    let want = twin(layer, &document);
    assert_eq!(outcome.y.len(), want.len());
    let (deviation, largest) = distance(outcome.y.iter().map(|&v| v as f64), want.iter().map(|&v| v as f64));
    println!("{tokens} tokens: deviation {deviation:.2}, largest {largest} ulps");
    (deviation, largest)
}

fn check_against_twin(layer: &Layer, tokens: usize, decay: Decay) {
    let (deviation, largest) = against_twin(layer, tokens, decay);
    assert!(deviation < 1.5 && largest <= 8.0, "{tokens} tokens: deviation {deviation}, largest {largest}");
}

#[test]
fn private_scan_is_the_twins() {
    for (groups, heads, head_dim, state) in [(1, 1, 4, 4), (2, 4, 3, 5), (1, 3, 1, 1)] {
        let layer = layer(groups, heads, head_dim, state);
        for tokens in [1, 2, 3, 77, 127, 128, 129, 300] {
            check_against_twin(&layer, tokens, Decay::Mixed);
        }
    }
}

#[test]
fn extreme_decays() {
    let layer = layer(2, 2, 3, 3);
    for decay in [Decay::Violent, Decay::None] {
        for tokens in [2, 129, 300] {
            check_against_twin(&layer, tokens, decay);
        }
    }
}

/// The linear forms of exp. Their pieces do not meet, so that near a threshold the sharing decides between
/// results that differ by up to twice the form's error: measured here are 2.7 ulps with the coarse form and
/// 0.7 with the fine one.
#[test]
fn other_forms_of_exp() {
    for (form, bound) in [(ExpForm::Coarse, 6.0), (ExpForm::Fine, 1.5)] {
        let layer = with_exp(form, 1, 2, 3, 4);
        for tokens in [5, 300] {
            let (deviation, _) = against_twin(&layer, tokens, Decay::Mixed);
            assert!(deviation < bound, "{form:?}, {tokens} tokens: {deviation}");
        }
    }
}

/// MMExp jumps by its error at -8, so that a sum in the zone of chance there moves a result by hundreds of
/// ulps. A private scan is as far from the twin as twins with random carries are.
#[test]
fn mmexp_of_sums() {
    for degree in [2, 4, 6] {
        let layer = with_exp(ExpForm::Minimax(Minimax { degree }), 1, 2, 3, 4);
        for tokens in [5, 300] {
            let (deviation, _) = against_twin(&layer, tokens, Decay::Mixed);
            let document = document(&layer, tokens, Decay::Mixed, false, tokens as u8);
            let (xbc, want) = (document.xbc(&layer.shape), twin(&layer, &document));
            let jitter = |seed: u8| {
                let mut rounding = Rounding::jitter(Prg::from_seed([seed; 16]));
                let got = layer.twin.scan(0, &xbc, &document.delta, &document.z, &mut rounding).unwrap();
                distance(got.iter().map(|&v| v as f64), want.iter().map(|&v| v as f64)).0
            };
            let most = (0..12).map(jitter).fold(0.0, f64::max);
            assert!(deviation <= 1.5 * most + 0.5, "degree {degree}, {tokens} tokens: {deviation}, twins {most}");
        }
    }
}

/// A state passes from one segment to the next.
#[test]
fn segments_carry() {
    let layer = layer(1, 2, 2, 3);
    check_against_twin(&layer, SEGMENT + 1, Decay::Mixed);
    check_against_twin(&layer, 2 * SEGMENT + 130, Decay::Mixed);
}

/// Where every quotient is an integer, roundings have no choice: the integers are the twin's, also over
/// segments.
#[test]
fn exact_where_nothing_is_rounded() {
    let layer = layer(2, 4, 3, 2);
    for tokens in [1, 5, 128, 300, SEGMENT + 200] {
        let document = document(&layer, tokens, Decay::None, true, 9);
        let outcome = private(&layer, &document, &kernels(&layer, tokens), MadeBy::Dealer);
        let want = twin(&layer, &document);
        assert!(outcome.y == want, "{tokens} tokens");
        assert!(want.iter().any(|&v| v != 0));
    }
}

/// How far roundings and the form of exp may move y from the recurrence, by token.
///
/// exp is off by at most 0.00105, and a path from a token to an output has at most three factors, or four
/// with a carry; without decay all factors are exactly 1. `reach` is what the absolute values add up to
/// without decay. Roundings: scores and M once per token of a chunk, Lt and left factors through the scores,
/// col and V once per token through B and C, states and H once per chunk, C H and y once.
fn tolerance(layer: &Layer, plain: &Factors, q: usize, decay: Decay) -> Vec<f64> {
    let (s, n) = (&layer.forms.scales, layer.shape.state as f64);
    let absolute = |v: &[f64]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
    let still = Factors {
        x: absolute(&plain.x),
        b: absolute(&plain.b),
        c: absolute(&plain.c),
        delta: plain.delta.clone(),
        z: vec![0.0; plain.z.len()],
        skip: vec![0.0; layer.shape.heads],
    };
    let reach = recurrence(&layer.shape, &still, &mut vec![0.0; layer.shape.state * layer.shape.inner()]);
    let ulp = |bits: u32| (-f64::from(bits)).exp2();
    let (q, chunks) = (q as f64, (plain.delta.len() / layer.shape.heads).div_ceil(q) as f64);
    let within = q * (0.25 * ulp(s.score) + ulp(s.mixed) + 2.0 * n * ulp(22));
    let across = chunks * n * (2.0 * ulp(s.state) + q * (ulp(s.weighted) + ulp(s.column)));
    let rounding = within + across + ulp(s.mixed + s.x - s.exp) + ulp(s.scanned);
    let form = if decay == Decay::None { 0.0 } else { 4.0 * 0.00105 };
    reach.iter().map(|r| form * r + rounding).collect()
}

/// Small chunks, so that a few tokens are many chunks: y and the state after them against the recurrence,
/// with a carry between the kernels.
fn check_against_recurrence(layer: &Layer, cuts: &[usize], q: usize, decay: Decay, source: MadeBy) {
    let tokens = cuts.iter().sum();
    let document = document(layer, tokens, decay, false, 77);
    let kernel = |(i, &here): (usize, &usize)| {
        (Dual::with_chunk(&layer.shape, &layer.forms, q, here, i > 0, true).unwrap(), here)
    };
    let kernels: Vec<(Dual, usize)> = cuts.iter().enumerate().map(kernel).collect();
    let outcome = private(layer, &document, &kernels, source);
    if source == MadeBy::Dealer {
        outcome.assert_declared(&kernels);
    }
    let s = &layer.forms.scales;
    let plain = document.plain(layer);
    let mut state = vec![0.0; layer.shape.state * layer.shape.inner()];
    let want = recurrence(&layer.shape, &plain, &mut state);
    let real = |v: i64, bits: u32| v as f64 / f64::from(bits).exp2();
    let allowed = tolerance(layer, &plain, q, decay);
    for (i, ((&got, &want), &allowed)) in outcome.y.iter().zip(&want).zip(&allowed).enumerate() {
        let got = real(got, s.scanned);
        assert!((got - want).abs() <= allowed, "{cuts:?}, chunk {q}, y {i}: {got} {want}, allowed {allowed}");
    }
    let got = outcome.state.unwrap();
    let worst = allowed.iter().copied().fold(0.0, f64::max);
    let (_, largest) = distance(got.iter().map(|&v| real(v, s.state)), state.iter().copied());
    // |C| may be small everywhere: a state is bounded by what B, Delta and x add up to, not by y.
    assert!(got.len() == state.len() && largest <= 4.0 * worst, "{largest} {worst}");
}

#[test]
fn private_scan_is_the_recurrence() {
    let layer = layer(2, 4, 3, 5);
    for decay in [Decay::Mixed, Decay::Violent, Decay::None] {
        for q in [1, 4, 7, 8, 32] {
            check_against_recurrence(&layer, &[64], q, decay, MadeBy::Dealer);
            check_against_recurrence(&layer, &[33, 8, 1, 22], q, decay, MadeBy::Dealer);
        }
    }
}

/// The same with correlations that the two parties make themselves.
#[test]
fn two_parties_need_no_dealer() {
    check_against_recurrence(&layer(2, 2, 2, 3), &[18, 5], 8, Decay::Mixed, MadeBy::TwoParty);
}
