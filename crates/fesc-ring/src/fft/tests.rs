//! Known answers, the definition, the order of the slots, and equal bits on all paths.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Prg;
use crate::automorphism::rotation;

/// Numbers in `[-1, 1)`.
fn random(prg: &mut Prg, len: usize) -> Vec<f64> {
    (0..len).map(|_| (prg.next_u64() as i64) as f64 / 2f64.powi(63)).collect()
}

fn transformed(fft: &Fft, path: Path, forward: bool, re: &[f64], im: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut re, mut im, mut scratch) = (re.to_vec(), im.to_vec(), vec![f64::NAN; fft.scratch()]);
    if forward {
        fft.forward_with(path, &mut re, &mut im, &mut scratch);
    } else {
        fft.inverse_with(path, &mut re, &mut im, &mut scratch);
    }
    (re, im)
}

fn bits(v: &(Vec<f64>, Vec<f64>)) -> Vec<u64> {
    v.0.iter().chain(&v.1).map(|x| x.to_bits()).collect()
}

/// The values of mpmath with 300 bits, rounded; the fold is over cosines and sines of the whole first eighth.
#[test]
fn roots_are_correctly_rounded() {
    let roots = Roots::new(1 << 17);
    let known: [(usize, u64, u64); 8] = [
        (1, 0x3fefffffff62161a, 0x3f0921fb541ad59e),
        (3, 0x3feffffffa72c6e7, 0x3f22d97c7e1c135c),
        (125, 0x3fefffda59be4850, 0x3f788b25d0236595),
        (12345, 0x3fea8ef01721cdfc, 0x3fe1d9d369459ae3),
        (16383, 0x3fe6a0e57c1bfd60, 0x3fe6a0575003275e),
        (16384, 0x3fe6a09e667f3bcd, 0x3fe6a09e667f3bcd),
        (77777, 0xbfeaa5a2c6e9e89e, 0xbfe1b7df9d5c63cd),
        (100001, 0x3fb4cd67930e3e25, 0xbfefe4e8b872cebe),
    ];
    for (k, re, im) in known {
        assert_eq!(roots.get(k).map(f64::to_bits), [re, im], "{k}");
    }
    let fold = |acc: u64, x: f64| acc.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(x.to_bits());
    assert_eq!((0..=1 << 14).flat_map(|k| roots.get(k)).fold(0, fold), 0x7cc6_d469_a153_2011);
}

/// Eight slots of `c_k = k^2 - 5 + (3 - 2k) i`, by mpmath.
#[test]
fn known_transform() {
    let re: Vec<f64> = (0..8).map(|k| f64::from(k * k - 5)).collect();
    let im: Vec<f64> = (0..8).map(|k| f64::from(3 - 2 * k)).collect();
    let want = [
        (63.12927649905291, 84.8094478367949),
        (43.529593364537774, -26.691943414744227),
        (-41.1188038802715, -5.095170066035065),
        (-85.589673805602, 64.85216402479035),
        (-11.22804730953705, -22.54506315918092),
        (-23.15165519962638, -17.231934551625464),
        (14.472408686694688, -28.198651863101777),
        (-0.04309835524842813, -25.898848806897803),
    ];
    let fft = Fft::new(8).unwrap();
    let got = transformed(&fft, Path::Portable, true, &re, &im);
    for (j, (re, im)) in want.into_iter().enumerate() {
        assert!((got.0[j] - re).abs() < 1e-13 && (got.1[j] - im).abs() < 1e-13, "{j}");
    }
}

#[test]
fn slots_are_the_values_at_the_powers_of_five() {
    let mut prg = Prg::from_seed([8; 16]);
    for log in 0..=10 {
        let n = 1usize << log;
        let (re, im) = (random(&mut prg, n), random(&mut prg, n));
        let fft = Fft::new(n).unwrap();
        let (got_re, got_im) = transformed(&fft, cpu::path(), true, &re, &im);
        let roots = Roots::new((4 * n).max(8));
        let unit = (4 * n).max(8) / (4 * n);
        for j in 0..n {
            let e = rotation(2 * n, j as i64) as usize;
            let (mut a, mut b) = (0.0, 0.0);
            for k in 0..n {
                let [c, s] = roots.get(unit * e * k);
                a += re[k] * c - im[k] * s;
                b += re[k] * s + im[k] * c;
            }
            let bound = 1e-15 * n as f64;
            assert!((got_re[j] - a).abs() <= bound && (got_im[j] - b).abs() <= bound, "{n} {j}");
        }
    }
}

#[test]
fn every_path_gives_the_same_bits_and_the_inverse_comes_back() {
    let mut prg = Prg::from_seed([9; 16]);
    for log in 0..=15 {
        let n = 1usize << log;
        let fft = Fft::new(n).unwrap();
        assert_eq!((fft.slots(), fft.scratch()), (n, 2 * n));
        let (re, im) = (random(&mut prg, n), random(&mut prg, n));
        let values = transformed(&fft, Path::Portable, true, &re, &im);
        let back = transformed(&fft, Path::Portable, false, &values.0, &values.1);
        for path in Path::available() {
            assert_eq!(bits(&transformed(&fft, path, true, &re, &im)), bits(&values), "{n} {path:?}");
            assert_eq!(bits(&transformed(&fft, path, false, &values.0, &values.1)), bits(&back), "{n} {path:?}");
        }
        let error = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let rms = ((error(&re, &back.0) + error(&im, &back.1)) / n as f64).sqrt();
        // Each pass of both ways adds about half a unit of the last place of the values' size, sqrt(2/3).
        assert!(rms < 2f64.powi(-53) * (1.0 + 1.5 * f64::from(log).sqrt()), "{n}: {rms:e}");
    }
}

#[test]
fn rounding_is_to_nearest_even_and_reports_the_largest() {
    let values = [0.5, 1.5, -0.5, -2.5, 0.49999999999999994, 1e6, -3.25, 7.0, 2.5, -1e300, 1e300];
    let want = [1, 3, -1, -5, 1, 2_000_000, -6, 14, 5, i64::MIN, i64::MAX];
    for path in Path::available() {
        let mut out = [0; 11];
        assert_eq!(scale_and_round_with(path, &values, 2.0, &mut out), 2e300, "{path:?}");
        assert_eq!(out, want, "{path:?}");
        let mut out = [0; 4];
        assert_eq!(scale_and_round_with(path, &values[..4], 1.0, &mut out), 2.5, "{path:?}");
        assert_eq!(out, [0, 2, 0, -2], "{path:?}");
        let mut out = [1; 9];
        assert!(
            scale_and_round_with(path, &[0.0, 1.0, f64::NAN, 0.0, 1e300, 0.0, 0.0, 0.0, 2.0], 1.0, &mut out).is_nan()
        );
        assert_eq!((out[2], out[8]), (0, 2), "{path:?}");
    }
}

#[test]
fn refuses_other_numbers_of_slots() {
    for slots in [0, 3, 2 * MAX_SLOTS] {
        assert_eq!(Fft::new(slots).err(), Some(FftError::Slots { slots }));
    }
}
