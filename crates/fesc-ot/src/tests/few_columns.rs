//! The attack *enumeration on few columns* on the real code: what peeling leaves of both sets, that even
//! those instances, found and not only bounded, stay above 128 bits, and how far two of them overlap.

use fesc_ring::block::{Aes, LOCALITY, LocalCode};

use super::support::prg;
use crate::security::{Lpn, Noise, estimate, few_columns, fewest};
use crate::{LpnParams, MIN_SECURITY_BITS, SilentParams};

/// Rows that a core has beyond its columns: the check window.
const SPARE: usize = 60;

/// The columns of every row of the product's code; a place that a row names twice cancels.
fn rows_of(seed: u128, k: usize, n: usize) -> Vec<Vec<u32>> {
    let mut stream = vec![0u8; n * LOCALITY * 4];
    Aes::new(seed).ctr(0, &mut stream);
    let places = |bytes: &[u8]| -> Vec<u32> {
        let mut row: Vec<u32> = Vec::with_capacity(LOCALITY);
        for word in bytes.as_chunks::<4>().0 {
            let place = ((u64::from(u32::from_le_bytes(*word)) * k as u64) >> 32) as u32;
            match row.iter().position(|&c| c == place) {
                Some(twice) => drop(row.swap_remove(twice)),
                None => row.push(place),
            }
        }
        row
    };
    let rows: Vec<_> = stream.chunks_exact(LOCALITY * 4).map(places).collect();
    // These are the rows that the protocol uses.
    let (mut table, mut out) = (vec![0u128; k], vec![0u128; n]);
    prg(6).fill_u128(&mut table);
    LocalCode::new(seed, k as u32).xor_rows(0, &table, &mut out);
    let same = |(row, out): (&Vec<u32>, &u128)| row.iter().fold(0, |a, &c| a ^ table[c as usize]) == *out;
    assert!(rows.iter().zip(&out).all(same), "the rows are not those of the code");
    rows
}

/// Columns by degree. Entries that a change has overtaken are skipped when they come up.
struct Queue {
    degree: Vec<usize>,
    gone: Vec<bool>,
    by_degree: Vec<Vec<u32>>,
    least: usize,
}

impl Queue {
    fn new(degree: Vec<usize>) -> Self {
        let mut by_degree = vec![Vec::new(); degree.iter().max().map_or(1, |d| d + 1)];
        degree.iter().enumerate().for_each(|(c, &d)| by_degree[d].push(c as u32));
        Self { gone: vec![false; degree.len()], degree, by_degree, least: 0 }
    }

    fn decrease(&mut self, column: usize) {
        if !self.gone[column] {
            self.degree[column] -= 1;
            let d = self.degree[column];
            self.by_degree[d].push(column as u32);
            self.least = self.least.min(d);
        }
    }

    /// The column of least degree that is still there.
    fn next(&mut self) -> Option<usize> {
        loop {
            match self.by_degree.get_mut(self.least)?.pop() {
                None => self.least += 1,
                Some(c) if !self.gone[c as usize] && self.degree[c as usize] == self.least => return Some(c as usize),
                Some(_) => {}
            }
        }
    }
}

/// What is left of the rows, and the number of columns.
struct Core {
    alive: Vec<bool>,
    rows: usize,
    columns: usize,
}

/// Drops the given columns with their rows, then always the one of least degree, for as long as rows are not
/// fewer than columns and [`SPARE`] more.
fn peel(rows: &[Vec<u32>], k: usize, first: &[usize]) -> Core {
    let mut users = vec![Vec::new(); k];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|&c| users[c as usize].push(i));
    }
    let mut queue = Queue::new(users.iter().map(Vec::len).collect());
    let mut core = Core { alive: vec![true; rows.len()], rows: rows.len(), columns: k };
    let mut given = first.iter().copied();
    while let Some(column) = given.next().or_else(|| queue.next()) {
        if core.rows - queue.degree[column] < core.columns - 1 + SPARE {
            break;
        }
        if std::mem::replace(&mut queue.gone[column], true) {
            continue;
        }
        core.columns -= 1;
        for &i in &users[column] {
            if std::mem::replace(&mut core.alive[i], false) {
                core.rows -= 1;
                rows[i].iter().for_each(|&c| queue.decrease(c as usize));
            }
        }
    }
    core
}

/// 1 % of the columns, at random.
fn one_percent(k: usize, seed: u8) -> Vec<usize> {
    let mut g = prg(seed);
    (0..k / 100).map(|_| g.next_u64() as usize % k).collect()
}

/// Peels twice after different random drops. The share of `k` that is left lies in `left`, of the rows of one
/// core the other shares `shared`.
fn check(set: &LpnParams, left: std::ops::Range<f64>, shared: std::ops::Range<f64>) {
    let (k, lpn) = (set.k(), Lpn { k: set.k(), t: set.t(), log_block: set.log_block() });
    let rows = rows_of(prg(5).next_u128(), k, set.n());
    let plain = peel(&rows, k, &[]);
    let cores = [7, 8].map(|seed| peel(&rows, k, &one_percent(k, seed)));
    let bound = fewest(lpn);
    for core in [&plain, &cores[0], &cores[1]] {
        let columns = core.columns as f64;
        assert!(core.rows >= core.columns + SPARE && left.contains(&(columns / k as f64)), "{columns} of {k}");
        // What is charged is below what is found, in columns and in bits.
        assert!(bound < columns, "{bound} {columns}");
        let bits = few_columns(lpn, Noise::Independent, columns).bits;
        assert!(bits > MIN_SECURITY_BITS && bits > estimate(lpn).bits, "{bits} bits on {columns} columns");
    }
    let common = cores[0].alive.iter().zip(&cores[1].alive).filter(|(a, b)| **a && **b).count() as f64;
    let share = common / cores[0].rows as f64;
    println!("{k}: {} and {} columns of bound {bound:.0}, {share:.3} shared", plain.columns, cores[0].columns);
    assert!(shared.contains(&share), "two cores share {share} of their rows");
}

#[test]
fn peeling_the_first_set_leaves_enough() {
    check(SilentParams::STANDARD.first(), 0.76..0.80, 0.3..0.5);
}

#[test]
fn peeling_the_main_set_leaves_enough() {
    check(SilentParams::STANDARD.main(), 0.62..0.65, 0.06..0.15);
}

/// The sets that this crate had before the attack was known to us, and before it was counted in the
/// attacker's favour: refused now.
#[test]
fn a_set_that_ignores_the_attack_is_refused() {
    for (k, t, log_block) in [(22_000, 547, 8), (115_000, 2500, 10), (66_607, 2000, 9), (70_000, 2000, 9)] {
        assert!(LpnParams::new(k, t, log_block).is_err(), "k = {k}");
    }
}
