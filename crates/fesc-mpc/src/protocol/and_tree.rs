//! From digits to the whole: `gt = gt_hi xor (eq_hi and gt_lo)`, `eq = eq_hi and eq_lo`, pairwise, in
//! `ceil(log2 D)` rounds of AND gates on packed bits.
//!
//! Both products of a merge share the operand `eq_hi`, which is opened once: 3 bits each way instead of 4.

use super::leaf::Node;
use super::tag;
use crate::correlation::BitTriples;
use crate::error::MpcError;
use crate::{Ledger, Party, Request, Role};

/// Merges of one level: how many with both products, how many (0 or 1) with the first only.
fn level(digits: usize) -> (usize, usize) {
    let pairs = digits / 2;
    // Only the lowest digit lacks `eq`; it is merged when the number of digits is even.
    let last = usize::from(digits.is_multiple_of(2));
    (pairs - last, last)
}

/// Writes the cost of merging `digits` digits of `words` words each.
pub(super) fn declare(digits: usize, words: usize, ledger: &mut Ledger) {
    let mut left = digits;
    while left > 1 {
        let (both, single) = level(left);
        let mut opened = 0;
        for (count, width) in [(both, 2), (single, 1)] {
            if count > 0 {
                ledger.need(Request::BitTriples(BitTriples { words: count * words, width }));
                opened += count * words * (width + 1);
            }
        }
        ledger.exchange(8 * opened, 8 * opened);
        left = left.div_ceil(2);
    }
}

/// Merges digits, most significant first, into one; returns the shares of "greater".
pub(super) fn run(party: &mut Party, mut nodes: Vec<Node>) -> Result<Vec<u64>, MpcError> {
    let words = nodes.first().map_or(0, |n| n.gt.len());
    while nodes.len() > 1 {
        let (both, single) = level(nodes.len());
        let mut gates = Vec::new();
        for (range, width) in [(0..both, 2), (both..both + single, 1)] {
            if !range.is_empty() {
                gates.push(Gates::new(party, &nodes, range, words, width)?);
            }
        }
        let mine: Vec<u64> = gates.iter().flat_map(|g| g.masked.iter().copied()).collect();
        let mut opened = party.exchange_words(tag::AND, &mine)?;
        opened.iter_mut().zip(&mine).for_each(|(t, &m)| *t ^= m);
        let mut rest = opened.as_slice();
        let mut merged = Vec::with_capacity(nodes.len().div_ceil(2));
        for g in &gates {
            let (head, tail) = rest.split_at(g.masked.len());
            g.finish(party.role(), &nodes, head, words, &mut merged);
            rest = tail;
        }
        if nodes.len() % 2 == 1 {
            merged.extend(nodes.pop());
        }
        nodes = merged;
    }
    Ok(nodes.pop().map(|n| n.gt).unwrap_or_default())
}

/// A run of merges of equal width in one level.
struct Gates {
    first: usize,
    count: usize,
    width: usize,
    material: crate::correlation::Material,
    /// Masked `eq_hi`, then masked `gt_lo`, then masked `eq_lo` if needed.
    masked: Vec<u64>,
}

impl Gates {
    fn new(
        party: &mut Party,
        nodes: &[Node],
        pairs: std::ops::Range<usize>,
        words: usize,
        width: usize,
    ) -> Result<Self, MpcError> {
        let (first, count) = (pairs.start, pairs.len());
        let material = party.take(Request::BitTriples(BitTriples { words: count * words, width }))?;
        let mut masked = Vec::with_capacity(count * words * (width + 1));
        let mask = |masked: &mut Vec<u64>, field: usize, pick: &dyn Fn(usize) -> usize, eq: bool| {
            let values = pairs.clone().flat_map(|p| {
                let node = &nodes[pick(p)];
                if eq { node.eq.iter() } else { node.gt.iter() }
            });
            masked.extend(values.zip(material.ring(field)).map(|(&v, &m)| v ^ m));
        };
        mask(&mut masked, BitTriples::COMMON, &|p| 2 * p, true);
        mask(&mut masked, BitTriples::operand(0), &|p| 2 * p + 1, false);
        if width == 2 {
            mask(&mut masked, BitTriples::operand(1), &|p| 2 * p + 1, true);
        }
        Ok(Self { first, count, width, material, masked })
    }

    fn finish(&self, role: Role, nodes: &[Node], opened: &[u64], words: usize, merged: &mut Vec<Node>) {
        let len = self.count * words;
        let (common, rest) = opened.split_at(len);
        let product = |j: usize| -> Vec<u64> {
            let operand = &rest[j * len..(j + 1) * len];
            let (b, a, c) = (
                self.material.ring(BitTriples::COMMON),
                self.material.ring(BitTriples::operand(j)),
                self.material.ring(BitTriples::product(j)),
            );
            (0..len)
                .map(|i| {
                    let cross = (common[i] & a[i]) ^ (b[i] & operand[i]) ^ c[i];
                    cross ^ role.at_p0(common[i] & operand[i])
                })
                .collect()
        };
        let gt = product(0);
        let eq = if self.width == 2 { product(1) } else { Vec::new() };
        for p in 0..self.count {
            let range = p * words..(p + 1) * words;
            let hi = &nodes[2 * (self.first + p)];
            let gt = gt[range.clone()].iter().zip(&hi.gt).map(|(&x, &g)| x ^ g).collect();
            merged.push(Node { gt, eq: eq.get(range).map(<[u64]>::to_vec).unwrap_or_default() });
        }
    }
}
