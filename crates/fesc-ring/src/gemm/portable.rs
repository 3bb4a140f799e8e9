//! The portable kernel: 64-bit multiplications, a tile of 4 x 4.

use super::block::{Kernel, Tile};

const MR: usize = 4;
const NR: usize = 4;

pub(super) const KERNEL: Kernel = Kernel::new::<MR, NR>(512, tile);

fn tile(a: &[u64], b: &[u64], into: Tile<'_>) {
    let mut acc = [[0u64; NR]; MR];
    for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
        for (row, &x) in acc.iter_mut().zip(a) {
            for (o, &y) in row.iter_mut().zip(b) {
                *o = o.wrapping_add(x.wrapping_mul(y));
            }
        }
    }
    into.merge(&acc);
}
