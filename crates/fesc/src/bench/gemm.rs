//! `fesc bench gemm`: matrix products modulo `2^bits`, on each SIMD path.

use std::time::Instant;

use anyhow::Result;
use fesc_ring::cpu::{self, Path};
use fesc_ring::gemm::{Update, gemm_par, gemm_with};
use fesc_ring::{Matrix, MatrixError, Prg, Ring};

use crate::cli::{self, GemmArgs, PathChoice};
use crate::exit::Refusal;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Largest number of words of the three matrices together: 8 GB.
const MAX_WORDS: u64 = 1 << 30;

/// Measures and prints.
pub fn run(args: &GemmArgs, format: Format) -> Result<()> {
    let [m, k, n] = [args.m, args.k, args.n].map(u64::from);
    let words = m * k + k * n + m * n;
    if words > MAX_WORDS {
        let remedy = "use smaller matrices";
        return Err(Refusal::Limit { what: "words of the matrices", value: words, max: MAX_WORDS, remedy }.into());
    }
    let ring = Ring::new(args.bits)?;
    // Inputs of a measurement: a fixed seed makes runs comparable.
    let mut prg = Prg::from_seed([7; 16]);
    let a = Matrix::random(ring, m as usize, k as usize, &mut prg)?;
    let b = Matrix::random(ring, k as usize, n as usize, &mut prg)?;
    let mut out = vec![0; (m * n) as usize];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.into()).build()?;
    let progress = Progress::start("multiplying matrices");
    let mut report = Report::new(format);
    for path in paths(args)? {
        progress.say(format!("{m} x {k} x {n}, {} bits, path {}", args.bits, path.name()));
        let mut product = || -> Result<(), MatrixError> {
            if args.threads > 1 {
                pool.install(|| gemm_par(ring, a.view(), b.view(), &mut out, Update::Set))
            } else {
                gemm_with(path, ring, a.view(), b.view(), &mut out, Update::Set)
            }
        };
        let seconds = fastest(&mut product)?;
        let row = Row::new()
            .with("m", args.m)
            .with("k", args.k)
            .with("n", args.n)
            .with("bits", args.bits)
            .with("path", path.name())
            .with("threads", args.threads)
            .with("gmac_per_s", (m * k * n) as f64 / seconds / 1e9);
        report.add(row)?;
    }
    drop(progress);
    report.finish()
}

fn paths(args: &GemmArgs) -> Result<Vec<Path>> {
    if args.threads > 1 {
        let best = cpu::path();
        if args.path != PathChoice::All && cli::name(args.path) != best.name() {
            let text = format!("with --threads the path is {}; FESC_SIMD lowers it", best.name());
            return Err(Refusal::Usage(text).into());
        }
        return Ok(vec![best]);
    }
    super::paths(args.path)
}

/// Seconds of the fastest run in half a second, and of at least three: the least disturbed one.
fn fastest(product: &mut dyn FnMut() -> Result<(), MatrixError>) -> Result<f64, MatrixError> {
    let begin = Instant::now();
    let (mut least, mut runs) = (f64::INFINITY, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        product()?;
        least = least.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    Ok(least)
}
