//! Evaluation keys as a server has them, and the plan that says which ones a client makes.
//!
//! A key-switching key from `s'` to `s` has one pair per digit `d` of `alpha` data primes, over all primes of `Q P`:
//!
//! ```text
//! b_d = -a_d s + e_d + P 1_d s',    1_d = 1 modulo the primes of digit d, 0 modulo all others
//! ```
//!
//! `a_d` is expanded from a seed, so that only `b_d` travels ([`SeededKey`]); [`SeededKey::expand`] makes the form that is
//! computed with. For a rotation by `k` slots `s' = s(X^g)`, `g = 5^k mod 2N`; for conjugation `g = 2N - 1`; for
//! relinearisation `s' = s^2`.

use std::collections::BTreeMap;

use fesc_ring::Prg;

use crate::poly::Poly;
use crate::seed::{self, Seed};
use crate::{CkksError, Params, Result, wire};

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
    let order = 2 * params.degree() as u64;
    let mut exponent = step.rem_euclid(params.slots() as i64) as u64;
    let (mut base, mut element) = (5 % order, 1);
    while exponent != 0 {
        if exponent & 1 == 1 {
            element = element * base % order;
        }
        base = base * base % order;
        exponent >>= 1;
    }
    element as u32
}

/// The Galois element of conjugation: `2N - 1`.
pub fn conjugation_element(params: &Params) -> u32 {
    2 * params.degree() as u32 - 1
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
        let a = expand_a(&params, purpose, seed, b.len());
        SwitchingKey { params, purpose, b, a }
    }
}

/// The `a` parts that belong to a seed.
pub(crate) fn expand_a(params: &Params, purpose: KeyPurpose, seed: Seed, digits: usize) -> Vec<Poly> {
    let mut stream: Prg = seed::stream(params, seed::Label::Key(purpose), seed);
    let mut next = || {
        let mut a = Poly::owned(params, params.primes());
        seed::uniform(params, &mut stream, &mut a);
        a
    };
    (0..digits).map(|_| next()).collect()
}

/// A key-switching key, ready for use. Fields as in [`SeededKey`], with the `a` parts expanded.
pub struct SwitchingKey {
    pub(crate) params: Params,
    pub(crate) purpose: KeyPurpose,
    /// `b[d]` over all primes, transformed.
    pub(crate) b: Vec<Poly>,
    /// `a[d]`, likewise.
    pub(crate) a: Vec<Poly>,
}

impl SwitchingKey {
    /// What the key is for.
    pub fn purpose(&self) -> KeyPurpose {
        self.purpose
    }
}

/// All keys that a client has given to a server.
pub struct EvaluationKeys {
    params: Params,
    keys: BTreeMap<KeyPurpose, SwitchingKey>,
}

impl EvaluationKeys {
    /// No keys yet.
    pub fn new(params: &Params) -> Self {
        Self { params: params.clone(), keys: BTreeMap::new() }
    }

    /// Adds a key as it arrived. A second key for the same purpose takes the place of the first.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] if it belongs to another set.
    pub fn insert(&mut self, key: SeededKey) -> Result<()> {
        self.params.check_same(&key.params)?;
        self.keys.insert(key.purpose, key.expand());
        Ok(())
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
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
