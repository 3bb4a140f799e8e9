//! The measurements.

pub mod boundary;
pub mod ckks;
pub mod forms;
pub mod gemm;
pub mod infer;
pub mod mpc;
pub mod net;
pub mod ntt;
pub mod ot;
pub mod project;
pub mod residency;
pub mod scan;
mod timing;

use anyhow::Result;
use fesc_ring::cpu::Path;

use crate::cli::{self, PathChoice};
use crate::exit::Refusal;

/// The SIMD paths of this processor that a command line asks for; none is a wrong command line.
fn paths(choice: PathChoice) -> Result<Vec<Path>> {
    let name = cli::name(choice);
    let chosen: Vec<Path> = Path::available().filter(|p| choice == PathChoice::All || p.name() == name).collect();
    if chosen.is_empty() {
        return Err(Refusal::Usage(format!("this processor has no path {name}; see fesc doctor")).into());
    }
    Ok(chosen)
}
