//! What the size of a chunk costs: the declarations of [`Dual`] for several sizes, so that the choice of 128
//! is shown.
//!
//! Small chunks have many states (each `state x inner`, opened twice), large ones have large decay matrices
//! (`q / 2` entries per token and head, opened twice).

use fesc_model::Shape;
use fesc_model::outline::LayerForms;
use fesc_mpc::provider::dealer_cost;
use fesc_mpc::{Cost, Ledger, Role};

use crate::{Dual, Result, Scan};

/// The cost of one segment with chunks of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkCost {
    /// Tokens of a chunk.
    pub chunk: usize,
    /// Online cost.
    pub online: Cost,
    /// Bytes that a dealer sends to both parties for the correlations: a measure of the offline work.
    pub dealt_bytes: u64,
}

/// Online and offline cost of `tokens` (one segment, no carry) for chunks of 32, 64, 128 and 256 tokens. The
/// model's own chunk is 128 (`fesc_model::outline::scale::CHUNK`); the exponent's form is taken as it is.
///
/// # Errors
/// As [`Dual::new`].
pub fn cost_by_chunk(shape: &Shape, forms: &LayerForms, tokens: usize) -> Result<Vec<ChunkCost>> {
    let cost = |chunk| {
        let mut ledger = Ledger::new();
        Dual::with_chunk(shape, forms, chunk, tokens, false, false)?.declare(&mut ledger)?;
        let dealt = ledger.demand().iter().flat_map(|r| [Role::P0, Role::P1].map(|role| dealer_cost(r, role).1));
        Ok(ChunkCost { chunk, online: ledger.cost(), dealt_bytes: dealt.sum() })
    };
    [32, 64, 128, 256].into_iter().map(cost).collect()
}
