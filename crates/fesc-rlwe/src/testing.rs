//! What several tests of this crate need.

use fesc_ring::Ring;

/// The unknowns of linear equations over `Z_2^l`, by elimination. A row has a coefficient for each unknown
/// and the right side. `None` where the equations contradict each other or leave an unknown open.
pub(crate) fn solve(ring: Ring, mut rows: Vec<Vec<u64>>) -> Option<Vec<i64>> {
    let unknowns = rows.first()?.len() - 1;
    for j in 0..unknowns {
        let pivot = (j..rows.len()).find(|&t| rows[t][j] & 1 == 1)?;
        rows.swap(j, pivot);
        let inverse = (0..6).fold(1u64, |y, _| ring.mul(y, ring.sub(2, ring.mul(rows[j][j], y))));
        let scaled: Vec<u64> = rows[j].iter().map(|&v| ring.mul(v, inverse)).collect();
        rows[j].clone_from(&scaled);
        for (t, row) in rows.iter_mut().enumerate() {
            if t != j {
                let factor = row[j];
                for (v, &s) in row.iter_mut().zip(&scaled) {
                    *v = ring.sub(*v, ring.mul(factor, s));
                }
            }
        }
    }
    let consistent = rows[unknowns..].iter().all(|row| row[unknowns] == 0);
    consistent.then(|| rows[..unknowns].iter().map(|row| ring.to_signed(row[unknowns])).collect())
}
