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
use fesc_ring::rns::{Base, Mode, Prime};
use fesc_ring::{Prg, sample};
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
        let mode = Mode { add: false, order };
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
    report.line("permutation alone", least(|| table.apply_with(path, digits[0], &mut o0)));
    let (x, y) = ([digits[0], digits[1]], [digits[2], digits[3]]);
    report.line("tensor", least(|| prime.tensor_with(path, x, y, [&mut o0, &mut o1, &mut o2])));
    report.line("square", least(|| prime.square_with(path, x, [&mut o0, &mut o1, &mut o2])));
    let w = m.shoup(12345);
    report.line("(a - b) c", least(|| prime.sub_scale_with(path, w, x[0], x[1], &mut o0)));
    report.line("o + (a - b) c", least(|| prime.sub_scale_add_with(path, w, x[0], x[1], &mut o0)));
    report.line("a + b", least(|| prime.add_with(path, x[0], x[1], &mut o0)));

    let slots = n / 2;
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
    report.line(
        "residues of half of the coefficients",
        least(|| prime.reduce_signed_with(path, &whole, &mut o0[..slots])),
    );
    Ok(())
}

/// Reading tens of megabytes, from small pages and from huge ones.
fn pages() {
    let words = 8 << 20;
    let huge = Aligned::<u64>::zeroed(words);
    let small = vec![1u64; words];
    let sum = |v: &[u64]| {
        // One word per line, in the order of a key switch: 16 streams.
        let stride = words / 16;
        let mut total = 0u64;
        for i in (0..stride).step_by(8) {
            for s in 0..16 {
                total = total.wrapping_add(v[s * stride + i]);
            }
        }
        total
    };
    for (name, v) in [("huge pages", &huge[..]), ("small pages", &small[..])] {
        let us = least(|| {
            std::hint::black_box(sum(v));
        });
        println!("64 MB in 16 streams, {name}: {us:.0} us, {:.1} GB/s", words as f64 * 8.0 / us / 1e3);
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
