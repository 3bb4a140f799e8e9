//! Secure arg-max of rows, by a tournament: each match is one comparison and one mux of (value, index).
//!
//! Exact: values are compared over the whole ring, so `|a - b| < 2^(l-1)` must hold for any two of a row. At
//! a tie the first of them wins. Rounds grow with `log2 columns`, not with rows.

use fesc_ring::Ring;

use super::{Compare, Mux, Sender, Thresholds};
use crate::correlation::MAX_ELEMENTS;
use crate::error::{MpcError, check_len, check_range};
use crate::{Ledger, Party, Shared, SharedBits};

/// Arg-max of each of `rows` rows of `columns` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgMax {
    /// The ring of the values and of the resulting indices.
    pub ring: Ring,
    /// Rows.
    pub rows: usize,
    /// Values per row, at least 1.
    pub columns: usize,
}

impl ArgMax {
    /// Matches per level, until one column is left.
    fn levels(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.columns), |&c| (c > 1).then(|| c.div_ceil(2))).filter(|&c| c > 1)
    }

    fn compare(&self, pairs: usize) -> Result<Compare, MpcError> {
        Compare::new(self.ring, self.rows * pairs, 1, Sender::Split)
    }

    fn mux(&self, pairs: usize) -> Mux {
        Mux { ring: self.ring, count: 2 * self.rows * pairs }
    }

    /// The index must fit the ring.
    fn check(&self) -> Result<(), MpcError> {
        check_range("columns of an arg-max", self.columns as u64, 1, 1 << self.ring.bits().min(20))?;
        check_range("values of an arg-max", self.rows.saturating_mul(self.columns) as u64, 0, MAX_ELEMENTS as u64)
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<(), MpcError> {
        self.check()?;
        for columns in self.levels() {
            self.compare(columns / 2)?.declare(ledger);
            self.mux(columns / 2).declare(ledger);
        }
        Ok(())
    }

    /// Shares of the index of the largest value of each row.
    pub fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        self.check()?;
        check_len("values of an arg-max", self.rows * self.columns, x.len())?;
        let indices: Vec<u64> = (0..self.rows).flat_map(|_| 0..self.columns as u64).collect();
        let mut index = Shared::public(self.ring, party.role(), &indices);
        let mut value = x.clone();
        for columns in self.levels() {
            let pairs = columns / 2;
            let pick = |s: &Shared, offset: usize, count: usize, step: usize| -> Shared {
                let row = |r: &[u64]| -> Vec<u64> { (0..count).map(|p| r[step * p + offset]).collect() };
                Shared::new(self.ring, s.values().chunks_exact(columns).flat_map(row).collect())
            };
            let (left, right) = (pick(&value, 0, pairs, 2), pick(&value, 1, pairs, 2));
            let (left_index, right_index) = (pick(&index, 0, pairs, 2), pick(&index, 1, pairs, 2));
            // The right one wins by one or more; at a tie the left one stays, which is the first.
            let lead = right.sub(&left)?;
            let bits = self.compare(pairs)?.run(party, &lead, Thresholds::Same(&[1]))?;
            let wins = bits.first().ok_or(MpcError::Shape { what: "comparison bits", expected: 1, got: 0 })?;
            // The same bit selects value and index; each use has its own daBit.
            let both = SharedBits::concat(&[wins, wins]);
            let moves = Shared::concat(&[&lead, &right_index.sub(&left_index)?])?;
            let moved = self.mux(pairs).run(party, &both, &moves)?;
            let n = self.rows * pairs;
            let odd = columns % 2;
            let tails = [&value, &index].map(|s| pick(s, columns - 1, odd, 0));
            value = append_columns(&left.add(&moved.slice(0..n)?)?, pairs, &tails[0], odd);
            index = append_columns(&left_index.add(&moved.slice(n..2 * n)?)?, pairs, &tails[1], odd);
        }
        Ok(index)
    }
}

/// Puts `extra` columns (0 or 1) behind `columns` columns of each row.
fn append_columns(rows: &Shared, columns: usize, tail: &Shared, extra: usize) -> Shared {
    if extra == 0 {
        return rows.clone();
    }
    let joined = rows.values().chunks_exact(columns).zip(tail.values().chunks_exact(extra));
    Shared::new(rows.ring(), joined.flat_map(|(a, b)| a.iter().chain(b).copied()).collect())
}
