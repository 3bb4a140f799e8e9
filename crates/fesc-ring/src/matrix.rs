//! Matrices over `Z_2^l`: owned ([`Matrix`], row-major) and borrowed ([`View`], row-major or its transpose).
//!
//! Shapes are checked once, when a value is made; a wrong shape is an error with both shapes in it, never a
//! panic. Products are in [`crate::gemm`]. A matrix is not wiped on drop and may hold shares, so its `Debug`
//! shows no element.

use std::fmt;
use std::ops::Range;

use crate::gemm::{self, Update};
use crate::{Prg, Ring};

/// What can be wrong with the operands of a matrix operation. Shapes are `(rows, columns)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The number of elements is not `rows * cols`.
    #[error("a {rows} x {cols} matrix needs rows * columns elements, got {got}")]
    Data {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        cols: usize,
        /// Elements given.
        got: usize,
    },
    /// `rows * cols` elements do not fit into memory.
    #[error("a {rows} x {cols} matrix is larger than the address space")]
    TooLarge {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        cols: usize,
    },
    /// Two shapes do not fit together.
    #[error("{op}: a {} x {} matrix does not fit a {} x {} one", left.0, left.1, right.0, right.1)]
    Shapes {
        /// The operation.
        op: &'static str,
        /// Shape of the left operand.
        left: (usize, usize),
        /// Shape of the right operand.
        right: (usize, usize),
    },
    /// A window reaches past the edge.
    #[error("window of rows {rows:?} and columns {cols:?} is not inside a {} x {} matrix", shape.0, shape.1)]
    Window {
        /// Rows asked for.
        rows: Range<usize>,
        /// Columns asked for.
        cols: Range<usize>,
        /// Shape of the matrix.
        shape: (usize, usize),
    },
    /// Two matrices are over different rings.
    #[error("{op}: operands over rings of {left} and {right} bits; reduce or extend one of them first")]
    Rings {
        /// The operation.
        op: &'static str,
        /// Width of the left ring.
        left: u32,
        /// Width of the right ring.
        right: u32,
    },
    /// The SIMD path asked for cannot run here.
    #[error("this processor cannot run the {path} path; `fesc doctor` lists those that it can")]
    Path {
        /// Name of the path.
        path: &'static str,
    },
}

fn elements(rows: usize, cols: usize) -> Result<usize, MatrixError> {
    // A `Vec` can never exceed `isize::MAX` bytes.
    rows.checked_mul(cols).filter(|&n| n <= isize::MAX as usize / 8).ok_or(MatrixError::TooLarge { rows, cols })
}

/// A borrowed matrix: row-major elements, or the transpose of such, at no cost.
#[derive(Clone, Copy)]
pub struct View<'a> {
    data: &'a [u64],
    /// Number and length of the contiguous lines in `data`: the rows, or the columns if `transposed`.
    lines: usize,
    length: usize,
    /// Distance between the starts of two lines.
    stride: usize,
    transposed: bool,
}

impl<'a> View<'a> {
    /// A view of `rows * cols` row-major elements.
    pub fn new(data: &'a [u64], rows: usize, cols: usize) -> Result<Self, MatrixError> {
        if elements(rows, cols)? != data.len() {
            return Err(MatrixError::Data { rows, cols, got: data.len() });
        }
        Ok(Self { data, lines: rows, length: cols, stride: cols, transposed: false })
    }

    /// The transpose.
    #[must_use]
    pub const fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// Number of rows.
    pub const fn rows(&self) -> usize {
        if self.transposed { self.length } else { self.lines }
    }

    /// Number of columns.
    pub const fn cols(&self) -> usize {
        if self.transposed { self.lines } else { self.length }
    }

    /// `(rows, cols)`.
    pub const fn shape(&self) -> (usize, usize) {
        (self.rows(), self.cols())
    }

    /// The part in a range of rows and a range of columns, at no cost: one head of a tensor, one chunk of
    /// tokens.
    pub fn window(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, MatrixError> {
        let fits = |r: &Range<usize>, end| r.start <= r.end && r.end <= end;
        if !fits(&rows, self.rows()) || !fits(&cols, self.cols()) {
            return Err(MatrixError::Window { rows, cols, shape: self.shape() });
        }
        let (lines, within) = if self.transposed { (cols, rows) } else { (rows, cols) };
        let (count, length) = (lines.len(), within.len());
        // An empty window has no first element, which could lie past the end.
        let first = if count == 0 || length == 0 { 0 } else { lines.start * self.stride + within.start };
        Ok(Self { data: &self.data[first..], lines: count, length, ..*self })
    }

    /// The element in a row and column.
    pub fn get(&self, row: usize, col: usize) -> Option<u64> {
        if row >= self.rows() || col >= self.cols() {
            return None;
        }
        let (line, at) = if self.transposed { (col, row) } else { (row, col) };
        self.data.get(line * self.stride + at).copied()
    }

    /// The contiguous lines of elements: the rows, or the columns of a transpose.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u64]> + use<'a> {
        let view = *self;
        (0..view.lines).map(move |i| view.line(i))
    }

    /// True if columns, not rows, are contiguous.
    pub(crate) const fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// A contiguous line: a row, or a column if transposed. Panics past the end: for kernels, which stay
    /// inside.
    pub(crate) fn line(&self, i: usize) -> &'a [u64] {
        &self.data[i * self.stride..][..self.length]
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} x {})", self.rows(), self.cols())
    }
}

/// An owned row-major matrix over a ring. Elements are always reduced.
#[derive(Clone, PartialEq, Eq)]
pub struct Matrix {
    ring: Ring,
    rows: usize,
    cols: usize,
    data: Vec<u64>,
}

impl Matrix {
    /// A matrix from row-major elements, which are reduced.
    pub fn new(ring: Ring, rows: usize, cols: usize, mut data: Vec<u64>) -> Result<Self, MatrixError> {
        View::new(&data, rows, cols)?;
        ring.reduce_assign(&mut data);
        Ok(Self { ring, rows, cols, data })
    }

    /// The zero matrix.
    pub fn zeros(ring: Ring, rows: usize, cols: usize) -> Result<Self, MatrixError> {
        Ok(Self { ring, rows, cols, data: vec![0; elements(rows, cols)?] })
    }

    /// A uniform matrix.
    pub fn random(ring: Ring, rows: usize, cols: usize, prg: &mut Prg) -> Result<Self, MatrixError> {
        Ok(Self { ring, rows, cols, data: prg.ring_vec(ring, elements(rows, cols)?) })
    }

    /// The ring.
    pub const fn ring(&self) -> Ring {
        self.ring
    }

    /// Number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// `(rows, cols)`.
    pub const fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// All elements, row-major.
    pub fn as_slice(&self) -> &[u64] {
        &self.data
    }

    /// The elements, row-major.
    pub fn into_vec(self) -> Vec<u64> {
        self.data
    }

    /// One row.
    pub fn row(&self, row: usize) -> Option<&[u64]> {
        (row < self.rows).then(|| &self.data[row * self.cols..(row + 1) * self.cols])
    }

    /// A borrowed view, to be multiplied as it is or transposed.
    pub fn view(&self) -> View<'_> {
        View { data: &self.data, lines: self.rows, length: self.cols, stride: self.cols, transposed: false }
    }

    /// A transposed copy. Products do not need it: see [`View::t`].
    #[must_use]
    pub fn transpose(&self) -> Self {
        /// Side of the square blocks: 8 elements are a cache line.
        const BLOCK: usize = 8;
        let mut data = vec![0; self.data.len()];
        for r0 in (0..self.rows).step_by(BLOCK) {
            for c0 in (0..self.cols).step_by(BLOCK) {
                for c in c0..self.cols.min(c0 + BLOCK) {
                    for r in r0..self.rows.min(r0 + BLOCK) {
                        data[c * self.rows + r] = self.data[r * self.cols + c];
                    }
                }
            }
        }
        Self { ring: self.ring, rows: self.cols, cols: self.rows, data }
    }

    /// `self += other`.
    pub fn add_assign(&mut self, other: &Self) -> Result<(), MatrixError> {
        self.zip_assign("add", other, Ring::add)
    }

    /// `self -= other`.
    pub fn sub_assign(&mut self, other: &Self) -> Result<(), MatrixError> {
        self.zip_assign("subtract", other, Ring::sub)
    }

    /// `self + other`.
    pub fn add(&self, other: &Self) -> Result<Self, MatrixError> {
        let mut out = self.clone();
        out.add_assign(other)?;
        Ok(out)
    }

    /// `self - other`.
    pub fn sub(&self, other: &Self) -> Result<Self, MatrixError> {
        let mut out = self.clone();
        out.sub_assign(other)?;
        Ok(out)
    }

    /// The product `self * other`, on all threads of the current rayon pool.
    pub fn mul(&self, other: &Self) -> Result<Self, MatrixError> {
        self.same_ring("multiply", other)?;
        let mut out = Self::zeros(self.ring, self.rows, other.cols)?;
        gemm::gemm_par(self.ring, self.view(), other.view(), &mut out.data, Update::Set)?;
        Ok(out)
    }

    fn same_ring(&self, op: &'static str, other: &Self) -> Result<(), MatrixError> {
        if self.ring != other.ring {
            return Err(MatrixError::Rings { op, left: self.ring.bits(), right: other.ring.bits() });
        }
        Ok(())
    }

    #[inline(always)]
    fn zip_assign(
        &mut self,
        op: &'static str,
        other: &Self,
        f: impl Fn(Ring, u64, u64) -> u64,
    ) -> Result<(), MatrixError> {
        self.same_ring(op, other)?;
        if self.shape() != other.shape() {
            return Err(MatrixError::Shapes { op, left: self.shape(), right: other.shape() });
        }
        for (x, &y) in self.data.iter_mut().zip(&other.data) {
            *x = f(self.ring, *x, y);
        }
        Ok(())
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix({} x {}, {} bits)", self.rows, self.cols, self.ring.bits())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ring(bits: u32) -> Ring {
        Ring::new(bits).unwrap()
    }

    #[test]
    fn shapes_are_checked() {
        let r = ring(48);
        assert_eq!(Matrix::new(r, 2, 3, vec![0; 5]), Err(MatrixError::Data { rows: 2, cols: 3, got: 5 }));
        let huge = usize::MAX / 2;
        assert_eq!(Matrix::zeros(r, huge, 3), Err(MatrixError::TooLarge { rows: huge, cols: 3 }));
        assert_eq!(Matrix::zeros(r, huge, 1), Err(MatrixError::TooLarge { rows: huge, cols: 1 }));
        assert!(View::new(&[0; 6], 4, 2).is_err());
        let (a, b) = (Matrix::zeros(r, 2, 3).unwrap(), Matrix::zeros(r, 3, 2).unwrap());
        assert!(matches!(a.add(&b), Err(MatrixError::Shapes { op: "add", left: (2, 3), right: (3, 2) })));
        assert!(matches!(a.sub(&b), Err(MatrixError::Shapes { op: "subtract", .. })));
        assert!(matches!(a.mul(&a), Err(MatrixError::Shapes { .. })));
        let c = Matrix::zeros(ring(47), 2, 3).unwrap();
        assert_eq!(a.add(&c), Err(MatrixError::Rings { op: "add", left: 48, right: 47 }));
        assert!(matches!(c.mul(&b), Err(MatrixError::Rings { op: "multiply", .. })));
    }

    #[test]
    fn elements_are_reduced_and_rows_are_rows() {
        let m = Matrix::new(ring(4), 2, 3, vec![16, 17, 18, 19, 20, 21]).unwrap();
        assert_eq!(m.row(1), Some(&[3, 4, 5][..]));
        assert_eq!(m.row(2), None);
        assert_eq!(m.view().get(1, 2), Some(5));
        assert_eq!(m.view().t().get(2, 1), Some(5));
        assert_eq!(m.view().get(0, 3), None);
        assert_eq!(m.view().t().get(0, 3), None);
    }

    #[test]
    fn windows_are_parts_and_stay_inside() {
        let data: Vec<u64> = (0..20).collect();
        let v = View::new(&data, 4, 5).unwrap();
        let w = v.window(1..3, 2..5).unwrap();
        assert_eq!((w.shape(), w.get(0, 0), w.get(1, 2), w.get(2, 0)), ((2, 3), Some(7), Some(14), None));
        let w = v.t().window(2..5, 1..3).unwrap().window(1..3, 1..2).unwrap();
        assert_eq!((w.shape(), w.get(0, 0), w.get(1, 0), w.get(0, 1)), ((2, 1), Some(13), Some(14), None));
        assert_eq!(v.window(4..4, 5..5).unwrap().shape(), (0, 0));
        assert_eq!(v.window(4..4, 0..5).unwrap().shape(), (0, 5));
        for (rows, cols) in [(0..5, 0..5), (0..4, 0..6), (5..5, 0..1), (Range { start: 3, end: 2 }, 0..1)] {
            assert!(matches!(v.window(rows, cols), Err(MatrixError::Window { shape: (4, 5), .. })));
        }
    }

    #[test]
    fn transpose_moves_every_element() {
        let mut prg = Prg::from_seed([3; 16]);
        for (rows, cols) in [(0, 5), (1, 1), (1, 9), (7, 8), (17, 33)] {
            let m = Matrix::random(ring(20), rows, cols, &mut prg).unwrap();
            let t = m.transpose();
            assert_eq!(t.shape(), (cols, rows));
            for r in 0..rows {
                for c in 0..cols {
                    assert_eq!(t.view().get(c, r), m.view().get(r, c));
                }
            }
            assert_eq!(t.transpose(), m);
        }
    }

    #[test]
    fn addition_and_subtraction_cancel_and_the_product_distributes() {
        let mut prg = Prg::from_seed([4; 16]);
        let r = ring(48);
        let [a, b] = [(); 2].map(|()| Matrix::random(r, 5, 7, &mut prg).unwrap());
        let c = Matrix::random(r, 7, 4, &mut prg).unwrap();
        assert_eq!(a.add(&b).unwrap().sub(&b).unwrap(), a);
        let sum = a.mul(&c).unwrap().add(&b.mul(&c).unwrap()).unwrap();
        assert_eq!(a.add(&b).unwrap().mul(&c).unwrap(), sum);
    }

    #[test]
    fn debug_shows_no_element() {
        let m = Matrix::new(ring(48), 1, 1, vec![123_456]).unwrap();
        assert_eq!(format!("{m:?} {:?}", m.view()), "Matrix(1 x 1, 48 bits) View(1 x 1)");
    }
}
