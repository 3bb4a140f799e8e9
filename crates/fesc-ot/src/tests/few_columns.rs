//! The attack *enumeration on few columns* on the real code: what peeling leaves of the first set, and that even that
//! instance, found and not only bounded, stays above 128 bits.

use std::collections::BTreeSet;

use fesc_ring::block::LocalCode;

use super::support::prg;
use crate::security::{Lpn, enumeration};
use crate::{MIN_SECURITY_BITS, SilentParams};

/// The columns of every row of the product's code.
fn rows_of(seed: u128, k: usize, n: usize) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::new(); n];
    for first in (0..k).step_by(128) {
        let mut unit = vec![0u128; k];
        unit.iter_mut().skip(first).take(128).enumerate().for_each(|(j, u)| *u = 1 << j);
        let mut out = vec![0u128; n];
        LocalCode::new(seed, k as u32).xor_rows(0, &unit, &mut out);
        for (row, mut word) in rows.iter_mut().zip(out) {
            while word != 0 {
                row.push(first as u32 + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }
    rows
}

/// Removes the column of least degree with its rows for as long as rows are not fewer than columns and 60 more; returns
/// what is left of both.
fn peel(rows: &[Vec<u32>], k: usize) -> (usize, usize) {
    let mut users = vec![Vec::new(); k];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|&c| users[c as usize].push(i));
    }
    let mut degree: Vec<usize> = users.iter().map(Vec::len).collect();
    let mut order: BTreeSet<(usize, usize)> = degree.iter().copied().zip(0..k).collect();
    let mut alive = vec![true; rows.len()];
    let mut left = rows.len();
    while let Some((least, column)) = order.pop_first() {
        if left - least < order.len() + 60 {
            return (left, order.len() + 1);
        }
        for &i in &users[column] {
            if std::mem::replace(&mut alive[i], false) {
                left -= 1;
                for &c in rows[i].iter().filter(|&&c| c as usize != column) {
                    let c = c as usize;
                    if order.remove(&(degree[c], c)) {
                        degree[c] -= 1;
                        order.insert((degree[c], c));
                    }
                }
            }
        }
    }
    (left, 0)
}

#[test]
fn peeling_the_first_set_leaves_enough() {
    let set = *SilentParams::STANDARD.first();
    let lpn = Lpn { k: set.k(), t: set.t(), log_block: set.log_block() };
    let (rows, columns) = peel(&rows_of(prg(5).next_u128(), set.k(), set.n()), set.k());
    assert!(rows >= columns + 60 && columns < set.k() * 9 / 10, "the attack works: {rows} rows on {columns} columns");
    let bits = enumeration(lpn, columns as f64);
    assert!(bits > MIN_SECURITY_BITS, "{bits} bits on {columns} columns");
    // The estimate charges more than peeling finds.
    let charged = crate::security::estimate(lpn).bits;
    assert!(charged < bits, "{charged} {bits}");
}

/// The set that this crate had before the attack was known to us: refused now.
#[test]
fn a_set_that_ignores_the_attack_is_refused() {
    for (k, t, log_block) in [(22_000, 547, 8), (115_000, 2500, 10)] {
        assert!(crate::LpnParams::new(k, t, log_block).is_err());
    }
}
