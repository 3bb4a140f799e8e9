//! Samplers, all from an explicit `&mut Prg`.
//!
//! Each one says which words of the stream it reads, so that two parties with one seed get one result on
//! every path. Rejection samplers take time that depends on the rejected words only, which are independent of
//! what they return; [`centred_binomial`] and [`gaussian`](mod@gaussian) take time and addresses that depend
//! on nothing but the count.

pub mod gaussian;

use crate::modulus::Modulus;
use crate::{Prg, Ring};
pub use gaussian::gaussian;
use zeroize::Zeroize;

/// Words drawn at a time.
const BATCH: usize = 64;
/// Largest parameter of the centred binomial: two halves of one word.
pub const MAX_ETA: u32 = 32;

/// What can be wrong with a distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The binomial parameter is out of range.
    #[error("centred binomial with eta = {eta}: it must be between 1 and {MAX_ETA}")]
    Eta {
        /// The parameter given.
        eta: u32,
    },
}

/// Uniform modulo `p`, exactly: the low `bits(p)` bits of each word, words at or above `p` skipped.
pub fn uniform_mod(prg: &mut Prg, modulus: Modulus, out: &mut [u64]) {
    let (p, mask) = (modulus.value(), u64::MAX >> (64 - modulus.bits()));
    let mut batch = [0; BATCH];
    let mut done = 0;
    while done < out.len() {
        // Never more words than are missing: the stream position after the call does not depend on the batch
        // size.
        let words = &mut batch[..BATCH.min(out.len() - done)];
        prg.fill_u64(words);
        for w in words {
            out[done] = *w & mask;
            done += usize::from(*w & mask < p);
        }
    }
    batch.zeroize();
}

/// Uniform modulo `2^l`: the low `l` bits of one word per element.
pub fn uniform_ring(prg: &mut Prg, ring: Ring, out: &mut [u64]) {
    prg.fill_u64(out);
    for o in out {
        *o = ring.reduce(*o);
    }
}

/// Uniform over -1, 0, 1, exactly: two bits at a time from the low end of each word, 3 skipped, else the
/// value less one. What is left of the last word is dropped.
pub fn ternary(prg: &mut Prg, out: &mut [i64]) {
    let mut done = 0;
    while done < out.len() {
        let mut word = prg.next_u64();
        for _ in 0..32 {
            // Write first, keep by moving on: the address depends on the number of skips, never on a value
            // kept.
            if let Some(o) = out.get_mut(done) {
                *o = (word & 3) as i64 - 1;
            }
            done += usize::from(word & 3 != 3);
            word >>= 2;
        }
    }
}

/// Centred binomial: the difference of the number of ones among the low `eta` and the next `eta` bits of one
/// word per element. Variance `eta / 2`, magnitude at most `eta`.
pub fn centred_binomial(prg: &mut Prg, eta: u32, out: &mut [i64]) -> Result<(), SampleError> {
    if eta == 0 || eta > MAX_ETA {
        return Err(SampleError::Eta { eta });
    }
    let mask = u64::MAX >> (64 - eta);
    let mut batch = [0; BATCH];
    for chunk in out.chunks_mut(BATCH) {
        let words = &mut batch[..chunk.len()];
        prg.fill_u64(words);
        for (o, &w) in chunk.iter_mut().zip(words.iter()) {
            *o = i64::from((w & mask).count_ones()) - i64::from((w >> eta & mask).count_ones());
        }
    }
    batch.zeroize();
    Ok(())
}
