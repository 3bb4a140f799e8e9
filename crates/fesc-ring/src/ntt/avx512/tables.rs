//! Twiddle tables of the AVX-512 transform, and their loads.

use super::super::roots::bit_reversed_powers;
use super::butterfly::Twiddle;
use super::lanes::load;
use crate::modulus::Modulus;
use std::arch::x86_64::*;

/// One vector in memory, on its own cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u64; 8]);

/// A broadcast twiddle: factor and quotient.
pub(super) type FactorQuotient = [u64; 2];

/// One direction's twiddles.
pub(super) struct Twiddles {
    /// By node, for the nodes of at least 16 elements.
    pub(super) nodes: Vec<FactorQuotient>,
    /// Per 16 elements: factor and quotient vectors of the layers of distance 4, 2 and 1.
    pub(super) inner: Vec<[Line; 6]>,
}

/// Twiddles of both directions.
pub(in crate::ntt) struct Tables {
    pub(super) forward: Twiddles,
    pub(super) inverse: Twiddles,
    pub(super) scale: FactorQuotient,
    pub(super) scaled_root: FactorQuotient,
}

/// The nodes inside a 16-element block `n`, relative to `2n`, `4n` and `8n`, in the lane order of the
/// exchanges in [`super::lanes`].
const LANES_4: [usize; 8] = [0, 0, 0, 0, 1, 1, 1, 1];
const LANES_2: [usize; 8] = [0, 0, 2, 2, 1, 1, 3, 3];
const LANES_1: [usize; 8] = [0, 1, 4, 5, 2, 3, 6, 7];

/// A twiddle `w` with its quotient; the factor is stored with the offset that its butterfly wants.
fn pair(p: u64, w: u64, offset: i64) -> FactorQuotient {
    [w.wrapping_add_signed(offset), ((u128::from(w) << 52) / u128::from(p)) as u64]
}

impl Twiddles {
    fn new(p: u64, powers: &[u64], offset: i64, negate_odd_nodes: bool) -> Self {
        let units = powers.len() / 16;
        let broadcast =
            |(i, &w): (usize, &u64)| pair(p, if negate_odd_nodes && i % 2 == 1 { p - w } else { w }, offset);
        let nodes = powers[..2 * units].iter().enumerate().map(broadcast).collect();
        let inner = (units..2 * units)
            .map(|n| {
                let mut lines = [Line([0; 8]); 6];
                for (k, (base, lanes)) in [(2 * n, LANES_4), (4 * n, LANES_2), (8 * n, LANES_1)].into_iter().enumerate()
                {
                    for (lane, node) in lanes.into_iter().enumerate() {
                        let [w, quotient] = pair(p, powers[base + node], offset);
                        lines[2 * k].0[lane] = w;
                        lines[2 * k + 1].0[lane] = quotient;
                    }
                }
                lines
            })
            .collect();
        Self { nodes, inner }
    }
}

impl Tables {
    pub(in crate::ntt) fn new(modulus: Modulus, root: u64, root_inv: u64, scale: u64, degree: usize) -> Self {
        let p = modulus.value();
        let back = bit_reversed_powers(modulus, root_inv, degree);
        Self {
            forward: Twiddles::new(p, &bit_reversed_powers(modulus, root, degree), p as i64, false),
            inverse: Twiddles::new(p, &back, -1, true),
            scale: pair(p, scale, -1),
            // The root is the one odd node whose result is wanted with its own sign.
            scaled_root: pair(p, modulus.mul(back[1], scale), -1),
        }
    }
}

/// Broadcasts the twiddle of a node.
///
/// # Safety
/// `node` must be inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn twiddle(nodes: *const FactorQuotient, node: usize) -> Twiddle {
    // SAFETY: the caller's promise.
    let [w, quotient] = unsafe { *nodes.add(node) };
    (_mm512_set1_epi64(w as i64), _mm512_set1_epi64(quotient as i64))
}

/// The twiddles of `node` and its descendants, `log2 R` levels, numbered like a tree of their own (slot 0 is
/// unused).
///
/// # Safety
/// These nodes must be inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn local_twiddles<const R: usize>(nodes: *const FactorQuotient, node: usize) -> [Twiddle; R] {
    let mut w = [(_mm512_setzero_si512(), _mm512_setzero_si512()); R];
    let mut row = 1;
    while row < R {
        for i in 0..row {
            // SAFETY: the caller's promise.
            w[row + i] = unsafe { twiddle(nodes, row * node + i) };
        }
        row *= 2;
    }
    w
}

/// # Safety
/// `lines` and the one after it must be valid.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn vector_twiddle(lines: *const Line) -> Twiddle {
    // SAFETY: the caller's promise.
    unsafe { (load(lines.cast()), load(lines.add(1).cast())) }
}
