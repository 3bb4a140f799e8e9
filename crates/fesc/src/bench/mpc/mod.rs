//! `fesc bench mpc`: one protocol between two processes, offline and online apart.

mod activation;
mod inputs;
mod operation;
pub mod party;
mod primitive;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::bench::ot::silent_security_bits;
use crate::cli::{self, Form, MpcArgs, Provider};
use crate::exit::Refusal;
use crate::parties;
use crate::parties::wire::Work;
use crate::progress::Progress;
use crate::random::os_random;
use crate::report::{Format, Report, Row};
use party::Measured;

/// Elements of one run: above, a run does not fit into an ordinary memory.
const MAX_ELEMENTS: u64 = 1 << 26;

/// The protocols. Ranges are those of the random inputs; errors are absolute unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Every protocol below that has the form.
    All,
    /// Open, 48 bits.
    Open,
    /// Product and truncation by 16 bits, 48 bits, inputs in [-8, 8].
    Multiply,
    /// Square and truncation by 16 bits, 48 bits, inputs in [-8, 8].
    Square,
    /// Matrix product with inner and right dimension 64, and truncation, inputs in [-1, 1]; elements are
    /// results.
    Matmul,
    /// Truncation by 16 bits in 48 bits, inputs in [-64, 64].
    Truncate,
    /// Ring extension from 32 to 48 bits.
    Extend,
    /// Comparison of 44 bits with one threshold; see --bits, --thresholds.
    Compare,
    /// Comparison of 13 bits with five thresholds; see --bits, --thresholds.
    Thresholds,
    /// Bit times value, 48 bits.
    Mux,
    /// Bit to arithmetic share, 48 bits.
    B2a,
    /// Arg-max of rows of 10 values, 48 bits; elements are values. The error is the distance to the largest
    /// value.
    Argmax,
    /// SiLU, inputs in [-16, 16]. Paper: MoSiLU, degree 4, l = 44, F = 19.
    Silu,
    /// Softplus, inputs in [-16, 16]. Paper: MoSoft, degree 4, l = 44, F = 19.
    Softplus,
    /// exp of non-positive inputs in [-16, 0]. Paper: MMExp, degree 4, l = 44, F = 19.
    Exp,
    /// exp by squaring, exact at 0, inputs in [-16, 0].
    ExpSquare,
    /// Inverse square root, inputs in [2^-8, 2^8]; error is relative. Paper: NeRMS, 8 buckets, N1, inputs in
    /// [2^-4, 2^4].
    Rsqrt,
    /// SiLU from sign and magnitude, 10 fractional bits, inputs in [-16, 16].
    SiluFolded,
    /// Bit times value by a chosen transfer each way, 48 bits.
    MuxTransfers,
}

impl Op {
    fn has_form(self, form: Form) -> bool {
        form == Form::Ours || matches!(self, Op::Silu | Op::Softplus | Op::Exp | Op::Rsqrt)
    }
}

/// What is to be computed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    op: Op,
    form: Form,
    provider: Provider,
    elements: usize,
    bits: Option<u32>,
    thresholds: Option<usize>,
    /// Both parties draw the random inputs, and their sharing, from it. It is public: the inputs are
    /// nobody's.
    seed: [u8; 16],
}

/// Measures and prints.
pub fn run(args: &MpcArgs, format: Format) -> Result<()> {
    if args.elements == 0 || args.elements > MAX_ELEMENTS {
        let remedy = "split larger tensors, as a program does";
        return Err(Refusal::Limit { what: "elements", value: args.elements, max: MAX_ELEMENTS, remedy }.into());
    }
    if args.op != Op::All && !args.op.has_form(args.form) {
        let name = cli::name(args.op);
        return Err(Refusal::Usage(format!("{name} has no paper form; silu, softplus, exp and rsqrt have")).into());
    }
    if (args.bits.is_some() || args.thresholds.is_some()) && !matches!(args.op, Op::Compare | Op::Thresholds | Op::All)
    {
        let name = cli::name(args.op);
        return Err(
            Refusal::Usage(format!("--bits and --thresholds are for compare and thresholds, not {name}")).into()
        );
    }
    let chosen: Vec<Op> = match args.op {
        Op::All => Op::value_variants().iter().copied().filter(|&op| op != Op::All && op.has_form(args.form)).collect(),
        op => vec![op],
    };
    let progress = Progress::start("two-party computation");
    let mut report = Report::new(format);
    let measured = chosen.into_iter().try_for_each(|op| {
        let mut seed = [0; 16];
        os_random()?.fill_bytes(&mut seed);
        let task = Task {
            op,
            form: args.form,
            provider: args.provider,
            elements: args.elements as usize,
            bits: args.bits,
            thresholds: args.thresholds.map(|t| t as usize),
            seed,
        };
        progress.say(format!("{}, {} elements", cli::name(op), args.elements));
        let dealer = args.provider == Provider::Dealer;
        let [p0, p1] = parties::run::<Measured>(&args.link, dealer, Work::Mpc(task.clone()), &progress)?;
        report.add(row(&task, &p0, &p1))
    });
    drop(progress);
    // What was measured before an error is printed all the same.
    report.finish()?;
    measured
}

fn row(task: &Task, p0: &Measured, p1: &Measured) -> Row {
    let each = 1.0 / p0.elements as f64;
    let slower = |f: fn(&Measured) -> f64| f(p0).max(f(p1));
    let security = match task.provider {
        Provider::TwoParty => silent_security_bits(),
        Provider::Dealer => f64::NAN,
    };
    Row::new()
        .with("op", cli::name(task.op))
        .with("form", cli::name(task.form))
        .with("provider", cli::name(task.provider))
        .with("elements", p0.elements)
        .with("online_us_per_el", slower(|m| m.online_s) * 1e6 * each)
        .with("online_bytes_per_el", (p0.online_sent_bytes + p1.online_sent_bytes) as f64 * each)
        .with("offline_us_per_el", slower(|m| m.offline_s) * 1e6 * each)
        .with("offline_bytes_per_el", (p0.offline_bytes + p1.offline_bytes) as f64 * each)
        .with("rounds", p0.rounds)
        .with("max_error", p0.max_error.max(p1.max_error))
        .detail("declared_online_bytes", p0.declared_online_bytes)
        .detail("declared_rounds", p0.declared_rounds)
        .detail("setup_s", slower(|m| m.setup_s))
        .detail("setup_bytes", p0.setup_bytes + p1.setup_bytes)
        .detail("security_bits", security)
}
