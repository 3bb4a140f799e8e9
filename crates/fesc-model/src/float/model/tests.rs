#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use fesc_ring::Prg;

use super::*;
use crate::Shape;

fn odd() -> Config {
    let tiny = *Config::named("tiny").unwrap().shape();
    let shape =
        Shape { vocab: 19, d_model: 14, layers: 3, heads: 6, head_dim: 5, state: 7, groups: 2, norm_groups: 2, ..tiny };
    Config::new(Shape { conv_width: 3, chunk: 4, ..shape }).unwrap()
}

fn model(config: Config, seed: u8) -> Model {
    let weights = Weights::random(&config, Some(3), &mut Prg::from_seed([seed; 16]));
    Model::new(config, weights).unwrap()
}

fn ids(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * i % 19).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn both_scans_give_one_model() {
    let model = model(odd(), 1);
    for length in [1, 5, 37] {
        let sequential = model.forward_with(&ids(length), Scan::Sequential, &mut |_, _| {}).unwrap();
        for block in [1, 4, 16, 64] {
            let blocks = model.forward_with(&ids(length), Scan::Blocks(block), &mut |_, _| {}).unwrap();
            // States are normalised to about 1.
            assert!(distance(sequential.data(), blocks.data()) < 1e-5, "length {length}, block {block}");
        }
    }
}

#[test]
fn padding_on_the_right_changes_nothing_before_it() {
    let model = model(odd(), 2);
    let mut padded = ids(21);
    let short = model.forward(&padded).unwrap();
    padded.resize(32, 0);
    let long = model.forward(&padded).unwrap();
    assert!(distance(short.data(), &long.data()[..short.data().len()]) < 1e-5);
    let from_long = model.class_logits(&model.pool(&long, 21).unwrap()).unwrap();
    assert!(distance(&model.classify(&ids(21)).unwrap(), &from_long) < 1e-5);
    let over_padding = model.class_logits(&model.pool(&long, 32).unwrap()).unwrap();
    assert!(distance(&over_padding, &from_long) > 1e-3, "pooling does not see the length");
}

#[test]
fn every_tensor_is_shown_once_and_in_order() {
    let model = model(odd(), 3);
    let mut seen = Vec::new();
    let states =
        model.forward_with(&ids(9), Scan::Blocks(4), &mut |site, m| seen.push((site, m.rows(), m.cols()))).unwrap();
    assert_eq!(seen.len(), 3 * 8 + 2);
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "{seen:?}");
    assert!(seen.iter().all(|(_, rows, _)| *rows == 9));
    let width = |tensor| seen.iter().find(|(site, ..)| site.tensor == tensor).unwrap().2;
    let c = model.config();
    assert_eq!(width(Tensor::Projected), c.proj_dim());
    assert_eq!(width(Tensor::Convolved), c.conv_dim());
    assert_eq!((width(Tensor::Delta), width(Tensor::GatedNormed)), (c.heads, c.inner()));
    assert_eq!(states.cols(), c.d_model);
}

#[test]
fn delta_stays_in_its_limit() {
    let config = Config::new(Shape { delta_limit: (0.01, 0.02), ..*odd().shape() }).unwrap();
    let mut range = (f32::INFINITY, 0.0f32);
    let mut see = |site: Site, m: &Matrix| {
        if site.tensor == Tensor::Delta {
            range = m.data().iter().fold(range, |(low, high), v| (low.min(*v), high.max(*v)));
        }
    };
    model(config, 4).forward_with(&ids(30), Scan::Sequential, &mut see).unwrap();
    assert_eq!(range, (0.01, 0.02), "random steps reach both ends");
}

#[test]
fn pooling_and_heads() {
    let mean = model(odd(), 5);
    let last = model(Config::new(Shape { pooling: Pooling::Last, ..*odd().shape() }).unwrap(), 5);
    let states = mean.forward(&ids(11)).unwrap();
    assert_eq!(last.pool(&states, 7).unwrap(), states.row(6));
    let by_hand: f32 = (0..7).map(|t| states.row(t)[3]).sum::<f32>() / 7.0;
    assert!((mean.pool(&states, 7).unwrap()[3] - by_hand).abs() < 1e-6);
    for tokens in [0, 12] {
        assert!(matches!(mean.pool(&states, tokens), Err(ModelError::Pool { rows: 11, .. })));
    }
    let logits = mean.lm_logits(&states).unwrap();
    let row = &mean.weights().embedding[4 * 14..5 * 14];
    let by_hand: f32 = row.iter().zip(states.row(10)).map(|(a, b)| a * b).sum();
    assert!((logits.row(10)[4] - by_hand).abs() < 1e-5);
    assert!(mean.class_logits(&[0.0; 13]).is_err());
    assert!(mean.lm_logits(&Matrix::zeros(1, 13)).is_err());
    let mut weights = Weights::random(&odd(), None, &mut Prg::from_seed([5; 16]));
    weights.lm_head = None;
    let untied = Model::new(Config::new(Shape { tied: false, ..*odd().shape() }).unwrap(), weights).unwrap();
    assert!(matches!(untied.lm_logits(&states), Err(ModelError::NoHead { .. })));
    assert!(matches!(untied.classify(&ids(3)), Err(ModelError::NoHead { .. })));
}

#[test]
fn input_and_weights_are_checked() {
    let model = model(odd(), 6);
    assert!(matches!(model.forward(&[]), Err(ModelError::NoTokens)));
    assert!(matches!(model.forward(&[3, 19]), Err(ModelError::TokenId { index: 1, id: 19, vocab: 19 })));
    assert!(model.forward(&[u32::MAX]).is_err());
    let mut weights = model.weights().clone();
    weights.layers[1].in_proj.fill(3e38);
    let overflow = Model::new(odd(), weights).unwrap().forward(&ids(4));
    assert!(matches!(overflow, Err(ModelError::StateNotFinite { layer: 1, token: 0 })), "{overflow:?}");
    let mut weights = model.weights().clone();
    weights.norm.fill(3e38);
    let overflow = Model::new(odd(), weights).unwrap().forward(&ids(4));
    assert!(matches!(overflow, Err(ModelError::StateNotFinite { layer: 3, .. })), "the final norm: {overflow:?}");
    let spoil = |change: &dyn Fn(&mut Weights)| {
        let mut weights = model.weights().clone();
        change(&mut weights);
        Model::new(odd(), weights).unwrap_err()
    };
    assert!(matches!(spoil(&|w| w.layers[1].conv.truncate(9)), ModelError::WeightSize { found: 9, .. }));
    assert!(matches!(spoil(&|w| w.layers.truncate(2)), ModelError::WeightSize { expected: 3, found: 2, .. }));
    assert!(matches!(spoil(&|w| w.norm[2] = f32::NAN), ModelError::NotFinite { index: 2, .. }));
    assert!(matches!(spoil(&|w| w.layers[2].a_log[1] = 100.0), ModelError::Decay { layer: 2, head: 1, .. }));
    let no_class = |w: &mut Weights| w.head = Some(crate::float::Head { weight: vec![], bias: vec![] });
    assert!(matches!(spoil(&no_class), ModelError::WeightSize { .. }));
}
