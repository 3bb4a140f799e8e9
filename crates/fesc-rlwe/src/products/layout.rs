//! Which entry of which tensor lies in which slot.
//!
//! Slots run over the sum (slowest), the batch, then left and right, the one that the upload has innermost:
//! there the other operand, the evaluator's, is constant, which makes its multipliers cheap.

use fesc_mpc::correlation::{Index, ProductShape};
use fesc_ring::Ring;

use super::plan::{Method, Operand, Piece, Task};

/// Where a product's tensors have their entries.
pub(super) struct Places {
    left: Index,
    right: Index,
    out: Index,
}

impl Places {
    pub(super) fn new(shape: &ProductShape) -> Self {
        Self { left: shape.left_index(), right: shape.right_index(), out: shape.out_index() }
    }

    pub(super) fn side(&self, side: Operand) -> &Index {
        match side {
            Operand::Left => &self.left,
            Operand::Right => &self.right,
        }
    }

    pub(super) fn out(&self) -> &Index {
        &self.out
    }
}

/// The slots of a piece.
pub(super) struct Layout<'a> {
    piece: &'a Piece,
    places: &'a Places,
    /// Those of the product that shares the uploads.
    scaled: Option<&'a Places>,
    ring: Ring,
}

/// Which entry of an operand a slot has: its batch index, and its indices inside the split.
pub(super) struct Entry {
    batch: usize,
    own: usize,
    sum: usize,
}

/// Indices inside a ciphertext's split.
struct Slot {
    batch: usize,
    left: usize,
    right: usize,
    sum: usize,
}

impl<'a> Layout<'a> {
    /// `places` has all products of the bundle.
    pub(super) fn new(piece: &'a Piece, places: &'a [Places], ring: Ring) -> Self {
        let scaled = piece.scale.map(|s| &places[s.product]);
        Self { piece, places: &places[piece.product], scaled, ring }
    }

    /// The slots in use, in order; those after them are zero.
    fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let split = self.piece.split;
        let left_inner = self.piece.method == Method::Left;
        let (outer, inner) = if left_inner { (split.right, split.left) } else { (split.left, split.right) };
        let lines = (0..split.sum).flat_map(move |sum| (0..split.batch).map(move |batch| (sum, batch)));
        lines.flat_map(move |(sum, batch)| {
            (0..outer).flat_map(move |o| {
                (0..inner).map(move |i| {
                    let (left, right) = if left_inner { (i, o) } else { (o, i) };
                    Slot { batch, left, right, sum }
                })
            })
        })
    }

    fn batch(&self, task: &Task, slot: &Slot) -> Option<usize> {
        let b = self.piece.batch.start + task.tile * self.piece.split.batch + slot.batch;
        (b < self.piece.batch.end).then_some(b)
    }

    /// An operand's places and its own index in a ciphertext. In a shared piece the left operand is the
    /// scalars.
    fn side(&self, side: Operand) -> (&Index, usize) {
        match (side, self.scaled.zip(self.piece.scale)) {
            (Operand::Left, Some((scaled, scale))) => (scaled.side(scale.scalars), 1),
            (Operand::Left, None) => (&self.places.left, self.piece.split.left),
            (Operand::Right, _) => (&self.places.right, self.piece.split.right),
        }
    }

    /// For every run of `run` slots in use, which entry of an operand it has.
    pub(super) fn runs(&self, task: &Task, side: Operand, run: usize) -> Vec<Option<Entry>> {
        let entry = |slot: Slot| {
            let own = if side == Operand::Left { slot.left } else { slot.right };
            // Scalars are the same for all of a row.
            let sum = if side == Operand::Left && self.scaled.is_some() { 0 } else { slot.sum };
            self.batch(task, &slot).map(|batch| Entry { batch, own, sum })
        };
        self.slots().step_by(run).map(entry).collect()
    }

    /// The value of an entry in part `part` of the operand's own index and part `sum` of the sum; 0 where
    /// there is none.
    pub(super) fn value(&self, side: Operand, (part, sum): (usize, usize), entry: &Option<Entry>, data: &[u64]) -> i64 {
        let Some(entry) = entry else { return 0 };
        let (index, step) = self.side(side);
        let (own, s) = (part * step + entry.own, sum * self.piece.split.sum + entry.sum);
        if own >= index.free.len() || s >= index.sum.len() {
            return 0;
        }
        index.at(entry.batch, own, s).and_then(|at| data.get(at)).map_or(0, |&v| self.ring.to_signed(v))
    }

    /// The values of an operand, one for every run of `run` slots, up to the last in use.
    pub(super) fn values(
        &self,
        task: &Task,
        side: Operand,
        parts: (usize, usize),
        run: usize,
        data: &[u64],
    ) -> Vec<i64> {
        self.runs(task, side, run).iter().map(|entry| self.value(side, parts, entry, data)).collect()
    }

    /// Whether an operand has no entry at all in these parts: above the diagonal.
    pub(super) fn is_zero(&self, side: Operand, part: usize, sum: usize) -> bool {
        let (index, step) = self.side(side);
        if !index.is_lower() {
            return false;
        }
        let own = part * step..index.free.len().min((part + 1) * step);
        let s = sum * self.piece.split.sum..index.sum.len().min((sum + 1) * self.piece.split.sum);
        !own.into_iter().any(|f| s.clone().any(|s| index.stored(f, s)))
    }

    /// Adds a share of a response to the result; that of a square, whose other cross term is the same, twice.
    pub(super) fn add(&self, task: &Task, (left, right): (usize, usize), share: &[u64], out: &mut [u64]) {
        let (split, index) = (&self.piece.split, &self.places.out);
        let doubled = u32::from(matches!(self.piece.method, Method::Square | Method::Shared));
        for (slot, &v) in self.slots().zip(share) {
            let (l, r) = (left * split.left + slot.left, right * split.right + slot.right);
            let Some(b) = self.batch(task, &slot).filter(|_| l < index.free.len() && r < index.sum.len()) else {
                continue;
            };
            if let Some(o) = index.at(b, l, r).and_then(|at| out.get_mut(at)) {
                *o = self.ring.reduce(o.wrapping_add(v << doubled));
            }
        }
    }

    /// Adds a share of part `part` of the scaled rows to their result.
    pub(super) fn add_scaled(&self, task: &Task, part: usize, share: &[u64], out: &mut [u64]) {
        let (Some(scaled), Some(scale)) = (self.scaled, self.piece.scale) else { return };
        for (slot, &v) in self.slots().zip(share) {
            let column = part * self.piece.split.sum + slot.sum;
            let Some(b) = self.batch(task, &slot).filter(|_| column < self.places.right.sum.len()) else { continue };
            let (l, r) = if scale.scalars == Operand::Left { (0, column) } else { (column, 0) };
            if let Some(o) = scaled.out.at(b, l, r).and_then(|at| out.get_mut(at)) {
                *o = self.ring.reduce(o.wrapping_add(v));
            }
        }
    }
}
