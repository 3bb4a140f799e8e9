//! The transform against its definition, against itself on every path, and against an independent
//! implementation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_ring::Prg;
use fesc_ring::cpu::Path;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::{MAX_DEGREE, Ntt};
use fesc_ring::primes::{PrimeError, ntt_primes};
use proptest::prelude::*;

fn plan(bits: u32, degree: usize) -> Ntt {
    Ntt::new(Modulus::new(ntt_primes(bits, degree, 1).unwrap()[0]).unwrap(), degree).unwrap()
}

fn random(prg: &mut Prg, plan: &Ntt) -> Vec<u64> {
    (0..plan.degree()).map(|_| prg.next_u64() % plan.modulus().value()).collect()
}

fn schoolbook(m: Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let t = m.mul(x, y);
            out[(i + j) % n] = if i + j < n { m.add(out[i + j], t) } else { m.sub(out[i + j - n], t) };
        }
    }
    out
}

fn product(plan: &Ntt, path: Path, a: &[u64], b: &[u64]) -> Vec<u64> {
    let (mut x, mut y) = (a.to_vec(), b.to_vec());
    plan.forward_with(path, &mut x);
    plan.forward_with(path, &mut y);
    plan.mul_assign_with(path, &mut x, &y);
    plan.inverse_with(path, &mut x);
    x
}

/// Inputs that sit on the edges of every lazy range.
fn hard_inputs(plan: &Ntt, prg: &mut Prg) -> Vec<Vec<u64>> {
    let (n, p) = (plan.degree(), plan.modulus().value());
    let pick = |prg: &mut Prg| [0, 1, p / 2, p / 2 + 1, p - 2, p - 1][(prg.next_u64() % 6) as usize];
    vec![
        vec![0; n],
        vec![p - 1; n],
        (0..n).map(|i| if i % 2 == 0 { 0 } else { p - 1 }).collect(),
        (0..n).map(|i| if i < n / 2 { p - 1 } else { 0 }).collect(),
        (0..n).map(|_| pick(prg)).collect(),
        random(prg, plan),
    ]
}

#[test]
fn known_answers() {
    // python3 crates/fesc-ring/tests/vectors/ntt_kat.py: the definition, evaluated term by term.
    let plan = Ntt::new(Modulus::new(97).unwrap(), 8).unwrap();
    assert_eq!(plan.root(), 8);
    for path in Path::available() {
        let mut a = [1, 2, 3, 4, 5, 6, 7, 8];
        plan.forward_with(path, &mut a);
        assert_eq!(a, [86, 56, 41, 67, 4, 4, 53, 85], "{path:?}");
        plan.inverse_with(path, &mut a);
        assert_eq!(a, [1, 2, 3, 4, 5, 6, 7, 8], "{path:?}");
    }
}

#[test]
fn known_answers_of_the_widest_kernel() {
    // python3 crates/fesc-ring/tests/vectors/ntt_kat.py
    const P: u64 = 1125899906826241;
    let plan = Ntt::new(Modulus::new(P).unwrap(), 256).unwrap();
    assert_eq!(plan.root(), 793218081992636);
    for path in Path::available() {
        let mut a: Vec<u64> = (0..256).map(|k| P - 1 - k * k * k).collect();
        plan.forward_with(path, &mut a);
        assert_eq!(a[..3], [612725474274433, 631212677406779, 165727412488015], "{path:?}");
        assert_eq!(a[253..], [169924174376548, 196876170141440, 1047942422760057], "{path:?}");
        let sum = a.iter().zip(1u128..).fold(0, |s, (&x, i)| (s + i * u128::from(x)) % u128::from(P));
        assert_eq!(sum, 429417220995940, "{path:?}");
    }
}

#[test]
fn values_are_those_of_the_definition() {
    let mut prg = Prg::from_seed([1; 16]);
    for (bits, degree) in [(50, 2), (50, 64), (50, 256), (36, 128), (61, 128), (20, 32)] {
        let plan = plan(bits, degree);
        let m = plan.modulus();
        let a = random(&mut prg, &plan);
        for path in Path::available() {
            let mut got = a.clone();
            plan.forward_with(path, &mut got);
            for (i, &value) in got.iter().enumerate() {
                let point = m.pow(plan.root(), plan.exponent(i) as u64);
                let want = a.iter().rev().fold(0, |acc, &c| m.mul_add(acc, point, c));
                assert_eq!(value, want, "slot {i} of {degree}, {bits} bits, {path:?}");
            }
        }
    }
}

#[test]
fn all_paths_agree_and_invert_for_every_degree() {
    let mut prg = Prg::from_seed([2; 16]);
    for log in 1..=MAX_DEGREE.trailing_zeros() {
        for bits in [20, 33, 49, 50, 51, 62] {
            if bits <= log + 1 || (bits < 33 && log > 12) {
                continue;
            }
            let plan = plan(bits, 1 << log);
            for a in hard_inputs(&plan, &mut prg) {
                let mut want = a.clone();
                plan.forward_with(Path::Portable, &mut want);
                let mut want_inverse = a.clone();
                plan.inverse_with(Path::Portable, &mut want_inverse);
                for path in Path::available() {
                    let mut got = a.clone();
                    plan.forward_with(path, &mut got);
                    assert!(got == want, "forward, {bits} bits, degree 2^{log}, {path:?}");
                    plan.inverse_with(path, &mut got);
                    assert!(got == a, "round trip, {bits} bits, degree 2^{log}, {path:?}");
                    got.copy_from_slice(&a);
                    plan.inverse_with(path, &mut got);
                    assert!(got == want_inverse, "inverse, {bits} bits, degree 2^{log}, {path:?}");
                }
            }
        }
    }
}

#[test]
fn pointwise_products_agree_at_the_edges() {
    let mut prg = Prg::from_seed([3; 16]);
    for bits in [9, 20, 36, 48, 49, 50, 51, 62] {
        let plan = plan(bits, 128);
        let m = plan.modulus();
        let inputs = hard_inputs(&plan, &mut prg);
        for a in &inputs {
            for b in &inputs {
                for acc in [&inputs[1], a, b] {
                    let want: Vec<u64> = (0..128).map(|i| m.mul_add(a[i], b[i], acc[i])).collect();
                    let plain: Vec<u64> = (0..128).map(|i| m.mul(a[i], b[i])).collect();
                    for path in Path::available() {
                        let mut got = acc.clone();
                        plan.mul_acc_with(path, &mut got, a, b);
                        assert_eq!(got, want, "{bits} bits, {path:?}");
                        got.copy_from_slice(a);
                        plan.mul_assign_with(path, &mut got, b);
                        assert_eq!(got, plain, "{bits} bits, {path:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn products_match_the_schoolbook() {
    let mut prg = Prg::from_seed([4; 16]);
    for (bits, log) in [(50, 1), (50, 3), (50, 6), (50, 9), (49, 10), (58, 8)] {
        let plan = plan(bits, 1 << log);
        for a in hard_inputs(&plan, &mut prg) {
            let b = random(&mut prg, &plan);
            let want = schoolbook(plan.modulus(), &a, &b);
            for path in Path::available() {
                assert!(product(&plan, path, &a, &b) == want, "{bits} bits, degree 2^{log}, {path:?}");
            }
        }
    }
}

#[test]
fn products_match_an_independent_implementation() {
    let mut prg = Prg::from_seed([5; 16]);
    for degree in [32, 1024, 4096, 32_768] {
        for p in ntt_primes(50, degree, 3).unwrap() {
            let plan = Ntt::new(Modulus::new(p).unwrap(), degree).unwrap();
            let other = tfhe_ntt::prime64::Plan::try_new(degree, p).unwrap();
            let (a, b) = (random(&mut prg, &plan), random(&mut prg, &plan));
            let (mut x, mut y) = (a.clone(), b.clone());
            other.fwd(&mut x);
            other.fwd(&mut y);
            other.mul_assign_normalize(&mut x, &y);
            other.inv(&mut x);
            for path in Path::available() {
                assert!(product(&plan, path, &a, &b) == x, "degree {degree}, prime {p}, {path:?}");
            }
        }
    }
}

#[test]
fn refuses_primes_and_degrees_that_do_not_fit() {
    let m = Modulus::new(97).unwrap();
    assert_eq!(Ntt::new(m, 32).err(), Some(PrimeError::NoRoot { modulus: 97, order: 64 }));
    assert_eq!(Ntt::new(m, 12).err(), Some(PrimeError::Degree { degree: 12 }));
    assert_eq!(Ntt::new(m, 2 * MAX_DEGREE).err(), Some(PrimeError::Degree { degree: 2 * MAX_DEGREE }));
}

#[test]
#[should_panic(expected = "as many coefficients as the degree")]
fn refuses_a_wrong_length() {
    plan(50, 64).forward(&mut [0; 63]);
}

#[test]
fn one_plan_serves_many_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&plan(50, 64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_prime_any_path(bits in 18u32..=62, log in 1u32..12, which in 0usize..4, seed: [u8; 16]) {
        prop_assume!(bits > log + 5);
        let primes = ntt_primes(bits, 1 << log, 4).unwrap();
        let plan = Ntt::new(Modulus::new(primes[which]).unwrap(), 1 << log).unwrap();
        let mut prg = Prg::from_seed(seed);
        let (a, b) = (random(&mut prg, &plan), random(&mut prg, &plan));
        let want = product(&plan, Path::Portable, &a, &b);
        for path in Path::available() {
            prop_assert_eq!(&product(&plan, path, &a, &b), &want);
            let mut sum: Vec<u64> = a.iter().zip(&b).map(|(&x, &y)| plan.modulus().add(x, y)).collect();
            let (mut x, mut y) = (a.clone(), b.clone());
            plan.forward_with(path, &mut sum);
            plan.forward_with(path, &mut x);
            plan.forward_with(path, &mut y);
            let parts: Vec<u64> = x.iter().zip(&y).map(|(&x, &y)| plan.modulus().add(x, y)).collect();
            prop_assert_eq!(sum, parts);
        }
    }
}
