//! The scan of a document under CKKS: whole, or in parts with the state on shares between them.
//!
//! Parts are the paper's secure carry refresh (app:longseq): after [`HeScanKernel::refresh`] tokens the state
//! comes down masked like every result and goes up again as a tensor of shares, at full level. So the depth
//! is that of a part, however long the document is. Segments of a schedule end with a part.
//!
//! # Cost
//! That of all parts: for each border `K_s / 2` ciphertexts down, `K_s` up, a round each way.
//!
//! # What is not guaranteed
//! Kernels that do not refresh take a document whole, or not at all.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use fesc_hybrid::keys::{KeyShape, Keys};
use fesc_hybrid::verify::{Deviation, Witness};
use fesc_hybrid::work::Work;
use fesc_model::outline::scale::WHOLE;
use fesc_model::outline::{LayerForms, Ranges};
use fesc_model::plan::HeScanKernel;
use fesc_mpc::{Ledger, Party, Shared};

use super::{Encrypted, Geometry, Totals};
use crate::contract::{Carry, Packet, Scan};
use crate::hescan::ScanShape;
use crate::{Result, ScanError};

/// Consecutive tokens of a document, and whether a state enters before them or is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// How many.
    pub tokens: usize,
    /// Whether a state enters.
    pub carry_in: bool,
    /// Whether the last state is handed on.
    pub carry_out: bool,
}

impl Span {
    /// In parts of at most so many tokens, the last one the shortest.
    fn parts(self, most: usize) -> impl Iterator<Item = Self> {
        let Self { tokens, carry_in, carry_out } = self;
        (0..tokens).step_by(most).map(move |first| Self {
            tokens: most.min(tokens - first),
            carry_in: carry_in || first > 0,
            carry_out: carry_out || first + most < tokens,
        })
    }
}

/// The kernels of a document's scan, all of one set, and what they convert. Public, and the same for both
/// parties.
pub struct Geometries {
    part: usize,
    cut: BTreeMap<Span, Arc<Geometry>>,
    keys: KeyShape,
    totals: Totals,
}

impl Geometries {
    /// For the segments of a document; `shape` is that of any of them.
    ///
    /// # Errors
    /// [`ScanError::Tokens`] for several segments of a kernel that does not refresh; if there is no cut.
    pub fn new(shape: ScanShape, kernel: HeScanKernel, segments: &[Span]) -> Result<Self> {
        if kernel.refresh().is_none() && segments.iter().any(|s| s.carry_in || s.carry_out) {
            return Err(ScanError::Tokens { tokens: segments.iter().map(|s| s.tokens).sum(), most: WHOLE });
        }
        Self::with_parts(shape, kernel, segments, kernel.refresh().unwrap_or(usize::MAX))
    }

    /// In parts of another length.
    pub(crate) fn with_parts(shape: ScanShape, kernel: HeScanKernel, segments: &[Span], part: usize) -> Result<Self> {
        let parts = || segments.iter().flat_map(|segment| segment.parts(part));
        let longest = parts().max().ok_or(ScanError::Tokens { tokens: 0, most: part })?;
        let first = Geometry::of_span(shape, longest, kernel, None)?;
        let (set, mut plan) = (first.chosen().set, first.key_plan());
        let mut cut = BTreeMap::from([(longest, first)]);
        let mut totals = Totals { values: 0, masked: 0 };
        for span in parts() {
            let geometry = match cut.entry(span) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(entry) => {
                    let geometry = Geometry::of_span(shape, span, kernel, Some(set))?;
                    plan.join(&geometry.key_plan());
                    entry.insert(geometry)
                }
            };
            totals.values += geometry.values();
            totals.masked += geometry.masked();
        }
        let params = set.params().map_err(fesc_hybrid::HybridError::from)?;
        Ok(Self { part, cut, keys: KeyShape::new(params, plan), totals })
    }

    /// The client's keys.
    pub fn keys(&self) -> &KeyShape {
        &self.keys
    }

    /// What one layer converts.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The kernels of a segment, in order.
    ///
    /// # Errors
    /// [`ScanError::Tokens`] for another segment than they were made for.
    pub fn of(&self, segment: Span) -> Result<Vec<&Arc<Geometry>>> {
        let missing = || ScanError::Tokens { tokens: segment.tokens, most: self.part };
        segment.parts(self.part).map(|part| self.cut.get(&part).ok_or_else(missing)).collect()
    }

    /// The scan of a layer on a segment; `totals` are those of the inference.
    ///
    /// # Errors
    /// As [`Encrypted::new`], and [`ScanError::Tokens`] for another segment than they were made for.
    pub fn scan(&self, segment: Span, forms: &LayerForms, ranges: &Ranges, totals: Totals) -> Result<Refreshed> {
        let mut made: BTreeMap<Span, Arc<Encrypted>> = BTreeMap::new();
        let mut parts = Vec::new();
        for (span, geometry) in segment.parts(self.part).zip(self.of(segment)?) {
            let part = match made.get(&span) {
                Some(part) => Arc::clone(part),
                None => Arc::new(Encrypted::new(geometry, forms, ranges, totals)?),
            };
            made.insert(span, Arc::clone(&part));
            parts.push(part);
        }
        Ok(Refreshed { parts })
    }
}

/// The scan of one layer on one segment, part by part.
pub struct Refreshed {
    parts: Vec<Arc<Encrypted>>,
}

impl Refreshed {
    /// Its parts.
    pub fn parts(&self) -> impl Iterator<Item = &Encrypted> {
        self.parts.iter().map(Arc::as_ref)
    }
}

impl Scan for Refreshed {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.parts().try_for_each(|part| part.declare(ledger))
    }

    fn works(&self) -> Vec<Work> {
        self.parts().flat_map(Encrypted::works).collect()
    }

    fn deviations(&self, witnesses: &mut dyn Iterator<Item = &Witness>) -> Result<Vec<Deviation>> {
        let mut found = Vec::with_capacity(self.parts.len());
        for part in self.parts() {
            found.extend(part.deviations(witnesses)?);
        }
        Ok(found)
    }

    fn run(
        &self,
        party: &mut Party,
        mut keys: Option<Keys<'_>>,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)> {
        let tokens: usize = self.parts().map(|part| part.shape().tokens).sum();
        let (mut first, mut carry, mut outputs) = (0, carry.cloned(), Vec::with_capacity(self.parts.len()));
        for part in self.parts() {
            let own = first..first + part.shape().tokens;
            first = own.end;
            let cut = |tensor: &Shared| {
                let width = tensor.len() / tokens.max(1);
                tensor.slice(own.start * width..own.end * width)
            };
            let packet = Packet {
                x: cut(&packet.x)?,
                b: cut(&packet.b)?,
                c: cut(&packet.c)?,
                delta: cut(&packet.delta)?,
                z: cut(&packet.z)?,
            };
            let (y, next) = part.run(party, keys.as_mut().map(Keys::again), &packet, skip, carry.as_ref())?;
            outputs.push(y);
            carry = next;
        }
        Ok((Shared::concat(&outputs.iter().collect::<Vec<_>>())?, carry))
    }
}
