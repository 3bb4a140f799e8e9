//! The shipped model, privately, on the sample documents: every layer as close to the twin as noisy twins
//! are, and the same label.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;

use common::*;
use fesc_infer::{Reveal, Schedule, ServerSetup};
use fesc_model::Classifier;
use fesc_model::twin::{Plan, Rounding};

const TOKENS: usize = 256;

#[test]
fn private_layers_and_labels_are_the_twins() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fesc/samples");
    let classifier = Classifier::shipped().unwrap();
    let twin = &classifier.twin(Plan::FAST).unwrap();
    let setup = ServerSetup::new(twin, [9; 32]).unwrap();
    let schedule = Schedule::new(setup.outline().unwrap(), TOKENS, Reveal::Label).unwrap();
    for sample in ["bargaining", "leaflets"] {
        let text = std::fs::read_to_string(samples.join(format!("{sample}.txt"))).unwrap();
        let ids = classifier.tokenizer().encode(&text, TOKENS - 20).unwrap().ids;
        let (ran, streams, _) = infer(&schedule, &setup, &ids);
        check_layers(twin, &streams);
        let mut padded = ids.clone();
        padded.resize(TOKENS, 0);
        let outcome = twin.classify_padded(&padded, ids.len(), &mut Rounding::nearest()).unwrap();
        assert_eq!(ran.client.class(), outcome.class, "{sample}: {:?}", outcome.logits);
    }
}
