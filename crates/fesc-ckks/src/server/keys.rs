//! Evaluation keys as a server has them, and the plan that says which ones a client makes.
//!
//! A key-switching key from `s'` to `s` has one pair per digit `d` of `alpha` data primes, over all primes of
//! `Q P`:
//!
//! ```text
//! b_d = -a_d s + e_d + P 1_d s',    1_d = 1 modulo the primes of digit d, 0 modulo all others
//! ```
//!
//! `a_d` is expanded from a seed, so that only `b_d` travels ([`SeededKey`]); [`SeededKey::expand`] makes the
//! form that is computed with ([`SwitchingKey`]): residues at the bit length of their prime without gaps,
//! since a key switch reads all of its key from memory once and a key of 40-bit primes has 0.63 of the bytes
//! of words. For a rotation by `k` slots `s' = s(X^g)`, `g = 5^k mod 2N`; for conjugation `g = 2N - 1`; for
//! relinearisation `s' = s^2`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fesc_ring::Prg;
use fesc_ring::aligned::Aligned;
use fesc_ring::automorphism;
use fesc_ring::rns::Packed;

use crate::poly::Poly;
use crate::seed::{self, Seed};
use crate::{CkksError, Params, Result, wire};

use super::KeyId;

/// What a key-switching key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// From `s^2`.
    Relinearisation,
    /// From `s(X^g)`, `g` odd, `1 < g < 2N`.
    Galois(u32),
}

/// The Galois element of a rotation by `step` slots to the left: `5^step mod 2N`.
pub fn rotation_element(params: &Params, step: i64) -> u32 {
    // Below 2N, and N is at most 2^16.
    automorphism::rotation(params.degree(), step) as u32
}

/// The Galois element of conjugation: `2N - 1`.
pub fn conjugation_element(params: &Params) -> u32 {
    automorphism::conjugation(params.degree()) as u32
}

/// The keys that a computation needs. Its size is known before any key is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvaluationKeyPlan {
    /// Rotations by these steps; a multiple of the number of slots needs no key.
    pub rotations: Vec<i64>,
    /// Conjugation.
    pub conjugation: bool,
    /// Products of ciphertexts.
    pub relinearisation: bool,
}

impl EvaluationKeyPlan {
    /// Adds what another computation needs.
    pub fn join(&mut self, other: &Self) {
        self.rotations.extend(&other.rotations);
        self.rotations.sort_unstable();
        self.rotations.dedup();
        self.conjugation |= other.conjugation;
        self.relinearisation |= other.relinearisation;
    }

    /// The keys, each once, in the order in which they are made.
    pub fn purposes(&self, params: &Params) -> Vec<KeyPurpose> {
        let mut elements: Vec<u32> = self.rotations.iter().map(|&k| rotation_element(params, k)).collect();
        elements.extend(self.conjugation.then(|| conjugation_element(params)));
        elements.retain(|&g| g != 1);
        elements.sort_unstable();
        elements.dedup();
        let galois = elements.into_iter().map(KeyPurpose::Galois);
        self.relinearisation.then_some(KeyPurpose::Relinearisation).into_iter().chain(galois).collect()
    }

    /// Bytes of all keys on the wire.
    pub fn bytes(&self, params: &Params) -> usize {
        self.purposes(params).len() * wire::switching_key_bytes(params)
    }

    /// Bytes of all keys in the server's memory.
    pub fn memory(&self, params: &Params) -> usize {
        self.purposes(params).len() * params.key_memory()
    }
}

/// A key-switching key as it travels: the `b` parts and the seed of the `a` parts.
pub struct SeededKey {
    pub(crate) params: Params,
    pub(crate) purpose: KeyPurpose,
    pub(crate) seed: Seed,
    /// One polynomial over all primes per digit, transformed.
    pub(crate) b: Vec<Poly>,
}

impl SeededKey {
    /// What the key is for.
    pub fn purpose(&self) -> KeyPurpose {
        self.purpose
    }

    /// The form that is computed with.
    pub fn expand(self) -> SwitchingKey {
        let Self { params, purpose, seed, b } = self;
        let mut key = SwitchingKey::room(&params, purpose);
        b.iter().enumerate().for_each(|(d, b)| key.set(d, Half::B, b));
        key.expand(seed);
        key
    }
}

/// A key-switching key, ready for use.
pub struct SwitchingKey {
    params: Params,
    purpose: KeyPurpose,
    digits: usize,
    /// For each prime `b` and `a` of each digit, packed; then [`SLACK`] bytes.
    bytes: Aligned<u8>,
    /// Where each prime's part starts.
    starts: Vec<usize>,
}

/// Which half of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// `b`.
    B,
    /// `a`.
    A,
}

/// Bytes after the last limb, which kernels may read and do not use.
const SLACK: usize = 64;

impl SwitchingKey {
    /// A key of zeros.
    pub(crate) fn room(params: &Params, purpose: KeyPurpose) -> Self {
        let digits = params.digits(params.levels());
        let mut starts = Vec::with_capacity(params.primes());
        let mut end = 0;
        for j in 0..params.primes() {
            starts.push(end);
            end += 2 * digits * params.limb_bytes(j);
        }
        Self { params: params.clone(), purpose, digits, bytes: Aligned::zeroed(end + SLACK), starts }
    }

    /// Where the limb of prime `j` of one half of digit `d` is.
    fn place(&self, d: usize, half: Half, j: usize) -> Range<usize> {
        let size = self.params.limb_bytes(j);
        let start = self.starts[j] + (2 * d + half as usize) * size;
        start..start + size
    }

    /// That limb, to be written.
    pub(crate) fn limb_mut(&mut self, d: usize, half: Half, j: usize) -> &mut [u8] {
        let place = self.place(d, half, j);
        &mut self.bytes[place]
    }

    /// Packs one half of digit `d`.
    fn set(&mut self, d: usize, half: Half, poly: &Poly) {
        for j in 0..self.params.primes() {
            let packing = self.params.packing(j);
            packing.pack_to(self.limb_mut(d, half, j), poly.limb(j));
        }
    }

    /// Writes all `a`.
    pub(crate) fn expand(&mut self, seed: Seed) {
        let params = self.params.clone();
        let mut stream: Prg = seed::stream(&params, seed::Label::Key(self.purpose), seed);
        let mut a = Poly::scratch(&params, params.primes());
        for d in 0..self.digits {
            seed::uniform(&params, &mut stream, &mut a);
            self.set(d, Half::A, &a);
        }
    }

    /// What the key is for.
    pub fn purpose(&self) -> KeyPurpose {
        self.purpose
    }

    /// The parameter set.
    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    /// Limbs of prime `j` of the first `digits` digits: of all `b`, or of all `a`.
    pub(crate) fn limbs(&self, j: usize, half: Half, digits: usize) -> Vec<Packed<'_>> {
        // What follows is longer than the slack.
        let bytes = |d| &self.bytes[self.place(d, half, j).start..];
        let limb = |d| Packed::new(self.params.prime(j), self.params.degree(), bytes(d));
        // All limbs have their bytes, so none is left out.
        (0..digits.min(self.digits)).flat_map(limb).collect()
    }

    /// The parts `b_d` and `a_d` of all digits in words.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(crate) fn unpacked(&self) -> Vec<[Poly; 2]> {
        let part = |d: usize, half: Half| {
            let mut poly = Poly::owned(&self.params, self.params.primes());
            for j in 0..poly.len() {
                self.params.packing(j).unpack_into(&self.bytes[self.place(d, half, j)], poly.limb_mut(j)).unwrap();
            }
            poly
        };
        (0..self.digits).map(|d| [part(d, Half::B), part(d, Half::A)]).collect()
    }
}

/// All keys that a client has given to a server: those of a plan and no others, so that their memory is known
/// before.
pub struct EvaluationKeys {
    params: Params,
    owner: KeyId,
    planned: BTreeSet<KeyPurpose>,
    keys: BTreeMap<KeyPurpose, SwitchingKey>,
}

impl EvaluationKeys {
    /// No keys yet; those of `plan` may come, from the client whose public key has this id.
    pub fn new(params: &Params, plan: &EvaluationKeyPlan, owner: KeyId) -> Self {
        let planned = plan.purposes(params).into_iter().collect();
        Self { params: params.clone(), owner, planned, keys: BTreeMap::new() }
    }

    /// Adds a key that was made or read. A second key for the same purpose takes the place of the first.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] if it belongs to another set, [`CkksError::UnplannedKey`].
    pub fn insert(&mut self, key: SeededKey) -> Result<()> {
        self.params.check_same(&key.params)?;
        self.check_planned(key.purpose)?;
        self.add(key.expand());
        Ok(())
    }

    /// Adds a key of this set that is in the plan.
    pub(crate) fn add(&mut self, key: SwitchingKey) {
        self.keys.insert(key.purpose, key);
    }

    /// Refuses a key that is not in the plan.
    pub(crate) fn check_planned(&self, purpose: KeyPurpose) -> Result<()> {
        if self.planned.contains(&purpose) {
            return Ok(());
        }
        Err(CkksError::UnplannedKey { what: self.describe(purpose) })
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Whose keys they are.
    pub fn owner(&self) -> KeyId {
        self.owner
    }

    /// What there are keys for.
    pub fn purposes(&self) -> impl Iterator<Item = KeyPurpose> {
        self.keys.keys().copied()
    }

    /// The key for a purpose.
    ///
    /// # Errors
    /// [`CkksError::MissingKey`] if the client did not send it.
    pub(crate) fn get(&self, purpose: KeyPurpose) -> Result<&SwitchingKey> {
        self.keys.get(&purpose).ok_or_else(|| CkksError::MissingKey { what: self.describe(purpose) })
    }

    fn describe(&self, purpose: KeyPurpose) -> String {
        match purpose {
            KeyPurpose::Relinearisation => "relinearisation".into(),
            KeyPurpose::Galois(g) if g == conjugation_element(&self.params) => "conjugation".into(),
            KeyPurpose::Galois(g) => {
                let step = (0..self.params.slots() as i64).find(|&k| rotation_element(&self.params, k) == g);
                step.map_or(format!("galois element {g}"), |k| format!("rotation by {k} (galois element {g})"))
            }
        }
    }
}
