//! What a server does with ciphertexts. It has evaluation keys and nothing that leads to a secret key.
//!
//! Every operation gives a new ciphertext in memory of the set's pool; those with `_assign` change their
//! first operand. Level and scale are carried and checked: operands of two clients ([`KeyId`]), at two
//! levels, or with scales that differ by more than `2^-40` of themselves, are an error with the numbers.
//! Nothing is adjusted silently; [`Evaluator::drop_to_level`], [`Evaluator::rescale`] and a product by a
//! constant at a chosen scale are the means.
//!
//! | operation | file | cost in transforms at level `l` |
//! |---|---|---|
//! | sums, plaintexts, constants, levels | `evaluator/sums.rs` | 0 |
//! | products, relinearisation, rescaling | `evaluator/products.rs` | a key switch; `2 l + 2` to rescale |
//! | sums of many products | `evaluator/accumulate.rs` | one key switch for all |
//! | rotations, conjugation | here, `hoist.rs` | a key switch ([`SwitchCost`](crate::server::SwitchCost)) |
//! | linear maps | `linear.rs` | one key switch per giant step and a sum per baby step |
//!
//! What these do to the noise is in [`noise`](crate::noise). A ciphertext never leaves the server as it is
//! ([`mask`](crate::mask)).

mod accumulate;
mod matrix;
mod products;
mod sums;

use std::collections::BTreeMap;

use fesc_ring::automorphism::Table;

use crate::poly::Poly;
use crate::server::{EvaluationKeys, KeyId, KeyPurpose, SwitchingKey, conjugation_element, rotation_element};
use crate::switch::{Job, LazyDigits, Own, Tables};
use crate::{Ciphertext, CkksError, Params, Result};

/// Largest relative difference of scales that counts as equal.
const SCALE_TOLERANCE: f64 = 1.0 / (1u64 << 40) as f64;

/// Computes on ciphertexts of one client. Immutable; share it between threads.
pub struct Evaluator {
    params: Params,
    keys: EvaluationKeys,
    tables: Tables,
    /// The permutation of each key's automorphism, by Galois element.
    orders: BTreeMap<u32, Table>,
}

impl Evaluator {
    /// Prepares the constants of a set. The keys decide which operations there are.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] for keys of another set; [`CkksError::Rns`] if there are so many special
    /// primes that a division by them and a data prime has more than [`fesc_ring::rns::MAX_SOURCES`].
    pub fn new(params: &Params, keys: EvaluationKeys) -> Result<Self> {
        params.check_same(keys.params())?;
        let mut orders = BTreeMap::new();
        for purpose in keys.purposes() {
            if let KeyPurpose::Galois(element) = purpose {
                let order = 2 * params.degree() as u32;
                let table = Table::new(params.degree(), u64::from(element));
                orders.insert(element, table.map_err(|_| CkksError::Galois { element, order })?);
            }
        }
        Ok(Self { params: params.clone(), keys, tables: Tables::new(params)?, orders })
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The keys.
    pub fn keys(&self) -> &EvaluationKeys {
        &self.keys
    }

    /// Slots moved by `step` to the left: slot `i` of the result is slot `i + step` of `c`, indices modulo
    /// the number of slots. A multiple of that number is a copy.
    ///
    /// # Errors
    /// [`CkksError::MissingKey`] without the rotation's key, [`CkksError::ParamsMismatch`].
    pub fn rotate(&self, c: &Ciphertext, step: i64) -> Result<Ciphertext> {
        self.check_mine(&c.params, c.owner)?;
        match self.rotation(step)? {
            None => Ok(c.clone()),
            Some((key, order)) => Ok(self.automorphism(c, key, order)),
        }
    }

    /// The conjugates of all slots.
    ///
    /// # Errors
    /// [`CkksError::MissingKey`] without the key of the conjugation, [`CkksError::ParamsMismatch`].
    pub fn conjugate(&self, c: &Ciphertext) -> Result<Ciphertext> {
        self.check_mine(&c.params, c.owner)?;
        let (key, order) = self.galois(conjugation_element(&self.params))?;
        Ok(self.automorphism(c, key, order))
    }

    fn automorphism(&self, c: &Ciphertext, key: &SwitchingKey, order: &Table) -> Ciphertext {
        let source = LazyDigits::new(&self.params, &self.tables, &c.c1, c.level);
        let mut out = [self.pair(c.level + 1)];
        let jobs = [Job { key, order: Some(order), own: Own::Image(&c.c0) }];
        self.tables.by_specials(c.level).switch(&self.params, &source, &jobs, &mut out, None);
        let [[c0, c1]] = out;
        self.ciphertext(c.level, c.scale, [c0, c1])
    }

    /// Key and permutation of a rotation; none for a rotation by nothing.
    pub(crate) fn rotation(&self, step: i64) -> Result<Option<(&SwitchingKey, &Table)>> {
        let element = rotation_element(&self.params, step);
        if element == 1 {
            return Ok(None);
        }
        // The step as it was asked for, not as a number below the slots.
        let named = |e| match e {
            CkksError::MissingKey { .. } => {
                CkksError::MissingKey { what: format!("rotation by {step} (galois element {element})") }
            }
            other => other,
        };
        self.galois(element).map(Some).map_err(named)
    }

    fn galois(&self, element: u32) -> Result<(&SwitchingKey, &Table)> {
        let key = self.keys.get(KeyPurpose::Galois(element))?;
        let order = 2 * self.params.degree() as u32;
        let table = self.orders.get(&element).ok_or(CkksError::Galois { element, order })?;
        Ok((key, table))
    }

    /// The constants of key switching.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Room for a ciphertext.
    pub(crate) fn pair(&self, limbs: usize) -> [Poly; 2] {
        [Poly::scratch(&self.params, limbs), Poly::scratch(&self.params, limbs)]
    }

    /// A ciphertext of these parts.
    pub(crate) fn ciphertext(&self, level: usize, scale: f64, [c0, c1]: [Poly; 2]) -> Ciphertext {
        Ciphertext { params: self.params.clone(), owner: self.keys.owner(), level, scale, c0, c1 }
    }

    /// Refuses a ciphertext of another set or of another client.
    pub(crate) fn check_mine(&self, params: &Params, owner: KeyId) -> Result<()> {
        self.params.check_same(params)?;
        self.keys.owner().check_same(owner)
    }

    /// Refuses operands of other sets or clients, or at different levels.
    fn check_pair(&self, left: (&Params, KeyId, usize), right: (&Params, KeyId, usize)) -> Result<()> {
        self.check_mine(left.0, left.1)?;
        self.check_mine(right.0, right.1)?;
        check_levels(left.2, right.2)
    }
}

/// Refuses operands at different levels.
fn check_levels(left: usize, right: usize) -> Result<()> {
    if left == right { Ok(()) } else { Err(CkksError::LevelMismatch { left, right }) }
}

/// Refuses scales that differ by more than rounding explains.
pub(crate) fn check_scales(left: f64, right: f64) -> Result<()> {
    let difference = (left - right).abs() / left.max(right);
    // A difference that is no number is refused too.
    if difference <= SCALE_TOLERANCE { Ok(()) } else { Err(CkksError::ScaleMismatch { left, right, difference }) }
}

#[cfg(test)]
#[path = "evaluator/fixture.rs"]
pub(crate) mod fixture;
#[cfg(test)]
#[path = "evaluator/tests.rs"]
mod tests;
