use crate::security::{Lpn, attacks, estimate};
use crate::{LpnParams, MIN_SECURITY_BITS, OtError, SilentParams};

fn of(p: &LpnParams) -> Lpn {
    Lpn { k: p.k(), t: p.t(), log_block: p.log_block() }
}

#[test]
fn the_standard_set_has_its_margin() {
    let set = SilentParams::standard().unwrap();
    assert_eq!(set, SilentParams::STANDARD);
    // The figures of the table in `params`.
    assert!((estimate(of(set.first())).bits - 137.7).abs() < 0.05);
    assert!((estimate(of(set.main())).bits - 134.2).abs() < 0.05);
    for p in [set.first(), set.main()] {
        let e = estimate(of(p));
        assert!(e.bits >= MIN_SECURITY_BITS + 3.0, "{p:?} {e:?}");
        assert!(e.bits < MIN_SECURITY_BITS + 20.0, "a set far above the bound is slower than it need be: {e:?}");
    }
}

/// The bound is exact: the last `k` that passes is one above the first that fails.
#[test]
fn construction_refuses_below_the_bound() {
    for (t, log_block, top) in [(430, 8, 100_000), (2000, 9, 200_000)] {
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

/// Published sets that the algebraic attacks have overtaken, with the count of this crate.
#[test]
fn published_sets_are_refused() {
    for (k, t, log_block, below) in
        [(124_000, 4971, 11, 75.0), (238_000, 2507, 12, 90.0), (452_000, 1280, 13, 110.0), (17_384, 699, 8, 118.0)]
    {
        let e = estimate(Lpn { k, t, log_block });
        assert!(e.bits < below && e.bits > 60.0, "{e:?}");
        assert!(matches!(LpnParams::new(k, t, log_block), Err(OtError::WeakParameters { .. })));
    }
}

#[test]
fn pooled_gauss_matches_its_formula() {
    // 10000 unknowns, noise 1/256: 10000 log2(256/255) = 56.466, plus log2(30) + 2 log2(11000).
    let got = attacks(Lpn { k: 11_000, t: 1000, log_block: 8 })[0].bits;
    let want = 10_000.0 * (256f64 / 255.0).log2() + 30f64.log2() + 2.0 * 11_000f64.log2();
    assert!((got - want).abs() < 1e-9, "{got} {want}");
    assert!((want - 88.22).abs() < 0.01, "{want}");
}

#[test]
fn malformed_sets_are_refused() {
    for (k, t, log_block) in
        [(0, 1, 8), (1, 0, 8), (100_000, 10, 8), (1 << 29, 2500, 10), (1000, 100, 0), (1000, 100, 40)]
    {
        assert!(matches!(LpnParams::new(k, t, log_block), Err(OtError::BadParameters { .. })), "{k} {t} {log_block}");
    }
    let main = *SilentParams::STANDARD.main();
    let first = LpnParams::new(30_000, 300, 8).unwrap();
    assert!(matches!(SilentParams::new(first, main), Err(OtError::BadParameters { .. })));
}
