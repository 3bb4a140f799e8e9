//! The correlation behind selection: one mask `r` for a tensor and `K` daBits `rho_k` for the bits that
//! select on it.
//!
//! With `x^ = x - r` and `c_k = b_k xor rho_k` open, `b_k x` is linear: `[b_k] = c_k + (1 - 2 c_k)[rho_k]`,
//! `[b_k x] = x^ [b_k] + c_k [r] + (1 - 2 c_k)[rho_k r]`; with `degree = 2` the same for `x^2` from `[r^2]`,
//! `[rho_k r^2]`. One opened tensor serves all `K` bits.

use fesc_ring::Ring;

use super::{FieldSpec, Material, check_elements};
use crate::Role;
use crate::error::{MpcError, check_range};
use crate::party::WORDS;
use crate::share::words_for;

/// Shape of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// The ring.
    pub ring: Ring,
    /// Elements of the tensor.
    pub count: usize,
    /// Bits per element.
    pub thresholds: usize,
    /// 1, or 2 when squares are selected too.
    pub degree: usize,
}

/// Field numbers of a [`Select`] half.
pub(crate) mod field {
    /// `[r]`, `count` elements.
    pub const MASK: usize = 0;
    /// XOR shares of `rho_k`: `thresholds` runs of `words(count)` words.
    pub const BITS: usize = 1;
    /// `[rho_k]`: `thresholds` runs of `count` elements.
    pub const ARITHMETIC: usize = 2;
    /// `[rho_k r]`, likewise.
    pub const TIMES_MASK: usize = 3;
    /// `[r^2]`, only at degree 2.
    pub const SQUARE: usize = 4;
    /// `[rho_k r^2]`, only at degree 2.
    pub const TIMES_SQUARE: usize = 5;
}

impl Select {
    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("degree of a selection", self.degree as u64, 1, 2)?;
        check_range("bits per element of a selection", self.thresholds as u64, 1, 64)?;
        check_elements(&[self.count, self.thresholds])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        let (n, k) = (self.count, self.thresholds);
        let mine = role == Role::P0;
        let mut fields = vec![
            FieldSpec::ring(self.ring, n, true),
            FieldSpec::ring(WORDS, k * words_for(n), true),
            FieldSpec::ring(self.ring, k * n, mine),
            FieldSpec::ring(self.ring, k * n, mine),
        ];
        if self.degree == 2 {
            fields.push(FieldSpec::ring(self.ring, n, mine));
            fields.push(FieldSpec::ring(self.ring, k * n, mine));
        }
        fields
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        let (n, ring) = (self.count, self.ring);
        let words = words_for(n);
        let r: Vec<u64> =
            m0.ring(field::MASK).iter().zip(m1.ring(field::MASK)).map(|(&a, &b)| ring.add(a, b)).collect();
        let rho: Vec<u64> = m0.ring(field::BITS).iter().zip(m1.ring(field::BITS)).map(|(&a, &b)| a ^ b).collect();
        let bit = |k: usize, i: usize| rho[k * words + i / 64] >> (i % 64) & 1;
        let mut fill = |f: usize, len: usize, value: &dyn Fn(usize, usize) -> u64| {
            let own = m0.ring(f);
            let out = (0..len).map(|j| ring.sub(value(j / n.max(1), j % n.max(1)), own[j])).collect();
            *m1.ring_mut(f) = out;
        };
        let all = self.thresholds * n;
        fill(field::ARITHMETIC, all, &|k, i| bit(k, i));
        fill(field::TIMES_MASK, all, &|k, i| bit(k, i).wrapping_mul(r[i]));
        if self.degree == 2 {
            fill(field::SQUARE, n, &|_, i| r[i].wrapping_mul(r[i]));
            fill(field::TIMES_SQUARE, all, &|k, i| bit(k, i).wrapping_mul(r[i].wrapping_mul(r[i])));
        }
    }
}
