//! `fesc bench ntt`: transforms of one prime, and products slot by slot, on each SIMD path, on one thread.

use anyhow::Result;
use fesc_ring::aligned::Aligned;
use fesc_ring::cpu::Path;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::{Ntt, SIMD_LIMIT};
use fesc_ring::primes::ntt_primes;

use super::timing::in_turn;
use crate::cli::NttArgs;
use crate::exit::Refusal;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Transforms of one timed run: a single one is too short for the clock at small degrees.
const BATCH: usize = 16;

/// Measures and prints.
pub fn run(args: &NttArgs, format: Format) -> Result<()> {
    let paths = paths(args)?;
    let progress = Progress::start("transforms");
    let mut report = Report::new(format);
    for &n in &args.n {
        for &bits in &args.bits {
            for prime in ntt_primes(bits, n, 1)? {
                let plan = Ntt::new(Modulus::new(prime)?, n)?;
                let simd = prime < SIMD_LIMIT;
                for &path in paths.iter().filter(|&&p| simd || p == Path::Portable) {
                    progress.say(format!("N = {n}, {bits} bits, path {}", path.name()));
                    report.add(row(&plan, path, args.seconds)?)?;
                }
            }
        }
    }
    drop(progress);
    report.finish()
}

fn paths(args: &NttArgs) -> Result<Vec<Path>> {
    let chosen = super::paths(args.path)?;
    let wide = args.bits.iter().find(|&&bits| bits > SIMD_LIMIT.ilog2());
    if let (Some(bits), false) = (wide, chosen.contains(&Path::Portable)) {
        let text =
            format!("primes of {bits} bits have the portable path only; take at most 50 bits or --path portable");
        return Err(Refusal::Usage(text).into());
    }
    Ok(chosen)
}

fn row(plan: &Ntt, path: Path, seconds: f64) -> Result<Row> {
    plan.prepare(path);
    let (n, modulus) = (plan.degree(), plan.modulus());
    let limb = |factor: u64| {
        let values: Vec<u64> = (0..n as u64).map(|i| modulus.reduce(i.wrapping_mul(factor))).collect();
        Aligned::from_slice(&values)
    };
    let (mut a, mut b, mut c) = (limb(0x9e37_79b9_7f4a_7c15), limb(0xc2b2_ae3d_27d4_eb4f), limb(3));
    let other = limb(0x1656_67b1_9e37_79f9);
    let mut forward = || batch(|| plan.forward_with(path, &mut a));
    let mut inverse = || batch(|| plan.inverse_with(path, &mut b));
    let mut pointwise = || batch(|| plan.mul_assign_with(path, &mut c, &other));
    let times = in_turn(seconds, &mut [&mut forward, &mut inverse, &mut pointwise])?;
    let mut row = Row::new()
        .with("n", n as u64)
        .with("prime", modulus.value())
        .with("bits", modulus.bits())
        .with("path", path.name());
    let names = [("forward_us", "forward_median_us"), ("inverse_us", "inverse_median_us")];
    for ((least, middle), times) in names.into_iter().chain([("pointwise_us", "pointwise_median_us")]).zip(&times) {
        let one = times.divided(BATCH);
        row = row.with(least, one.min_ms * 1e3).detail(middle, one.median_ms * 1e3);
    }
    Ok(row)
}

/// One timed run.
fn batch(mut work: impl FnMut()) -> Result<()> {
    (0..BATCH).for_each(|_| work());
    Ok(())
}
