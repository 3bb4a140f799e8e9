//! The two possible results of a truncation of shares.
//!
//! Both truncations of shares (known sign, and truncate-reduce) add one ulp (`2^t`) to the shared value,
//! shift each share by `t` bits and lose the carry of the low parts. With `low = y mod 2^t`, the carry is
//! possible iff `low < 2^t - 1`, and its absence is always possible. So the result is one of
//!
//! - `(y + 1) >> t` (the carry was lost),
//! - `(y >> t) + 1` (there was none), with probability `(low + 1) / 2^t` over the sharing.
//!
//! They coincide for `low = 2^t - 1`. Hence **`y = m 2^t - 1` always gives exactly `m`**: subtracting one
//! from the fine value (a public constant, free) turns the truncation into an exact stochastic rounding: the
//! floor or the ceiling of the true quotient, unbiased, and exact wherever the quotient is an integer. All
//! forms of this crate do so.

use fesc_ring::Ring;

/// The result of truncating `y` by `t` bits for the given carry; `high` takes the larger of the two. Identity
/// at `t = 0`.
///
/// Mirrors the protocol for `|y| < 2^(l-2) - 2^t`; outside the protocol itself is wrong.
pub fn trunc(ring: Ring, y: u64, t: u32, high: bool) -> u64 {
    if t == 0 {
        return ring.reduce(y);
    }
    ring.from_signed(trunc_int(i128::from(ring.to_signed(y)), t, high) as i64)
}

/// [`trunc`] over the integers.
pub(crate) fn trunc_int(y: i128, t: u32, high: bool) -> i128 {
    match (t, high) {
        (0, _) => y,
        (_, true) => (y >> t) + 1,
        (_, false) => (y + 1) >> t,
    }
}

/// [`trunc`] of `y - 1`: the floor (`high = false`) or the ceiling (`high = true`) of `y / 2^t`.
pub fn round(ring: Ring, y: u64, t: u32, high: bool) -> u64 {
    if t == 0 { ring.reduce(y) } else { trunc(ring, ring.sub(y, 1), t, high) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every sharing of every value of a small ring: exactly the two stated results occur.
    #[test]
    fn outcomes_are_exactly_those_of_the_shares() {
        let ring = Ring::new(8).unwrap();
        let (l, t) = (8u32, 3u32);
        for y in -(1i64 << (l - 2)) + (1 << t)..(1i64 << (l - 2)) - (1 << t) {
            let mut seen = BTreeSet::new();
            for x0 in 0..1u64 << l {
                // Known-sign truncation: offset 2^(l-2) and one ulp, wrap bit = OR of the top bits.
                let z = ring.from_signed(y + (1 << (l - 2)) + (1 << t));
                let x1 = ring.sub(z, x0);
                let wrap = (x0 >> (l - 1)) | (x1 >> (l - 1));
                let r = (x0 >> t) + (x1 >> t);
                let r = ring.sub(ring.sub(r, wrap << (l - t)), 1 << (l - 2 - t));
                seen.insert(r);
            }
            let want: BTreeSet<u64> = [false, true].map(|h| trunc(ring, ring.from_signed(y), t, h)).into();
            assert_eq!(seen, want, "y = {y}");
        }
    }

    #[test]
    fn rounding_is_floor_and_ceiling() {
        let ring = Ring::new(20).unwrap();
        for y in -300i64..300 {
            let q = y as f64 / 16.0;
            let got = [false, true].map(|h| ring.to_signed(round(ring, ring.from_signed(y), 4, h)) as f64);
            assert_eq!(got, [q.floor(), q.ceil()], "y = {y}");
        }
        assert_eq!(trunc(ring, 77, 0, true), 77);
    }
}
