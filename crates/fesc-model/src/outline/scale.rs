//! Numbers that are the same for every model of the fast plan.

use fesc_ring::Ring;

/// Shares of every stage: `Z_2^48`.
pub const RING: Ring = fesc_approx::RING48;
/// Fractional bits F of activations and of the residual stream.
pub const FRAC: u32 = 16;
/// Tokens of a chunk of the block dual form (cheapest at L = 2,048; docs/DESIGN.md, 6.3).
pub const CHUNK: usize = 128;
/// Tokens of a segment: the scan's matrices reach so far, the state alone goes on.
pub const SEGMENT: usize = 16 * CHUNK;
/// Tokens of the longest document that a scan under encryption takes whole.
pub const WHOLE: usize = 4 * SEGMENT;
/// Fractional bits of Delta and of the decay matrix.
pub const DELTA: u32 = 22;
/// Fractional bits of Delta x as a scan under encryption takes it.
pub const PUSHED: u32 = 20;
/// Fractional bits of A.
pub const RATE: u32 = 18;
/// Fractional bits of A Delta and of its sums. At 20 bits the clamp is right; with two more, rounding to the
/// nearest moves the sum of 2,048 slow steps by at most 2.4e-4.
pub const DECAY: u32 = 22;
/// A Delta is clamped at minus this: exp(-16) is 1e-7.
pub const CLAMP: i64 = 16;
/// Fractional bits of dt before softplus.
pub const STEP: u32 = 12;
/// Fractional bits of the embedding table under encryption (docs/DESIGN.md, 6.6).
pub const TABLE: u32 = 30;
/// Fractional bits of the pooling vector.
pub const POOL: u32 = 24;
/// Fractional bits of the head's weights.
pub const HEAD: u32 = 16;
/// Fractional bits of logits that may be revealed: enough to rank classes; each further bit is a finer
/// measurement of the weights for whoever repeats a document.
pub const REVEAL: u32 = 4;

/// All of them but [`PUSHED`], which few plans have, for the digest.
pub(super) const WORDS: [u64; 13] = [
    48,
    FRAC as u64,
    CHUNK as u64,
    SEGMENT as u64,
    DELTA as u64,
    RATE as u64,
    DECAY as u64,
    CLAMP as u64,
    STEP as u64,
    TABLE as u64,
    POOL as u64,
    HEAD as u64,
    REVEAL as u64,
];
