#![allow(clippy::unwrap_used)]

use std::f64::consts::{E, PI};

use super::*;

/// The smallest degree that bits are counted for.
const MIN_LOG_N: u32 = FIRST + 1;

/// The rows of the table with all three columns.
fn rows() -> impl Iterator<Item = (u32, [u32; 3])> {
    (MIN_LOG_N..=16).map(|log_n| (log_n, row(log_n).unwrap()))
}

/// Root Hermite factor of block size `beta`, from 50 on.
fn log2_delta(beta: f64) -> f64 {
    (beta / (2.0 * PI * E) * (PI * beta).powf(1.0 / beta)).log2() / (2.0 * (beta - 1.0))
}

/// Gates of a reduction of dimension `d` with block size `beta` (MATZOV, "Report on the security of LWE",
/// 2022: sieving with list decoding, `2^(0.2961 b + 20.39)` gates in dimension `b`, after Ducas's dimensions
/// for free; 5.46 sieves a tour for progressive block sizes, and as much again for the last ones).
fn matzov(beta: f64, d: f64) -> f64 {
    let free = (beta * (4f64 / 3.0).ln() / (beta / (2.0 * PI * E)).ln()).floor();
    let overhead = 1.0 / (1.0 - (-0.292f64).exp2());
    (overhead * (d - beta)).log2() + overhead.log2() + 0.296_135 * (beta - free) + 20.387_886
}

/// Bits of the primal attack on ternary secrets and errors of deviation 3.2: a unique shortest vector in an
/// embedding of the best dimension, found when its projection is shorter than the basis's there (Alkim,
/// Ducas, Poeppelmann, Schwabe, 2016).
fn primal(n: f64, log_q: f64) -> f64 {
    let (sigma, secret) = (3.2f64, (2f64 / 3.0).sqrt());
    let found = |beta: f64, d: f64| {
        let volume = (d - n - 1.0) * log_q + n * (sigma / secret).log2() + sigma.log2();
        beta.log2() / 2.0 + sigma.log2() <= (2.0 * beta - d - 1.0) * log2_delta(beta) + volume / d
    };
    let cost = |percent: u32| {
        let d = (n * f64::from(percent) / 100.0).floor();
        let (mut low, mut high) = (50u32, 3000u32.min(d as u32 - 1));
        if !found(f64::from(high), d) {
            return f64::INFINITY;
        }
        while low < high {
            let middle = u32::midpoint(low, high);
            if found(f64::from(middle), d) { high = middle } else { low = middle + 1 }
        }
        matzov(f64::from(low), d)
    };
    (102..240).map(cost).fold(f64::INFINITY, f64::min)
}

#[test]
fn the_table_is_what_the_primal_attack_costs() {
    for (log_n, row) in rows() {
        let n = f64::from(1u32 << log_n);
        for (q, want) in row.map(f64::from).into_iter().zip(BITS) {
            let (at, over) = (primal(n, q), primal(n, q + (q / 40.0).ceil()));
            assert!(at >= want && at < want * 1.03, "2^{log_n}, {q}: {at:.1} bits for {want}");
            // The largest such modulus, up to the steps of the count.
            assert!(over < want + 0.2, "2^{log_n}, {q}: {over:.1} bits at 2.5 % more");
        }
    }
    let (at, over) = (primal(2048.0, f64::from(AT_128[0])), primal(2048.0, f64::from(AT_128[0] + 2)));
    assert!((128.0..131.0).contains(&at) && over < 128.0, "2^11: {at:.1} bits, {over:.1} at two more");
}

#[test]
fn bits_at_the_entries_are_the_tables() {
    for (log_n, row) in rows() {
        for (q, want) in row.into_iter().zip(BITS) {
            assert!((bits(log_n, f64::from(q)).unwrap() - want).abs() < 1e-9);
        }
        assert_eq!(bits(log_n, 20.0), Some(256.0));
    }
    for log_n in [0, 10, 17, u32::MAX] {
        assert_eq!((bits(log_n, 100.0), limit(log_n)), (None, None));
    }
    assert_eq!((bits(11, 50.0), limit(11)), (None, Some(52)));
}

#[test]
fn bits_between_the_entries_are_not_too_many() {
    for (log_n, row) in rows() {
        let n = f64::from(1u32 << log_n);
        let (least, most) = (f64::from(row[2]), f64::from(limit(log_n).unwrap()));
        for k in 0..=30 {
            let q = least + (most - least) * f64::from(k) / 30.0;
            let (told, counted) = (bits(log_n, q).unwrap(), primal(n, q));
            assert!(told < counted + 0.05 && told > counted * 0.97, "2^{log_n}, {q}: {told:.2} for {counted:.2}");
        }
    }
}

#[test]
fn more_modulus_is_never_more_security() {
    for log_n in MIN_LOG_N..=16 {
        let mut last = f64::INFINITY;
        for q in 1..4000 {
            let now = bits(log_n, f64::from(q)).unwrap();
            assert!(now <= last && (now < last || now == 256.0 || now == 0.0), "2^{log_n}, {q}: {now} after {last}");
            last = now;
        }
    }
    // And a larger degree is never less.
    for q in 20..1800 {
        let of = |log_n| bits(log_n, f64::from(q)).unwrap();
        assert!((MIN_LOG_N..16).all(|log_n| of(log_n) <= of(log_n + 1)));
    }
}

#[test]
fn limits_leave_what_a_rough_count_may_be_wrong_by() {
    let limits: Vec<u32> = (MIN_LOG_N..=16).map(|log_n| limit(log_n).unwrap()).collect();
    assert_eq!(limits, [105, 212, 426, 859, 1730]);
    for (log_n, limit) in (MIN_LOG_N..).zip(limits) {
        let at = bits(log_n, f64::from(limit)).unwrap();
        // 126.8 of the table's 128 by the rougher count.
        assert!(at * 126.8 / 128.0 >= f64::from(LEAST_BITS) && at < 129.6, "2^{log_n}: {at:.2}");
    }
}
