//! Plans on the command line.

use fesc_model::Plan;

/// The plans of an estimate.
#[derive(Debug, Clone, Copy)]
pub enum PlanChoice {
    /// Side by side.
    All,
    /// One that two parties can run.
    One(Plan),
}

/// `all`, or a plan.
pub fn plan_choice(text: &str) -> Result<PlanChoice, String> {
    if text == "all" { Ok(PlanChoice::All) } else { plan(text).map(PlanChoice::One) }
}

/// A plan that two parties can run.
pub fn plan(text: &str) -> Result<Plan, String> {
    fesc_infer::kernels::private_plan(text).map_err(|e| e.to_string())
}
