//! Small insecure sets for unit tests, and references by big integers.

use num_bigint::BigInt;

use crate::poly::Poly;
use crate::{Params, ParamsLiteral};

/// Degree `2^log_n`, `levels` rescalings at scale `2^40`, two special primes.
#[allow(clippy::unwrap_used)]
pub(crate) fn tiny(log_n: u32, levels: usize) -> Params {
    let q_bits = std::iter::once(50).chain(std::iter::repeat_n(40, levels)).collect();
    Params::insecure_for_tests(&ParamsLiteral { log_n, q_bits, p_bits: vec![48, 48], log_scale: 40 }).unwrap()
}

/// The centred number with these residues, by big integers.
pub(crate) fn crt(residues: &[u64], primes: &[u64]) -> BigInt {
    let q: BigInt = primes.iter().map(|&p| BigInt::from(p)).product();
    let mut x = BigInt::from(0);
    for (&r, &p) in residues.iter().zip(primes) {
        let rest = &q / p;
        let inverse = (&rest % p).modpow(&BigInt::from(p - 2), &BigInt::from(p));
        x += BigInt::from(r) * inverse % p * rest;
    }
    x %= &q;
    if &x * 2 > q { x - q } else { x }
}

/// The centred coefficients of a transformed polynomial over the first primes, by big integers.
pub(crate) fn integers(params: &Params, poly: &Poly) -> Vec<BigInt> {
    let mut poly = poly.clone();
    poly.for_each_limb(|i, limb| params.ntt(i).inverse(limb));
    let primes: Vec<u64> = (0..poly.len()).map(|i| params.modulus(i).value()).collect();
    let residues = |k: usize| poly.limbs().map(|limb| limb[k]).collect::<Vec<u64>>();
    (0..params.degree()).map(|k| crt(&residues(k), &primes)).collect()
}

/// `a b` in `Z[X] / (X^N + 1)`, term by term.
pub(crate) fn negacyclic(a: &[BigInt], b: &[BigInt]) -> Vec<BigInt> {
    let n = a.len();
    let mut out = vec![BigInt::from(0); n];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            let term = x * y;
            if i + j < n { out[i + j] += term } else { out[i + j - n] -= term }
        }
    }
    out
}

/// The representative of smallest magnitude modulo the first `count` primes.
pub(crate) fn centred(params: &Params, count: usize, x: &BigInt) -> BigInt {
    let q: BigInt = (0..count).map(|i| BigInt::from(params.modulus(i).value())).product();
    let x = ((x % &q) + &q) % &q;
    if &x * 2 > q { x - q } else { x }
}
