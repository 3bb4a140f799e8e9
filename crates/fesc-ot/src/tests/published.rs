//! Published sets, each attack on them by itself, and the counts that ours replaced.

use crate::security::{Lpn, Noise, attacks, estimate, fewest};
use crate::{LpnParams, OtError};

/// A published set, and what is expected of it in bits: enumeration on all columns, on few columns,
/// statistical decoding, algebra, algebra on few columns.
struct Published {
    name: &'static str,
    set: (usize, usize, u32),
    bits: [f64; 5],
}

const fn set(name: &'static str, k: usize, t: usize, log_block: u32, bits: [f64; 5]) -> Published {
    Published { name, set: (k, t, log_block), bits }
}

/// Those of emp-ot before 1.0 are in `ferret/constants.h` at commit 18f83b8; that of mpz was taken over
/// second-hand. By our count, which is unpublished; with three passes of Wiedemann instead of one algebra
/// has 73.6, 83.8 and 103.4 bits on the first three. By the formula of 2023/176 the first three have 109.6,
/// 121.4 and 139.7 bits.
const SETS: [Published; 11] = [
    set("emp-ot before 1.0 (18f83b8), b11", 124_000, 4971, 11, [99.1, 59.7, 192.7, 72.1, 66.1]),
    set("emp-ot before 1.0 (18f83b8), b12", 238_000, 2507, 12, [101.1, 64.1, 187.5, 82.2, 69.5]),
    set("emp-ot before 1.0 (18f83b8), b13", 452_000, 1280, 13, [100.6, 68.3, 181.5, 101.8, 70.0]),
    set("emp-ot before 1.0 (18f83b8), b11, first", 17_384, 699, 8, [101.0, 70.4, 220.2, 111.0, 89.1]),
    set("emp-ot before 1.0 (18f83b8), b12, first", 17_384, 1050, 8, [99.1, 67.2, 216.6, 97.3, 82.5]),
    set("emp-ot before 1.0 (18f83b8), b13, first", 32_768, 918, 9, [99.4, 67.1, 206.4, 104.5, 82.8]),
    set("emp-ot 1.0.0-alpha.1 (July 2026), b10", 1 << 16, 850, 10, [103.3, 70.2, 208.0, 111.6, 81.6]),
    set("emp-ot 1.0.0-alpha.1 (July 2026), b11", 1 << 17, 1170, 11, [106.4, 70.7, 206.9, 108.9, 78.5]),
    set("emp-ot 1.0.0-alpha.1 (July 2026), b12", 1 << 18, 1520, 12, [109.5, 71.7, 206.7, 106.4, 74.7]),
    set("emp-ot 1.0.0-alpha.1 (July 2026), b13", 1 << 19, 1900, 13, [112.5, 73.1, 206.9, 104.4, 81.6]),
    set("mpz 0.1.0-alpha.6 (June 2026)", 38_737, 2000, 9, [112.4, 71.4, 237.8, 92.7, 87.0]),
];

#[test]
fn published_sets_are_refused() {
    for Published { name, set: (k, t, log_block), bits } in SETS {
        let lpn = Lpn { k, t, log_block };
        let [gauss, rest @ ..] = attacks(lpn, Noise::Independent);
        for (got, want) in rest.iter().zip(bits) {
            assert!((got.bits - want).abs() < 0.1, "{name}: {got:?}, expected {want}");
        }
        assert!(gauss.bits > rest[0].bits, "{name}: enumeration contains pooled Gauss");
        let decides = estimate(lpn);
        assert_eq!(decides.attack, "enumeration on few columns", "{name}");
        match LpnParams::new(k, t, log_block) {
            Err(OtError::WeakParameters { bits, attack, .. }) => {
                assert_eq!((bits, attack), (decides.bits, decides.attack))
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

fn log_choose(n: f64, d: u32) -> f64 {
    (0..d).map(|i| ((n - f64::from(i)) / f64::from(i + 1)).log2()).sum()
}

/// A second count, written down independently of ours (2026): block Wiedemann in three passes, the check
/// window by the four Russians, `(30 + w / log2 w) u^2`; representations without extra places, two
/// operations an entry; the window without noise.
fn reviewed(lpn: Lpn) -> f64 {
    let (u, block) = (fewest(lpn), f64::from(lpn.log_block).exp2());
    let free = -(1.0 - 1.0 / block).log2();
    let mut best = f64::INFINITY;
    for p in (2..=10u32).step_by(2) {
        let representations = log_choose(f64::from(p), p / 2);
        let list = log_choose(u, p / 2) - representations;
        for w in (8..128).map(f64::from) {
            let solve = (30.0 + w / w.log2()) * u * u;
            let each = (solve + 2.0 * list.exp2() + 2.0 * (2.0 * list - (w - representations)).exp2()).log2();
            let good = log_choose(u, p) - f64::from(p) * (block - 1.0).log2() - (u + w) * free;
            best = best.min(each - good);
        }
    }
    best
}

/// The figures of the second count for the sets of that time come out within half a bit, and ours are at
/// least 3 bits lower: one pass instead of three, extra places, one operation an entry, a window that may
/// hold noise.
#[test]
fn the_review_is_reproduced_and_ours_is_lower() {
    for (k, t, log_block, theirs) in [(70_000, 2000, 9, 129.7), (30_000, 430, 8, 133.0), (66_607, 2000, 9, 123.4)] {
        let lpn = Lpn { k, t, log_block };
        let again = reviewed(lpn);
        assert!((again - theirs).abs() < 0.5, "k = {k}: {again}, the review says {theirs}");
        let ours = estimate(lpn).bits;
        assert!(ours < again - 3.0 && ours > again - 4.5, "k = {k}: {ours} and {again}");
    }
}

/// What regularity adds on the fewest columns of the sets of that time: 2.4 and 14.1 bits for a set without
/// noise by the second count; less for the best attack, which tolerates noise.
#[test]
fn regularity_adds_what_the_product_says() {
    for (k, t, log_block, theirs, least) in [(70_000, 2000, 9, 2.4, 1.9), (30_000, 430, 8, 14.1, 12.0)] {
        let lpn = Lpn { k, t, log_block };
        let (u, blocks, block) = (fewest(lpn), f64::from(t as u32), f64::from(log_block).exp2());
        let clean = -blocks * (1.0 - u / blocks / block).log2() + u * (1.0 - 1.0 / block).log2();
        assert!((clean - theirs).abs() < 0.1, "k = {k}: {clean}");
        let [independent, regular] = [Noise::Independent, Noise::Regular].map(|noise| attacks(lpn, noise)[2].bits);
        assert!((least..clean).contains(&(regular - independent)), "k = {k}: {}", regular - independent);
    }
}
