//! Stages: maps from shares to shares (design 2).
//!
//! Each is a struct that fixes its shape: `declare` writes its exact cost and correlations to a
//! [`fesc_mpc::Ledger`] before anything runs, `run` does the work. The twin of all of them is
//! `fesc_model::Twin`, stage by stage.
//!
//! | stage | in, out | messages |
//! |---|---|---|
//! | [`Embed`] | ids, stream at F | queries of the client, a rounding |
//! | [`Norm`] | stream, normed at F | one bundle, an inverse root, roundings |
//! | [`Linear`] | rows, parts of columns | one per block, from the client |
//! | [`Activate`] | z, x, B, C | roundings, SiLU |
//! | [`Steps`] | dt, Delta and z | softplus with the server's threshold, a product, a mux |
//! | `fesc_scan::Dual` | packet, y | see there |
//! | [`Gate`] | y and SiLU(z), gated y | a product, a rounding |
//! | [`Pool`], [`Head`] | normed, logits | a product each |
//! | [`Label`], [`Floor`] | logits, at the client | comparisons; the last message goes to the client |

mod activate;
mod embed;
mod gate;
mod linear;
mod norm;
mod pool;
mod reveal;
mod steps;

use fesc_model::Shape;
use fesc_mpc::Role;
pub use fesc_mpc::protocol::Rescale;

pub use activate::{Activate, Active};
pub use embed::{Embed, Embedding, Rows};
pub use gate::Gate;
pub use linear::{Bias, Half, Linear};
pub use norm::Norm;
pub use pool::{Head, Pool, selection};
pub use reveal::{Floor, Label};
pub use steps::{StepSecrets, Steps};

use crate::{InferError, Result};

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

/// A secret of the server: it must be there at the server and nowhere else. Empty at the client.
fn servers<'a, T>(role: Role, what: &'static str, secret: Option<&'a [T]>) -> Result<&'a [T]> {
    match (role, secret) {
        (Role::P1, Some(secret)) => Ok(secret),
        (Role::P0, None) => Ok(&[]),
        (Role::P1, None) => Err(InferError::Misuse { what, why: "the server has none" }),
        (Role::P0, Some(_)) => {
            Err(InferError::Misuse { what, why: "they are the server's, the client must not have them" })
        }
    }
}
