//! Which value goes where: for each slot of each ciphertext the number of the value in its real and in its
//! imaginary lane, or none.
//!
//! A layout may repeat a value in many slots and ciphertexts: bytes instead of rotations (the paper's
//! replications). Bytes are those of whole ciphertexts, `72 + N log2(q) / 8` each; online, with uploads made
//! ahead, only distinct values count.

use std::sync::Arc;

use fesc_ckks::{Params, wire};

use crate::{HybridError, Result};

/// No value in this lane.
const NONE: u32 = u32::MAX;

/// A map from slots to values.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    values: usize,
    slots: usize,
    ciphertexts: usize,
    /// One entry per slot, ciphertext by ciphertext: numbers of the values in its two lanes.
    table: Arc<[[u32; 2]]>,
}

impl Layout {
    /// From a function of ciphertext and slot: the values in its real and its imaginary lane.
    ///
    /// # Errors
    /// [`HybridError::Layout`] for a value that does not exist.
    pub fn new(
        params: &Params,
        values: usize,
        ciphertexts: usize,
        place: impl Fn(usize, usize) -> [Option<usize>; 2],
    ) -> Result<Self> {
        let slots = params.slots();
        let mut table = Vec::with_capacity(ciphertexts * slots);
        for (ciphertext, slot) in (0..ciphertexts).flat_map(|c| (0..slots).map(move |s| (c, s))) {
            let mut entry = [NONE; 2];
            for (lane, (entry, value)) in entry.iter_mut().zip(place(ciphertext, slot)).enumerate() {
                let Some(value) = value else { continue };
                let known = u32::try_from(value).ok().filter(|&v| value < values && v != NONE);
                *entry = known.ok_or(HybridError::Layout { lane, slot, ciphertext, value, values })?;
            }
            table.push(entry);
        }
        Ok(Self { values, slots, ciphertexts, table: table.into() })
    }

    /// As few ciphertexts as possible: values `2j` and `2j + 1` in the two lanes of slot `j`.
    ///
    /// # Errors
    /// None for less than `2^32 - 1` values.
    pub fn compact(params: &Params, values: usize) -> Result<Self> {
        let slots = params.slots();
        let place = |c: usize, s: usize| [0, 1].map(|lane| Some(2 * (c * slots + s) + lane).filter(|&v| v < values));
        Self::new(params, values, values.div_ceil(2 * slots), place)
    }

    /// Two vectors of `pairs` values, one after the other: the first in real, the second in imaginary lanes.
    ///
    /// # Errors
    /// As [`Layout::compact`].
    pub fn paired(params: &Params, pairs: usize) -> Result<Self> {
        let slots = params.slots();
        let place = |c: usize, s: usize| {
            let at = Some(c * slots + s).filter(|&v| v < pairs);
            [at, at.map(|v| pairs + v)]
        };
        Self::new(params, 2 * pairs, pairs.div_ceil(slots), place)
    }

    /// Real lanes only, in order.
    ///
    /// # Errors
    /// As [`Layout::compact`].
    pub fn real(params: &Params, values: usize) -> Result<Self> {
        Self::repeated(params, values, 1)
    }

    /// The whole vector `copies` times, one copy after the other, in real lanes.
    ///
    /// # Errors
    /// As [`Layout::compact`].
    pub fn repeated(params: &Params, values: usize, copies: usize) -> Result<Self> {
        let (slots, places) = (params.slots(), values * copies);
        let place = |c: usize, s: usize| [Some(c * slots + s).filter(|&p| p < places).map(|p| p % values.max(1)), None];
        Self::new(params, values, places.div_ceil(slots), place)
    }

    /// Each value in a run of `copies` slots, in real lanes.
    ///
    /// # Errors
    /// As [`Layout::compact`].
    pub fn runs(params: &Params, values: usize, copies: usize) -> Result<Self> {
        let (slots, places) = (params.slots(), values * copies);
        let place = |c: usize, s: usize| [Some(c * slots + s).filter(|&p| p < places).map(|p| p / copies.max(1)), None];
        Self::new(params, values, places.div_ceil(slots), place)
    }

    /// Distinct values.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Slots of a ciphertext.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Ciphertexts.
    pub fn ciphertexts(&self) -> usize {
        self.ciphertexts
    }

    /// Bytes of the uploads at a level, without the frame.
    pub fn upload_bytes(&self, params: &Params, level: usize) -> usize {
        self.ciphertexts * wire::upload_bytes(params, level)
    }

    /// The values in the lanes of a slot.
    pub fn at(&self, ciphertext: usize, slot: usize) -> [Option<usize>; 2] {
        let entry = (slot < self.slots).then(|| self.table.get(ciphertext * self.slots + slot)).flatten();
        entry.map_or([None; 2], |lanes| lanes.map(|v| (v != NONE).then_some(v as usize)))
    }

    /// The lanes of a ciphertext, zero where there is no value. `values` are this layout's.
    pub(super) fn fill(&self, ciphertext: usize, value: impl Fn(usize) -> i128) -> Vec<[i128; 2]> {
        let entries = self.table.chunks(self.slots.max(1)).nth(ciphertext).unwrap_or_default();
        let lane = |v: u32| if v == NONE { 0 } else { value(v as usize) };
        entries.iter().map(|lanes| lanes.map(lane)).collect()
    }
}
