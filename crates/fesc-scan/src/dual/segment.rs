//! Which chunks a segment has, and what is computed for each.
//!
//! A chunk is *kept* if its own state is used by a later chunk or leaves the segment, and *entered* if a
//! state enters it. One chunk alone may be neither; in a longer segment at most the first is not entered and
//! the last not kept. They share the others' tensors all the same, with zeros where nothing is to be
//! computed: tensors of one chunk would save 7 MB online at base shape (2 percent of 16 chunks), but cost 13
//! percent more RLWE bytes to prepare at 16 chunks and 28 percent at 4, because few equal products fill
//! ciphertexts badly.

/// The chunks of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) tokens: usize,
    /// Tokens of a chunk; the last may have fewer and is padded.
    pub(super) q: usize,
    pub(super) chunks: usize,
    pub(super) carry_in: bool,
    pub(super) carry_out: bool,
}

impl Segment {
    /// `tokens` of at least 1 in chunks of `chunk`; fewer tokens than that are one chunk.
    pub(super) fn new(tokens: usize, chunk: usize, carry_in: bool, carry_out: bool) -> Self {
        let q = tokens.min(chunk).max(1);
        let chunks = tokens.div_ceil(q);
        Self { tokens, q, chunks, carry_in, carry_out }
    }

    /// Tokens of chunk `c` that are not padding.
    pub(super) fn real(&self, c: usize) -> usize {
        self.tokens.saturating_sub(c * self.q).min(self.q)
    }

    /// Whether a state enters chunk `c`.
    pub(super) fn entered(&self, c: usize) -> bool {
        c > 0 || self.carry_in
    }

    /// Whether the state of chunk `c` is used.
    pub(super) fn kept(&self, c: usize) -> bool {
        c + 1 < self.chunks || self.carry_out
    }

    /// How many chunks a state enters.
    pub(super) fn entered_chunks(&self) -> usize {
        self.chunks - usize::from(!self.carry_in)
    }

    /// How many chunks' states are used.
    pub(super) fn kept_chunks(&self) -> usize {
        self.chunks - usize::from(!self.carry_out)
    }

    /// States that enter a later chunk or leave: the carry, then those of the kept chunks. There are as many
    /// sums of them: one for each entered chunk, then the one that leaves.
    pub(super) fn states(&self) -> usize {
        self.chunks - 1 + usize::from(self.carry_in) + usize::from(self.carry_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_and_states() {
        let numbers = |s: &Segment| {
            let count = |f: fn(&Segment, usize) -> bool| (0..s.chunks).filter(|&c| f(s, c)).count();
            assert_eq!((count(Segment::entered), count(Segment::kept)), (s.entered_chunks(), s.kept_chunks()));
            (s.q, s.chunks, s.entered_chunks(), s.kept_chunks(), s.states())
        };
        assert_eq!(numbers(&Segment::new(5, 8, false, false)), (5, 1, 0, 0, 0));
        let ragged = Segment::new(33, 8, false, false);
        assert_eq!((numbers(&ragged), ragged.real(4), ragged.real(3)), ((8, 5, 4, 4, 4), 1, 8));
        assert_eq!(numbers(&Segment::new(32, 8, true, true)), (8, 4, 4, 4, 5));
        assert_eq!(numbers(&Segment::new(1, 8, true, false)), (1, 1, 1, 0, 1));
        assert_eq!(numbers(&Segment::new(16, 8, false, true)), (8, 2, 1, 2, 2));
    }
}
