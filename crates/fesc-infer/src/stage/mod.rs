//! Stages: maps from shares to shares.
//!
//! Each is a struct of fixed shape, or a trait where a plan chooses ([`crate::kernels`]): `declare` writes
//! its exact cost and correlations to a [`fesc_mpc::Ledger`] before anything runs, `run` does the work. The
//! twin of all of them is `fesc_model::Twin`, stage by stage.
//!
//! | stage | in, out | messages |
//! |---|---|---|
//! | [`Embed`] | ids, stream at F | queries of the client, a rounding |
//! | [`Norm`] | stream, normed at F | the plan's |
//! | [`Projection`] | rows, parts of columns | the plan's |
//! | [`Activations`] | z, x, B, C; dt, Delta and A Delta | the plan's |
//! | [`fesc_scan::Scan`] | packet, y | the plan's |
//! | [`Gate`] | y and SiLU(z), gated y | a product, a rounding |
//! | [`Pool`], [`Head`] | normed, logits | a product each |
//! | [`Label`], [`Floor`] | logits, at the client | comparisons; the last message goes to the client |

pub(crate) mod embed;
mod gate;
mod kernel;
mod pool;
mod reveal;
mod side;

use std::fmt;

use fesc_model::Shape;
pub use fesc_mpc::protocol::Rescale;
use serde::Serialize;

pub use embed::{Embed, Embedding, Rows};
pub use gate::Gate;
pub use kernel::{Activations, Active, Kit, Norm, Projection, StepSecrets};
pub use pool::{Head, HeadSecrets, Pool, selection};
pub use reveal::{Floor, Label};
pub use side::Side;

macro_rules! stages {
    ($($stage:ident, $name:literal, $what:literal;)*) => {
        /// The stages of a run, in the order of their first use.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Stage { $(#[doc = $what] $stage,)* }

        impl Stage {
            /// Its name in reports, which is stable.
            pub const fn name(self) -> &'static str {
                match self { $(Stage::$stage => $name,)* }
            }
        }
    };
}

stages! {
    Embedding, "embedding", "Token ids to the residual stream.";
    Norm, "norm", "The norm before the mixer.";
    InProj, "in_proj", "The input projection with the convolution.";
    Silu, "silu", "SiLU of z, x, B, C.";
    Steps, "steps", "Delta and A Delta.";
    Scan, "scan", "The selective scan.";
    Gate, "gate", "y SiLU(z).";
    GatedNorm, "gated_norm", "The gated norm.";
    OutProj, "out_proj", "The output projection.";
    FinalNorm, "final_norm", "The norm after the last block.";
    Pool, "pool", "Pooling over tokens.";
    Head, "head", "The classifier.";
    Reveal, "reveal", "What the client learns.";
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Columns of a layer's projection: z, x, B, C, dt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Columns of z, and of x.
    pub inner: usize,
    /// Columns of B, and of C.
    pub mixed: usize,
    /// Columns of dt.
    pub heads: usize,
}

impl Widths {
    /// Those of a shape.
    pub fn new(shape: &Shape) -> Self {
        Self { inner: shape.inner(), mixed: shape.groups * shape.state, heads: shape.heads }
    }

    /// The ranges of z, x, B, C, dt among the projection's columns.
    pub fn columns(&self) -> [std::ops::Range<usize>; 5] {
        let mut at = 0;
        [self.inner, self.inner, self.mixed, self.mixed, self.heads].map(|width| {
            at += width;
            at - width..at
        })
    }
}
