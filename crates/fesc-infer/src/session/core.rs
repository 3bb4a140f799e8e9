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

/// The client's half of a run. With `ahead`, a thread prepares the blocks of the linear layers.
pub fn client(
    party: &mut Party,
    flow: &Flow,
    setup: &Arc<ClientSetup>,
    ids: &[u32],
    ahead: bool,
    prg: &mut Prg,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    if !ahead {
        return Ok(crate::run_client(party, flow, setup, ids, prg, watch)?);
    }
    let mut pads = crate::Ahead::start(Arc::clone(setup), flow, BLOCKS, prg.fork())?;
    Ok(crate::run_client_with(party, flow, setup, ids, prg, &mut pads, watch)?)
}

/// The server's half of a run.
pub fn server(party: &mut Party, flow: &Flow, setup: &ServerSetup, watch: &mut dyn Watch) -> Result<()> {
    Ok(crate::run_server(party, flow, setup, watch)?)
}
