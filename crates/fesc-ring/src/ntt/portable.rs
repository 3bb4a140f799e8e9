//! The transform in plain Rust, for every prime below `2^62`.
//!
//! Harvey's lazy butterflies: values stay in `[0, 4p)` forward and `[0, 2p)` backward, and are reduced once
//! at the end.

use super::roots::bit_reversed_powers;
use crate::modulus::{Modulus, Shoup};

/// Twiddles of both directions, by node.
pub(super) struct Tables {
    forward: Vec<Shoup>,
    inverse: Vec<Shoup>,
    /// `1 / N`.
    scale: Shoup,
    /// `inverse[1] / N`: the last layer scales both halves.
    scaled_root: Shoup,
}

impl Tables {
    pub(super) fn new(modulus: Modulus, root: u64, root_inv: u64, scale: u64, degree: usize) -> Self {
        let shoup = |r| bit_reversed_powers(modulus, r, degree).into_iter().map(|w| modulus.shoup(w)).collect();
        let inverse: Vec<Shoup> = shoup(root_inv);
        let scaled_root = modulus.shoup(modulus.mul(inverse[1].value, scale));
        Self { forward: shoup(root), inverse, scale: modulus.shoup(scale), scaled_root }
    }
}

#[inline(always)]
fn fold(x: u64, bound: u64) -> u64 {
    x.min(x.wrapping_sub(bound))
}

pub(super) fn forward(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    let (p, two_p) = (modulus.value(), 2 * modulus.value());
    let mut nodes = 1;
    let mut len = a.len();
    while len >= 2 {
        for (block, &w) in a.chunks_exact_mut(len).zip(&tables.forward[nodes..]) {
            let (left, right) = block.split_at_mut(len / 2);
            for (x, y) in left.iter_mut().zip(right) {
                let u = fold(*x, two_p);
                let t = modulus.mul_shoup_lazy(*y, w);
                *x = u + t;
                *y = u + two_p - t;
            }
        }
        nodes *= 2;
        len /= 2;
    }
    for x in a {
        *x = fold(fold(*x, two_p), p);
    }
}

pub(super) fn inverse(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    let (p, two_p) = (modulus.value(), 2 * modulus.value());
    let mut nodes = a.len() / 2;
    let mut len = 2;
    while nodes > 1 {
        for (block, &w) in a.chunks_exact_mut(len).zip(&tables.inverse[nodes..]) {
            let (left, right) = block.split_at_mut(len / 2);
            for (x, y) in left.iter_mut().zip(right) {
                let (u, v) = (*x, *y);
                *x = fold(u + v, two_p);
                *y = modulus.mul_shoup_lazy(u + two_p - v, w);
            }
        }
        nodes /= 2;
        len *= 2;
    }
    let (left, right) = a.split_at_mut(len / 2);
    for (x, y) in left.iter_mut().zip(right) {
        let (u, v) = (*x, *y);
        *x = fold(modulus.mul_shoup_lazy(u + v, tables.scale), p);
        *y = fold(modulus.mul_shoup_lazy(u + two_p - v, tables.scaled_root), p);
    }
}
