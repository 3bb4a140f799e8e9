//! Times of the kernels of CKKS, minimum over repetitions, beside a forward transform of the same run.
//!
//! `cargo run --release -p fesc-ring --example rns_speed`

use fesc_ring::aligned::Aligned;
use fesc_ring::automorphism::Table;
use fesc_ring::cpu::{self, Path};
use fesc_ring::fft::{Fft, scale_and_round};
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::Ntt;
use fesc_ring::primes::ntt_primes;
use fesc_ring::rns::{Base, Mode, Packed, Prime, Terms};
use fesc_ring::{Prg, Ring, sample};
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 60;

/// Least microseconds of `f`.
fn least(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    best
}

struct Report {
    transform: f64,
}

impl Report {
    fn line(&self, name: &str, us: f64) {
        println!("  {name:<44} {us:9.2} us  {:6.3} transforms", us / self.transform);
    }
}

fn uniform(prg: &mut Prg, m: Modulus, words: usize) -> Aligned<u64> {
    let mut v = Aligned::zeroed(words);
    sample::uniform_mod(prg, m, &mut v);
    v
}

fn kernels(log: u32, path: Path) -> Result<(), Box<dyn Error>> {
    let n = 1usize << log;
    let mut prg = Prg::from_seed([7; 16]);
    let moduli = ntt_primes(50, n, 5)?.into_iter().map(Modulus::new).collect::<Result<Vec<_>, _>>()?;
    let primes = moduli.iter().map(|&m| Prime::new(m)).collect::<Result<Vec<_>, _>>()?;
    let (m, prime) = (moduli[4], &primes[4]);
    let plan = Ntt::new(m, n)?;
    plan.prepare(path);
    let mut a = uniform(&mut prg, m, n);
    let report = Report { transform: least(|| plan.forward_with(path, &mut a)) };
    println!("N = {n}, {}: forward transform {:.2} us", path.name(), report.transform);

    let base = Base::new(&primes[..3])?;
    let target = base.target(prime);
    let mut sources: Vec<Aligned<u64>> = moduli[..3].iter().map(|&m| uniform(&mut prg, m, n)).collect();
    report.line("conversion, scale one source", least(|| base.scale_with(path, 0, &mut sources[0])));
    let xs: Vec<&[u64]> = sources.iter().map(|x| &**x).collect();
    let (mut v, mut out) = (Aligned::zeroed(n), Aligned::zeroed(n));
    report.line("conversion, overflow of 3 sources", least(|| base.overflow_with(path, &xs, &mut v)));
    report.line("conversion, 3 sources to one target", least(|| target.apply_with(path, &xs, &v, &mut out)));

    let digits: Vec<Aligned<u64>> = (0..6).map(|_| uniform(&mut prg, m, n)).collect();
    let digits: Vec<&[u64]> = digits.iter().map(|x| &**x).collect();
    let (mut o0, mut o1, mut o2) = (Aligned::zeroed(n), Aligned::zeroed(n), Aligned::zeroed(n));
    let table = Table::new(n, 5)?;
    // Keys of 12 limbs at one place are warm; 40 times as many are read from memory.
    let one = 12 * n;
    let warm = uniform(&mut prg, m, one);
    let mut cold = Aligned::zeroed(40 * one);
    cold.chunks_exact_mut(one).for_each(|c| c.copy_from_slice(&warm));
    for (name, order) in [("in order", None), ("permuted", Some(&table))] {
        let mode = Mode { order, ..Mode::default() };
        let keys: Vec<&[u64]> = warm.chunks_exact(n).collect();
        let us = least(|| prime.dot2_with(path, mode, &digits, [&keys[..6], &keys[6..]], [&mut o0, &mut o1]));
        report.line(&format!("dot2, 6 digits, warm keys, {name}"), us);
        let mut turn = 0;
        let us = least(|| {
            turn = (turn + 1) % 40;
            let keys: Vec<&[u64]> = cold[turn * one..(turn + 1) * one].chunks_exact(n).collect();
            prime.dot2_with(path, mode, &digits, [&keys[..6], &keys[6..]], [&mut o0, &mut o1]);
        });
        report.line(&format!("dot2, 6 digits, keys from memory, {name}"), us);
    }
    packed_keys(&report, &digits, path)?;
    report.line("permutation alone", least(|| table.apply_with(path, digits[0], &mut o0)));
    let (x, y) = ([digits[0], digits[1]], [digits[2], digits[3]]);
    report.line("tensor", least(|| prime.tensor_with(path, x, y, [&mut o0, &mut o1, &mut o2])));
    report.line("square", least(|| prime.square_with(path, x, [&mut o0, &mut o1, &mut o2])));
    sums(&report, n, path)?;
    let w = m.shoup(12345);
    report.line("(a - b) c", least(|| prime.sub_scale_with(path, w, x[0], x[1], &mut o0)));
    report.line("o + (a - b) c", least(|| prime.sub_scale_add_with(path, w, x[0], x[1], &mut o0)));
    report.line("a + b", least(|| prime.add_with(path, x[0], x[1], &mut o0)));
    transforms(&report, prime, n / 2, path)
}

/// The complex transform, and integers from its values.
fn transforms(report: &Report, prime: &Prime, slots: usize, path: Path) -> Result<(), Box<dyn Error>> {
    let fft = Fft::new(slots)?;
    let (mut re, mut im) = (Aligned::<f64>::zeroed(slots), Aligned::<f64>::zeroed(slots));
    re.iter_mut().chain(im.iter_mut()).enumerate().for_each(|(i, x)| *x = (i % 97) as f64);
    let mut scratch = Aligned::<f64>::zeroed(fft.scratch());
    // There and back, so that the values stay.
    report.line(
        "complex transform, both ways",
        least(|| {
            fft.forward_with(path, &mut re, &mut im, &mut scratch);
            fft.inverse_with(path, &mut re, &mut im, &mut scratch);
        }),
    );
    let mut whole = vec![0i64; slots];
    if path == cpu::path() {
        report.line(
            "round half of the coefficients",
            least(|| {
                scale_and_round(&re, 1e9, &mut whole);
            }),
        );
    }
    let mut residues = Aligned::zeroed(slots);
    let us = least(|| prime.reduce_signed_with(path, &whole, &mut residues));
    report.line("residues of half of the coefficients", us);
    Ok(())
}

/// Sums of products of ciphertexts from memory, all at once and one by one; and of 256 words with them.
fn sums(report: &Report, n: usize, path: Path) -> Result<(), Box<dyn Error>> {
    let m = Modulus::new(ntt_primes(40, n, 1)?[0])?;
    let (prime, mut prg) = (Prime::new(m)?, Prg::from_seed([9; 16]));
    let limbs: Vec<Aligned<u64>> = (0..256).map(|_| uniform(&mut prg, m, n)).collect();
    let products: Vec<[[&[u64]; 2]; 2]> = limbs.chunks_exact(4).map(|l| [[&*l[0], &*l[1]], [&*l[2], &*l[3]]]).collect();
    let words = uniform(&mut prg, m, 256);
    let plain: Vec<(&[u64], [&[u64]; 2])> = limbs.chunks_exact(2).map(|l| (&*words, [&*l[0], &*l[1]])).collect();
    let [mut x, mut y, mut z, mut u, mut v, mut w] = [(); 6].map(|()| Aligned::zeroed(n));
    for count in [1, 8, 64] {
        let terms = Terms { products: &products[..count], plain: &[] };
        let us = least(|| prime.sum_with(path, terms, false, [&mut x, &mut y], &mut z)) / count as f64;
        report.line(&format!("sum of {count} products, one of them"), us);
    }
    let us = least(|| {
        for [a, b] in &products {
            prime.tensor_with(path, *a, *b, [&mut u, &mut v, &mut w]);
            prime.add_assign_with(path, &mut x, &u);
            prime.add_assign_with(path, &mut y, &v);
            prime.add_assign_with(path, &mut z, &w);
        }
    });
    report.line("64 tensors and sums, one of them", us / 64.0);
    for count in [1, 8, 128] {
        let terms = Terms { products: &[], plain: &plain[..count] };
        let us = least(|| prime.sum_with(path, terms, false, [&mut x, &mut y], &mut [])) / count as f64;
        report.line(&format!("sum of {count} periodic plaintexts, one of them"), us);
    }
    Ok(())
}

/// The sum over keys from memory that are packed to 40 bits.
fn packed_keys(report: &Report, digits: &[&[u64]], path: Path) -> Result<(), Box<dyn Error>> {
    let n = digits[0].len();
    let m = Modulus::new(ntt_primes(40, n, 1)?[0])?;
    let prime = Prime::new(m)?;
    let mut prg = Prg::from_seed([8; 16]);
    let digits: Vec<Aligned<u64>> = digits.iter().map(|_| uniform(&mut prg, m, n)).collect();
    let digits: Vec<&[u64]> = digits.iter().map(|x| &**x).collect();
    let limb = Ring::new(40)?.pack(&uniform(&mut prg, m, n));
    let mut keys = Aligned::<u8>::zeroed(480 * limb.len() + 64);
    keys.chunks_exact_mut(limb.len()).for_each(|k| k.copy_from_slice(&limb));
    let views: Result<Vec<Packed>, _> =
        (0..480).map(|k| Packed::new(&prime, n, &keys[k * limb.len()..(k + 1) * limb.len() + 64])).collect();
    let views = views?;
    let (mut o0, mut o1, mut turn) = (Aligned::zeroed(n), Aligned::zeroed(n), 0);
    let us = least(|| {
        turn = (turn + 1) % 40;
        let (k0, k1) = views[12 * turn..12 * turn + 12].split_at(6);
        prime.dot2_packed_with(path, Mode::default(), &digits, [k0, k1], [&mut o0, &mut o1]);
    });
    report.line("dot2, 6 digits, 40-bit keys from memory", us);
    Ok(())
}

/// Allocating 64 MB, and reading them in a row, on huge pages and on small ones.
fn pages() {
    let words = 8 << 20;
    let (huge, small) = (Aligned::<u64>::zeroed(words), vec![1u64; words]);
    let read = |v: &[u64]| {
        least(|| {
            std::hint::black_box(v.iter().step_by(8).fold(0u64, |sum, &x| sum.wrapping_add(x)));
        })
    };
    let first = [
        least(|| drop(std::hint::black_box(Aligned::<u64>::zeroed(words)))),
        least(|| drop(std::hint::black_box(vec![1u64; words]))),
    ];
    for ((name, v), first) in [("huge", &huge[..]), ("small", &small[..])].into_iter().zip(first) {
        let us = read(v);
        println!("64 MB on {name} pages: first touch {first:.0} us, read {us:.0} us, {:.1} GB/s", 67.1e3 / us);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for log in [13, 15, 16] {
        kernels(log, cpu::path())?;
    }
    for path in Path::available().filter(|&p| p != cpu::path()) {
        kernels(13, path)?;
    }
    pages();
    Ok(())
}
