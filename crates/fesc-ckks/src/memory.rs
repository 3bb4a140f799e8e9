//! Memory of ciphertexts and plaintexts of all named sets, in one pool of the process.
//!
//! A run computes under several sets, one circuit after another, layer by layer. Memory that was never
//! touched costs seconds a gigabyte in a virtual machine, so what one circuit leaves is for the next,
//! whatever its set. [`reserve`] pays before the clock of a run starts, [`release`] gives back what nobody
//! uses.
//!
//! A set that is no named one ([`crate::Params::new`]) has a pool of its own.

use std::sync::OnceLock;

use fesc_ring::pool::Pool;

/// Bytes that wait in the pool, at most: 8 GiB.
pub const MOST_IDLE: u64 = 8 << 30;

const WORD: usize = size_of::<u64>();

static POOL: OnceLock<Pool> = OnceLock::new();

/// The pool.
pub(crate) fn pool() -> Pool {
    POOL.get_or_init(|| Pool::with_limit((MOST_IDLE / WORD as u64) as usize)).clone()
}

/// Has so many bytes ready, at most [`MOST_IDLE`].
pub fn reserve(bytes: u64) {
    pool().reserve((bytes.min(MOST_IDLE) / WORD as u64) as usize);
}

/// Frees what no ciphertext uses.
pub fn release() {
    pool().clear();
}
