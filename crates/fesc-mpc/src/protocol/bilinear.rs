//! Products of shared tensors by a [`Bundle`]: every tensor is opened once under its own mask, then every
//! product of the bundle is local.
//!
//! `[x y] = x^ y^ + x^ [r_y] + [r_x] y^ + [r_x r_y]`, computed as
//! `x^ ([r_y] + y^ at P0) + [r_x] y^ + [r_x r_y]`. The peer sees `x - r` with `r` uniform and used for this
//! tensor alone. Products double the scale: truncate after.

use zeroize::Zeroizing;

use super::tag;
use crate::bilinear::accumulate;
use crate::correlation::{Bundle, Material, ProductShape};
use crate::error::{MpcError, check_len};
use crate::{Ledger, Party, Request, Role, Shared};

/// All products of one bundle, with every tensor opened in one round. Cost: `2 l` bits per opened element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bilinear {
    /// The correlation.
    pub bundle: Bundle,
}

impl Bilinear {
    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.need(Request::Bundle(self.bundle.clone()));
        let elements = (0..self.bundle.masks.len()).map(|i| self.bundle.mask_len(i)).sum();
        let bytes = self.bundle.ring.packed_len(elements);
        ledger.exchange(bytes, bytes);
    }

    /// Opens all tensors together and returns the products.
    pub fn run(&self, party: &mut Party, tensors: &[&Shared]) -> Result<Vec<Shared>, MpcError> {
        check_len("tensors of a bundle", self.bundle.masks.len(), tensors.len())?;
        let mut opened = Opened::start(party, &self.bundle)?;
        let all: Vec<(usize, &Shared)> = tensors.iter().copied().enumerate().collect();
        opened.open(party, &all)?;
        (0..self.bundle.products.len()).map(|i| opened.product(i)).collect()
    }
}

/// A bundle in use, for tensors that become known at different times: open each once, take products when both
/// operands are open.
pub struct Opened {
    bundle: Bundle,
    role: Role,
    material: Material,
    hats: Vec<Option<Vec<u64>>>,
    /// Masks under which something was or may have been sent; set before the message, never cleared.
    spent: Vec<bool>,
    done: Vec<bool>,
}

impl Opened {
    /// Takes the correlation.
    pub fn start(party: &mut Party, bundle: &Bundle) -> Result<Self, MpcError> {
        let material = party.take(Request::Bundle(bundle.clone()))?;
        let (masks, products) = (bundle.masks.len(), bundle.products.len());
        Ok(Self {
            bundle: bundle.clone(),
            role: party.role(),
            material,
            hats: vec![None; masks],
            spent: vec![false; masks],
            done: vec![false; products],
        })
    }

    /// The cost of opening the masks `which` in one round.
    pub fn declare_open(bundle: &Bundle, which: &[usize], ledger: &mut Ledger) {
        let bytes = bundle.ring.packed_len(which.iter().map(|&i| bundle.mask_len(i)).sum());
        ledger.exchange(bytes, bytes);
    }

    /// Opens tensors under their masks, each for the first and only time, in one round.
    pub fn open(&mut self, party: &mut Party, tensors: &[(usize, &Shared)]) -> Result<(), MpcError> {
        let ring = self.bundle.ring;
        let mut mine = Vec::new();
        for &(i, x) in tensors {
            check_len("tensor of a bundle", self.bundle.mask_len(i), x.len())?;
            check_len("ring width of a bundle's tensor", ring.bits() as usize, x.ring().bits() as usize)?;
            if self.spent.get_mut(i).is_none_or(|s| std::mem::replace(s, true)) {
                return Err(MpcError::Shape { what: "openings of one mask", expected: 1, got: 2 });
            }
            mine.extend(x.values().iter().zip(self.material.ring(i)).map(|(&x, &r)| ring.sub(x, r)));
        }
        let theirs = party.exchange(tag::MASKED, ring, &mine, mine.len())?;
        mine.iter_mut().zip(&theirs).for_each(|(m, &t)| *m = ring.add(*m, t));
        drop(theirs);
        // From the back: the last piece to be cut off is what is left, without a copy.
        for &(i, x) in tensors.iter().rev() {
            self.hats[i] = Some(mine.split_off(mine.len() - x.len()));
        }
        Ok(())
    }

    /// The share of product `index`; both operands must be open, and each product is given out once. A tensor
    /// that no other product waits for is given back to the system.
    pub fn product(&mut self, index: usize) -> Result<Shared, MpcError> {
        let (ring, masks) = (self.bundle.ring, self.bundle.masks.len());
        let missing = MpcError::Shape { what: "product of a bundle (open and unused)", expected: 1, got: 0 };
        let Some(product) = self.bundle.products.get(index) else { return Err(missing) };
        let (a, b) = (product.left, product.right);
        if !matches!((self.hats.get(a), self.hats.get(b)), (Some(Some(_)), Some(Some(_))))
            || self.done.get_mut(index).is_none_or(|d| std::mem::replace(d, true))
        {
            return Err(missing);
        }
        let shape = ProductShape::new(&self.bundle, product)?;
        let mut out = std::mem::take(self.material.ring_mut(masks + index));
        let (Some(Some(x)), Some(Some(y))) = (self.hats.get(a), self.hats.get(b)) else { return Err(missing) };
        let (left, right) = (self.material.ring(a), self.material.ring(b));
        let plus = |r: &[u64], hat: &[u64]| -> Zeroizing<Vec<u64>> {
            Zeroizing::new(r.iter().zip(hat).map(|(&r, &h)| ring.add(r, h)).collect())
        };
        // P0 also has x^ y^: it joins whichever of the two other products needs the smaller copy.
        match self.role {
            Role::P0 if left.len() < right.len() => {
                accumulate(ring, &shape, &[(x, right), (&plus(left, x), y)], &mut out)?
            }
            Role::P0 => accumulate(ring, &shape, &[(x, &plus(right, y)), (left, y)], &mut out)?,
            Role::P1 => accumulate(ring, &shape, &[(x, right), (left, y)], &mut out)?,
        }
        for mask in [a, b] {
            let waits = |(i, p): (usize, &crate::correlation::Product)| {
                !self.done.get(i).is_some_and(|&d| d) && (p.left == mask || p.right == mask)
            };
            if !self.bundle.products.iter().enumerate().any(waits) {
                self.hats[mask] = None;
                drop(Zeroizing::new(std::mem::take(self.material.ring_mut(mask))));
            }
        }
        Ok(Shared::new(ring, out))
    }
}
