//! Signed integers to residues and back.
//!
//! To residues: a shift makes the number unsigned, Shoup products reduce its words. Back: mixed radix with balanced digits,
//!
//! ```text
//! x = v_0 + q_0 (v_1 + q_1 (v_2 + ...)),    -(q_i - 1)/2 <= v_i <= (q_i - 1)/2,
//! ```
//!
//! which represents each integer of magnitude at most `(Q - 1)/2` once, since all primes are odd: no comparison with `Q/2`, and a small number
//! has zero digits above. A digit that is zero for all coefficients costs nothing, so decoding a message of two primes' size
//! at a high level costs two products per limb and coefficient, not `l^2 / 2`.

use fesc_ring::modulus::{Modulus, Shoup};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::poly::Poly;
use crate::{CkksError, Params, Result};

/// Reduces signed integers modulo one prime.
pub(crate) struct Reducer {
    modulus: Modulus,
    one: Shoup,
    /// `2^64`.
    high: Shoup,
    /// `2^63`, and `2^127`: the shifts of the two widths.
    shift: u64,
    wide_shift: u64,
}

impl Reducer {
    pub(crate) fn new(modulus: Modulus) -> Self {
        let power = |e: u32| modulus.reduce_u128(1 << e);
        Self {
            modulus,
            one: modulus.shoup(1),
            high: modulus.shoup(power(64)),
            shift: power(63),
            wide_shift: power(127),
        }
    }

    /// The class of any `i64`.
    #[inline(always)]
    pub(crate) fn reduce(&self, x: i64) -> u64 {
        let unsigned = (x as u64) ^ (1 << 63);
        self.modulus.sub(self.modulus.mul_shoup(unsigned, self.one), self.shift)
    }

    /// The class of any `i128`.
    #[inline(always)]
    pub(crate) fn reduce_wide(&self, x: i128) -> u64 {
        let unsigned = (x as u128) ^ (1 << 127);
        let m = self.modulus;
        let low = m.mul_shoup(unsigned as u64, self.one);
        let high = m.mul_shoup((unsigned >> 64) as u64, self.high);
        m.sub(m.add(low, high), self.wide_shift)
    }
}

/// Writes the residues of `values` and transforms them: all limbs of `poly`, whose limb `i` belongs to prime `prime(i)`.
/// Coefficients that are not given are zero.
pub(crate) fn lift(params: &Params, values: &[i64], prime: impl Fn(usize) -> usize + Sync + Send, poly: &mut Poly) {
    let largest = values.iter().fold(0, |m, x| m.max(x.unsigned_abs()));
    poly.for_each_limb(|i, limb| {
        let (modulus, (head, tail)) = (params.modulus(prime(i)), limb.split_at_mut(values.len()));
        // Messages are mostly below the primes: one masked addition then, which vectorises.
        if largest < modulus.value() {
            head.iter_mut().zip(values).for_each(|(o, &x)| *o = modulus.from_small_signed(x));
        } else {
            let reducer = Reducer::new(modulus);
            head.iter_mut().zip(values).for_each(|(o, &x)| *o = reducer.reduce(x));
        }
        tail.fill(0);
        params.ntt(prime(i)).forward(limb);
    });
}

/// [`lift`] for wide integers.
pub(crate) fn lift_wide(
    params: &Params,
    values: &[i128],
    prime: impl Fn(usize) -> usize + Sync + Send,
    poly: &mut Poly,
) {
    poly.for_each_limb(|i, limb| {
        let reducer = Reducer::new(params.modulus(prime(i)));
        let (head, tail) = limb.split_at_mut(values.len());
        head.iter_mut().zip(values).for_each(|(o, &x)| *o = reducer.reduce_wide(x));
        tail.fill(0);
        params.ntt(prime(i)).forward(limb);
    });
}

/// Balanced mixed-radix digits of all coefficients. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Digits {
    /// One row of `N` digits per prime, without the rows of zeros at the top.
    rows: Vec<Vec<i64>>,
    #[zeroize(skip)]
    primes: Vec<u64>,
}

/// Digits stay below this in magnitude; adding it makes them unsigned.
const DIGIT_SHIFT: u64 = 1 << 50;

impl Digits {
    /// Of a transformed polynomial over `q_0 .. q_level`.
    pub(crate) fn of(params: &Params, poly: &Poly) -> Self {
        let mut coefficients = Poly::scratch(params, poly.len());
        coefficients.for_each_limb(|i, limb| {
            limb.copy_from_slice(poly.limb(i));
            params.ntt(i).inverse(limb);
        });
        let mut rows: Vec<Vec<i64>> = Vec::with_capacity(poly.len());
        for j in 0..poly.len() {
            let row = digit_row(params, &rows, coefficients.limb_mut(j), j);
            rows.push(row);
        }
        coefficients.wipe();
        while rows.len() > 1 && is_zero(&rows[rows.len() - 1]) {
            rows.pop();
        }
        let primes = (0..rows.len()).map(|i| params.modulus(i).value()).collect();
        Self { rows, primes }
    }

    /// All coefficients as floating-point numbers, each within a few units in the last place.
    pub(crate) fn to_f64(&self, out: &mut [f64]) {
        out.fill(0.0);
        for (row, &q) in self.rows.iter().zip(&self.primes).rev() {
            let q = q as f64;
            // From the top: a non-zero digit outweighs everything below it, so nothing cancels.
            out.iter_mut().zip(row).for_each(|(o, &v)| *o = *o * q + v as f64);
        }
    }

    /// All coefficients as integers.
    pub(crate) fn to_integers(&self, level: usize) -> Result<Vec<i128>> {
        let count = self.rows.first().map_or(0, Vec::len);
        let whole = |k: usize| {
            self.rows.iter().zip(&self.primes).rev().try_fold(0i128, |x, (row, &q)| {
                x.checked_mul(i128::from(q)).and_then(|x| x.checked_add(i128::from(row[k])))
            })
        };
        (0..count).map(|index| whole(index).ok_or(CkksError::Integer { index, level })).collect()
    }
}

fn is_zero(row: &[i64]) -> bool {
    row.iter().fold(0, |all, &v| all | v) == 0
}

/// Digit `j` of all coefficients: `(x - v_0 - v_1 q_0 - ...) / (q_0 ... q_(j-1))` modulo `q_j`. Uses `x` up.
fn digit_row(params: &Params, rows: &[Vec<i64>], x: &mut [u64], j: usize) -> Vec<i64> {
    let modulus = params.modulus(j);
    let mut product = 1;
    for (i, row) in rows.iter().enumerate() {
        if !is_zero(row) {
            let factor = modulus.shoup(product);
            let back = modulus.mul_shoup(DIGIT_SHIFT, factor);
            for (x, &v) in x.iter_mut().zip(row) {
                // v + 2^50 is positive; what it adds is taken back.
                let term = modulus.mul_shoup(DIGIT_SHIFT.wrapping_add(v as u64), factor);
                *x = modulus.add(modulus.sub(*x, term), back);
            }
        }
        product = modulus.mul(product, modulus.reduce(params.modulus(i).value()));
    }
    // Distinct primes: the product is not zero, and the power is its inverse.
    let inverse = modulus.shoup(modulus.pow(product, modulus.value() - 2));
    x.iter().map(|&x| modulus.to_signed(modulus.mul_shoup(x, inverse))).collect()
}

#[cfg(test)]
#[path = "residue/tests.rs"]
mod tests;
