//! Samplers against their exact distributions. Seeds are fixed, so a pass stays a pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_ring::cpu::Path;
use fesc_ring::modulus::Modulus;
use fesc_ring::primes::ntt_primes;
use fesc_ring::sample::gaussian::{SIGMA, TABLE, TAIL, gaussian_with};
use fesc_ring::sample::{SampleError, centred_binomial, gaussian, ternary, uniform_mod, uniform_ring};
use fesc_ring::{Prg, Ring};

const COUNT: usize = 1 << 20;

/// Mean and variance within five standard deviations of their estimators, and chi-square within five of its
/// own. `p(k)` is the exact probability of `k`; cells are pooled until they expect at least ten samples.
fn check(name: &str, samples: &[i64], bound: i64, p: impl Fn(i64) -> f64) -> Result<(), String> {
    let n = samples.len() as f64;
    let moment = |e: i32| (-bound..=bound).map(|k| p(k) * (k as f64).powi(e)).sum::<f64>();
    let (variance, fourth) = (moment(2), moment(4));
    if let Some(bad) = samples.iter().find(|x| x.abs() > bound) {
        return Err(format!("{name}: {bad} is outside the bound {bound}"));
    }
    let mean = samples.iter().sum::<i64>() as f64 / n;
    if mean.abs() > 5.0 * (variance / n).sqrt() {
        return Err(format!("{name}: mean {mean}"));
    }
    let second = samples.iter().map(|x| x * x).sum::<i64>() as f64 / n;
    if (second - variance).abs() > 5.0 * ((fourth - variance * variance) / n).sqrt() {
        return Err(format!("{name}: second moment {second}, expected {variance}"));
    }
    let mut seen = vec![0u64; 2 * bound as usize + 1];
    samples.iter().for_each(|x| seen[(x + bound) as usize] += 1);
    let (mut chi, mut cells, mut want, mut got) = (0.0, 0.0, 0.0, 0.0);
    for k in -bound..=bound {
        want += n * p(k);
        got += seen[(k + bound) as usize] as f64;
        if want >= 10.0 {
            chi += (got - want) * (got - want) / want;
            cells += 1.0;
            (want, got) = (0.0, 0.0);
        }
    }
    let freedom: f64 = cells - 1.0;
    // The pooled rest of the upper tail expects below ten; its excess still counts through the moments above.
    if chi > freedom + 5.0 * (2.0 * freedom).sqrt() {
        return Err(format!("{name}: chi-square {chi} with {freedom} degrees of freedom"));
    }
    Ok(())
}

fn gaussian_probability(k: i64) -> f64 {
    let rho = |k: i64| (-((k * k) as f64) / (2.0 * SIGMA * SIGMA)).exp();
    rho(k) / (-60..=60).map(rho).sum::<f64>()
}

fn binomial_probability(eta: u32, k: i64) -> f64 {
    // P(k) = C(2 eta, eta + k) / 4^eta.
    let choose = (1..=(i64::from(eta) + k)).fold(1.0, |c, i| c * (2 * i64::from(eta) - i + 1) as f64 / i as f64);
    choose / 4f64.powi(eta as i32)
}

#[test]
fn gaussian_has_its_distribution() {
    let mut out = vec![0; COUNT];
    gaussian(&mut Prg::from_seed([11; 16]), &mut out);
    check("gaussian", &out, TAIL, gaussian_probability).unwrap();
    // The tail is populated: |Z| >= 13 has probability 8.6e-5, about 90 of a million.
    assert!(out.iter().any(|x| x.abs() >= 13));
    // Neighbours are uncorrelated: the estimator's deviation is sigma^2 / sqrt(n).
    let lag: f64 = out.windows(2).map(|w| (w[0] * w[1]) as f64).sum::<f64>() / COUNT as f64;
    assert!(lag.abs() < 5.0 * SIGMA * SIGMA / (COUNT as f64).sqrt(), "{lag}");
}

#[test]
fn the_check_itself_can_fail() {
    let mut out = vec![0; COUNT];
    gaussian(&mut Prg::from_seed([11; 16]), &mut out);
    let shifted: Vec<i64> = out.iter().enumerate().map(|(i, x)| x + i64::from(i % 50 == 0)).collect();
    assert!(check("shifted", &shifted, TAIL + 1, gaussian_probability).unwrap_err().contains("mean"));
    let wide: Vec<i64> = out.iter().enumerate().map(|(i, x)| if i % 100 == 0 { x * 2 } else { *x }).collect();
    assert!(check("wide", &wide, 2 * TAIL, gaussian_probability).unwrap_err().contains("moment"));
    // Same first two moments to within the noise, another shape: the centred binomial of nearly this
    // variance.
    let mut binomial = vec![0; COUNT];
    centred_binomial(&mut Prg::from_seed([11; 16]), 21, &mut binomial).unwrap();
    assert!(check("binomial", &binomial, TAIL, gaussian_probability).is_err());
    assert!(check("far", &[TAIL + 1], TAIL, gaussian_probability).unwrap_err().contains("bound"));
}

#[test]
fn gaussian_paths_agree_and_batches_do_not_show() {
    for count in [0, 1, 63, 64, 65, 1000] {
        let mut want = vec![0; count];
        gaussian_with(Path::Portable, &mut Prg::from_seed([12; 16]), &mut want);
        for path in Path::available() {
            let mut got = vec![0; count];
            gaussian_with(path, &mut Prg::from_seed([12; 16]), &mut got);
            assert_eq!(got, want, "{path:?}");
        }
        // One at a time gives the same samples from the same stream.
        let mut prg = Prg::from_seed([12; 16]);
        for w in want {
            let mut one = [0];
            gaussian(&mut prg, &mut one);
            assert_eq!(one[0], w);
        }
    }
}

#[test]
fn gaussian_is_the_table_search() {
    let mut out = [0; 500];
    gaussian(&mut Prg::from_seed([13; 16]), &mut out);
    let mut prg = Prg::from_seed([13; 16]);
    for x in out {
        let (a, b) = (prg.next_u64(), prg.next_u64());
        let u = u128::from(a >> 1) << 63 | u128::from(b >> 1);
        let magnitude = TABLE.partition_point(|&entry| entry <= u) as i64;
        assert_eq!(x, if a & 1 == 1 { -magnitude } else { magnitude });
    }
}

#[test]
fn table_is_the_formula() {
    // Fixed point: eight words, 320 fractional bits.
    type Big = [u64; 8];
    fn mul(a: &Big, b: &Big) -> Big {
        let mut wide = [0u64; 16];
        for (i, &x) in a.iter().enumerate() {
            let mut carry = 0u128;
            for (j, &y) in b.iter().enumerate() {
                let t = u128::from(x) * u128::from(y) + u128::from(wide[i + j]) + carry;
                wide[i + j] = t as u64;
                carry = t >> 64;
            }
            wide[i + 8] = carry as u64;
        }
        wide[5..13].try_into().unwrap()
    }
    fn div(a: &Big, d: u64) -> Big {
        let (mut out, mut rest) = ([0; 8], 0u128);
        for i in (0..8).rev() {
            let t = rest << 64 | u128::from(a[i]);
            out[i] = (t / u128::from(d)) as u64;
            rest = t % u128::from(d);
        }
        out
    }
    fn combine(a: &Big, b: &Big, subtract: bool) -> Big {
        let (mut out, mut carry) = ([0; 8], subtract);
        for i in 0..8 {
            let y = if subtract { !b[i] } else { b[i] };
            let (s, c1) = a[i].overflowing_add(y);
            let (s, c2) = s.overflowing_add(u64::from(carry));
            (out[i], carry) = (s, c1 | c2);
        }
        out
    }
    let add = |a: &Big, b: &Big| combine(a, b, false);
    let sub = |a: &Big, b: &Big| combine(a, b, true);
    let less = |a: &Big, b: &Big| a.iter().rev().lt(b.iter().rev());
    let one: Big = [0, 0, 0, 0, 0, 1, 0, 0];
    // g = exp(-25/512) by its series: sum of (-1)^i (25/512)^i / i!.
    let (mut g, mut term) = (one, one);
    for i in 1..60u64 {
        term = div(&mul(&term, &[0, 0, 0, 0, 0, 25, 0, 0]), 512 * i);
        g = if i % 2 == 1 { sub(&g, &term) } else { add(&g, &term) };
    }
    // rho(k) = g^(k^2), by rho(k+1) = rho(k) g^(2k+1).
    let g2 = mul(&g, &g);
    let (mut rho, mut odd, mut weights) = (one, g, vec![one]);
    for _ in 1..100 {
        rho = mul(&rho, &odd);
        odd = mul(&odd, &g2);
        weights.push(add(&rho, &rho));
    }
    let total = weights.iter().fold([0; 8], |s, w| add(&s, w));
    let scale = |v: u128, x: &Big| {
        // v x for an integer v < 2^127: the fixed-point product with v as an integer.
        mul(&[0, 0, 0, 0, 0, v as u64, (v >> 64) as u64, 0], x)
    };
    let half = div(&total, 2);
    let slack = div(&total, 1 << 60);
    let mut cumulative = [0; 8];
    for (k, &entry) in TABLE.iter().enumerate() {
        cumulative = add(&cumulative, &weights[k]);
        let (exact, rounded) = (scale(1 << 126, &cumulative), scale(entry, &total));
        let error = if less(&exact, &rounded) { sub(&rounded, &exact) } else { sub(&exact, &rounded) };
        assert!(less(&error, &add(&half, &slack)), "entry {k} is off by more than half a unit");
    }
    // The next entry would round to one.
    cumulative = add(&cumulative, &weights[TABLE.len()]);
    assert!(less(&sub(&scale(1 << 126, &total), &scale(1 << 126, &cumulative)), &half));
    assert!(TABLE.is_sorted_by(|a, b| a < b) && TABLE[TABLE.len() - 1] < 1 << 126);
    assert_eq!(TAIL, 42);
}

#[test]
fn binomial_has_its_distribution() {
    for eta in [1, 2, 21, 32] {
        let mut out = vec![0; COUNT / 4];
        centred_binomial(&mut Prg::from_seed([14; 16]), eta, &mut out).unwrap();
        check("binomial", &out, i64::from(eta), |k| binomial_probability(eta, k)).unwrap();
    }
    for eta in [0, 33] {
        assert_eq!(centred_binomial(&mut Prg::from_seed([0; 16]), eta, &mut [0]), Err(SampleError::Eta { eta }));
    }
}

#[test]
fn ternary_has_its_distribution() {
    let mut out = vec![0; COUNT];
    ternary(&mut Prg::from_seed([15; 16]), &mut out);
    check("ternary", &out, 1, |_| 1.0 / 3.0).unwrap();
}

#[test]
fn uniform_has_its_distribution() {
    // A prime just above a power of two rejects almost half of the words: the case where a biased sampler
    // shows.
    let m = Modulus::new(257).unwrap();
    let mut out = vec![0; COUNT];
    uniform_mod(&mut Prg::from_seed([16; 16]), m, &mut out);
    let centred: Vec<i64> = out.iter().map(|&x| m.to_signed(x)).collect();
    check("mod 257", &centred, 128, |_| 1.0 / 257.0).unwrap();
    // Large primes: the top eight bits, whose cells have equal probability up to 2^-40.
    let p = ntt_primes(50, 2048, 1).unwrap()[0];
    uniform_mod(&mut Prg::from_seed([17; 16]), Modulus::new(p).unwrap(), &mut out);
    assert!(out.iter().all(|&x| x < p));
    let mut seen = [0u64; 256];
    out.iter().for_each(|&x| seen[(u128::from(x) * 256 / u128::from(p)) as usize] += 1);
    let want = COUNT as f64 / 256.0;
    let chi: f64 = seen.iter().map(|&s| (s as f64 - want).powi(2) / want).sum();
    assert!((chi - 255.0).abs() < 5.0 * 510f64.sqrt(), "{chi}");
}

#[test]
fn limbs_are_independent() {
    // Two primes from one stream, as the limbs of an RNS polynomial: joint counts of the top four bits.
    let primes = ntt_primes(50, 2048, 2).unwrap();
    let mut prg = Prg::from_seed([18; 16]);
    let mut limbs = [vec![0; 1 << 16], vec![0; 1 << 16]];
    for (limb, &p) in limbs.iter_mut().zip(&primes) {
        uniform_mod(&mut prg, Modulus::new(p).unwrap(), limb);
    }
    let mut seen = [0u64; 256];
    for (x, y) in limbs[0].iter().zip(&limbs[1]) {
        seen[(x >> 46 << 4 | y >> 46) as usize] += 1;
    }
    let chi: f64 = seen.iter().map(|&s| (s as f64 - 256.0).powi(2) / 256.0).sum();
    assert!((chi - 255.0).abs() < 5.0 * 510f64.sqrt(), "{chi}");
}

#[test]
fn stream_positions_are_those_documented() {
    let ring = Ring::new(48).unwrap();
    let mut out = [0; 70];
    uniform_ring(&mut Prg::from_seed([19; 16]), ring, &mut out);
    let mut prg = Prg::from_seed([19; 16]);
    assert!(out.iter().all(|&x| x == ring.reduce(prg.next_u64())));
    // Rejection, word by word.
    let m = Modulus::new(257).unwrap();
    let mut prg = Prg::from_seed([19; 16]);
    let mut got = [0; 200];
    uniform_mod(&mut prg, m, &mut got);
    let mut twin = Prg::from_seed([19; 16]);
    for x in got {
        let want = std::iter::repeat_with(|| twin.next_u64() & 511).find(|&w| w < 257).unwrap();
        assert_eq!(x, want);
    }
    assert_eq!(prg.next_u64(), twin.next_u64(), "no word is drawn and lost");
}

#[test]
fn known_answers() {
    // python3 crates/fesc-ring/tests/vectors/sampler_kat.py: openssl's AES and the documented formulas,
    // nothing of ours.
    let seed = [0; 16];
    let m = Modulus::new(ntt_primes(50, 2048, 1).unwrap()[0]).unwrap();
    let (mut u, mut t, mut b, mut g) = ([0; 4], [0; 16], [0; 8], [0; 16]);
    uniform_mod(&mut Prg::from_seed(seed), m, &mut u);
    ternary(&mut Prg::from_seed(seed), &mut t);
    centred_binomial(&mut Prg::from_seed(seed), 21, &mut b).unwrap();
    gaussian(&mut Prg::from_seed(seed), &mut g);
    assert_eq!(u, [152762663561574, 902468627745928, 877311865418055, 1001608582249305]);
    assert_eq!(t, [1, 0, 1, 0, 0, 1, 1, 1, -1, 0, -1, 0, 0, 1, 1, 1]);
    assert_eq!(b, [-1, -3, 1, 2, 0, 2, 0, 4]);
    assert_eq!(g, [1, -6, 2, -1, 5, -1, -2, 10, 5, 1, 3, 3, -9, 2, -8, 0]);
}
