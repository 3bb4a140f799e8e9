//! The trainer's model is fesc-model's, and its weights come back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use fesc_model::{Config, Model, Pooling, Shape, Weights};
use fesc_ring::Prg;
use fesc_train::{Forms, Graph, Packed, Parameters};

fn shape(heads: usize, head_dim: usize, state: usize, groups: usize, pooling: Pooling) -> Shape {
    Shape {
        vocab: 50,
        d_model: 24,
        layers: 3,
        heads,
        head_dim,
        state,
        groups,
        conv_width: 4,
        chunk: 64,
        norm_eps: 1e-5,
        norm_groups: groups,
        delta_limit: (0.0, f32::INFINITY),
        tied: true,
        residual_in_fp32: true,
        pooling,
    }
}

#[test]
fn logits_are_those_of_the_reference() {
    let shapes = [
        shape(4, 16, 8, 1, Pooling::Mean),
        shape(6, 5, 7, 3, Pooling::Last),
        shape(2, 64, 32, 1, Pooling::Mean),
        shape(1, 100, 3, 1, Pooling::Mean),
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let config = Config::new(shape).unwrap();
        let mut prg = Prg::from_seed([seed as u8; 16]);
        let mut weights = Weights::random(&config, Some(5), &mut prg);
        // An embedding of the size of one, so that the nonlinearities have something to do.
        weights.embedding.iter_mut().for_each(|v| *v *= 50.0);
        let mut document = |length: usize| (0..length).map(|_| (prg.next_u64() % 50) as u32).collect::<Vec<_>>();
        let documents = [document(1), document(130), document(64), document(7)];
        let parameters = Parameters::new(&config, weights.clone()).unwrap();
        let forms = Arc::new(Forms::exact());
        let graph = Graph::training(&config, &parameters, forms).unwrap();
        let found = graph.logits(&Packed::new(documents.iter().map(Vec::as_slice)), None).unwrap();
        let found: Vec<Vec<f32>> = found.to_vec2().unwrap();
        let model = Model::new(config.clone(), weights.clone()).unwrap();
        for (found, document) in found.iter().zip(&documents) {
            for (f, e) in found.iter().zip(model.classify(document).unwrap()) {
                assert!((f - e).abs() < 1e-4 * e.abs().max(1.0), "{f} {e}");
            }
        }
        let back = parameters.weights().unwrap();
        assert_eq!(back.embedding, weights.embedding);
        assert_eq!(back.layers[2].out_proj, weights.layers[2].out_proj);
        assert_eq!(back.layers[1].dt_bias, weights.layers[1].dt_bias);
        assert_eq!(back.head.unwrap().bias, weights.head.unwrap().bias);
    }
}
