//! Named shapes: the paper's shape table (appendix deployment-scaling, table shape_scaling_backend) and a
//! tiny one.

use super::{Config, Pooling, Shape};

/// Rows of the embedding of the published Mamba-2 checkpoints: 50,277 tokens of GPT-NeoX padded to a multiple
/// of 16.
const NEOX_ROWS: usize = 50_288;

impl Config {
    /// The names that [`Config::named`] knows. All but `tiny` are the paper's.
    pub const NAMES: [&'static str; 8] = ["tiny", "small", "slim", "base", "wide", "state+", "130m", "370m"];

    /// A shape by name: heads of 64 channels (16 in `tiny`), one group, four taps, the vocabulary of GPT-NeoX
    /// (512 in `tiny`).
    pub fn named(name: &str) -> Option<Self> {
        let (d_model, heads, state, layers) = match name {
            "tiny" => (32, 4, 16, 2),
            "small" => (384, 12, 64, 12),
            "slim" => (768, 24, 64, 12),
            "base" => (768, 24, 128, 12),
            "wide" => (1024, 32, 128, 12),
            "state+" => (768, 24, 256, 12),
            "130m" => (768, 24, 128, 24),
            "370m" => (1024, 32, 128, 48),
            _ => return None,
        };
        let tiny = name == "tiny";
        let shape = Shape {
            vocab: if tiny { 512 } else { NEOX_ROWS },
            d_model,
            layers,
            heads,
            head_dim: if tiny { 16 } else { 64 },
            state,
            groups: 1,
            conv_width: 4,
            chunk: 256,
            norm_eps: 1e-5,
            norm_groups: 1,
            delta_limit: (0.0, f32::INFINITY),
            tied: true,
            residual_in_fp32: true,
            pooling: Pooling::Mean,
        };
        Config::new(shape).ok()
    }
}
