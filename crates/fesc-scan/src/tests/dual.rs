//! The private scan against the twin and against the recurrence.

use fesc_model::outline::scale::{CHUNK, SEGMENT};
use fesc_model::twin::Rounding;

use super::support::{Decay, Document, Layer, distance, document, layer, private};
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

/// Deviation and largest difference between the private result and the twin's, in ulps of y; the cost is checked on the way.
fn against_twin(layer: &Layer, tokens: usize, decay: Decay) -> (f64, f64) {
    let document = document(layer, tokens, decay, false, tokens as u8);
    let kernels = kernels(layer, tokens);
    let outcome = private(layer, &document, &kernels, 5);
    outcome.assert_declared(&kernels);
    let want = twin(layer, &document);
    assert_eq!(outcome.y.len(), want.len());
    let (deviation, largest) = distance(outcome.y.iter().map(|&v| v as f64), want.iter().map(|&v| v as f64));
    println!("{tokens} tokens: deviation {deviation:.2}, largest {largest} ulps");
    (deviation, largest)
}

#[test]
fn private_scan_is_the_twins() {
    for (groups, heads, head_dim, state) in [(1, 1, 4, 4), (2, 4, 3, 5)] {
        let layer = layer(groups, heads, head_dim, state);
        println!("{:?}", layer.forms.scales);
        for tokens in [1, 2, 3, 77, 127, 128, 129, 300] {
            let (deviation, largest) = against_twin(&layer, tokens, Decay::Mixed);
            assert!(largest <= 1000.0, "{deviation} {largest}");
        }
    }
}

#[test]
fn extreme_decays() {
    let layer = layer(2, 2, 3, 3);
    for decay in [Decay::Violent, Decay::None] {
        for tokens in [2, 129, 300] {
            let (deviation, largest) = against_twin(&layer, tokens, decay);
            assert!(largest <= 1000.0, "{deviation} {largest}");
        }
    }
}
