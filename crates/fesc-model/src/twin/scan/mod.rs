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

use rayon::prelude::*;

use super::error::TwinError;
use super::exponent::Exp;
use super::quantize::Quantizer;
use super::range::{Local, Run};
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

    /// What a recurrence takes of one token.
    fn step(&self, t: usize, head: usize) -> Step<'_> {
        let (shape, at) = (self.shape, t * self.shape.heads + head);
        let row = &self.xbc[t * shape.conv_dim()..][..shape.conv_dim()];
        let b = self.b_column(head / (shape.heads / shape.groups));
        let c = b + shape.group_width();
        Step {
            x: &row[head * shape.head_dim..][..shape.head_dim],
            b: &row[b..b + shape.state],
            c: &row[c..c + shape.state],
            delta: self.delta[at],
            z: self.z[at],
        }
    }

    /// First column of B of a group.
    fn b_column(&self, group: usize) -> usize {
        self.shape.inner() + group * self.shape.state
    }
}

/// One head's part of a token.
struct Step<'a> {
    /// x of its channels.
    x: &'a [i64],
    /// B of its group.
    b: &'a [i64],
    /// C of its group.
    c: &'a [i64],
    delta: i64,
    z: i64,
}

/// A recurrence, each head by itself: `head` gives y of one and its state, `head_dim` rows of `state`, of
/// which `carried` are the entries at s.state.
fn by_head<H: Copy + Send + Sync>(
    run: &mut Run<'_>,
    p: &Packet<'_>,
    head: impl Fn(&mut Local, usize) -> (Vec<i64>, Vec<H>) + Sync,
    carried: impl Fn(H) -> i64,
) -> Result<(Vec<i64>, Vec<i64>)> {
    let (heads, dim, n, inner) = (p.shape.heads, p.shape.head_dim, p.shape.state, p.shape.inner());
    let mut locals = run.locals(heads);
    let by_head: Vec<_> = locals.par_iter_mut().enumerate().map(|(h, local)| head(local, h)).collect();
    run.settle(locals)?;
    let mut y = vec![0i64; p.tokens() * inner];
    for (t, row) in y.chunks_exact_mut(inner).enumerate() {
        for (part, (all, _)) in row.chunks_exact_mut(dim).zip(&by_head) {
            part.copy_from_slice(&all[t * dim..(t + 1) * dim]);
        }
    }
    let mut last = vec![0i64; if p.last { n * inner } else { 0 }];
    for (i, row) in last.chunks_exact_mut(inner).enumerate() {
        let entries = by_head.iter().flat_map(|(_, state)| state.iter().skip(i).step_by(n));
        row.iter_mut().zip(entries).for_each(|(to, &from)| *to = carried(from));
    }
    Ok((y, last))
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
