//! Bundles: a small graph of products over named masks.
//!
//! Each mask belongs to one tensor, which is opened once as `x - r` and then serves every product of the
//! bundle: `[x y] = x^ y^ + x^ [r_y] + [r_x] y^ + [r_x r_y]` for any bilinear product. A product is an
//! einsum: its operands and its result have named axes, in any order, and the sum goes over the axes that the
//! result lacks. So
//!
//! | product | left | right | result |
//! |---|---|---|---|
//! | element-wise; a square if both are one mask | `[t, w]` | `[t, w]` | `[t, w]` |
//! | inner products of rows | `[t, w]` | `[t, w]` | `[t]` |
//! | rows times scalars | `[t]` | `[t, w]` | `[t, w]` |
//! | outer | `[b, i]` | `[b, j]` | `[b, i, j]` |
//! | matrices | `[b, i, c]` | `[b, c, n]` | `[b, i, n]` |
//!
//! [`ProductShape`] says which products fit.

use fesc_ring::Ring;

use super::{FieldSpec, Material, ProductShape, check_elements};
use crate::Role;
use crate::bilinear;
use crate::error::{MpcError, check_range};

/// Most axes of a bundle.
pub(crate) const MAX_AXES: usize = 32;
/// Most axes of a tensor.
pub(crate) const MAX_RANK: usize = 7;
/// Most masks of a bundle.
pub(crate) const MAX_MASKS: usize = 64;
/// Most products of a bundle.
pub(crate) const MAX_PRODUCTS: usize = 256;

/// A tensor over named axes (numbers into [`Bundle::sizes`]), row-major in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// The axes, at most 7.
    pub axes: Vec<u8>,
    /// The last two axes have the same size `q`, and only the entries `(i, j)` with `j <= i` are stored, row
    /// by row: `q (q + 1) / 2`. The others are 0.
    pub lower: bool,
}

impl Tensor {
    /// A full tensor.
    pub fn new(axes: &[u8]) -> Self {
        Self { axes: axes.to_vec(), lower: false }
    }

    /// A tensor that is lower triangular in its last two axes.
    pub fn lower(axes: &[u8]) -> Self {
        Self { axes: axes.to_vec(), lower: true }
    }

    /// Entries stored, if the axes have these sizes. Saturates; [`Bundle`]s over the limits are refused
    /// elsewhere.
    pub fn len(&self, sizes: &[usize]) -> usize {
        let outer = self.axes.len() - if self.lower { self.axes.len().min(2) } else { 0 };
        let size = |a: &u8| sizes.get(usize::from(*a)).copied().unwrap_or(0);
        let last = match (self.lower, self.axes.last()) {
            (true, Some(a)) => triangle(size(a)),
            _ => 1,
        };
        self.axes.iter().take(outer).map(size).fold(last, usize::saturating_mul)
    }

    /// The two axes of the triangle.
    pub(super) fn pair(&self) -> Option<[u8; 2]> {
        match self.axes.as_slice() {
            [.., i, j] if self.lower => Some([*i, *j]),
            _ => None,
        }
    }

    pub(super) fn has(&self, axis: u8) -> bool {
        self.axes.contains(&axis)
    }

    /// Refuses axes that do not exist or occur twice, a triangle of unequal sides, and sizes over the limit.
    pub(super) fn check(&self, sizes: &[usize]) -> Result<(), MpcError> {
        if self.axes.len() > MAX_RANK {
            return Err(MpcError::Request("a tensor of more than 7 axes"));
        }
        let mut found = Vec::with_capacity(self.axes.len());
        for (i, &axis) in self.axes.iter().enumerate() {
            let size = sizes.get(usize::from(axis)).ok_or(MpcError::Request("a tensor with an axis without a size"))?;
            if self.axes.iter().skip(i + 1).any(|&other| other == axis) {
                return Err(MpcError::Request("a tensor with the same axis twice"));
            }
            found.push(*size);
        }
        match (self.lower, found.as_slice()) {
            (true, [.., i, j]) if i == j => {}
            (true, _) => return Err(MpcError::Request("a lower tensor whose last two axes are not of one size")),
            (false, _) => {}
        }
        check_elements(&found)
    }
}

/// Entries on and below the diagonal of a square.
pub(super) const fn triangle(side: usize) -> usize {
    if side.is_multiple_of(2) {
        (side / 2).saturating_mul(side.saturating_add(1))
    } else {
        side.saturating_mul(side.saturating_add(1) / 2)
    }
}

/// A product of two masks, given by their numbers in the bundle: the sum over the axes that `out` does not
/// have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Number of the left mask.
    pub left: usize,
    /// Number of the right mask; the left one again for squares.
    pub right: usize,
    /// The result.
    pub out: Tensor,
    /// Whether the correlation must be exact. If not, a provider may take a generator whose results are off
    /// by a few units of the last place; that is for products that are truncated by many more bits before
    /// anything depends on them.
    pub exact: bool,
}

impl Product {
    /// An exact product with this result.
    pub fn new(left: usize, right: usize, out: Tensor) -> Self {
        Self { left, right, out, exact: true }
    }

    /// The same product for somebody who truncates it next: a few units of the last place do not matter.
    pub fn rounded(self) -> Self {
        Self { exact: false, ..self }
    }
}

/// A bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The ring.
    pub ring: Ring,
    /// Sizes of the axes, at most 32.
    pub sizes: Vec<usize>,
    /// The masks, at most 64.
    pub masks: Vec<Tensor>,
    /// Products over them, at most 256.
    pub products: Vec<Product>,
}

impl Bundle {
    /// Element-wise products of pairs out of `masks` vectors of `count` elements.
    pub fn elementwise(ring: Ring, count: usize, masks: usize, pairs: &[(usize, usize)]) -> Self {
        let vector = Tensor::new(&[0]);
        let products = pairs.iter().map(|&(l, r)| Product::new(l, r, vector.clone())).collect();
        Self { ring, sizes: vec![count], masks: vec![vector; masks], products }
    }

    /// `count` squares.
    pub fn squares(ring: Ring, count: usize) -> Self {
        Self::elementwise(ring, count, 1, &[(0, 0)])
    }

    /// `count` element-wise products.
    pub fn triples(ring: Ring, count: usize) -> Self {
        Self::elementwise(ring, count, 2, &[(0, 1)])
    }

    /// Sums of squares of `rows` vectors of `len` elements.
    pub fn sums_of_squares(ring: Ring, rows: usize, len: usize) -> Self {
        let products = vec![Product::new(0, 0, Tensor::new(&[0]))];
        Self { ring, sizes: vec![rows, len], masks: vec![Tensor::new(&[0, 1])], products }
    }

    /// `rows` products of a scalar and a vector of `len` elements.
    pub fn scalar_vector(ring: Ring, rows: usize, len: usize) -> Self {
        let matrix = Tensor::new(&[0, 1]);
        let products = vec![Product::new(0, 1, matrix.clone())];
        Self { ring, sizes: vec![rows, len], masks: vec![Tensor::new(&[0]), matrix], products }
    }

    /// `batch` matrix products `m x k` times `k x n`.
    pub fn matmul(ring: Ring, batch: usize, m: usize, k: usize, n: usize) -> Self {
        let products = vec![Product::new(0, 1, Tensor::new(&[0, 1, 3]))];
        Self {
            ring,
            sizes: vec![batch, m, k, n],
            masks: vec![Tensor::new(&[0, 1, 2]), Tensor::new(&[0, 2, 3])],
            products,
        }
    }

    /// Elements of mask `i`.
    pub fn mask_len(&self, i: usize) -> usize {
        self.masks.get(i).map_or(0, |t| t.len(&self.sizes))
    }

    /// Elements of the result of product `i`.
    pub fn product_len(&self, i: usize) -> usize {
        self.products.get(i).map_or(0, |p| p.out.len(&self.sizes))
    }

    /// Refuses masks and products that do not fit or are over the limits.
    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("axes of a bundle", self.sizes.len() as u64, 0, MAX_AXES as u64)?;
        check_range("masks in a bundle", self.masks.len() as u64, 1, MAX_MASKS as u64)?;
        check_range("products in a bundle", self.products.len() as u64, 0, MAX_PRODUCTS as u64)?;
        self.masks.iter().try_for_each(|t| t.check(&self.sizes))?;
        self.products.iter().try_for_each(|p| ProductShape::new(self, p).map(drop))
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
        for (p, product) in self.products.iter().enumerate() {
            let mut value = bilinear::apply(self, product, &whole[product.left], &whole[product.right])?;
            let field = self.masks.len() + p;
            self.ring.sub_assign(&mut value, m0.ring(field))?;
            *m1.ring_mut(field) = value;
        }
        Ok(())
    }
}
