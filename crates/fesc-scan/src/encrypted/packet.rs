//! Sums of z that the decays are exps of. Local.

use fesc_model::outline::scale::{CHUNK, SEGMENT};
use fesc_mpc::Shared;

use super::geometry::Range;

/// Sums over each range, those of up to a chunk, of up to a segment and longer ones apart; a product over no
/// token is 1, and stands in none.
pub(super) struct Sums {
    pub parts: [Shared; 3],
    /// Where each part's sums go.
    pub places: [Vec<usize>; 3],
    pub ones: Vec<usize>,
}

/// How many sums of each part there are.
pub(super) fn counts(ranges: &[Range]) -> [usize; 3] {
    [0, 1, 2].map(|p| ranges.iter().filter(|r| part(r) == Some(p)).count())
}

/// Which part a range belongs to.
fn part(range: &Range) -> Option<usize> {
    match range.to.saturating_sub(range.from) as usize {
        0 => None,
        n => Some(usize::from(n > CHUNK) + usize::from(n > SEGMENT)),
    }
}

/// The sums; `z` has rows of `heads`.
pub(super) fn sums(ranges: &[Range], z: &Shared, heads: usize) -> Sums {
    let ring = z.ring();
    // Prefix sums by token.
    let tokens = z.len() / heads.max(1);
    let mut prefix = vec![0u64; (tokens + 1) * heads];
    for (i, &v) in z.values().iter().enumerate() {
        prefix[i + heads] = ring.add(prefix[i], v);
    }
    let at = |t: u32, head: u32| prefix.get(t as usize * heads + head as usize).copied().unwrap_or(0);
    let (mut values, mut places, mut ones): ([Vec<u64>; 3], [Vec<usize>; 3], Vec<usize>) = Default::default();
    for (i, range) in ranges.iter().enumerate() {
        match part(range) {
            Some(p) => {
                values[p].push(ring.sub(at(range.to, range.head), at(range.from, range.head)));
                places[p].push(i);
            }
            None => ones.push(i),
        }
    }
    Sums { parts: values.map(|v| Shared::new(ring, v)), places, ones }
}
