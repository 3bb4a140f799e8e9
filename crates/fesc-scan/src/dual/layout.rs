//! Local rearrangements of shares between the layouts of the wiring. None of them moves a byte.

use fesc_mpc::Shared;
use fesc_ring::Ring;

use super::segment::Segment;
use super::tree::Level;
use crate::Result;

/// Entries on and below the diagonal.
pub(super) const fn triangle(q: usize) -> usize {
    q * (q + 1) / 2
}

/// Rows of `width` for all tokens of all chunks: zeros are added behind the last token.
pub(super) fn pad(segment: &Segment, rows: &Shared, width: usize) -> Result<Shared> {
    let missing = (segment.chunks * segment.q - segment.tokens) * width;
    Ok(Shared::concat(&[rows, &Shared::new(rows.ring(), vec![0; missing])])?)
}

/// From rows of `heads` by token to `[chunk][head][token]`, padded with zeros.
pub(super) fn by_head(segment: &Segment, rows: &Shared, heads: usize) -> Shared {
    let q = segment.q;
    let mut out = vec![0; segment.chunks * heads * q];
    for (t, row) in rows.values().chunks_exact(heads).enumerate() {
        for (h, &v) in row.iter().enumerate() {
            out[(t / q * heads + h) * q + t % q] = v;
        }
    }
    Shared::new(rows.ring(), out)
}

/// Sums inside each chunk, `[chunk][head][0..=token]`: entry t is the sum over the first t tokens.
pub(super) fn sums(q: usize, by_head: &Shared) -> Shared {
    let mut out = Vec::with_capacity(by_head.len() / q * (q + 1));
    for z in by_head.values().chunks_exact(q) {
        let mut sum = 0u64;
        out.push(sum);
        for &z in z {
            sum = sum.wrapping_add(z);
            out.push(sum);
        }
    }
    Shared::new(by_head.ring(), out)
}

/// The lower triangles of full `q x q` matrices.
pub(super) fn lower_of(q: usize, full: &Shared) -> Shared {
    let mut out = Vec::with_capacity(full.len() / (q * q) * triangle(q));
    for matrix in full.values().chunks_exact(q * q) {
        for (i, row) in matrix.chunks_exact(q).enumerate() {
            out.extend_from_slice(&row[..=i]);
        }
    }
    Shared::new(full.ring(), out)
}

/// Lower triangles `[chunk][head]` with `diagonal` (`[chunk][head][token]`) on the diagonal, to be filled by
/// [`fill_level`].
pub(super) fn on_diagonal(ring: Ring, q: usize, diagonal: &[u64], factor: u64) -> Vec<u64> {
    let mut out = vec![0; diagonal.len() / q * triangle(q)];
    for (lower, diagonal) in out.chunks_exact_mut(triangle(q)).zip(diagonal.chunks_exact(q)) {
        for (i, &d) in diagonal.iter().enumerate() {
            lower[triangle(i) + i] = ring.mul(d, factor);
        }
    }
    out
}

/// Puts the outer products of one level, `[chunk][head][node][right][left]`, where they belong.
pub(super) fn fill_level(q: usize, level: &Level, products: &[u64], lower: &mut [u64]) {
    let per_node = level.rights * level.half;
    for (lower, products) in lower.chunks_exact_mut(triangle(q)).zip(products.chunks_exact(level.nodes * per_node)) {
        for (node, products) in products.chunks_exact(per_node).enumerate() {
            let mid = level.mid(node);
            for (i, row) in (mid..q).zip(products.chunks_exact(level.half)) {
                lower[triangle(i) + mid - level.half..triangle(i) + mid].copy_from_slice(row);
            }
        }
    }
}

/// Adds one number per head to the diagonals of lower triangles `[chunk][head]`.
pub(super) fn add_to_diagonal(q: usize, lower: Shared, per_head: &[i64]) -> Shared {
    let ring = lower.ring();
    let mut values = lower.values().to_vec();
    for (lower, &d) in values.chunks_exact_mut(triangle(q)).zip(per_head.iter().cycle()) {
        for i in 0..q {
            let at = triangle(i) + i;
            lower[at] = ring.add(lower[at], ring.from_signed(d));
        }
    }
    Shared::new(ring, values)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dual::tree::levels;

    fn ring() -> Ring {
        Ring::new(48).unwrap()
    }

    #[test]
    fn tokens_go_to_their_chunk_and_head() {
        let segment = Segment::new(5, 4, false, false);
        let rows = Shared::new(ring(), (0..10).collect());
        let by_head = by_head(&segment, &rows, 2);
        assert_eq!(by_head.values(), [0, 2, 4, 6, 1, 3, 5, 7, 8, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(sums(4, &by_head).values()[..10], [0, 0, 2, 6, 12, 0, 1, 4, 9, 16]);
        assert_eq!(pad(&segment, &rows, 2).unwrap().values()[8..], [8, 9, 0, 0, 0, 0, 0, 0]);
    }

    /// Entry (i, j) of the assembled triangle is right_i left_j of the one node in which they meet.
    #[test]
    fn levels_fill_the_triangle() {
        for q in [1usize, 2, 5, 8, 13] {
            let diagonal: Vec<u64> = (0..2 * q as u64).collect();
            let mut lower = on_diagonal(ring(), q, &diagonal, 3);
            for level in levels(q) {
                let entry = |matrix: usize, node: usize, a: usize, b: usize| {
                    let mid = level.mid(node);
                    (10_000 * matrix + 100 * (mid + a) + mid - level.half + b) as u64
                };
                let mut products = Vec::new();
                for at in 0..2 * level.nodes * level.rights * level.half {
                    let (b, rest) = (at % level.half, at / level.half);
                    let (a, rest) = (rest % level.rights, rest / level.rights);
                    products.push(entry(rest / level.nodes, rest % level.nodes, a, b));
                }
                fill_level(q, &level, &products, &mut lower);
            }
            for matrix in 0..2 {
                for i in 0..q {
                    for j in 0..=i {
                        let got = lower[matrix * triangle(q) + triangle(i) + j];
                        let want =
                            if i == j { 3 * diagonal[matrix * q + i] } else { (10_000 * matrix + 100 * i + j) as u64 };
                        assert_eq!(got, want, "q = {q}, ({i}, {j})");
                    }
                }
            }
            let added = add_to_diagonal(q, Shared::new(ring(), lower.clone()), &[5, -1]);
            assert_eq!(added.values()[0], lower[0] + 5);
            assert_eq!(added.values()[triangle(q)], ring().sub(lower[triangle(q)], 1));
            assert_eq!(added.values().last().unwrap(), &ring().sub(*lower.last().unwrap(), 1));
        }
    }

    #[test]
    fn lower_of_full() {
        let full = Shared::new(ring(), (1..=8).collect());
        assert_eq!(lower_of(2, &full).values(), [1, 3, 4, 5, 7, 8]);
    }
}
