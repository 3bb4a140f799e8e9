//! One protocol as the measurement sees it: declare, run, compare with the truth.

use anyhow::Result;
use fesc_mpc::{Ledger, MpcError, Party, Role, Shared, SharedBits};

use super::{Op, Task, activation, inputs::Inputs, primitive};
use crate::cli::Form;

/// A shared result.
pub enum Output {
    /// Elements of a ring.
    Numbers(Shared),
    /// Bits, one vector per threshold.
    Bits(Vec<SharedBits>),
}

/// An opened result.
pub enum Plain {
    /// Elements of a ring.
    Numbers(Vec<u64>),
    /// Bits, one vector per threshold.
    Bits(Vec<Vec<bool>>),
}

type Declare = Box<dyn Fn(&mut Ledger) -> Result<(), MpcError>>;
type Run = Box<dyn Fn(&mut Party) -> Result<Output, MpcError>>;
type Error = Box<dyn Fn(&Plain) -> f64>;

/// A protocol with this party's shares of its inputs.
pub struct Operation {
    /// Elements by which times and bytes are divided.
    pub elements: usize,
    /// Writes its cost.
    pub declare: Declare,
    /// Runs it on the shares.
    pub run: Run,
    /// The largest error of an opened result; NaN if it has not the shape of a result.
    pub error: Error,
}

impl Operation {
    /// The protocol of a task. Both parties call it with the same task.
    pub fn new(task: &Task, role: Role) -> Result<Self> {
        let mut inputs = Inputs::new(task.seed, role);
        let n = task.elements;
        let or = |bits: u32, thresholds: usize| (task.bits.unwrap_or(bits), task.thresholds.unwrap_or(thresholds));
        Ok(match (task.op, task.form) {
            (Op::Open, _) => primitive::open(&mut inputs, n),
            (Op::Multiply, _) => primitive::multiply(&mut inputs, n)?,
            (Op::Square, _) => primitive::square(&mut inputs, n)?,
            (Op::Matmul, _) => primitive::matmul(&mut inputs, n)?,
            (Op::Truncate, _) => primitive::truncate(&mut inputs, n)?,
            (Op::Extend, _) => primitive::extend(&mut inputs, n)?,
            (Op::Compare, _) => primitive::compare(&mut inputs, n, or(44, 1))?,
            (Op::Thresholds, _) => primitive::compare(&mut inputs, n, or(13, 5))?,
            (Op::Mux, _) => primitive::mux(&mut inputs, n),
            (Op::B2a, _) => primitive::bit_to_arithmetic(&mut inputs, n),
            (Op::Argmax, _) => primitive::arg_max(&mut inputs, n),
            (Op::Silu, Form::Ours) => activation::silu(&mut inputs, n)?,
            (Op::Silu, Form::Paper) => activation::paper_silu(&mut inputs, n)?,
            (Op::Softplus, Form::Ours) => activation::softplus(&mut inputs, n)?,
            (Op::Softplus, Form::Paper) => activation::paper_softplus(&mut inputs, n)?,
            (Op::Exp, Form::Ours) => activation::exp(&mut inputs, n)?,
            (Op::Exp, Form::Paper) => activation::paper_exp(&mut inputs, n)?,
            (Op::ExpSquare, _) => activation::exp_square(&mut inputs, n)?,
            (Op::Rsqrt, Form::Ours) => activation::rsqrt(&mut inputs, n)?,
            (Op::Rsqrt, Form::Paper) => activation::paper_rsqrt(&mut inputs, n)?,
            (Op::SiluFolded, _) => activation::silu_folded(&mut inputs, n)?,
            (Op::MuxTransfers, _) => primitive::mux_by_transfers(&mut inputs, n)?,
            (Op::All, _) => anyhow::bail!("one protocol at a time"),
        })
    }
}

/// The largest `distance(i, value)` over numbers; NaN for anything else.
pub fn worst(plain: &Plain, count: usize, distance: impl Fn(usize, u64) -> f64) -> f64 {
    match plain {
        Plain::Numbers(v) if v.len() == count => v.iter().enumerate().map(|(i, &v)| distance(i, v)).fold(0.0, f64::max),
        _ => f64::NAN,
    }
}
