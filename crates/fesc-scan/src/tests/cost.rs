//! What a segment costs, and that the size of a chunk is chosen well.

use fesc_model::Config;
use fesc_model::outline::scale::{CHUNK, SEGMENT};

use super::support::{layer, sized};
use crate::{Dual, ScanError, cost_by_chunk};

/// At the paper's base shape and 2,048 tokens the model's chunk is within 10 percent of the cheapest.
#[test]
fn the_chunk_is_well_chosen() {
    let base = sized(*Config::named("tiny").unwrap().shape(), 1, 24, 64, 128);
    let costs = cost_by_chunk(&base.shape, &base.forms, 2048).unwrap();
    for c in &costs {
        println!(
            "chunk {}: {} bytes, {} rounds, {} dealt",
            c.chunk,
            c.online.total_bytes(),
            c.online.rounds,
            c.dealt_bytes
        );
    }
    let best = costs.iter().map(|c| c.online.total_bytes()).min().unwrap();
    let ours = costs.iter().find(|c| c.chunk == CHUNK).unwrap();
    assert!(ours.online.total_bytes() as f64 <= 1.1 * best as f64, "{costs:?}");
    for (name, cost) in Dual::new(&base.shape, &base.forms, 2048, false, false).unwrap().steps().unwrap() {
        println!("{name}: {} bytes, {} rounds", cost.total_bytes(), cost.rounds);
    }
}

#[test]
fn refusals() {
    let layer = layer(1, 1, 2, 2);
    let make = |tokens| Dual::new(&layer.shape, &layer.forms, tokens, false, false).unwrap_err();
    assert!(matches!(make(0), ScanError::Tokens { tokens: 0, most: SEGMENT }));
    assert!(matches!(make(SEGMENT + 1), ScanError::Tokens { .. }));
}
