//! From `Z_2^l` to integers modulo `2^k`, `k` up to 127: what the share boundary encodes.
//!
//! For a shared `x` of `n` bits, `-2^(n-1) <= x < 2^(n-1)`, P0 adds `2^(n-1)` and both reduce to `m = n + 1`
//! bits, which is local: `v = x + 2^(n-1)` is below `2^(m-1)`, so the wrap of its two shares is
//! `w = m0 + m1 - m0 m1` of their top bits, and
//!
//! ```text
//! x = v0 + v1 - 2^m w - 2^(n-1)
//! ```
//!
//! needs `w` modulo `2^(k-m)` only: one bit product, one bit each way, one round. Each party's share is
//! uniform modulo `2^k`: its share of `w` is in the upper bits, its share of `x` in the lower ones.
//!
//! *Whatever* `x` is, the result is in `[-3 2^(n-1), 3 2^(n-1))`: `v0 + v1 - 2^m w` cannot leave
//! `[-2^n, 2^(n+1))`. Whoever bounds what is computed from it may rely on [`Extend::carried`].
//!
//! The centred lifts of the two parts add up to `x` over the *integers* unless the sum wraps, which happens
//! with probability `|x| / 2^k`, at most `2^(n+1-k)` ([`Extend::log_failure`]).

use fesc_ring::{LongRing, Ring};
use zeroize::Zeroizing;

use super::convert::Tops;
use crate::correlation::{BitProducts, LongBitProducts};
use crate::error::{MpcError, check_len, check_range};
use crate::share::words_for;
use crate::{Ledger, Party, Request, Shared};

/// One party's share of a vector over `Z_2^k`. Zeroised when dropped.
pub type Extended = Zeroizing<Vec<u128>>;

/// Extension of `count` values of `n` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extend {
    from: Ring,
    /// `Z_2^(n+1)`.
    reduced: Ring,
    to: LongRing,
    count: usize,
}

impl Extend {
    /// For values of `bits` bits, sign included, shared in `from`, which has at least one bit more; `to` has
    /// at least two more.
    ///
    /// # Errors
    /// [`MpcError::Parameter`] for other widths.
    pub fn new(from: Ring, bits: u32, to: LongRing, count: usize) -> Result<Self, MpcError> {
        check_range("bits of values to extend", bits.into(), 1, u64::from(from.bits()) - 1)?;
        check_range("width to extend to", to.bits().into(), u64::from(bits) + 2, 127)?;
        Ok(Self { from, reduced: Ring::new(bits + 1)?, to, count })
    }

    /// Bits of a value.
    pub fn bits(&self) -> u32 {
        self.reduced.bits() - 1
    }

    /// The ring of the results.
    pub fn ring(&self) -> LongRing {
        self.to
    }

    /// The largest magnitude that can come out, whatever is shared: `3 2^(n-1)`.
    pub fn carried(&self) -> u64 {
        3 << (self.bits() - 1)
    }

    /// Logarithm of a bound on the probability that the centred lifts of a value's two parts do not add up:
    /// `n + 1 - k`.
    pub fn log_failure(&self) -> f64 {
        f64::from(self.bits()) + 1.0 - f64::from(self.to.bits())
    }

    fn request(&self) -> Result<Request, MpcError> {
        let (bits, words) = (self.to.bits() - self.reduced.bits(), words_for(self.count));
        Ok(match Ring::new(bits) {
            Ok(ring) => Request::BitProducts(BitProducts { ring, words }),
            Err(_) => Request::LongBitProducts(LongBitProducts { ring: LongRing::new(bits)?, words }),
        })
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// None for a shape that [`Extend::new`] took.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<(), MpcError> {
        ledger.need(self.request()?);
        let bytes = 8 * words_for(self.count);
        ledger.exchange(bytes, bytes);
        Ok(())
    }

    /// This party's share modulo `2^k`.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for other shares than the shape's, and those of channel and correlations.
    pub fn run(&self, party: &mut Party, x: &Shared) -> Result<Extended, MpcError> {
        check_len("elements to extend", self.count, x.len())?;
        check_len("ring width to extend from", self.from.bits() as usize, x.ring().bits() as usize)?;
        let role = party.role();
        let offset = role.at_p0(1 << (self.bits() - 1));
        let lifted = Zeroizing::new(x.values().iter().map(|&v| self.reduced.add(v, offset)).collect::<Vec<u64>>());
        let request = self.request()?;
        let long = matches!(request, Request::LongBitProducts(_));
        let material = party.take(request)?;
        let tops = Tops::exchange(party, self.reduced, &lifted, material.ring(LongBitProducts::BITS))?;
        let high = if long { material.ring(LongBitProducts::HIGH) } else { &[] };
        let shares = Zeroizing::new(self.to.join(material.ring(LongBitProducts::LOW), high));
        let kept = self.reduced.bits();
        let extended = lifted.iter().zip(shares.iter()).enumerate().map(|(i, (&v, &share))| {
            let value = u128::from(v).wrapping_sub(tops.wrap(i, share) << kept);
            self.to.reduce(value.wrapping_sub(offset.into()))
        });
        Ok(Zeroizing::new(extended.collect()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{both, ring};
    use crate::{Role, Shared};
    use fesc_ring::Prg;

    /// Both parties' results on given shares, joined; declared cost equals counted cost.
    fn extended(shape: Extend, shares: [&[u64]; 2]) -> Vec<i128> {
        let outcome = both(|party| {
            let mine = shares[party.role().index()].to_vec();
            shape.run(party, &Shared::new(shape.from, mine))
        });
        outcome.assert_declared(|ledger| shape.declare(ledger).unwrap());
        let [a, b] = &outcome.out;
        a.iter().zip(b.iter()).map(|(&x, &y)| shape.to.to_signed(shape.to.add(x, y))).collect()
    }

    #[test]
    fn values_of_n_bits_are_extended_exactly_and_others_stay_bounded() {
        let from = ring(7);
        for k in [8, 9, 12, 69, 70, 71, 127] {
            // Every value of 7 bits with every share: n = 5, so -16 to 15 are right.
            let pairs: Vec<(u64, u64)> = (0..128).flat_map(|x| (0..128).map(move |s| (x, s))).collect();
            let first: Vec<u64> = pairs.iter().map(|p| p.1).collect();
            let second: Vec<u64> = pairs.iter().map(|&(x, s)| from.sub(x, s)).collect();
            let shape = Extend::new(from, 5, LongRing::new(k).unwrap(), pairs.len()).unwrap();
            let mut wrong = 0;
            for (&(x, _), got) in pairs.iter().zip(extended(shape, [&first, &second])) {
                let want = i128::from(from.to_signed(x));
                let right = (-16..16).contains(&want);
                assert!(!right || got == want, "{want} at {k} bits: {got}");
                assert!(got.unsigned_abs() <= shape.carried().into(), "{want}: {got}");
                wrong += u32::from(got != want);
            }
            assert!(wrong > 0, "control: values of more bits do come out wrong");
        }
    }

    #[test]
    fn odd_and_empty_counts_are_extended_from_wide_rings() {
        let mut prg = Prg::from_seed([3; 16]);
        for (l, n, k, count) in [(64, 24, 92, 0), (64, 24, 92, 1), (48, 24, 89, 65), (25, 24, 26, 7), (64, 63, 66, 3)] {
            let from = ring(l);
            let (low, high) = (-(1i64 << (n - 1)), (1i64 << (n - 1)) - 1);
            let pick = |i: usize, r: u64| [low, high, 0, -1, (r as i64) >> (64 - n)][i % 5];
            let values: Vec<i64> = (0..count).map(|i| pick(i, prg.next_u64())).collect();
            let words: Vec<u64> = values.iter().map(|&v| from.from_signed(v)).collect();
            let (a, b) = Shared::split(from, &words, &mut prg);
            let shape = Extend::new(from, n, LongRing::new(k).unwrap(), count).unwrap();
            let want: Vec<i128> = values.iter().map(|&v| v.into()).collect();
            assert_eq!(extended(shape, [a.values(), b.values()]), want);
            assert_eq!(shape.log_failure(), f64::from(n) + 1.0 - f64::from(k));
        }
    }

    #[test]
    fn widths_that_do_not_fit_are_refused() {
        let to = |k| LongRing::new(k).unwrap();
        assert!(Extend::new(ring(24), 24, to(90), 1).is_err() && Extend::new(ring(64), 24, to(25), 1).is_err());
        assert!(Extend::new(ring(64), 0, to(90), 1).is_err() && Extend::new(ring(25), 24, to(26), 1).is_ok());
        let shape = Extend::new(ring(48), 24, to(90), 2).unwrap();
        let refused = both(|party| {
            let other = Shared::public(ring(48), Role::P0, &[1]);
            Ok([shape.run(party, &other).is_err(), shape.run(party, &Shared::new(ring(47), vec![0; 2])).is_err()])
        });
        assert_eq!(refused.out, [[true; 2]; 2]);
    }
}
