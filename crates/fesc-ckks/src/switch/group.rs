//! The loop over primes, several at a time.
//!
//! What a key switch computes is small beside what it moves: a pass over the digits' coefficients reads
//! `(l + 1 + D) N` words, 6 MB for `chain-3`, and a second-level cache has 2 MB. So digits are converted to a
//! *group* of primes at once, block by block of coefficients, and then each prime of the group is finished:
//! its digits are transformed one after the other, with its roots in the cache, and used.

use std::ops::Range;

use super::{Digits, each};
use crate::Params;

/// Words of scratch space that a group of primes may use: 50 MB. Far above a second-level cache, and better
/// so: each group reads all coefficients of the digits and of every rotation's remainder again, 84 MB for
/// eight rotations on `chain-4`, while what it writes is written and read once whatever its size. With a
/// quarter of this, one prime a group, these rotations take 1.25 times as long.
const GROUP_WORDS: usize = 48 << 17;

/// The sizes of groups: as few as the scratch space allows, but a multiple of the threads, so that all have
/// the same work.
fn ranges(count: usize, words: usize, threads: usize) -> Vec<Range<usize>> {
    let most = (GROUP_WORDS / words.max(1)).clamp(1, count.max(1));
    let groups = count.div_ceil(most).next_multiple_of(threads.max(1)).min(count.max(1));
    (0..groups).map(|i| i * count / groups..(i + 1) * count / groups).collect()
}

/// Runs `work` for each prime with its row and all digits modulo the prime, transformed. `start` makes what a
/// group needs besides, of about `limbs` limbs for each prime; `work` is told which one of the group it works
/// on.
pub(crate) fn each_prime<T: Send, S>(
    params: &Params,
    digits: &impl Digits,
    primes: &[usize],
    rows: Vec<T>,
    limbs: usize,
    start: impl Fn(&[usize]) -> S + Sync + Send,
    work: impl Fn(&mut S, usize, usize, T, &[&[u64]]) + Sync + Send,
) {
    let (n, count) = (params.degree(), digits.count());
    let ranges = ranges(primes.len(), (count + limbs) * n, rayon::current_num_threads());
    let largest = ranges.iter().map(Range::len).max().unwrap_or(0);
    let mut rows = rows.into_iter();
    let groups: Vec<(&[usize], Vec<T>)> =
        ranges.into_iter().map(|r| (&primes[r.clone()], rows.by_ref().take(r.len()).collect())).collect();
    each(groups, |_, (primes, rows)| {
        // One size for all groups, so that buffers are used again.
        let mut scratch = params.pool().take(largest * count * n);
        digits.convert(params, primes, &mut scratch[..primes.len() * count * n]);
        let mut state = start(primes);
        for (i, (&j, row)) in primes.iter().zip(rows).enumerate() {
            let parts = digits.at(params, j, &mut scratch[i * count * n..(i + 1) * count * n]);
            work(&mut state, i, j, row, &parts);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_primes_and_are_even() {
        for count in 0..40 {
            for words in [0, 1 << 15, 1 << 19, 1 << 24] {
                for threads in [0, 1, 2, 3, 8, 64] {
                    let ranges = ranges(count, words, threads);
                    let all: Vec<usize> = ranges.iter().cloned().flatten().collect();
                    assert!(all.iter().copied().eq(0..count), "{ranges:?}");
                    let sizes = ranges.iter().map(Range::len);
                    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
                    assert!(most - least <= 1 && (most == 1 || most * words <= GROUP_WORDS || most == 0));
                    assert!(ranges.len() >= threads.min(count));
                }
            }
        }
    }
}
