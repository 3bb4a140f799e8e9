//! The activations of `fesc_mpc::activation`, ours and the paper's, with random inputs and the true
//! functions.

use anyhow::Result;
use fesc_approx::functions;
use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::even::{EvenResidual as EvenForm, Residual};
use fesc_approx::paper::mmexp::MinimaxExp as MinimaxForm;
use fesc_approx::paper::nerms::NeRms as NeRmsForm;
use fesc_approx::{FixedPiecewise, RING48};
use fesc_mpc::activation::{Activation, EvenResidual, ExpSquare, Folded, MinimaxExp, NeRms, Piecewise, Rsqrt};

use super::inputs::{Input, Inputs};
use super::operation::{Operation, Output, worst};
use super::primitive::real;

/// Inputs of SiLU and softplus.
const BOTH_SIDES: (f64, f64) = (-16.0, 16.0);

/// Inputs of exp.
const LEFT: (f64, f64) = (-16.0, 0.0);

/// Degree of the paper's polynomials.
const DEGREE: usize = 4;

/// Fractional bits of the inputs of the inverse square root.
const V_FRAC: u32 = 20;

/// An activation on `x`, compared with `truth` by `distance(got, want)`.
fn on(
    form: impl Activation + 'static,
    out_frac: u32,
    x: Input<fesc_mpc::Shared, f64>,
    truth: fn(f64) -> f64,
    distance: fn(f64, f64) -> f64,
) -> Operation {
    let n = x.values.len();
    let form = std::rc::Rc::new(form);
    let (declared, ring) = (form.clone(), form.result());
    Operation {
        elements: n,
        declare: Box::new(move |l| declared.declare(n, l)),
        run: Box::new(move |party| Ok(Output::Numbers(form.run(party, &x.share)?))),
        error: Box::new(move |p| worst(p, n, |i, v| distance(real(ring, out_frac, v), truth(x.values[i])))),
    }
}

fn absolute(got: f64, want: f64) -> f64 {
    (got - want).abs()
}

fn relative(got: f64, want: f64) -> f64 {
    (got / want - 1.0).abs()
}

fn piecewise(
    inputs: &mut Inputs,
    n: usize,
    table: &'static FixedPiecewise,
    range: (f64, f64),
    f: fn(f64) -> f64,
) -> Operation {
    let x = inputs.reals(table.ring(), table.in_frac(), range, n);
    // SiLU works in a smaller ring; its result goes back to the ring of the tensors.
    on(Piecewise::new(table).into_ring(RING48), table.out_frac(), x, f, absolute)
}

pub fn silu(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    Ok(piecewise(inputs, n, fesc_approx::silu::preset()?, BOTH_SIDES, functions::silu))
}

/// The error is that of the form: inputs are drawn at its 10 fractional bits.
pub fn silu_folded(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let form = fesc_approx::Folded::new(16)?;
    let x = inputs.reals(form.ring(), form.in_frac(), BOTH_SIDES, n);
    Ok(on(Folded::new(form).into_ring(RING48), form.out_frac(), x, functions::silu, absolute))
}

pub fn softplus(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    Ok(piecewise(inputs, n, fesc_approx::softplus::preset()?, BOTH_SIDES, functions::softplus))
}

pub fn exp(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    Ok(piecewise(inputs, n, fesc_approx::exp::preset()?, LEFT, f64::exp))
}

pub fn exp_square(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let form = fesc_approx::exp_square::ExpSquare::preset()?;
    let x = inputs.reals(form.clamp().ring(), form.in_frac(), LEFT, n);
    let frac = form.frac();
    Ok(on(ExpSquare::new(form), frac, x, f64::exp, absolute))
}

pub fn rsqrt(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let (low, high) = ((-8f64).exp2(), 8f64.exp2());
    let form = fesc_approx::rsqrt::Rsqrt::preset(low, V_FRAC)?;
    let x = inputs.log_reals(form.start().ring(), V_FRAC, (low, high), n);
    let frac = form.y_frac();
    Ok(on(Rsqrt::new(form), frac, x, functions::rsqrt, relative))
}

pub fn paper_silu(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    even_residual(inputs, n, Residual::Silu, functions::silu)
}

pub fn paper_softplus(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    even_residual(inputs, n, Residual::Softplus, functions::softplus)
}

fn even_residual(inputs: &mut Inputs, n: usize, which: Residual, f: fn(f64) -> f64) -> Result<Operation> {
    let plan = PaperPlan::paper()?;
    let form = EvenForm::paper(which, DEGREE)?.fixed(&plan)?;
    let x = inputs.reals(plan.ring, plan.frac, BOTH_SIDES, n);
    Ok(on(EvenResidual::new(form), plan.frac, x, f, absolute))
}

pub fn paper_exp(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let plan = PaperPlan::paper()?;
    let form = MinimaxForm::paper(DEGREE)?.fixed(&plan)?;
    let x = inputs.reals(plan.ring, plan.frac, LEFT, n);
    Ok(on(MinimaxExp::new(form), plan.frac, x, f64::exp, absolute))
}

/// Eight buckets of ratio 2 and one step, as in the paper. The comparison has 64 units in the lowest bucket's
/// start.
pub fn paper_rsqrt(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let (low, high) = ((-4f64).exp2(), 4f64.exp2());
    let form = NeRmsForm::calibrate(low, high, 8, 1)?.fixed(RING48, V_FRAC, V_FRAC - 10, 17)?;
    let x = inputs.log_reals(RING48, V_FRAC, (low, high), n);
    let frac = form.y_frac();
    Ok(on(NeRms::new(form), frac, x, functions::rsqrt, relative))
}
