//! Roots of unity that are the same on every machine: integers only, no `libm`.
//!
//! `exp(i pi k / 2^s)` is computed with 156 fractional bits and rounded once, to a double or to the numbers
//! of [`super::fixed`]. The angle is first brought into the first eighth of the circle, so that the
//! symmetries hold exactly: `cos` and `sin` of `pi / 4` are equal, multiples of a quarter turn are exact.
//! There, `angle = coarse + fine`, each from a small table of Taylor series, joined by the addition theorems.
//! All roundings together stay below `2^-148`: a double is within `1/2 + 2^-80` units in the last place.

use super::fixed::Words;
use crate::wide::{WORD, WORD_BITS};

/// A number from 0 to 7 with 156 fractional bits: four words of 52 bits, the integer part last.
type Fixed = [u64; 4];

const ZERO: Fixed = [0; 4];
const ONE: Fixed = [0, 0, 0, 1];
/// Half a turn, rounded down.
const PI: Fixed = [0x7_0734_4a40_9382, 0x8_d313_198a_2e03, 0x2_43f6_a888_5a30, 3];

/// The number whose words are these once carries have moved up.
fn carried(words: [i128; 4]) -> Fixed {
    let mut carry = 0;
    words.map(|x| {
        let sum = x + carry;
        carry = sum >> WORD_BITS;
        sum as u64 & WORD
    })
}

fn add(a: Fixed, b: Fixed) -> Fixed {
    carried(std::array::from_fn(|i| i128::from(a[i] + b[i])))
}

/// `a - b`, for `b` up to `a`.
fn sub(a: Fixed, b: Fixed) -> Fixed {
    carried(std::array::from_fn(|i| i128::from(a[i]) - i128::from(b[i])))
}

/// `a b`, rounded.
fn mul(a: Fixed, b: Fixed) -> Fixed {
    let mut sums = [0; 8];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            sums[i + j] += i128::from(x) * i128::from(y);
        }
    }
    sums[2] += 1 << (WORD_BITS - 1);
    let below = sums[..3].iter().fold(0, |carry, x| (carry + x) >> WORD_BITS);
    carried([sums[3] + below, sums[4], sums[5], sums[6]])
}

/// `a / k`, rounded down, for a small `k`.
fn over(mut a: Fixed, k: u64) -> Fixed {
    let mut rest = 0;
    for x in a.iter_mut().rev() {
        let with = rest << WORD_BITS | *x;
        (*x, rest) = (with / k, with % k);
    }
    a
}

/// `(cos, sin)` of an angle of at most `pi / 4`, by the Taylor series of both.
fn taylor(angle: Fixed) -> [Fixed; 2] {
    // Even and odd terms; those added, and those subtracted.
    let (mut term, mut sums) = (ONE, [ZERO; 4]);
    let mut k = 0;
    while term != ZERO {
        sums[k % 4] = add(sums[k % 4], term);
        k += 1;
        term = over(mul(term, angle), k as u64);
    }
    [sub(sums[0], sums[2]), sub(sums[1], sums[3])]
}

/// `exp(i (a + b))` from `exp(i a)` and `exp(i b)`, all in the first quarter.
fn join(a: [Fixed; 2], b: [Fixed; 2]) -> [Fixed; 2] {
    [sub(mul(a[0], b[0]), mul(a[1], b[1])), add(mul(a[1], b[0]), mul(a[0], b[1]))]
}

/// A number with its sign.
struct Signed {
    negative: bool,
    size: Fixed,
}

impl Signed {
    /// The nearest double.
    fn nearest(&self) -> f64 {
        let [rest, words @ ..] = self.size;
        let upper = words.iter().rev().fold(0, |acc: u128, &x| acc << WORD_BITS | u128::from(x));
        // The last bit says that there is more, which is all that rounding needs to know of it.
        let size = (upper | u128::from(rest != 0)) as f64 / 2f64.powi(2 * WORD_BITS as i32);
        if self.negative { -size } else { size }
    }

    /// `(x + 1) 2^155`, rounded, for `-1 <= x < 1`.
    fn raised(&self) -> Words {
        let half = over(add(self.size, [1, 0, 0, 0]), 2);
        let one = [0, 0, 1 << (WORD_BITS - 1), 0];
        let [a, b, c, _] = if self.negative { sub(one, half) } else { add(one, half) };
        [a, b, c]
    }
}

/// The roots `exp(2 pi i k / order)` for one order, a power of two.
pub(super) struct Roots {
    order: usize,
    /// `(cos, sin)` of the first eighth of the circle, both ends included.
    eighth: Vec<[Fixed; 2]>,
}

impl Roots {
    /// The roots of an order that is a power of two of at least 8.
    pub(super) fn new(order: usize) -> Self {
        let count = order / 8;
        // count = rows * columns; the angle of k is that of its row plus that of its column.
        let columns = 1 << (count.trailing_zeros() / 2);
        // 2 pi k / order: the factor is exact.
        let angle = |k: usize| mul(PI, [0, 0, (k as u64) << (WORD_BITS + 1 - order.trailing_zeros()), 0]);
        let fine: Vec<_> = (0..columns).map(|k| taylor(angle(k))).collect();
        let mut eighth = Vec::with_capacity(count + 1);
        for row in 0..count / columns {
            let coarse = taylor(angle(row * columns));
            eighth.extend(fine.iter().map(|&f| join(coarse, f)));
        }
        // cos = sin at the end, whatever the rounding.
        eighth.push([taylor(angle(count))[0]; 2]);
        Self { order, eighth }
    }

    /// `exp(2 pi i k / order)` as real and imaginary part, for any `k`.
    pub(super) fn get(&self, k: usize) -> [f64; 2] {
        self.signed(k).map(|x| x.nearest())
    }

    /// [`Roots::get`] with all bits: 1 more, times `2^155`. Not for the root 1, which would not fit.
    pub(super) fn get_raised(&self, k: usize) -> [Words; 2] {
        self.signed(k).map(|x| x.raised())
    }

    fn signed(&self, k: usize) -> [Signed; 2] {
        let (eighth, k) = (self.order / 8, k % self.order);
        let (part, rest) = (k / eighth, k % eighth);
        let [c, s] = if part.is_multiple_of(2) { self.eighth[rest] } else { self.eighth[eighth - rest] };
        let (plus, minus) = (|size| Signed { negative: false, size }, |size| Signed { negative: true, size });
        match part {
            0 => [plus(c), plus(s)],
            1 => [plus(s), plus(c)],
            2 => [minus(s), plus(c)],
            3 => [minus(c), plus(s)],
            4 => [minus(c), minus(s)],
            5 => [minus(s), minus(c)],
            6 => [plus(s), minus(c)],
            _ => [plus(c), minus(s)],
        }
    }
}
