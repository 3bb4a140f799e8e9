//! Many ciphertexts whose slots repeat, from one.
//!
//! A vector of slots that repeats with period `n / r` is a polynomial in `X^r`. So `r` of them fit one
//! ciphertext, `m = sum_k X^k m_k(X^r)`, and come apart by halving (Angel, Chen, Laine, Setty, "PIR with
//! compressed queries and amortized query processing", section 3.3). With `sigma` the rotation by `n /
//! 2^(s+1)` slots, which fixes `X^(2^(s+1))` and negates `X^(2^s)`, a ciphertext of a polynomial in `X^(2^s)`
//! has two children, polynomials in `X^(2^(s+1))`:
//!
//! ```text
//! c + sigma(c) = 2 (the even half),    X^(-2^s) (c - sigma(c)) = 2 (the odd half).
//! ```
//!
//! The doubling is one of the scale: packed parts are encrypted at `S / r` and arrive at `S`.
//!
//! # Cost
//! One rotation and one product by a plaintext for each of the `r - 1` halvings, no level; in place of `r`
//! uploads one. Errors of encryption are `sqrt(r)` times those of a ciphertext of its own.
//!
//! # What is not guaranteed
//! That a part that is asked for twice costs little: what was handed out is not kept, and its way is gone
//! again from the root.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fesc_ckks::place_of_part;
use num_complex::Complex64;

use crate::backend::{Backend, monomial};
use crate::{HybridError, Result};

/// The slots of a packed polynomial: `values` are `parts` runs of slots, each repeated in its own part.
pub fn packed(values: &[Complex64], parts: usize) -> Vec<Complex64> {
    let n = values.len();
    let run = n / parts;
    let mut slots = vec![Complex64::ZERO; n];
    for (part, own) in values.chunks(run).enumerate() {
        let roots = monomial(n, place_of_part(part, parts) as i64);
        slots.iter_mut().zip(roots).enumerate().for_each(|(j, (z, root))| *z += own[j % run] * root);
    }
    slots
}

/// Halves that wait to be asked for, by depth and place.
type Halves<B> = BTreeMap<(u32, usize), <B as Backend>::Ct>;

/// The parts of one packed ciphertext, each made when it is asked for. Neighbours share their way.
///
/// Parts are in groups. A thread that works on one group does not wait for another that works on the next.
pub struct Parts<'a, B: Backend> {
    backend: &'a B,
    /// Halvings to a group, and from there to a part.
    depths: [u32; 2],
    roots: Mutex<Halves<B>>,
    groups: Vec<Mutex<Halves<B>>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, B: Backend> Parts<'a, B> {
    /// Of `parts` parts, a power of two.
    ///
    /// # Errors
    /// [`HybridError::Shape`] for another number, or more than there are slots.
    pub fn new(backend: &'a B, parts: usize) -> Result<Self> {
        if !parts.is_power_of_two() || parts > backend.slots() {
            let need = format!("a power of two up to {}", backend.slots());
            return Err(HybridError::Shape { what: "parts of a ciphertext", got: parts, need });
        }
        let depth = parts.ilog2();
        let below = depth.div_ceil(2);
        let groups = (0..parts >> below).map(|_| Mutex::default()).collect();
        Ok(Self { backend, depths: [depth - below, below], roots: Mutex::default(), groups })
    }

    /// Part `part`; `root` gives the packed ciphertext whenever it is needed.
    ///
    /// # Errors
    /// A part that there is not, and those of the back end.
    pub fn get(&self, part: usize, root: impl Fn() -> Result<B::Ct>) -> Result<B::Ct> {
        let [above, below] = self.depths;
        let (group, place) = (part >> below, part & ((1 << below) - 1));
        let missing =
            HybridError::Length { what: "parts of a ciphertext", expected: part + 1, got: 1 << (above + below) };
        let mut own = lock(self.groups.get(group).ok_or(missing)?);
        self.take(&mut own, below, above, place, || self.take(&mut lock(&self.roots), above, 0, group, &root))
    }

    /// What stands at `place` after `depth` halvings, `before` of which are behind the root. The nearest of
    /// its ancestors that is there is halved; what is not on the way waits.
    fn take(
        &self,
        halves: &mut Halves<B>,
        depth: u32,
        before: u32,
        place: usize,
        root: impl FnOnce() -> Result<B::Ct>,
    ) -> Result<B::Ct> {
        let known = (0..=depth).rev().find_map(|d| Some((d, halves.remove(&(d, place >> (depth - d)))?)));
        let (from, mut c) = match known {
            Some(known) => known,
            None => (0, root()?),
        };
        for d in from..depth {
            let [even, odd] = self.halve(&c, before + d)?;
            let at = place >> (depth - d - 1);
            let (taken, other) = if at.is_multiple_of(2) { (even, odd) } else { (odd, even) };
            halves.insert((d + 1, at ^ 1), other);
            c = taken;
        }
        Ok(c)
    }

    /// Both children of a polynomial in `X^(2^s)`.
    fn halve(&self, c: &B::Ct, s: u32) -> Result<[B::Ct; 2]> {
        let b = self.backend;
        let moved = b.rotate(c, (b.slots() >> (s + 1)) as i64)?;
        let even = b.halve(&b.add(c, &moved)?)?;
        let odd = b.times_monomial(&b.halve(&b.sub(c, &moved)?)?, -(1 << s))?;
        Ok([even, odd])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::backend::{Chain, Count, Operation, Plain};

    fn values(n: usize) -> Vec<Complex64> {
        (0..n).map(|i| Complex64::new((i as f64 * 0.7).sin(), (i as f64 * 1.3).cos())).collect()
    }

    /// Every number of parts, in order and not: each is its run, repeated, at the canonical scale.
    #[test]
    fn parts_repeat_their_runs() {
        let plain = Plain::new(Chain::ideal(64, 40, 3, 2));
        for parts in [1, 2, 8, 32, 64] {
            let (values, run) = (values(64), 64 / parts);
            let packed = plain.fresh_parts(&values, 2, parts).unwrap();
            let tree = Parts::new(&plain, parts).unwrap();
            for part in (0..parts).chain([parts - 1, 0, parts / 2]) {
                let c = tree.get(part, || Ok(packed.clone())).unwrap();
                for (j, z) in c.slots().iter().enumerate() {
                    assert!((z - values[part * run + j % run]).norm() < 1e-12, "{part} of {parts}, slot {j}");
                }
                // A product takes it: the scale is the canonical one.
                assert!(plain.combine(2, &[crate::backend::Term::Product(&c, &c)]).is_ok());
            }
            assert!(tree.get(parts, || Ok(packed.clone())).is_err());
        }
        assert!(Parts::new(&plain, 3).is_err() && Parts::new(&plain, 128).is_err());
    }

    /// `r - 1` halvings for all parts, however often and from wherever the walk begins.
    #[test]
    fn neighbours_share_their_way() {
        for parts in [1usize, 2, 16, 256] {
            let count = Count::new(Chain::ideal(1024, 40, 3, 2));
            let tree = Parts::new(&count, parts).unwrap();
            for pass in 1..=3 {
                for part in 0..parts {
                    tree.get((part + pass * 5) % parts, || Ok(count.fresh(3))).unwrap();
                }
                let tally = count.operations().tally();
                assert_eq!(tally.key_switches(), (pass * (parts - 1)) as u64);
                assert_eq!(tally.total(Operation::PlainProduct), (pass * (parts - 1)) as u64);
            }
            assert!(tree.groups.iter().all(|g| lock(g).is_empty()) && lock(&tree.roots).is_empty());
        }
    }
}
