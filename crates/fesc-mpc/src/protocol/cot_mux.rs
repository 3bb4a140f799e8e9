//! Selection by chosen transfers: `sum_k b_k v_k` of shared bits and shared values, without a selection's
//! correlation.
//!
//! With XOR shares `b = b_0 xor b_1` and additive shares `v = v_0 + v_1`,
//!
//! ```text
//! b v = sum_i b_i v_i + b_j w_i,     w_i = (1 - 2 b_i) v_i,  j the other party.
//! ```
//!
//! The first term is local. The second is one transfer from `i` to `j` of 0 or `w_i` by the choice `b_j`.
//! From [`Transfers`] party `i` has a pad `m` and an offset `o`, party `j` a random bit `c` and `m + c o`.
//! Two messages, both parties at once:
//!
//! 1. `d = b_j xor c` from the receiver;
//! 2. `e = w_i - (1 - 2 d) o` from the sender, whose share is `-(m + d o)`.
//!
//! The receiver's share is `(m + c o) + b_j e`; both add up to `b_j w_i` for either `c`. Exactly: there is no
//! rounding, so the product itself is the twin.
//!
//! Cost: `2 (l + 1)` bits for each bit and value, two rounds, one OT each way; nothing is sent when the
//! correlation is made. [`super::Mux`] takes one round, and `3 l` bits of corrections.
//!
//! Every transfer has a choice and an offset of its own. So each use of a bit is masked anew, also where one
//! bit selects two values, and of two values selected by bits of one party the receiver sees no relation.

use fesc_ring::Ring;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::tag;
use crate::correlation::Transfers;
use crate::error::{MpcError, check_len, check_range};
use crate::share::words_for;
use crate::{Ledger, Party, Request, Shared, SharedBits};

/// `sum_k b_k v_k` for each of `count` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CotMux {
    ring: Ring,
    count: usize,
    terms: usize,
}

impl CotMux {
    /// `terms` bits and values an element, 1 to 64.
    ///
    /// # Errors
    /// [`MpcError::Parameter`] for another number of terms.
    pub fn new(ring: Ring, count: usize, terms: usize) -> Result<Self, MpcError> {
        check_range("terms of a mux", terms as u64, 1, 64)?;
        Ok(Self { ring, count, terms })
    }

    fn request(&self) -> Transfers {
        Transfers { ring: self.ring, words: self.terms.saturating_mul(words_for(self.count)) }
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        let request = self.request();
        let (bits, values) = (8 * request.words, self.ring.packed_len(self.terms * self.count));
        ledger.need(Request::Transfers(request));
        ledger.exchange(bits, bits);
        ledger.exchange(values, values);
    }

    /// The sums; `bits[k]` selects `values[k]`.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for other shares than the shape's, and those of channel and correlations.
    pub fn run(&self, party: &mut Party, bits: &[&SharedBits], values: &[&Shared]) -> Result<Shared, MpcError> {
        let (ring, n, words) = (self.ring, self.count, words_for(self.count));
        check_len("bit vectors of a mux", self.terms, bits.len())?;
        check_len("values of a mux", self.terms, values.len())?;
        for (bits, value) in bits.iter().zip(values) {
            check_len("bits of a mux", n, bits.len())?;
            check_len("elements of a mux", n, value.len())?;
            check_len("ring width of a mux", ring.bits() as usize, value.ring().bits() as usize)?;
        }
        let material = party.take(Request::Transfers(self.request()))?;
        let field = |i: usize| material.ring(i);
        let own = Zeroizing::new(bits.iter().flat_map(|b| b.words().iter().copied()).collect::<Vec<u64>>());
        let choices: Vec<u64> = own.iter().zip(field(Transfers::CHOICES)).map(|(&b, &c)| b ^ c).collect();
        let flips = party.exchange_words(tag::CHOICE, &choices)?;

        // Element `i` of term `k` is bit and transfer `64 words k + i`: terms begin at a word.
        let at = |j: usize| (j / n, j % n, 64 * words * (j / n) + j % n);
        let bit = |words: &[u64], i: usize| words[i / 64] >> (i % 64) & 1;
        let signed = |v: u64, c: u64| (v ^ c.wrapping_neg()).wrapping_add(c);
        let (pads, offsets, chosen) = (field(Transfers::PADS), field(Transfers::OFFSETS), field(Transfers::CHOSEN));
        let send = |j: usize| {
            let (k, i, t) = at(j);
            let value = signed(values[k].values()[i], bit(&own, t));
            ring.reduce(value.wrapping_sub(signed(offsets[t], bit(&flips, t))))
        };
        let total = self.terms * n;
        let message: Vec<u64> = (0..total).into_par_iter().with_min_len(4096).map(send).collect();
        let theirs = party.exchange(tag::CHOSEN, ring, &message, total)?;

        let share = |i: usize| {
            let term = |k: usize| {
                let t = 64 * words * k + i;
                let mine = bit(&own, t).wrapping_neg();
                let sent = pads[t].wrapping_add(bit(&flips, t).wrapping_neg() & offsets[t]);
                let got = chosen[t].wrapping_add(mine & theirs[k * n + i]);
                (mine & values[k].values()[i]).wrapping_add(got).wrapping_sub(sent)
            };
            (0..self.terms).fold(0u64, |sum, k| sum.wrapping_add(term(k)))
        };
        Ok(Shared::new(ring, (0..n).into_par_iter().with_min_len(4096).map(share).collect()))
    }
}
