//! Which value goes where: for each slot of each ciphertext the number of the value in its real and in its
//! imaginary lane, or none.
//!
//! A layout may repeat a value in many slots and ciphertexts: bytes instead of rotations (the paper's
//! replications). Bytes are those of whole ciphertexts, `72 + N log2(q) / 8` each; online, with uploads made
//! ahead, only distinct values count.

use std::sync::Arc;

use fesc_ckks::Params;

use crate::{HybridError, Result};

/// No value in this lane.
const NONE: u32 = u32::MAX;

/// Numbers of the values in the two lanes of each slot of a ciphertext.
type Lanes = Vec<[Option<u32>; 2]>;

/// Where the map is.
#[derive(Clone)]
enum Places {
    /// One entry per slot, ciphertext by ciphertext.
    Table(Arc<[[u32; 2]]>),
    /// Made for one ciphertext at a time: a table of thousands of them would be larger than what they hold.
    Made(Arc<dyn Fn(usize) -> Lanes + Send + Sync>),
}

/// A map from slots to values.
#[derive(Clone)]
pub struct Layout {
    values: usize,
    slots: usize,
    ciphertexts: usize,
    places: Places,
}

/// Two maps that are made are the same if they are made by the same.
impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.places, &other.places) {
            (Places::Table(a), Places::Table(b)) => a == b,
            (Places::Made(a), Places::Made(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        same && (self.values, self.slots, self.ciphertexts) == (other.values, other.slots, other.ciphertexts)
    }
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
        Ok(Self { values, slots, ciphertexts, places: Places::Table(table.into()) })
    }

    /// From the lanes of each ciphertext, made whenever they are needed; a number that is no value is none.
    pub fn made(
        params: &Params,
        values: usize,
        ciphertexts: usize,
        lanes: impl Fn(usize) -> Lanes + Send + Sync + 'static,
    ) -> Self {
        Self { values, slots: params.slots(), ciphertexts, places: Places::Made(Arc::new(lanes)) }
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

    /// The values in the lanes of a slot.
    pub fn at(&self, ciphertext: usize, slot: usize) -> [Option<usize>; 2] {
        let known = |v: u32| Some(v as usize).filter(|&v| v < self.values);
        match &self.places {
            Places::Table(table) => {
                let entry = (slot < self.slots).then(|| table.get(ciphertext * self.slots + slot)).flatten();
                entry.map_or([None; 2], |lanes| lanes.map(known))
            }
            Places::Made(lanes) => {
                lanes(ciphertext).get(slot).map_or([None; 2], |lanes| lanes.map(|v| v.and_then(known)))
            }
        }
    }

    /// The lanes of a ciphertext, zero where there is no value. `values` are this layout's.
    pub(super) fn fill(&self, ciphertext: usize, value: impl Fn(usize) -> i128) -> Vec<[i128; 2]> {
        let lane = |v: u32| if (v as usize) < self.values { value(v as usize) } else { 0 };
        match &self.places {
            Places::Table(table) => {
                let entries = table.chunks(self.slots.max(1)).nth(ciphertext).unwrap_or_default();
                entries.iter().map(|lanes| lanes.map(lane)).collect()
            }
            Places::Made(lanes) => {
                lanes(ciphertext).into_iter().map(|lanes| lanes.map(|v| v.map_or(0, lane))).collect()
            }
        }
    }
}
