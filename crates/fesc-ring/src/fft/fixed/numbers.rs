//! Integers in and out of the transform, without a branch that depends on them.

use zeroize::Zeroizing;

use super::{PLANES, RAISED, WORDS, Words};
use crate::aligned::Aligned;
use crate::wide::{WORD, WORD_BITS};

/// The coefficients or slots of one polynomial. Wiped on drop.
pub struct Numbers {
    /// By real and imaginary part, then by word, `n` each.
    pub(super) words: Zeroizing<Aligned<u64>>,
    /// Magnitudes are at most `2^(bits + 1)` at first.
    bits: u32,
    /// Fractional bits.
    pub(super) shift: u32,
}

impl Numbers {
    /// Zeros. The caller knows that all numbers on the way have at most 155 bits with this shift.
    pub(super) fn zeros(slots: usize, bits: u32, shift: u32) -> Self {
        let mut words = Zeroizing::new(Aligned::zeroed(PLANES * slots));
        for (i, plane) in words.chunks_exact_mut(slots).enumerate() {
            plane.fill(RAISED[i % WORDS]);
        }
        Self { words, bits, shift }
    }

    /// Where the lowest word of a number is, and how far the next ones are.
    fn place(&self, k: usize) -> (usize, usize) {
        let slots = self.words.len() / PLANES;
        (k / slots * WORDS * slots + k % slots, slots)
    }

    /// Number `k` becomes `x` modulo `2^(bits + 2)`, centred.
    ///
    /// # Panics
    /// If there are not so many numbers.
    #[inline]
    pub fn set(&mut self, k: usize, x: i128) {
        let unused = 126 - self.bits;
        let x = (x << unused) >> unused;
        let (start, step) = self.place(k);
        for (i, &raised) in RAISED.iter().enumerate() {
            let first = WORD_BITS * i as u32;
            // The shift is public, and so is this branch.
            let word = if first >= self.shift {
                x >> (first - self.shift)
            } else {
                x.checked_shl(self.shift - first).unwrap_or(0)
            };
            self.words[start + i * step] = (word as u64 & WORD) ^ raised;
        }
    }

    /// Number `k` times a factor, rounded to the nearest integer, modulo `2^128`.
    ///
    /// # Panics
    /// If there are not so many numbers.
    #[inline]
    pub fn times(&self, k: usize, factor: &Factor) -> i128 {
        let (start, step) = self.place(k);
        let mut sums = [0i128; 2 * WORDS];
        for (i, &raised) in RAISED.iter().enumerate() {
            let x = i128::from(self.words[start + i * step] as i64 - raised as i64);
            for (sum, &y) in sums[i..].iter_mut().zip(&factor.words) {
                *sum += x * i128::from(y);
            }
        }
        let shift = i64::from(self.shift) + i64::from(factor.shift);
        rounded(sums, shift)
    }
}

/// `sum_i sums[i] 2^(52 i) / 2^shift`, rounded, modulo `2^128`. The shift is public and positive.
#[inline(always)]
fn rounded(mut sums: [i128; 2 * WORDS], shift: i64) -> i128 {
    let bits = i64::from(WORD_BITS);
    let Some(half) = sums.get_mut(((shift - 1) / bits) as usize) else {
        // Far below a half.
        return 0;
    };
    *half += 1 << ((shift - 1) % bits);
    let mut carry = 0;
    let words = sums.map(|x| {
        let sum = x + carry;
        carry = sum >> WORD_BITS;
        sum as u128 & u128::from(WORD)
    });
    let (first, part) = ((shift / bits) as usize, (shift % bits) as u32);
    // Four words from there on; above all is the sign.
    let word = |i: usize| words.get(first + i).copied().unwrap_or(carry as u128 & u128::from(WORD));
    let low = word(0) | word(1) << WORD_BITS | word(2) << (2 * WORD_BITS);
    let high = word(2) >> (128 - 2 * WORD_BITS) | word(3) << (3 * WORD_BITS - 128);
    (low >> part | high.checked_shl(128 - part).unwrap_or(0)) as i128
}

/// Logarithm of the largest factor, and of the inverse of the smallest: shifts are positive.
const MAX_LOG: i32 = 130;

/// A positive public number to multiply by, right to `2^-154` of itself.
#[derive(Debug, Clone, Copy)]
pub struct Factor {
    /// The factor times `2^shift`.
    words: Words,
    shift: i32,
}

/// `x = mantissa 2^exponent`, with a mantissa of 53 bits.
fn parts(x: f64) -> (u64, i32) {
    assert!((2f64.powi(-MAX_LOG)..=2f64.powi(MAX_LOG)).contains(&x), "a factor is from 2^-{MAX_LOG} to 2^{MAX_LOG}");
    let bits = x.to_bits();
    (bits & WORD | 1 << WORD_BITS, (bits >> WORD_BITS) as i32 - 1075)
}

impl Factor {
    /// `x`.
    ///
    /// # Panics
    /// Unless it is from `2^-130` to `2^130`.
    pub fn new(x: f64) -> Self {
        let (mantissa, exponent) = parts(x);
        // The mantissa from bit 103 on.
        Self { words: [0, mantissa << (WORD_BITS - 1) & WORD, mantissa >> 1], shift: 103 - exponent }
    }

    /// `1 / x`.
    ///
    /// # Panics
    /// As for [`Factor::new`].
    pub fn over(x: f64) -> Self {
        let (mantissa, exponent) = parts(x);
        // 2^207 / mantissa, word by word from the top. At most 2^155.
        let (divisor, mut rest, mut words) = (u128::from(mantissa), 1 << (WORD_BITS - 1), [0; WORDS]);
        for word in words.iter_mut().rev() {
            let with = rest << WORD_BITS;
            (*word, rest) = ((with / divisor) as u64, with % divisor);
        }
        Self { words, shift: 207 + exponent }
    }
}
