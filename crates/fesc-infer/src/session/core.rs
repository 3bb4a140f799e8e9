//! The one door to the inference core: everything that a session uses of it.

use std::sync::Arc;

use fesc_model::outline::Outline;
use fesc_mpc::Party;
use fesc_ring::Prg;

pub use crate::{Answer, ClientSetup, Embedding, Flow, Reveal, ServerSetup, Watch};

use super::error::Result;

/// Blocks of the linear layers that wait for their use, at most: one is 70 MB at Mamba-base.
const BLOCKS: usize = 2;

/// The schedule of a run.
pub fn flow(outline: &Outline, bucket: usize, reveal: Reveal, embedding: Embedding) -> Result<Flow> {
    Ok(Flow::new(outline, bucket, reveal)?.with_embedding(embedding))
}

/// Where the client's blocks of the linear layers come from.
pub enum Blocks<'a> {
    /// Made when they are needed.
    Fresh,
    /// Made by a thread, a few ahead.
    Ahead,
    /// Made before, on disk.
    Kept(crate::kept::Kept<'a>),
}

/// The client's half of a run.
pub fn client(
    party: &mut Party,
    flow: &Flow,
    setup: &Arc<ClientSetup>,
    ids: &[u32],
    blocks: Blocks<'_>,
    prg: &mut Prg,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    Ok(match blocks {
        Blocks::Fresh => crate::run_client(party, flow, setup, ids, prg, watch)?,
        Blocks::Ahead => {
            let mut pads = crate::Ahead::start(Arc::clone(setup), flow, BLOCKS, prg.fork())?;
            crate::run_client_with(party, flow, setup, ids, prg, &mut pads, watch)?
        }
        Blocks::Kept(mut kept) => crate::run_client_with(party, flow, setup, ids, prg, &mut kept, watch)?,
    })
}

/// The server's half of a run.
pub fn server(party: &mut Party, flow: &Flow, setup: &ServerSetup, watch: &mut dyn Watch) -> Result<()> {
    Ok(crate::run_server(party, flow, setup, watch)?)
}
