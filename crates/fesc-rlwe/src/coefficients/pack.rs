//! Packing: several results into one ciphertext, by automorphisms (Chen, Dai, Kim and Song 2021, "PackLWEs";
//! interleaved as in BumbleBee, Lu et al. 2025).
//!
//! With `g` vectors in a ciphertext, a result has its values in the coefficients `0 mod g`, and garbage
//! elsewhere. `f <= g` results become one ciphertext that has `f` times the values of result `i` in the
//! coefficients `i g / f mod g`. Let `h = 2^t` and `sigma_t: X -> X^(N/h + 1)`. It fixes `X^j` for
//! `j = 0 mod 2h`, negates it for `j = h mod 2h`, and leaves `j mod 2h` alone for all others. So in
//!
//! ```text
//! merge(E, O) = (E + X^h O) + sigma_t(E - X^h O)
//! ```
//!
//! what `E` and `O` have at `0 mod 2h` is there twice, `O`'s shifted by `h`; what they have at `h mod 2h` is
//! gone; and the rest stays in its places mod `2h`. Levels go from `h = g / 2` (results `i` and `i + f/2`)
//! down to `h = g / f` (even and odd `i`): `f - 1` merges, each with one key switch. Garbage in places that
//! no result uses is left.
//!
//! The `f` is paid by the message: uploads have it at `2^(56 - log2 f)`, and it stands at `2^56` in the end;
//! what overflows vanishes. Of `c0`, garbage need not be computed: the values are put into their places,
//! `f`-fold, and the tree has only `c1` and what the switches add to `c0`.
//!
//! Noise: the merges double the noise of the sums and the message alike. Rounding to `Q`,
//! `v = (1 + 2N/3) / 12`, is doubled at every level; a switch adds `v` and its own `w`, doubled from there
//! on: `f^2 v + (f^2 - 1) / 3 (v + w)` in units of `Q` ([`super::noise`]).

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::residues::{Basis, KEPT, Maps};
use super::switch::{Scratch, SwitchKey};
use super::{DEGREE, Piece};

/// A ciphertext in the tree.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Node {
    /// `c0` without the results' own, empty before the first switch, and `c1`.
    c: [[Vec<u64>; KEPT]; 2],
}

/// Key switches for `count` results, at most `pack` of them to an answer.
pub(super) fn switches(count: usize, pack: usize) -> usize {
    let one = |count: usize| (0..pack.trailing_zeros()).map(|u| count.min(1 << u)).sum::<usize>();
    count / pack * one(pack) + one(count % pack)
}

/// What packing needs.
pub(super) struct Packer {
    basis: Basis,
    keys: Vec<SwitchKey>,
}

/// `even = E + X^h O`, and `E - X^h O` beside its negative.
fn butterfly(maps: &Maps, even: &mut [u64], odd: Option<&[u64]>, h: usize, both: &mut [u64]) {
    let (minus, negative) = both.split_at_mut(DEGREE);
    minus.copy_from_slice(even);
    if let Some(odd) = odd {
        // X^h O: its first coefficients are its last ones negated.
        let (low, high) = odd.split_at(DEGREE - h);
        maps.sub.apply(&mut even[..h], high);
        maps.add.apply(&mut even[h..], low);
        maps.add.apply(&mut minus[..h], high);
        maps.sub.apply(&mut minus[h..], low);
    }
    negative.copy_from_slice(minus);
    maps.neg.apply_one(negative);
}

impl Packer {
    pub(super) fn new(basis: Basis, keys: Vec<SwitchKey>) -> Self {
        Self { basis, keys }
    }

    /// Merges into `even`.
    fn merge(&self, even: &mut Node, odd: Option<&Node>, level: usize, key: &SwitchKey, scratch: &mut Scratch) {
        let h = 1 << level;
        for (i, even) in even.c[1].iter_mut().enumerate() {
            butterfly(&self.basis.maps[i], even, odd.map(|o| o.c[1][i].as_slice()), h, &mut scratch.both);
            key.automorphism.apply(&scratch.both, &mut scratch.c1[i]);
        }
        for (i, even) in even.c[0].iter_mut().enumerate() {
            if even.is_empty() {
                even.resize(DEGREE, 0);
                continue;
            }
            let maps = &self.basis.maps[i];
            butterfly(maps, even, odd.map(|o| o.c[0][i].as_slice()), h, &mut scratch.both);
            key.automorphism.add(&scratch.both, &maps.add, &mut scratch.digit, even);
        }
        key.switch(&self.basis, &mut even.c, scratch);
    }

    /// The node of results `i`, `i + stride`, `i + 2 stride`, ..: `keys` are those of the levels below it,
    /// the last first in work. Depth first, so that few nodes are alive at once and stay in the cache.
    fn node(
        &self,
        results: &[u64],
        i: usize,
        stride: usize,
        keys: &[(usize, &SwitchKey)],
        scratch: &mut Scratch,
    ) -> Option<Node> {
        let Some((&(level, key), below)) = keys.split_first() else {
            let c1 = results.chunks_exact(DEGREE).nth(i)?;
            return Some(Node { c: [Default::default(), self.basis.residues(c1)] });
        };
        let mut even = self.node(results, i, 2 * stride, below, scratch)?;
        let odd = self.node(results, i + stride, 2 * stride, below, scratch);
        self.merge(&mut even, odd.as_ref(), level, key, scratch);
        Some(even)
    }

    /// Packs the `c1` of up to `piece.pack` results, modulo `2^64`: `(c0, c1)` of the answer without the
    /// results' own `c0`.
    pub(super) fn pack(&self, piece: &Piece, results: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (top, levels) = (piece.per_cipher().ilog2() as usize, piece.pack.ilog2() as usize);
        // The root merges at the smallest shift.
        let keys: Vec<_> = self.keys.iter().enumerate().take(top).skip(top - levels).collect();
        let root = self.node(results, 0, 1, &keys, &mut Scratch::new());
        let whole = |i: usize| root.as_ref().map_or_else(|| vec![0; DEGREE], |root| self.basis.whole(&root.c[i]));
        (whole(0), whole(1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::coefficients::sample::small;
    use crate::coefficients::switch::{Automorphism, keys};
    use crate::coefficients::{Layout, holder};
    use fesc_ring::Prg;

    /// All pieces of full blocks.
    fn shapes() -> impl Iterator<Item = Piece> {
        (6..=12u32).flat_map(|block| {
            (0..=12 - block).map(move |pack| Piece { from: 0, width: 1 << block, block: 1 << block, pack: 1 << pack })
        })
    }

    /// The same tree over plaintext polynomials, from the definitions.
    fn twin(piece: &Piece, mut polys: Vec<Vec<i64>>) -> Vec<i64> {
        let mut level = piece.per_cipher().ilog2() as usize;
        polys.resize(piece.pack, vec![0; DEGREE]);
        while polys.len() > 1 {
            level -= 1;
            let (h, half) = (1 << level, polys.len() / 2);
            let merged = (0..half).map(|i| {
                let shifted = |c: usize| {
                    if c >= h { polys[i + half][c - h] } else { -polys[i + half][DEGREE + c - h] }
                };
                let plus: Vec<i64> = (0..DEGREE).map(|c| polys[i][c] + shifted(c)).collect();
                let minus: Vec<i64> = (0..DEGREE).map(|c| polys[i][c] - shifted(c)).collect();
                let moved = Automorphism::new(level).of(&minus);
                plus.iter().zip(&moved).map(|(&a, &b)| a + b).collect()
            });
            polys = merged.collect();
        }
        polys.remove(0)
    }

    #[test]
    fn the_tree_puts_every_result_into_its_place() {
        let mut prg = Prg::from_seed([1; 16]);
        for piece in shapes() {
            let polys: Vec<Vec<i64>> =
                (0..piece.pack).map(|_| (0..DEGREE).map(|_| prg.next_u64() as i64 >> 24).collect()).collect();
            let got = twin(&piece, polys.clone());
            for (i, poly) in polys.iter().enumerate() {
                for (p, at) in piece.places(i).enumerate() {
                    assert_eq!(
                        got[at],
                        piece.pack as i64 * poly[piece.per_cipher() * p],
                        "{piece:?}, result {i}, value {p}"
                    );
                }
            }
        }
    }

    #[test]
    fn packed_ciphertexts_decrypt_to_the_plaintext_twin() {
        let mut prg = Prg::from_seed([2; 16]);
        let s = small(&mut prg);
        let make = Basis::new().unwrap();
        let mut bytes = Vec::new();
        keys(&make, &s, &[9; 16], &mut prg, &mut bytes).unwrap();
        let packer = Packer { keys: SwitchKey::read_all(&make, &[9; 16], &bytes).unwrap(), basis: make };
        let polys = holder::answers().unwrap();
        let secret = polys.prepare_small(&s).unwrap();
        for piece in shapes().filter(|p| p.pack > 1 && (p.block == 64 || p.pack <= 4)) {
            // Full packs, and one that is not.
            for count in [piece.pack, piece.pack.div_ceil(3)] {
                let results: Vec<u64> = (0..count * DEGREE).map(|_| prg.next_u64()).collect();
                let (c0, c1) = packer.pack(&piece, &results);
                let mut got = polys.mul(&polys.prepare_full(&c1).unwrap(), &secret).unwrap();
                got.iter_mut().zip(&c0).for_each(|(g, &c)| *g = g.wrapping_add(c));
                let (mut squares, mut terms) = (0.0, 0.0);
                for (i, c1) in results.chunks_exact(DEGREE).enumerate() {
                    let want = polys.mul(&polys.prepare_full(c1).unwrap(), &secret).unwrap();
                    for (p, at) in piece.places(i).enumerate() {
                        let want = want[piece.per_cipher() * p].wrapping_mul(piece.pack as u64);
                        let error = got[at].wrapping_sub(want) as i64 as f64 / 65_536.0;
                        squares += error * error;
                        terms += 1.0;
                    }
                }
                let (found, pack) = ((squares / f64::from(terms as u32)).sqrt(), piece.pack as f64);
                // In units of the last place: rounding 15 / 2^12 for the leaves, about 0.6 as much for the
                // switches.
                assert!(found < 0.0048 * pack && found > 0.002 * pack, "{piece:?}: {found}");
            }
        }
    }

    #[test]
    fn switches_are_counted() {
        assert_eq!([switches(64, 64), switches(128, 64), switches(1, 64), switches(65, 64)], [63, 126, 6, 69]);
        assert_eq!([switches(5, 1), switches(5, 2), switches(3, 4), switches(0, 8)], [0, 3, 3, 0]);
        assert_eq!(Layout::new(128, 64, 128).switches(), 126);
    }
}
