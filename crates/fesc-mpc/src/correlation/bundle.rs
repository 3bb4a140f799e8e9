//! Bundles: a small graph of products over named masks (design, section 5).
//!
//! Each mask belongs to one tensor, which is opened once as `x - r` and then serves every product of the bundle:
//! `[x y] = x^ y^ + x^ [r_y] + [r_x] y^ + [r_x r_y]` for any bilinear product. Squares, triples, row-wise inner
//! products, scalar times vector and matrix triples are all bundles.

use fesc_ring::Ring;

use super::{FieldSpec, MAX_WORK, Material, check_elements, check_product};
use crate::Role;
use crate::bilinear;
use crate::error::{MpcError, check_range};

/// A bilinear product of two masks, given by their numbers in the bundle. Matrices are row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Element-wise, equal shapes. `Hadamard(i, i)` is a square.
    Hadamard(usize, usize),
    /// Inner product of equal rows: `rows x cols` twice gives `rows x 1`. `RowInner(i, i)` is a sum of squares.
    RowInner(usize, usize),
    /// Row `i` of the second (`rows x cols`) times entry `i` of the first (`rows x 1`).
    ScaleRows(usize, usize),
    /// Matrix product.
    MatMul(usize, usize),
}

impl Product {
    /// The numbers of the two operands.
    pub fn operands(self) -> (usize, usize) {
        match self {
            Product::Hadamard(a, b) | Product::RowInner(a, b) | Product::ScaleRows(a, b) | Product::MatMul(a, b) => {
                (a, b)
            }
        }
    }

    /// The shape of the result, or `None` if the operands do not fit.
    pub fn shape(self, left: (usize, usize), right: (usize, usize)) -> Option<(usize, usize)> {
        match self {
            Product::Hadamard(..) => (left == right).then_some(left),
            Product::RowInner(..) => (left == right).then_some((left.0, 1)),
            Product::ScaleRows(..) => (left.1 == 1 && left.0 == right.0).then_some(right),
            Product::MatMul(..) => (left.1 == right.0).then_some((left.0, right.1)),
        }
    }
}

/// A bundle: `batch` independent copies of the same graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The ring.
    pub ring: Ring,
    /// Copies; mask `i` holds `batch` matrices of shape `masks[i]`, one after the other.
    pub batch: usize,
    /// Shapes of the masks.
    pub masks: Vec<(usize, usize)>,
    /// Products over them.
    pub products: Vec<Product>,
}

impl Bundle {
    /// `count` squares.
    pub fn squares(ring: Ring, count: usize) -> Self {
        Self { ring, batch: 1, masks: vec![(count, 1)], products: vec![Product::Hadamard(0, 0)] }
    }

    /// `count` element-wise products.
    pub fn triples(ring: Ring, count: usize) -> Self {
        Self { ring, batch: 1, masks: vec![(count, 1); 2], products: vec![Product::Hadamard(0, 1)] }
    }

    /// Sums of squares of `rows` vectors of `len` elements.
    pub fn sums_of_squares(ring: Ring, rows: usize, len: usize) -> Self {
        Self { ring, batch: 1, masks: vec![(rows, len)], products: vec![Product::RowInner(0, 0)] }
    }

    /// `rows` products of a scalar and a vector of `len` elements.
    pub fn scalar_vector(ring: Ring, rows: usize, len: usize) -> Self {
        Self { ring, batch: 1, masks: vec![(rows, 1), (rows, len)], products: vec![Product::ScaleRows(0, 1)] }
    }

    /// `batch` matrix products `m x k` times `k x n`.
    pub fn matmul(ring: Ring, batch: usize, m: usize, k: usize, n: usize) -> Self {
        Self { ring, batch, masks: vec![(m, k), (k, n)], products: vec![Product::MatMul(0, 1)] }
    }

    /// Elements of mask `i`, all copies.
    pub fn mask_len(&self, i: usize) -> usize {
        self.masks.get(i).map_or(0, |&(r, c)| self.batch.saturating_mul(r).saturating_mul(c))
    }

    /// The shape of the result of product `i`.
    pub fn product_shape(&self, i: usize) -> Option<(usize, usize)> {
        let p = *self.products.get(i)?;
        let (a, b) = p.operands();
        p.shape(*self.masks.get(a)?, *self.masks.get(b)?)
    }

    /// Elements of the result of product `i`, all copies.
    pub fn product_len(&self, i: usize) -> usize {
        self.product_shape(i).map_or(0, |(r, c)| self.batch.saturating_mul(r).saturating_mul(c))
    }

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("masks in a bundle", self.masks.len() as u64, 1, 64)?;
        check_range("products in a bundle", self.products.len() as u64, 0, 256)?;
        for &(r, c) in &self.masks {
            check_elements(&[self.batch, r, c])?;
        }
        for i in 0..self.products.len() {
            let (r, c) = self.product_shape(i).ok_or(MpcError::Request("operands of a product do not fit"))?;
            check_elements(&[self.batch, r, c])?;
            if let Product::MatMul(a, _) = self.products[i] {
                check_product(
                    &[self.batch, r, self.masks[a].1, c],
                    MAX_WORK,
                    "a matrix product of more than 2^38 steps",
                )?;
            }
        }
        Ok(())
    }

    /// Fields: every mask's share, then every product's share. P1's product shares are determined.
    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        let masks = (0..self.masks.len()).map(|i| FieldSpec::ring(self.ring, self.mask_len(i), true));
        let products =
            (0..self.products.len()).map(|i| FieldSpec::ring(self.ring, self.product_len(i), role == Role::P0));
        masks.chain(products).collect()
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) -> Result<(), MpcError> {
        let whole: Vec<Vec<u64>> = (0..self.masks.len())
            .map(|i| m0.ring(i).iter().zip(m1.ring(i)).map(|(&a, &b)| self.ring.add(a, b)).collect())
            .collect();
        for (p, &product) in self.products.iter().enumerate() {
            let (a, b) = product.operands();
            let mut value = bilinear::apply(self, product, &whole[a], &whole[b])?;
            let field = self.masks.len() + p;
            for (v, &s) in value.iter_mut().zip(m0.ring(field)) {
                *v = self.ring.sub(*v, s);
            }
            *m1.ring_mut(field) = value;
        }
        Ok(())
    }
}
