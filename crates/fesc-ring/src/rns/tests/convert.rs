//! Conversions: known integers, vectors made by other software, and the largest residues.

use super::*;
use crate::primes::ntt_primes;

fn primes(bits: u32, count: usize) -> Vec<Prime> {
    let values = ntt_primes(bits, 64, count).unwrap();
    values.into_iter().map(|p| Prime::new(Modulus::new(p).unwrap()).unwrap()).collect()
}

/// Residues of integers, scaled, with their overflow, on one path.
fn prepare(base: &Base, path: Path, values: &[i128]) -> (Vec<Vec<u64>>, Vec<u64>) {
    let mut xs: Vec<Vec<u64>> = Vec::new();
    for (i, q) in base.primes().iter().enumerate() {
        let q = i128::from(q.modulus().value());
        let mut x: Vec<u64> = values.iter().map(|v| v.rem_euclid(q) as u64).collect();
        base.scale_with(path, i, &mut x);
        xs.push(x);
    }
    let mut v = vec![0; values.len()];
    base.overflow_with(path, &slices(&xs), &mut v);
    (xs, v)
}

#[test]
fn a_centred_integer_keeps_its_value_under_any_base() {
    let mut prg = Prg::from_seed([6; 16]);
    let targets: Vec<Prime> = BITS.map(prime).to_vec();
    for (bits, count) in [(20, 1), (20, 7), (30, 2), (40, 3), (45, 11), (46, 12), (50, 1), (50, 3), (50, 24), (50, 56)]
    {
        let base = Base::new(&primes(bits, count)).unwrap();
        // Below half of the product of the primes by a bit, and below 2^119.
        let room = (bits as usize - 1) * count;
        let top = room.saturating_sub(1).min(119);
        let mut values = vec![0, 1, -1, (1 << top) - 1, 1 - (1 << top)];
        values.extend((0..60).map(|_| {
            let wide = (i128::from(prg.next_u64() as i64) << 64) | i128::from(prg.next_u64());
            wide >> (127 - top)
        }));
        for path in Path::available() {
            let (xs, v) = prepare(&base, path, &values);
            assert!(v.iter().all(|&v| v <= count as u64));
            for prime in &targets {
                let mut out = vec![0; values.len()];
                base.target(prime).apply_with(path, &slices(&xs), &v, &mut out);
                let p = i128::from(prime.modulus().value());
                let want: Vec<u64> = values.iter().map(|v| v.rem_euclid(p) as u64).collect();
                assert_eq!(out, want, "{count} primes of {bits} bits to {p} on {path:?}");
            }
        }
    }
}

#[test]
fn the_largest_residues_are_converted_by_the_formula_on_every_path() {
    let mut prg = Prg::from_seed([7; 16]);
    for (bits, count) in [(50, 1), (50, 11), (50, 12), (50, 28), (50, 56), (20, 9)] {
        let base = Base::new(&primes(bits, count)).unwrap();
        for (largest, len) in [(true, 43), (false, 1), (false, 40), (false, 45)] {
            let xs: Vec<Vec<u64>> =
                base.primes().iter().flat_map(|q| residues(&mut prg, q.modulus().value(), 1, len, largest)).collect();
            let mut first = None;
            for path in Path::available() {
                let mut v = vec![0; len];
                base.overflow_with(path, &slices(&xs), &mut v);
                assert_eq!(&v, first.get_or_insert(v.clone()), "the overflow differs on {path:?}");
                for prime in BITS.map(prime) {
                    let (m, mut out) = (prime.modulus(), vec![0; len]);
                    base.target(&prime).apply_with(path, &slices(&xs), &v, &mut out);
                    for i in 0..len {
                        // Term by term: x'_i (Q / q_i) - v Q.
                        let all = |skip: Option<usize>| {
                            let rest = base.primes().iter().enumerate().filter(|(j, _)| Some(*j) != skip);
                            rest.fold(1, |acc, (_, q)| m.mul(acc, m.reduce(q.modulus().value())))
                        };
                        let mut want = m.neg(m.mul(m.reduce(v[i]), all(None)));
                        for (j, x) in xs.iter().enumerate() {
                            want = m.add(want, m.mul(m.reduce(x[i]), all(Some(j))));
                        }
                        assert_eq!(out[i], want, "{count} primes to {} on {path:?}", m.value());
                    }
                }
            }
        }
    }
}

/// Three primes of 40 bits to one of 50; integers 1, Q - 1, floor(123456789 Q / 1000000007), 3^70 and 7^41
/// mod Q, computed by Python.
#[test]
fn known_conversions() {
    let new = |p: u64| Prime::new(Modulus::new(p).unwrap()).unwrap();
    let base = Base::new(&[1_099_510_054_913, 1_099_507_695_617, 1_099_506_515_969].map(new)).unwrap();
    let target = base.target(&new(1_125_899_903_827_969));
    let residues = [
        [1, 1_099_510_054_912, 837_164_830_095, 457_112_361_025, 1_031_592_816_138],
        [1, 1_099_507_695_616, 368_471_996_046, 124_059_569_863, 134_178_033_336],
        [1, 1_099_506_515_968, 819_385_207_672, 1_027_403_876_513, 14_431_672_758],
    ];
    let want = [1, 1_125_899_903_827_968, 625_360_680_691_029, 865_006_892_791_049, 328_345_939_702_828];
    for path in Path::available() {
        // Eight times over, so that registers are filled too.
        let mut xs: Vec<Vec<u64>> = residues.iter().map(|r| r.repeat(8)).collect();
        xs.iter_mut().enumerate().for_each(|(i, x)| base.scale_with(path, i, x));
        let (mut v, mut out) = (vec![0; 40], vec![0; 40]);
        base.overflow_with(path, &slices(&xs), &mut v);
        target.apply_with(path, &slices(&xs), &v, &mut out);
        assert_eq!(out, want.repeat(8), "{path:?}");
    }
}

#[test]
fn refuses_empty_long_and_repeated_bases() {
    let list = primes(50, MAX_SOURCES + 1);
    assert_eq!(Base::new(&[]), Err(RnsError::Count { count: 0 }));
    assert_eq!(Base::new(&list), Err(RnsError::Count { count: MAX_SOURCES + 1 }));
    let value = list[0].modulus().value();
    assert_eq!(Base::new(&[list[0], list[1], list[0]]), Err(RnsError::Twice { value }));
}
