//! What is made once per model: the server's RLWE secrets, and what every client downloads.
//!
//! | who | what | size at Mamba-base |
//! |---|---|---|
//! | server | weights and `u_k` of every matrix, the key of the table ([`ServerSetup`]) | 0.37 GB |
//! | client | hints `c_k` of every matrix, the encrypted table ([`ClientSetup`]) | 0.6 GB and 0.23 GB |
//!
//! Everything is deterministic in (master seed, weights): a server that starts again has the same secrets and
//! its clients keep their downloads, and a changed weight gives new `u, e` and new public polynomials for
//! every matrix (docs/SECURITY-ARGUMENTS.md, A: the same `u` for two matrices would give their difference
//! away).
//!
//! Both stay in files, and are read layer by layer and row by row: memory does not grow with layers.

mod client;
mod layout;
mod seeds;
mod server;
mod stored;
mod vault;

pub use client::ClientSetup;
pub use seeds::SCHEME;
pub use server::ServerSetup;

use fesc_model::Shape;
use fesc_rlwe::linear;

use crate::Result;

/// A matrix of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matrix {
    /// To z, x, B, C and dt, with the convolution.
    InProj,
    /// Back to the residual stream.
    OutProj,
}

impl Matrix {
    /// Both, in the order of their use.
    pub const ALL: [Matrix; 2] = [Matrix::InProj, Matrix::OutProj];

    pub(crate) const fn index(self) -> usize {
        match self {
            Matrix::InProj => 0,
            Matrix::OutProj => 1,
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Matrix::InProj => "input",
            Matrix::OutProj => "output",
        }
    }

    /// Its shape as a linear layer.
    ///
    /// # Errors
    /// If the convolution has more taps than a block can carry.
    pub fn shape(self, shape: &Shape) -> Result<linear::Shape> {
        Ok(match self {
            Matrix::InProj => linear::Shape::new(shape.d_model, shape.proj_dim(), shape.conv_width)?,
            Matrix::OutProj => linear::Shape::new(shape.inner(), shape.d_model, 1)?,
        })
    }
}
