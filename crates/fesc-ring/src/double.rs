//! Numbers as unevaluated sums of two doubles: about 106 bits (Dekker, "A floating-point technique for
//! extending the available precision", 1971; bounds in Joldes, Muller, Popescu, "Tight and rigorous error
//! bounds for basic building blocks of double-word arithmetic", 2017).
//!
//! A [`Double`] `hi + lo` has `|lo| <= ulp(hi) / 2`. Integers up to 106 bits are exact, wider ones are
//! rounded to `2^-107` of their magnitude. No operation is fused and no `libm` is needed for the arithmetic,
//! so results are the same bits on every machine.
//!
//! Conversions from and to integers have no branch that depends on the number.
//!
//! # What is not guaranteed
//! Time, beyond that: a processor may divide some numbers faster than others.

/// A number as the unevaluated sum of two doubles.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Double {
    /// The number, rounded to the nearest double.
    pub hi: f64,
    /// What is missing.
    pub lo: f64,
}

const TWO_43: f64 = (1u64 << 43) as f64;
const TWO_86: f64 = TWO_43 * TWO_43;

/// `x as i128` for an `x` without fraction, by shifts of its bits; saturated.
#[inline(always)]
fn integer(x: f64) -> i128 {
    let bits = x.to_bits();
    let sign = -i128::from(bits >> 63);
    // The number is `mantissa 2^(exponent - 1075)`; zero has no exponent, and its shift leaves nothing.
    let (exponent, mantissa) = (((bits >> 52) & 0x7ff) as i32, (bits & ((1 << 52) - 1)) | 1 << 52);
    let (left, right) = ((exponent - 1075).clamp(0, 74) as u32, (1075 - exponent).clamp(0, 63) as u32);
    let magnitude = i128::from(mantissa >> right) << left;
    // All ones from 2^127 on.
    let above = i128::from((1149 - exponent) >> 31);
    let (value, most) = ((magnitude ^ sign) - sign, i128::MAX ^ sign);
    (value & !above) | (most & above)
}

/// `a + b` exactly.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let t = s - a;
    Double { hi: s, lo: (a - (s - t)) + (b - t) }
}

/// `a b - product` exactly, where `product` is `a b` rounded, for factors far from overflow: both are split
/// in halves of 26 bits.
#[inline(always)]
pub(crate) fn product_error(a: f64, b: f64, product: f64) -> f64 {
    let split = |x: f64| {
        let t = 134_217_729.0 * x;
        let high = t - (t - x);
        (high, x - high)
    };
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    ((ah * bh - product) + ah * bl + al * bh) + al * bl
}

impl Double {
    /// The nearest to an integer of magnitude at most `2^126`.
    #[inline]
    pub fn from_integer(x: i128) -> Self {
        debug_assert!(x.unsigned_abs() <= 1 << 126, "wider than a double-double of this crate");
        // Three parts of at most 43 bits are exact. What the two sums leave has at most 53 bits for |x| <=
        // 2^106, and is rounded once above.
        let part = |shift: u32| (((x >> shift) & ((1 << 43) - 1)) as i64) as f64;
        let (top, middle) = (((x >> 86) as i64) as f64 * TWO_86, part(43) * TWO_43);
        let upper = two_sum(top, middle);
        let all = two_sum(upper.hi, part(0));
        two_sum(all.hi, upper.lo + all.lo)
    }

    /// `self + o`.
    #[inline]
    pub fn plus(self, o: Self) -> Self {
        let s = two_sum(self.hi, o.hi);
        two_sum(s.hi, s.lo + (self.lo + o.lo))
    }

    /// `self / d`: the rest of the first quotient is exact and gives the second. Within about `2^-104`.
    #[inline]
    pub fn over(self, d: f64) -> Self {
        let q = self.hi / d;
        let product = q * d;
        let rest = self.plus(Self { hi: -product, lo: -product_error(q, d, product) });
        two_sum(q, rest.hi / d)
    }

    /// `self * factor`, within about `2^-104`.
    #[inline]
    pub fn times(self, factor: f64) -> Self {
        let p = self.hi * factor;
        two_sum(p, product_error(self.hi, factor, p) + self.lo * factor)
    }

    /// `self * factor` for a power of two of either sign: exact.
    #[inline]
    pub fn times_power(self, factor: f64) -> Self {
        Self { hi: self.hi * factor, lo: self.lo * factor }
    }

    /// The nearest integer; near a tie (`2^-52`) one of the two. What does not fit is saturated.
    #[inline]
    pub fn round(self) -> i128 {
        let whole = self.hi.round_ties_even();
        // The difference is exact, and zero as soon as `lo` may be above a half.
        let rest = (self.hi - whole) + self.lo;
        integer(whole).saturating_add(integer(rest.round_ties_even()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prg;

    #[test]
    fn integers_of_106_bits_come_back_exactly_and_wider_ones_to_nearest() {
        let mut prg = Prg::from_seed([31; 16]);
        for bits in 1..=126 {
            for x in [0, 1, (1i128 << bits) - 1, 1 << bits, prg.next_u128() as i128 >> (127 - bits)] {
                for x in [x, -x] {
                    let d = Double::from_integer(x);
                    assert!(d.hi + d.lo == d.hi, "the parts overlap");
                    let error = (d.round() - x).unsigned_abs();
                    assert!(if bits <= 106 { error == 0 } else { error <= 1 << (bits - 107) }, "{x}: {error}");
                }
            }
        }
    }

    #[test]
    fn shifts_give_the_integers_that_a_cast_gives() {
        let mut prg = Prg::from_seed([33; 16]);
        let corners = [0.0, -0.0, 1.0, -1.0, 3.0, 2f64.powi(52) + 1.0, 2f64.powi(53), -2f64.powi(126), 1e300, -1e300];
        let edges = [2f64.powi(127), -2f64.powi(127), 2f64.powi(127) - 2f64.powi(74), f64::MAX, f64::NEG_INFINITY];
        let random = (0..130).map(|e| (prg.next_u64() as i64 as f64 * 2f64.powi(e - 63)).round_ties_even());
        for x in corners.into_iter().chain(edges).chain(random.collect::<Vec<f64>>()) {
            assert_eq!(integer(x), x as i128, "{x:e}");
        }
    }

    #[test]
    fn rounding_knows_the_low_part() {
        let round = |hi: f64, lo: f64| Double { hi, lo }.round();
        assert_eq!([round(0.25, 0.0), round(-3.75, 0.0), round(0.5, 0.0), round(-1.5, 0.0)], [0, -4, 0, -2]);
        let (half, big) = (2f64.powi(51) + 0.5, 2f64.powi(60));
        assert_eq!([round(half, 0.2), round(half, -0.2), round(-half, -0.2)], [(1 << 51) + 1, 1 << 51, -(1 << 51) - 1]);
        assert_eq!([round(big, 0.75), round(big, 0.25), round(-big, 63.4)], [(1 << 60) + 1, 1 << 60, 63 - (1 << 60)]);
        assert_eq!([round(1e300, 0.0), round(-1e300, 0.0)], [i128::MAX, i128::MIN]);
    }

    #[test]
    fn quotients_and_products_are_within_their_bound() {
        let mut prg = Prg::from_seed([32; 16]);
        for _ in 0..2000 {
            // A multiple of the divisor: the quotient is known.
            let (q, d) = (i128::from(prg.next_u64() >> 8), i128::from(prg.next_u64() >> 14 | 1));
            let got = Double::from_integer(q * d).over(d as f64);
            // |q| < 2^56: a relative error of 2^-104 is 2^-48.
            assert_eq!(got.round(), q);
            let rest = got.plus(Double::from_integer(-q));
            assert!(rest.hi.abs() < 2f64.powi(-48), "{:e}", rest.hi);
            // 106 bits: exact.
            assert_eq!(Double::from_integer(q).times(d as f64).round(), q * d);
        }
        assert_eq!(Double::from_integer(3).over(2.0).times_power(4.0), Double { hi: 6.0, lo: 0.0 });
    }
}
