//! Products whose multiplier is one scalar for many values, by the [`crate::coefficients`] engine: the matrix
//! products of the scan.
//!
//! `out[b, l, r] = sum over s of left[b, l, s] right[b, r, s]`: for each batch place `b`, scalars
//! `left[b, l, s]` times vectors over `r` (or the sides exchanged). Each party encrypts its share of the
//! vectors and evaluates on the peer's. The engine *chooses* the vectors: this party's share of that mask is
//! replaced before anything else uses it. So a mask can be the vectors of one product only; in all others of
//! the bundle it may be anything else.
//!
//! Each of the two cross terms may be off in the last place: by one, or by a few units where results are
//! packed (a deviation of 4.6 at the base size, 9.2 at most). A triple is off by their sum: deviation 6.5 at
//! the base size, 13 at most. So only products whose asker said that they need not be exact are made here: in
//! this house the five matrix products of the scan, which are truncated next. And only where the bytes are
//! fewer than those of [`super::plan`]: `U + D` of [`coefficients::Layout`] for each batch place and
//! direction, with the frames. Which operand is the vectors is decided by bytes and work together.
//!
//! | base size | bytes per result, both directions | slots, at most |
//! |---|---|---|
//! | M X, vectors X | 25.5 | 157 |
//! | S, vectors B | 25.8 | 378 |
//! | B^T V, vectors V | 26.4 | 111 |
//! | C H, vectors H | 26.4 | 111 |
//! | recurrence | 27.0 | 66 |
//!
//! The uploads of all products are drawn first. Then both parties, in lock-step: send the uploads of a group
//! of batch places, answer the peer's, open.

use std::ops::Range;

use fesc_mpc::MpcError;
use fesc_mpc::correlation::{Bundle, ProductShape};
use fesc_net::{Channel, HEADER_BYTES, Tag};
use fesc_ring::Prg;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::layout::Places;
use super::plan::{Operand, Prices, ProductPlan};
use crate::Result;
use crate::coefficients::{self, Evaluator, KeyHolder, MAX_SUMMANDS, Scalars};
use crate::messages::tag;

/// Bytes on their way to a peer that reads, and most of one batch place. Few in tests, so that these see more
/// than one group.
const GROUP: usize = if cfg!(test) { 1 << 18 } else { 1 << 26 };

/// A product that this engine makes.
pub(super) struct Scaled {
    pub product: usize,
    /// The operand that is encrypted, vector by vector.
    vectors: Operand,
    batch: usize,
    /// Of one batch place.
    layout: coefficients::Layout,
}

impl Scaled {
    fn new(product: usize, shape: &ProductShape, vectors: Operand) -> Option<Self> {
        let (width, outputs, lower) = match vectors {
            Operand::Right => (shape.right(), shape.left(), shape.right_is_lower()),
            Operand::Left => (shape.left(), shape.right(), shape.left_is_lower()),
        };
        let sum = shape.sum();
        if width == 0 || outputs == 0 || !(1..=MAX_SUMMANDS).contains(&sum) || lower {
            return None;
        }
        let layout = coefficients::Layout::new(sum, width, outputs);
        let bounded = layout.upload_bytes() + layout.response_bytes() <= GROUP.max(1 << 26);
        bounded.then_some(Self { product, vectors, batch: shape.batch(), layout })
    }

    /// The mask that is chosen.
    pub(super) fn mask(&self, bundle: &Bundle) -> usize {
        let product = &bundle.products[self.product];
        if self.vectors == Operand::Left { product.left } else { product.right }
    }

    fn scalars<'a>(&self, bundle: &Bundle, masks: &'a [Vec<u64>]) -> &'a [u64] {
        let product = &bundle.products[self.product];
        &masks[if self.vectors == Operand::Left { product.right } else { product.left }]
    }

    /// How far a cross term may be off, but for once in `10^11` results: seven deviations and the floor of a
    /// share.
    #[cfg(test)]
    pub(super) fn tolerance(&self) -> i64 {
        1 + if self.layout.noise() < 1.0 / 6.4 { 0 } else { (7.0 * self.layout.noise()).ceil() as i64 }
    }

    /// Bytes in each direction.
    fn bytes(&self) -> u64 {
        let wire = |payload: usize| (payload + HEADER_BYTES) as u64;
        self.batch as u64 * (wire(self.layout.upload_bytes()) + wire(self.layout.response_bytes()))
    }

    /// The batch places by group.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let step = (GROUP / (self.layout.upload_bytes() + self.layout.response_bytes()).max(1)).max(1);
        let batch = self.batch;
        (0..batch).step_by(step).map(move |from| from..batch.min(from + step))
    }
}

/// The products that are cheaper here than in the plan.
pub(super) fn choose(bundle: &Bundle, plan: &ProductPlan, prices: &Prices) -> Vec<Scaled> {
    let mut taken = vec![false; bundle.masks.len()];
    let mut chosen = Vec::new();
    for (i, _) in bundle.products.iter().enumerate().filter(|(_, p)| !p.exact && p.left != p.right) {
        let sides = [Operand::Right, Operand::Left].into_iter();
        let ways = sides.filter_map(|side| Scaled::new(i, &plan.shapes[i], side));
        let best = ways.filter(|s| !taken[s.mask(bundle)]).min_by_key(|s| s.layout.weight());
        if let Some(best) = best.filter(|s| plan.bytes_of(i, prices).is_some_and(|slots| 2 * s.bytes() < slots)) {
            taken[best.mask(bundle)] = true;
            chosen.push(best);
        }
    }
    chosen
}

/// Bytes in each direction.
pub(super) fn bytes(scaled: &[Scaled]) -> u64 {
    scaled.iter().map(Scaled::bytes).sum()
}

/// One stream per batch place, drawn in order, so that the result does not depend on threads.
fn streams(prg: &mut Prg, count: usize) -> Vec<Prg> {
    (0..count).map(|_| prg.fork()).collect()
}

fn receive(channel: &mut Channel, tag: Tag, count: usize, bytes: usize) -> Result<Vec<Vec<u8>>, MpcError> {
    (0..count).map(|_| Ok(channel.recv(tag, bytes)?)).collect()
}

/// What all steps need.
pub(super) struct Engine<'a> {
    pub holder: &'a KeyHolder,
    pub evaluator: &'a Evaluator,
    pub bundle: &'a Bundle,
    pub places: &'a [Places],
}

impl Engine<'_> {
    /// Draws the vectors of all products: their encryptions by product and batch place, and this party's
    /// shares of their masks.
    pub(super) fn draw(
        &self,
        scaled: &[Scaled],
        masks: &mut [Vec<u64>],
        prg: &mut Prg,
    ) -> Result<Vec<Vec<Vec<u8>>>, MpcError> {
        let mut all = Vec::with_capacity(scaled.len());
        for s in scaled {
            let index = self.places[s.product].side(s.vectors);
            let mask = &mut masks[s.mask(self.bundle)];
            let mut uploads = Vec::with_capacity(s.batch);
            for group in s.groups() {
                let made =
                    streams(prg, group.len()).into_par_iter().map(|mut prg| self.holder.upload(&s.layout, &mut prg));
                let made: Vec<_> = made.collect::<Result<_>>()?;
                for (b, (bytes, values)) in group.zip(made) {
                    let values = Zeroizing::new(values);
                    for (j, row) in values.chunks_exact(s.layout.width()).enumerate() {
                        for (f, &v) in row.iter().enumerate() {
                            if let Some(m) = index.at(b, f, j).and_then(|at| mask.get_mut(at)) {
                                *m = v;
                            }
                        }
                    }
                    uploads.push(bytes);
                }
            }
            all.push(uploads);
        }
        Ok(all)
    }

    /// Exchanges one product and adds this party's shares of both cross terms to `out`. The masks are those
    /// after [`Self::draw`].
    pub(super) fn exchange(
        &self,
        channel: &mut Channel,
        scaled: &Scaled,
        uploads: Vec<Vec<u8>>,
        masks: &[Vec<u64>],
        out: &mut [u64],
        prg: &mut Prg,
    ) -> Result<(), MpcError> {
        let layout = &scaled.layout;
        let reach = self.reach(scaled);
        let mut uploads = uploads.into_iter();
        for group in scaled.groups() {
            for upload in uploads.by_ref().take(group.len()) {
                channel.send(tag::SCALAR_UPLOAD, upload)?;
            }
            let theirs = receive(channel, tag::SCALAR_UPLOAD, group.len(), layout.upload_bytes())?;
            let answer = |((b, upload), mut prg): ((usize, Vec<u8>), Prg)| {
                let values = self.scalars(scaled, b, masks);
                self.evaluator.answer(layout, &upload, Scalars { values: &values, reach: &reach }, &mut prg)
            };
            let work = group.clone().into_par_iter().zip(theirs).zip(streams(prg, group.len()));
            let made: Vec<_> = work.map(answer).collect::<Result<_>>()?;
            for (b, (answer, share)) in group.clone().zip(made) {
                channel.send(tag::SCALAR_ANSWER, answer)?;
                self.add(scaled, b, &Zeroizing::new(share), out);
            }
            let answers = receive(channel, tag::SCALAR_ANSWER, group.len(), layout.response_bytes())?;
            let open = |answer: &Vec<u8>| self.holder.finish(layout, answer).map(Zeroizing::new);
            let shares: Vec<_> = answers.par_iter().map(open).collect::<Result<_>>()?;
            for (b, share) in group.zip(shares) {
                self.add(scaled, b, &share, out);
            }
        }
        Ok(())
    }

    /// How many vectors each output is a sum of: less than all in a triangle.
    fn reach(&self, scaled: &Scaled) -> Vec<usize> {
        let index = self.places[scaled.product].side(scaled.vectors.other());
        let vectors = scaled.layout.vectors();
        let of = |o: usize| (0..vectors).rev().find(|&s| index.stored(o, s)).map_or(0, |s| s + 1);
        (0..scaled.layout.outputs()).map(of).collect()
    }

    /// This party's scalars of a batch place, `outputs x vectors`; 0 above a diagonal.
    fn scalars(&self, scaled: &Scaled, b: usize, masks: &[Vec<u64>]) -> Zeroizing<Vec<u64>> {
        let (index, data) =
            (self.places[scaled.product].side(scaled.vectors.other()), scaled.scalars(self.bundle, masks));
        let (outputs, vectors) = (scaled.layout.outputs(), scaled.layout.vectors());
        let places = (0..outputs).flat_map(|o| (0..vectors).map(move |s| (o, s)));
        let value = |(o, s)| index.at(b, o, s).and_then(|at| data.get(at)).copied().unwrap_or(0);
        Zeroizing::new(places.map(value).collect())
    }

    fn add(&self, scaled: &Scaled, b: usize, share: &[u64], out: &mut [u64]) {
        let (index, ring) = (self.places[scaled.product].out(), self.bundle.ring);
        for (o, row) in share.chunks_exact(scaled.layout.width()).enumerate() {
            for (f, &v) in row.iter().enumerate() {
                let (l, r) = if scaled.vectors == Operand::Left { (f, o) } else { (o, f) };
                if let Some(x) = index.at(b, l, r).and_then(|at| out.get_mut(at)) {
                    *x = ring.add(*x, v);
                }
            }
        }
    }
}
