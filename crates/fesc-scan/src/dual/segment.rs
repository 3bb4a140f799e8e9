//! Which chunks a segment has, and what is computed for each.
//!
//! A chunk is *kept* if its own state is used by a later chunk or leaves the segment, and *entered* if a state enters it. Chunks of equal
//! kind are contiguous; each run of them is a *part*, with tensors of its own, so that nothing is computed for a chunk that does not need it.

/// Chunks `from..from + count`, all of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) entered: bool,
    pub(super) kept: bool,
}

/// The chunks of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) tokens: usize,
    /// Tokens of a chunk; the last may have fewer and is padded.
    pub(super) q: usize,
    pub(super) chunks: usize,
    pub(super) carry_in: bool,
    pub(super) carry_out: bool,
    pub(super) parts: Vec<Part>,
}

impl Segment {
    /// `tokens` of at least 1 in chunks of `chunk`; fewer tokens than that are one chunk.
    pub(super) fn new(tokens: usize, chunk: usize, carry_in: bool, carry_out: bool) -> Self {
        let q = tokens.min(chunk).max(1);
        let chunks = tokens.div_ceil(q);
        let mut parts: Vec<Part> = Vec::new();
        for c in 0..chunks {
            let (entered, kept) = (c > 0 || carry_in, c + 1 < chunks || carry_out);
            match parts.last_mut() {
                Some(p) if (p.entered, p.kept) == (entered, kept) => p.count += 1,
                _ => parts.push(Part { from: c, count: 1, entered, kept }),
            }
        }
        Self { tokens, q, chunks, carry_in, carry_out, parts }
    }

    /// Tokens of chunk `c` that are not padding.
    pub(super) fn real(&self, c: usize) -> usize {
        self.tokens.saturating_sub(c * self.q).min(self.q)
    }

    pub(super) fn entered(&self, c: usize) -> bool {
        c > 0 || self.carry_in
    }

    pub(super) fn kept(&self, c: usize) -> bool {
        c + 1 < self.chunks || self.carry_out
    }

    /// States that enter a later chunk or leave: the carry, then those of the kept chunks. There are as many sums of them: one for
    /// each entered chunk, then the one that leaves.
    pub(super) fn states(&self) -> usize {
        self.chunks - 1 + usize::from(self.carry_in) + usize::from(self.carry_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_states() {
        let kinds = |s: &Segment| s.parts.iter().map(|p| (p.count, p.entered, p.kept)).collect::<Vec<_>>();
        let one = Segment::new(5, 8, false, false);
        assert_eq!((one.q, one.chunks, one.states(), kinds(&one)), (5, 1, 0, vec![(1, false, false)]));
        let ragged = Segment::new(33, 8, false, false);
        assert_eq!((ragged.q, ragged.chunks, ragged.states(), ragged.real(4), ragged.real(3)), (8, 5, 4, 1, 8));
        assert_eq!(kinds(&ragged), [(1, false, true), (3, true, true), (1, true, false)]);
        let middle = Segment::new(32, 8, true, true);
        assert_eq!((middle.states(), kinds(&middle)), (5, vec![(4, true, true)]));
        let short_last = Segment::new(1, 8, true, false);
        assert_eq!((short_last.states(), kinds(&short_last)), (1, vec![(1, true, false)]));
        let first = Segment::new(16, 8, false, true);
        assert_eq!((first.states(), kinds(&first)), (2, vec![(1, false, true), (1, true, true)]));
    }
}
