use crate::security::{
    Lpn, Noise, attacks, estimate, estimate_with, few_columns, fewest, fewest_among, lightest_dependency,
};
use crate::{LpnParams, MIN_SECURITY_BITS, OtError, SilentParams};

fn of(p: &LpnParams) -> Lpn {
    Lpn { k: p.k(), t: p.t(), log_block: p.log_block() }
}

/// What the standard sets must have without the regularity of the noise.
const MARGIN: f64 = MIN_SECURITY_BITS + 4.0;

#[test]
fn the_standard_set_has_its_margin() {
    let set = SilentParams::standard().unwrap();
    assert_eq!(set, SilentParams::STANDARD);
    for p in [set.first(), set.main()] {
        let e = estimate(of(p));
        assert_eq!(e, estimate_with(of(p), Noise::Independent), "regularity is not what guards");
        assert!(e.bits >= MARGIN, "{p:?} {e:?}");
        assert!(e.bits < MARGIN + 2.0, "a set far above the bound is slower than it need be: {e:?}");
        assert!(estimate_with(of(p), Noise::Regular).bits >= e.bits + 2.0);
    }
}

/// Every attack by itself, in the order of [`attacks`]: the figures of the tables in `params` and
/// SECURITY.md.
#[test]
fn every_attack_on_the_standard_set_has_its_figure() {
    let set = SilentParams::STANDARD;
    for (p, noise, want) in [
        (set.first(), Noise::Independent, [201.5, 172.2, 132.8, 422.4, 235.4, 168.7]),
        (set.first(), Noise::Regular, [233.8, 201.4, 147.9, 422.4, 235.4, 168.7]),
        (set.main(), Noise::Independent, [238.2, 208.1, 132.8, 447.8, 174.8, 150.9]),
        (set.main(), Noise::Regular, [245.4, 214.7, 135.1, 447.8, 174.8, 150.9]),
    ] {
        for (got, want) in attacks(of(p), noise).iter().zip(want) {
            assert!((got.bits - want).abs() < 0.1, "{p:?} {noise:?}: {got:?}, expected {want}");
        }
    }
}

/// The lightest rows that sum to zero, which exist and must not be found: weight and bias. The sets before
/// July 2026 and an old one of emp-ot as they were.
#[test]
fn light_dependencies_exist_and_have_this_bias() {
    let set = SilentParams::STANDARD;
    let old = |k, t, log_block| Lpn { k, t, log_block };
    for (lpn, rows, bias) in [
        (of(set.first()), 5106.0, 57.8),
        (of(set.main()), 7278.0, 41.1),
        (old(30_000, 430, 8), 4796.0, 54.3),
        (old(70_000, 2000, 9), 6785.0, 38.3),
        (old(124_000, 4971, 11), 7131.0, 10.1),
    ] {
        let got = lightest_dependency(lpn);
        assert!((got.rows - rows).abs() < 2.0 && (got.bias_bits - bias).abs() < 0.1, "{lpn:?} {got:?}");
    }
}

/// A sender that tries 2^64 nonces to get a matrix with fewer columns, or an attacker that looks at as many
/// iterations, gains less than a tenth of a bit, and does gain something.
#[test]
fn choosing_among_matrices_is_worth_little() {
    let set = SilentParams::STANDARD;
    for lpn in [of(set.first()), of(set.main())] {
        let [one, best] = [fewest(lpn), fewest_among(lpn, 64.0)];
        assert!(best < one - 1.0, "{one} {best}");
        let [one, best] = [one, best].map(|columns| few_columns(lpn, Noise::Independent, columns).bits);
        assert!((0.0..0.1).contains(&(one - best)), "{one} {best}");
    }
}

/// The bound is exact: the last `k` that passes is one above the first that fails.
#[test]
fn construction_refuses_below_the_bound() {
    for (t, log_block, top) in [(380, 8, 90_000), (2000, 9, 200_000)] {
        let (mut low, mut high) = (4 * t, top);
        assert!(LpnParams::new(high, t, log_block).is_ok());
        while high - low > 1 {
            let k = (low + high) / 2;
            if estimate(Lpn { k, t, log_block }).bits < MIN_SECURITY_BITS { low = k } else { high = k }
        }
        assert!(LpnParams::new(high, t, log_block).is_ok());
        match LpnParams::new(low, t, log_block) {
            Err(OtError::WeakParameters { bits, .. }) => assert!((127.5..128.0).contains(&bits), "{bits}"),
            other => panic!("k = {low} must be refused, got {other:?}"),
        }
    }
}

#[test]
fn pooled_gauss_matches_its_formula() {
    // 10000 unknowns, noise 1/256: 10000 log2(256/255) = 56.466, plus log2(10) + 2 log2(11000).
    let lpn = Lpn { k: 11_000, t: 1000, log_block: 8 };
    let solve = 10f64.log2() + 2.0 * 11_000f64.log2();
    let want = 10_000.0 * (256f64 / 255.0).log2() + solve;
    let got = attacks(lpn, Noise::Independent)[0].bits;
    assert!((got - want).abs() < 1e-9 && (want - 86.64).abs() < 0.01, "{got} {want}");
    // Regular: ten samples of each of the 1000 blocks.
    let want = 1000.0 * (256f64 / 246.0).log2() + solve;
    let got = attacks(lpn, Noise::Regular)[0].bits;
    assert!((got - want).abs() < 1e-9, "{got} {want}");
}

#[test]
fn malformed_sets_are_refused() {
    for (k, t, log_block) in
        [(0, 1, 8), (1, 0, 8), (100_000, 10, 8), (1 << 29, 2500, 10), (1000, 100, 0), (1000, 100, 40)]
    {
        assert!(matches!(LpnParams::new(k, t, log_block), Err(OtError::BadParameters { .. })), "{k} {t} {log_block}");
    }
    let main = *SilentParams::STANDARD.main();
    let first = LpnParams::new(30_200, 300, 8).unwrap();
    assert!(matches!(SilentParams::new(first, main), Err(OtError::BadParameters { .. })));
}
