//! A row-major matrix: one row per token.

use std::fmt;

/// Row-major values; a row is a token wherever tokens are meant. `Debug` shows the size, not the values: they
/// tell of the document.
#[derive(Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix({} x {})", self.rows, self.cols)
    }
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// A matrix from its rows; `None` if the number of values is not `rows * cols`.
    pub fn from_rows(rows: usize, cols: usize, data: Vec<f32>) -> Option<Self> {
        (rows.checked_mul(cols) == Some(data.len())).then_some(Self { rows, cols, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All values, row after row.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }
}
