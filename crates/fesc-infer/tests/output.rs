//! The output step against a client that repeats its document.
//!
//! The attack: the client knows how its input was perturbed in each run (`e`, a few units of the last place:
//! RLWE noise and roundings of its own), and all its own shares. If what it sees moves with the exact logit,
//! regression on `e` gives the head's column. Two wrong last steps are built here, and the attack finds the
//! column through each. The exact floor gives it nothing in the middle between two borders, and everything
//! next to one: there what it shows is one bit of where the exact logit lies, and repeating the document
//! measures it. That is a leak of the function itself, which is randomised with randomness that the client
//! knows; a budget of runs that reveal logits is what limits it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_infer::stage::Floor;
use fesc_mpc::protocol::{Convert, Open};
use fesc_mpc::{Role, Shared};
use fesc_ring::{Prg, Ring, sample};

/// Bits of a logit below those that are shown: F + HEAD - REVEAL.
const SHIFT: u32 = 28;
/// The same for the wrong last steps, where 8 bits are shown: with fewer, the attack through them needs more
/// runs.
const FINE: u32 = 24;
const FEATURES: usize = 12;
const RUNS: usize = 6000;

fn ring() -> Ring {
    Ring::new(48).unwrap()
}

/// One document in many runs.
struct Repeated {
    /// The head's column, 16 bits.
    column: Vec<i64>,
    /// What the client knows of each run's input.
    noise: Vec<Vec<i64>>,
    /// The exact logits at 32 bits.
    logits: Vec<i64>,
}

/// `above`: how far above a border the logit lies without noise, in steps of what is shown.
fn repeated(above: f64, shift: u32) -> Repeated {
    let column = integers(FEATURES, 1 << 16, 1);
    let mut prg = Prg::from_seed([2; 16]);
    let noise: Vec<Vec<i64>> = (0..RUNS)
        .map(|_| {
            let mut e = vec![0; FEATURES];
            sample::gaussian(&mut prg, &mut e);
            e.iter_mut().for_each(|e| *e *= 3);
            e
        })
        .collect();
    let centre = (5i64 << shift) + (above * f64::from(1u32 << shift)) as i64;
    let logit = |e: &Vec<i64>| centre + e.iter().zip(&column).map(|(e, w)| e * w).sum::<i64>();
    let logits = noise.iter().map(logit).collect();
    Repeated { column, noise, logits }
}

/// Correlation of the column with what regression on the noise finds (features are independent: one at a
/// time).
fn attack(case: &Repeated, seen: &[f64]) -> f64 {
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    let found: Vec<f64> =
        (0..FEATURES).map(|j| case.noise.iter().zip(seen).map(|(e, y)| e[j] as f64 * (y - mean)).sum()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let column: Vec<f64> = case.column.iter().map(|&w| w as f64).collect();
    let size = (dot(&found, &found) * dot(&column, &column)).sqrt();
    if size == 0.0 { 0.0 } else { dot(&found, &column) / size }
}

#[test]
fn a_share_rounded_by_its_owner_gives_the_head_away() {
    let case = repeated(0.5, FINE);
    let (a, b) = split(ring(), &case.logits, 3);
    // The wrong step: the server sends its share without the low bits. The client knows its own low bits,
    // which dither the cut.
    let seen: Vec<f64> = a
        .values()
        .iter()
        .zip(b.values())
        .map(|(&x0, &x1)| ring().to_signed(ring().add(x0, x1 >> FINE << FINE)) as f64)
        .collect();
    let found = attack(&case, &seen);
    println!("owner-rounded share: correlation {found:.3}");
    assert!(found > 0.8, "{found}");
}

#[test]
fn a_stochastic_truncation_gives_the_head_away() {
    let case = repeated(0.5, FINE);
    let (a, b) = split(ring(), &case.logits, 3);
    let step = Convert::truncate(ring(), FINE, RUNS).unwrap();
    let open = Open { ring: ring(), count: RUNS, to: Some(Role::P0) };
    let go = |p: &mut fesc_mpc::Party, x: &Shared| {
        let y = step.run(p, x)?;
        Ok(open.run(p, &y)?)
    };
    let ran = both(|p| go(p, &a), |p| go(p, &b));
    let seen: Vec<f64> = ran.client.unwrap().into_iter().map(|v| ring().to_signed(v) as f64).collect();
    let found = attack(&case, &seen);
    println!("stochastic truncation: correlation {found:.3}");
    assert!(found > 0.8, "{found}");
}

/// In the middle between two borders.
#[test]
fn the_exact_floor_gives_nothing_away_from_a_border() {
    let case = repeated(0.5, SHIFT);
    let (a, b) = split(ring(), &case.logits, 3);
    let step = Floor::new(ring(), SHIFT, RUNS).unwrap();
    let ran = both(|p| step.run(p, &a), |p| step.run(p, &b));
    ran.assert_declared(|l| step.declare(l));
    assert!(ran.server.is_none(), "the server learns nothing");
    let seen = ran.client.unwrap();
    assert!(seen.iter().all(|&v| v == 5), "no run differs");
    let seen: Vec<f64> = seen.into_iter().map(|v| v as f64).collect();
    assert_eq!(attack(&case, &seen), 0.0);
}

/// The leak that stays, and how far from a border it reaches: the noise of a run times the head's weights, in
/// steps of what is shown. Fewer bits make steps larger, and borders rarer by as much.
#[test]
fn next_to_a_border_the_exact_floor_gives_the_head_away() {
    let reach = {
        let case = repeated(0.0, SHIFT);
        let deviation = case.column.iter().map(|w| (w * w) as f64).sum::<f64>().sqrt() * 3.0 * 3.2;
        deviation / f64::from(1u32 << SHIFT)
    };
    let mut found = Vec::new();
    for above in [0.0, reach, 3.0 * reach, 8.0 * reach] {
        let case = repeated(above, SHIFT);
        let (a, b) = split(ring(), &case.logits, 3);
        let step = Floor::new(ring(), SHIFT, RUNS).unwrap();
        let ran = both(|p| step.run(p, &a), |p| step.run(p, &b));
        let seen: Vec<f64> = ran.client.unwrap().into_iter().map(|v| v as f64).collect();
        found.push(attack(&case, &seen));
    }
    println!("reach {reach:.4} of a step: correlations {found:.3?}");
    assert!(found[0] > 0.95 && found[1] > 0.9, "a bit of each run is a measurement of the column: {found:?}");
    assert_eq!(found[3], 0.0, "eight deviations away nothing flickers");
    // The share of logits that lie so near to a border that the attack works, with 4 fractional bits.
    assert!(2.0 * 3.0 * reach < 0.1, "{reach}");
}

/// The floor of every value around every border, both signs, both ends, for many sharings.
#[test]
fn the_floor_is_exact() {
    for (bits, shift) in [(48u32, 24u32), (48, 1), (12, 5), (10, 8)] {
        let ring = Ring::new(bits).unwrap();
        let half = 1i64 << (bits - 1);
        let mut values = Vec::new();
        for border in [-half, -half / 2, -(3 << shift), -(1 << shift), 0, 1 << shift, half / 2, half - 1] {
            values.extend((-3..=3).map(|d| border + d).filter(|v| (-half..half).contains(v)));
        }
        let values = values.repeat(9);
        let (a, b) = split(ring, &values, bits as u8);
        let step = Floor::new(ring, shift, values.len()).unwrap();
        let ran = both(|p| step.run(p, &a), |p| step.run(p, &b));
        let want: Vec<i64> = values.iter().map(|v| v >> shift).collect();
        assert_eq!(ran.client.unwrap(), want, "{bits} bits, {shift} dropped");
    }
}
