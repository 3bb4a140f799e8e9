//! The paper plan's scan: the recurrence token by token, every product rounded to F bits by itself.
//!
//! `a = MMExp(z)`; `h = round(a h) + round(round(Delta x) B)`; `y = sum round(h C) + round(D x)`. A product
//! must stay below 2^42 at 38 bits: 16 in absolute value. What passes that is an error that names it, and a
//! finding about the setting.

use fesc_approx::paper::mmexp::MinimaxExpFixed;

use super::super::activation::minimax_exp;
use super::super::range::{Local, Quantity as Q, Run};
use super::{Packet, Scan, Step, by_head};
use crate::Result;

/// The scan of one layer.
pub(super) struct Sequential {
    pub(super) exp: MinimaxExpFixed,
    pub(super) frac: u32,
    /// D at F bits.
    pub(super) skip: Vec<i64>,
}

impl Scan for Sequential {
    fn run(&self, run: &mut Run<'_>, p: &Packet<'_>) -> Result<(Vec<i64>, Vec<i64>)> {
        by_head(run, p, |local, head| self.head(local, p, head), |h| h)
    }

    fn skip(&self) -> &[i64] {
        &self.skip
    }
}

impl Sequential {
    /// y of a head, and its state: `head_dim` rows of `state`.
    fn head(&self, local: &mut Local, p: &Packet<'_>, head: usize) -> (Vec<i64>, Vec<i64>) {
        let (dim, n, f) = (p.shape.head_dim, p.shape.state, self.frac);
        let mut state = vec![0i64; dim * n];
        let mut out = Vec::with_capacity(p.tokens() * dim);
        for t in 0..p.tokens() {
            let Step { x, b, c, delta, z } = p.step(t, head);
            let a = minimax_exp(local, &self.exp, z);
            for (h, &x) in state.chunks_exact_mut(n).zip(x) {
                let dx = local.round(Q::DeltaX, delta.saturating_mul(x), 2 * f, f);
                let mut y = local.round(Q::Skip, x.saturating_mul(self.skip[head]), 2 * f, f);
                for ((h, &b), &c) in h.iter_mut().zip(b).zip(c) {
                    let kept = local.round(Q::State, h.saturating_mul(a), 2 * f, f);
                    *h = kept.saturating_add(local.round(Q::Update, dx.saturating_mul(b), 2 * f, f));
                    y = y.saturating_add(local.round(Q::Contract, h.saturating_mul(c), 2 * f, f));
                }
                out.push(y);
            }
        }
        (out, state)
    }
}
