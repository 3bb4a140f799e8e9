//! The twin's scans, and the one place that chooses among them.
//!
//! A scan is a file here: its specification, a struct for one layer, and the trait [`Scan`]. [`new`] makes
//! the one that a plan names, or refuses it. Nothing else in the twin names a scan.

mod dual;
mod hescan;
mod sequential;

#[cfg(test)]
pub(super) use dual::Dual;
#[cfg(test)]
pub(super) use hescan::HeScan;

use super::error::TwinError;
use super::exponent::Exp;
use super::quantize::Quantizer;
use super::range::Run;
use crate::outline::Scales;
use crate::{Plan, Result, Shape, plan};

/// What a scan takes, one row per token.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) shape: &'a Shape,
    /// x, B, C.
    pub(super) xbc: &'a [i64],
    /// Delta, one value per head.
    pub(super) delta: &'a [i64],
    /// A Delta, not positive.
    pub(super) z: &'a [i64],
    /// Whether the state after the last token is wanted. A model has no use for it.
    pub(super) last: bool,
}

impl Packet<'_> {
    fn tokens(&self) -> usize {
        self.delta.len() / self.shape.heads
    }

    /// First column of B of a group.
    fn b_column(&self, group: usize) -> usize {
        self.shape.inner() + group * self.shape.state
    }
}

/// The scan of one layer.
pub(super) trait Scan: Send + Sync {
    /// y at s.scanned, and the state after the last token: `state` rows of `inner` at s.state, empty if it is
    /// not wanted.
    fn run(&self, run: &mut Run<'_>, p: &Packet<'_>) -> Result<(Vec<i64>, Vec<i64>)>;

    /// D by head, at the scale at which the server's kernel adds it.
    fn skip(&self) -> &[i64];
}

/// The scan that a plan names. `skip` is D by head.
///
/// # Errors
/// If the twin does not compute this scan with this exp, or D does not fit.
pub(super) fn new(q: &Quantizer, plan: &Plan, scales: &Scales, exp: Exp, skip: &[f32]) -> Result<Box<dyn Scan>> {
    let d = |frac| q.all("D", skip.iter().map(|&v| v.into()), frac);
    Ok(match (plan.scan, exp) {
        (plan::Scan::Dual, Exp::Sums(sums)) => {
            let [chunk, document] = *sums;
            Box::new(dual::Dual { scales: *scales, chunk, document, skip: d(scales.mixed)? })
        }
        (scan, Exp::Sums(_)) if scan.exp().is_some_and(|only| only != plan.exp) => {
            // The kernel's sums are cut as is cheapest under CKKS, which only its own crate knows.
            let remedy = "take exp=stable, or scan=dual: he-dual takes exp of sums where its twin multiplies exps, \
                          which is the same only for an exp that is right near 0";
            return Err(TwinError::plan(plan, "exp", plan.exp, remedy).into());
        }
        (plan::Scan::HeScan(kernel), Exp::Sums(sums)) => {
            let [exp, _] = *sums;
            Box::new(hescan::HeScan { scales: *scales, exp, refresh: kernel.refresh(), skip: d(scales.mixed)? })
        }
        (plan::Scan::HeScan(_), Exp::Token(exp)) => {
            let frac = plan.numbers.frac;
            Box::new(sequential::Sequential { exp, frac, skip: d(frac)? })
        }
        (plan::Scan::Dual, Exp::Token(_)) => return Err(TwinError::paper(plan, "scan", plan.scan).into()),
    })
}
