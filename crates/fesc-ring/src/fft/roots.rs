//! Roots of unity that are the same on every machine: integers only, no `libm`.
//!
//! `exp(i pi k / 2^s)` is computed with 124 fractional bits and rounded once, to a double or a double-double.
//! The angle is first brought into the first eighth of the circle, so that the symmetries hold exactly: `cos`
//! and `sin` of `pi / 4` are equal, multiples of a quarter turn are exact. There, `angle = coarse + fine`,
//! each from a small table of Taylor series, joined by the addition theorems. All roundings together stay
//! below `2^-118`: a double is within `1/2 + 2^-60` units in the last place, a double-double within `2^-107`.

use crate::double::Double;

/// Fractional bits.
const BITS: u32 = 124;
const ONE: u128 = 1 << BITS;
/// Half a turn, rounded down.
const PI: u128 = 0x3243_f6a8_885a_308d_3131_98a2_e037_0734;

/// `a b`, rounded, for factors below 4 whose product is below 8.
fn mul(a: u128, b: u128) -> u128 {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((ah, al), (bh, bl)) = (halves(a), halves(b));
    // Both terms are below 2^126.
    let middle = ah * bl + al * bh;
    let (low, first) = (al * bl).overflowing_add(middle << 64);
    let (low, second) = low.overflowing_add(ONE / 2);
    let high = ah * bh + (middle >> 64) + u128::from(first) + u128::from(second);
    high << (128 - BITS) | low >> BITS
}

/// `(cos, sin)` of an angle of at most `pi / 4`, by the Taylor series of both.
fn taylor(angle: u128) -> [u128; 2] {
    // Even and odd terms; those added, and those subtracted.
    let (mut term, mut sums) = (ONE, [0; 4]);
    let mut k = 0;
    while term != 0 {
        sums[k % 4] += term;
        k += 1;
        term = mul(term, angle) / k as u128;
    }
    [sums[0] - sums[2], sums[1] - sums[3]]
}

/// `exp(i (a + b))` from `exp(i a)` and `exp(i b)`, all in the first quarter.
fn join(a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
    [mul(a[0], b[0]) - mul(a[1], b[1]), mul(a[1], b[0]) + mul(a[0], b[1])]
}

/// The roots `exp(2 pi i k / order)` for one order, a power of two.
pub(super) struct Roots {
    order: usize,
    /// `(cos, sin)` of the first eighth of the circle, both ends included.
    eighth: Vec<[Double; 2]>,
}

impl Roots {
    /// The roots of an order that is a power of two of at least 8.
    pub(super) fn new(order: usize) -> Self {
        let count = order / 8;
        // count = rows * columns; the angle of k is that of its row plus that of its column.
        let columns = 1 << (count.trailing_zeros() / 2);
        // 2 pi k / order: the factor is exact.
        let angle = |k: usize| mul(PI, (k as u128) << (BITS + 1 - order.trailing_zeros()));
        let double = |x: u128| Double::from_integer(x as i128).times_power(1.0 / ONE as f64);
        let fine: Vec<_> = (0..columns).map(|k| taylor(angle(k))).collect();
        let mut eighth = Vec::with_capacity(count + 1);
        for row in 0..count / columns {
            let coarse = taylor(angle(row * columns));
            eighth.extend(fine.iter().map(|&f| join(coarse, f).map(double)));
        }
        // cos = sin at the end, whatever the rounding.
        eighth.push([double(taylor(angle(count))[0]); 2]);
        Self { order, eighth }
    }

    /// `exp(2 pi i k / order)` as real and imaginary part, for any `k`.
    pub(super) fn get(&self, k: usize) -> [f64; 2] {
        self.get_double(k).map(|x| x.hi)
    }

    /// [`Roots::get`] with all bits.
    pub(super) fn get_double(&self, k: usize) -> [Double; 2] {
        let (eighth, k) = (self.order / 8, k % self.order);
        let (part, rest) = (k / eighth, k % eighth);
        let [c, s] = if part.is_multiple_of(2) { self.eighth[rest] } else { self.eighth[eighth - rest] };
        let minus = |x: Double| x.times_power(-1.0);
        match part {
            0 => [c, s],
            1 => [s, c],
            2 => [minus(s), c],
            3 => [minus(c), s],
            4 => [minus(c), minus(s)],
            5 => [minus(s), minus(c)],
            6 => [s, minus(c)],
            _ => [c, minus(s)],
        }
    }
}
