//! Signed integers to residues and back.
//!
//! To residues: 64 bits by the ring's kernel; 128 bits by a shift that makes the number unsigned, and a Shoup
//! product per word. Back: mixed radix with balanced digits,
//!
//! ```text
//! x = v_0 + q_0 (v_1 + q_1 (v_2 + ...)),    -(q_i - 1)/2 <= v_i <= (q_i - 1)/2,
//! ```
//!
//! which represents each integer of magnitude at most `(Q - 1)/2` once, since all primes are odd: no
//! comparison with `Q/2`, and a small number has zero digits above. A digit that is zero for all coefficients
//! costs nothing, so decoding a message of two primes' size at a high level costs two products per limb and
//! coefficient, not `l^2 / 2`. A share must not be told by the time that it takes: [`Digits::of_share`] works
//! on all digits.

use fesc_ring::modulus::{Modulus, Shoup};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::poly::{Poly, SecretLimb};
use crate::{CkksError, Params, Result};

/// Reduces wide signed integers modulo one prime.
struct Reducer {
    modulus: Modulus,
    one: Shoup,
    /// `2^64`.
    high: Shoup,
    /// `2^127`.
    shift: u64,
}

impl Reducer {
    fn new(modulus: Modulus) -> Self {
        let power = |e: u32| modulus.reduce_u128(1 << e);
        Self { modulus, one: modulus.shoup(1), high: modulus.shoup(power(64)), shift: power(127) }
    }

    /// The class of any `i128`.
    #[inline(always)]
    fn reduce(&self, x: i128) -> u64 {
        let unsigned = (x as u128) ^ (1 << 127);
        let m = self.modulus;
        let low = m.mul_shoup(unsigned as u64, self.one);
        let high = m.mul_shoup((unsigned >> 64) as u64, self.high);
        m.sub(m.add(low, high), self.shift)
    }
}

/// Writes the residues of `values` and transforms them: all limbs of `poly`, whose limb `i` belongs to prime
/// `prime(i)`. Coefficients that are not given are zero.
pub(crate) fn lift(params: &Params, values: &[i64], prime: impl Fn(usize) -> usize + Sync + Send, poly: &mut Poly) {
    poly.for_each_limb(|i, limb| {
        let (head, tail) = limb.split_at_mut(values.len());
        params.prime(prime(i)).reduce_signed(values, head);
        tail.fill(0);
        params.ntt(prime(i)).forward(limb);
    });
}

/// The residues of wide integers modulo one prime.
pub(crate) fn reduce_wide(modulus: Modulus, values: &[i128], out: &mut [u64]) {
    let reducer = Reducer::new(modulus);
    out.iter_mut().zip(values).for_each(|(o, &x)| *o = reducer.reduce(x));
}

/// [`lift`] for wide integers.
pub(crate) fn lift_wide(
    params: &Params,
    values: &[i128],
    prime: impl Fn(usize) -> usize + Sync + Send,
    poly: &mut Poly,
) {
    poly.for_each_limb(|i, limb| {
        let (head, tail) = limb.split_at_mut(values.len());
        reduce_wide(params.modulus(prime(i)), values, head);
        tail.fill(0);
        params.ntt(prime(i)).forward(limb);
    });
}

/// Balanced mixed-radix digits of all coefficients. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Digits {
    /// One row of `N` digits per prime, empty if all are zero; none for the zeros at the top.
    rows: Vec<Vec<i64>>,
    #[zeroize(skip)]
    primes: Vec<u64>,
    /// Coefficients.
    count: usize,
}

impl Digits {
    /// Of a transformed polynomial over `q_0 .. q_level`.
    pub(crate) fn of(params: &Params, poly: &Poly) -> Self {
        Self::without(params, poly, is_zero)
    }

    /// Of a share: the work does not depend on the numbers.
    pub(crate) fn of_share(params: &Params, poly: &Poly) -> Self {
        Self::without(params, poly, |_| false)
    }

    /// Leaves the rows out that `left_out` says are zero.
    fn without(params: &Params, poly: &Poly, left_out: impl Fn(&[i64]) -> bool) -> Self {
        let mut coefficients = Poly::scratch(params, poly.len());
        coefficients.for_each_limb(|i, limb| {
            limb.copy_from_slice(poly.limb(i));
            params.ntt(i).inverse(limb);
        });
        let mut rows: Vec<Vec<i64>> = Vec::with_capacity(poly.len());
        for j in 0..poly.len() {
            let row = digit_row(params, &rows, coefficients.limb_mut(j), j);
            // A row of zeros is kept as an empty one.
            rows.push(if left_out(&row) { Vec::new() } else { row });
        }
        coefficients.wipe();
        let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        rows.truncate(used);
        let primes = (0..used).map(|i| params.modulus(i).value()).collect();
        Self { rows, primes, count: params.degree() }
    }

    /// All coefficients as floating-point numbers, each within a few units in the last place.
    pub(crate) fn to_f64(&self, out: &mut [f64]) {
        out.fill(0.0);
        for (row, &q) in self.rows.iter().zip(&self.primes).rev() {
            let q = q as f64;
            // From the top: a non-zero digit outweighs everything below it, so nothing cancels.
            if row.is_empty() {
                out.iter_mut().for_each(|o| *o *= q);
            } else {
                out.iter_mut().zip(row).for_each(|(o, &v)| *o = *o * q + v as f64);
            }
        }
    }

    /// All coefficients modulo `2^128`, as signed integers; of all digits ([`Digits::of_share`]).
    pub(crate) fn to_wrapped(&self) -> Vec<i128> {
        let mut out = vec![0i128; self.count];
        for (row, &q) in self.rows.iter().zip(&self.primes).rev() {
            for (o, &v) in out.iter_mut().zip(row) {
                *o = o.wrapping_mul(i128::from(q)).wrapping_add(i128::from(v));
            }
        }
        out
    }

    /// All coefficients as integers.
    pub(crate) fn to_integers(&self, level: usize) -> Result<Vec<i128>> {
        let whole = |k: usize| {
            self.rows.iter().zip(&self.primes).rev().try_fold(0i128, |x, (row, &q)| {
                x.checked_mul(i128::from(q)).and_then(|x| x.checked_add(i128::from(row.get(k).copied().unwrap_or(0))))
            })
        };
        (0..self.count).map(|index| whole(index).ok_or(CkksError::Integer { index, level })).collect()
    }
}

fn is_zero(row: &[i64]) -> bool {
    row.iter().fold(0, |all, &v| all | v) == 0
}

/// Digit `j` of all coefficients: `(x - v_0 - v_1 q_0 - ...) / (q_0 ... q_(j-1))` modulo `q_j`. Uses `x` up.
fn digit_row(params: &Params, rows: &[Vec<i64>], x: &mut [u64], j: usize) -> Vec<i64> {
    let (modulus, prime) = (params.modulus(j), params.prime(j));
    let mut term = SecretLimb::take(params);
    let mut product = 1;
    for (i, row) in rows.iter().enumerate() {
        if !row.is_empty() {
            prime.reduce_signed(row, &mut term);
            prime.scale_assign(modulus.shoup(product), &mut term);
            prime.sub_assign(x, &term);
        }
        product = modulus.mul(product, modulus.reduce(params.modulus(i).value()));
    }
    // Distinct primes: the product is not zero, and the power is its inverse.
    prime.scale_assign(modulus.shoup(modulus.pow(product, modulus.value() - 2)), x);
    x.iter().map(|&x| modulus.to_signed(x)).collect()
}

#[cfg(test)]
#[path = "residue/tests.rs"]
mod tests;
