//! The scan under CKKS: the recurrence token by token on the integers of the packet, in floating point.
//!
//! `a = min(max(exp(z), 0), 1)` at s.exp; `u = round(Delta x)` at [`PUSHED`] bits; then, not rounded,
//! `h = a h + u B`, `m = sum h C`; `y = round(m) + round(D x)` at s.scanned. CKKS computes the same with an
//! error that its noise formula states; the conversion to shares may round more coarsely than s.scanned. The
//! block dual form under CKKS takes exp of sums where this multiplies exps: its error is that of the form.
//!
//! A kernel that refreshes its state rounds it to s.state before the first token of every part but the first,
//! where it must be below `2^(l-2)` at s.state + s.exp bits: what the block dual form holds it to.

use super::super::exponent::exponential;
use super::super::range::{Local, Quantity as Q, Run};
use super::{Packet, Scan, Step, by_head};
use crate::Result;
use crate::outline::scale::{DELTA, PUSHED};
use crate::outline::{Exponential, Scales};

/// The scan of one layer.
pub(in crate::twin) struct HeScan {
    pub(in crate::twin) scales: Scales,
    /// exp of one token's A Delta.
    pub(in crate::twin) exp: Exponential,
    /// Tokens of a part, after which the state is on shares.
    pub(in crate::twin) refresh: Option<usize>,
    /// D at s.mixed.
    pub(in crate::twin) skip: Vec<i64>,
}

impl Scan for HeScan {
    fn run(&self, run: &mut Run<'_>, p: &Packet<'_>) -> Result<(Vec<i64>, Vec<i64>)> {
        let unit = f64::from(self.scales.state).exp2();
        by_head(run, p, |local, head| self.head(local, p, head), |h: f64| (h * unit).round() as i64)
    }

    fn skip(&self) -> &[i64] {
        &self.skip
    }
}

impl HeScan {
    /// y of a head, and its state: `head_dim` rows of `state`.
    fn head(&self, local: &mut Local, p: &Packet<'_>, head: usize) -> (Vec<i64>, Vec<f64>) {
        let (dim, n, s) = (p.shape.head_dim, p.shape.state, &self.scales);
        let unit = |frac: u32| (-f64::from(frac)).exp2();
        // Of a product u B C, and of a decay.
        let (product, decay) = (unit(PUSHED + 2 * s.bc) * f64::from(s.scanned).exp2(), unit(s.exp));
        let mut state = vec![0f64; dim * n];
        let mut out = Vec::with_capacity(p.tokens() * dim);
        // Of the state that is carried, in units of a product u B.
        let carried = unit(s.state) * f64::from(PUSHED + s.bc).exp2();
        let most = s.largest_state();
        for t in 0..p.tokens() {
            let Step { x, b, c, delta, z } = p.step(t, head);
            if self.refresh.is_some_and(|part| t > 0 && t.is_multiple_of(part)) {
                let noise = local.refreshed * f64::from(s.state).exp2();
                for h in &mut state {
                    let rounded = (*h / carried + local.chance.noise(noise)).round();
                    local.see(Q::State, rounded as i64, -most, most, s.state);
                    *h = rounded * carried;
                }
            }
            let a = exponential(local, &self.exp, z).clamp(0, 1 << s.exp) as f64 * decay;
            for (h, &x) in state.chunks_exact_mut(n).zip(x) {
                let u = local.round(Q::DeltaX, delta.saturating_mul(x), DELTA + s.x, PUSHED) as f64;
                let skip = local.round(Q::Skip, x.saturating_mul(self.skip[head]), s.mixed + s.x, s.scanned);
                let mut m = 0.0;
                for ((h, &b), &c) in h.iter_mut().zip(b).zip(c) {
                    *h = a * *h + u * b as f64;
                    m += *h * c as f64;
                }
                out.push(skip.saturating_add((m * product).round() as i64));
            }
        }
        let state_unit = unit(PUSHED + s.bc);
        state.iter_mut().for_each(|h| *h *= state_unit);
        (out, state)
    }
}
