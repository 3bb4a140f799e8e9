//! The measurements.

pub mod ckks;
pub mod forms;
pub mod gemm;
pub mod infer;
pub mod mpc;
pub mod net;
pub mod ntt;
pub mod ot;
mod timing;

use anyhow::Result;
use fesc_net::Tag;
use fesc_ring::cpu::Path;

use crate::cli::{self, PathChoice};
use crate::exit::Refusal;

/// Message tags of the program, 0x0500 and up.
pub mod tag {
    use super::Tag;
    /// Both parties are ready for the next phase.
    pub const BARRIER: Tag = Tag(0x0501);
    /// Shares of bits, opened for the check of a result.
    pub const CHECK: Tag = Tag(0x0502);
    /// Bulk data.
    pub const BULK: Tag = Tag(0x0503);
    /// A small message there and back.
    pub const PING: Tag = Tag(0x0504);
    /// The self-test of `fesc doctor`.
    pub const SELF_TEST: Tag = Tag(0x0505);
}

/// Waits until both parties are here. Counted in a phase of its own.
pub fn barrier(channel: &mut fesc_net::Channel) -> Result<(), fesc_net::NetError> {
    channel.phase("barrier");
    channel.exchange(tag::BARRIER, Vec::new(), 0).map(drop)
}

/// The SIMD paths of this processor that a command line asks for; none is a wrong command line.
fn paths(choice: PathChoice) -> Result<Vec<Path>> {
    let name = cli::name(choice);
    let chosen: Vec<Path> = Path::available().filter(|p| choice == PathChoice::All || p.name() == name).collect();
    if chosen.is_empty() {
        return Err(Refusal::Usage(format!("this processor has no path {name}; see fesc doctor")).into());
    }
    Ok(chosen)
}
