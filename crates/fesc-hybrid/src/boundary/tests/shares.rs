//! Ciphertexts to shares.

use fesc_ckks::mask::mask_width;
use fesc_ckks::{Ciphertext, CkksError, sets};
use fesc_mpc::Ledger;
use fesc_ring::{Prg, Ring};
use num_complex::Complex64;

use super::{Keys, both, keys, keys_of, ring};
use crate::HybridError;
use crate::boundary::{Fixed, Lanes, MaskBound, ToShares};

const BOUND: MaskBound = MaskBound { phase_bits: 36, masked: 1 << 18 };
const FIXED: Fixed = Fixed { ring: FORTY_EIGHT, fraction: 16 };
const FORTY_EIGHT: Ring = match Ring::new(48) {
    Ok(ring) => ring,
    Err(_) => unreachable!(),
};

/// Runs both halves on these ciphertexts.
fn convert(keys: &Keys, shape: &ToShares, results: &[Ciphertext]) -> [Lanes; 2] {
    let mut prg = Prg::from_seed([77; 16]);
    let outcome = both(
        |ledger| shape.declare(ledger),
        |party| shape.run_client(party, &keys.secret).unwrap(),
        |party| shape.run_server(party, &keys.evaluator, &keys.public, results, &mut prg).unwrap(),
    );
    outcome.assert_declared(|ledger| shape.declare(ledger));
    [outcome.client, outcome.server]
}

/// The largest error of the joined lanes.
fn error(lanes: &[Lanes; 2], want: &[Complex64], fixed: Fixed) -> f64 {
    let [a, b] = lanes;
    let join = |x: &fesc_mpc::Shared, y| x.join(y).unwrap();
    let (re, im) = (join(&a.real, &b.real), join(&a.imaginary, &b.imaginary));
    assert_eq!((re.len(), im.len()), (want.len(), want.len()));
    let real = |x: u64| fixed.ring.to_signed(x) as f64 / f64::from(fixed.fraction).exp2();
    let apart = |(z, (&re, &im)): (&Complex64, (&u64, &u64))| (real(re) - z.re).abs().max((real(im) - z.im).abs());
    want.iter().zip(re.iter().zip(&im)).map(apart).fold(0.0, f64::max)
}

fn random(count: usize, size: f64, prg: &mut Prg) -> Vec<Complex64> {
    let mut number = || (prg.next_u64() as i64 as f64) / 2f64.powi(63) * size;
    (0..count).map(|_| Complex64::new(number(), number())).collect()
}

#[test]
fn lanes_of_all_slots_are_shared_within_the_stated_error() {
    let keys = keys();
    let mut prg = Prg::from_seed([1; 16]);
    for (count, level) in [(0, 3), (1, 2), (17, 3)] {
        let shape = ToShares::new(&keys.params, count, keys.params.scale(), BOUND, FIXED).unwrap();
        assert_eq!((shape.level(), shape.values()), (2, count * 4096));
        let slots = random(count * 4096, 30.0, &mut prg);
        let results: Vec<_> = slots.chunks(4096).map(|z| keys.encrypt(z, level, &mut prg)).collect();
        let lanes = convert(&keys, &shape, &results);
        let stated = shape.report().unwrap().log_error.exp2();
        // The encryption's own noise is not the conversion's: 3.2 sqrt(8192) / 2^30, six deviations.
        let (got, own) = (error(&lanes, &slots, FIXED), 6.0 * 3.2 * 8192f64.sqrt() / 2f64.powi(30));
        assert!(got <= stated + own, "{got:e} and stated {stated:e}");
        // Neither part is the value.
        let small = lanes.iter().flat_map(|l| l.real.values()).filter(|&&x| FIXED.ring.to_signed(x).abs() < 1 << 30);
        assert!(small.count() <= count, "parts fill the ring");
    }
}

#[test]
fn a_set_of_the_papers_projections_is_shared_too() {
    let keys = keys_of(&sets::IN_PROJ.literal());
    let mut prg = Prg::from_seed([2; 16]);
    let slots = random(keys.params.slots(), 15.0, &mut prg);
    let bound = MaskBound { phase_bits: 44, masked: 1 << 28 };
    let fixed = Fixed { ring: ring(64), fraction: 16 };
    let shape = ToShares::new(&keys.params, 1, keys.params.scale(), bound, fixed).unwrap();
    assert_eq!(shape.level(), 2);
    let results = [keys.encrypt(&slots, 4, &mut prg)];
    let report = shape.report().unwrap();
    assert_eq!((report.log_distance, report.width), (-41.0, 112));
    let got = error(&convert(&keys, &shape, &results), &slots, fixed);
    assert!(got <= report.log_error.exp2() * 1.1, "{got:e}\n{report}");
}

#[test]
fn the_level_is_the_smallest_that_holds_the_mask() {
    let keys = keys();
    let level = |phase_bits, masked| {
        let fixed = Fixed { ring: ring(48), fraction: 4 };
        ToShares::new(&keys.params, 0, 2f64.powi(30), MaskBound { phase_bits, masked }, fixed).map(|s| s.level())
    };
    // Moduli of 40, 80, 120 and 160 bits, each a little more or less.
    for (phase_bits, masked, want) in [(38, 1, 1), (40, 1, 2), (38, 4, 2), (78, 1, 2), (80, 1, 3), (50, 1 << 28, 2)] {
        assert_eq!(level(phase_bits, masked).unwrap(), want, "{phase_bits} bits, {masked}");
        assert!(f64::from(mask_width(phase_bits, masked)) + 1.0 < keys.params.log_q(want).unwrap());
    }
    let e = level(120, 1).map(|_| ()).unwrap_err();
    assert!(matches!(e, HybridError::NoLevel { width: 160, phase_bits: 120, need: 161, .. }), "{e}");
}

#[test]
fn widths_that_cannot_be_decoded_are_refused_before_there_is_data() {
    let keys = keys();
    let bound = MaskBound { phase_bits: 60, masked: 1 << 20 };
    let refused = ToShares::new(&keys.params, 1, 2f64.powi(30), bound, Fixed { ring: ring(64), fraction: 63 });
    let e = refused.map(|_| ()).unwrap_err();
    assert!(matches!(e, HybridError::Ckks(CkksError::ShareTooLarge { .. })), "{e}");
}

#[test]
fn what_is_not_in_the_plan_is_refused() {
    let keys = keys();
    let mut prg = Prg::from_seed([3; 16]);
    let shape = ToShares::new(&keys.params, 1, keys.params.scale(), BOUND, FIXED).unwrap();
    let one = keys.encrypt(&[], 3, &mut prg);
    let twice = keys.evaluator.multiply_constant(&one, Complex64::new(1.0, 0.0), 2.0).unwrap();
    let low = keys.evaluator.drop_to_level(&one, 1).unwrap();
    let mut errors = Vec::new();
    both(
        |_: &mut Ledger| (),
        |party| {
            assert!(matches!(
                shape.run_server(party, &keys.evaluator, &keys.public, &[], &mut Prg::from_seed([1; 16])),
                Err(HybridError::Role("server"))
            ))
        },
        |party| {
            assert!(matches!(shape.run_client(party, &keys.secret), Err(HybridError::Role("client"))));
            for results in [vec![], vec![one.clone(), one.clone()], vec![twice], vec![low]] {
                let run = shape.run_server(party, &keys.evaluator, &keys.public, &results, &mut prg);
                errors.push(run.map(|_| ()).unwrap_err());
            }
        },
    );
    assert!(matches!(
        errors[..],
        [
            HybridError::Length { expected: 1, got: 0, .. },
            HybridError::Length { expected: 1, got: 2, .. },
            HybridError::Ckks(CkksError::ScaleMismatch { .. }),
            HybridError::Ckks(CkksError::Level { level: 2, max: 1 })
        ]
    ));
}
