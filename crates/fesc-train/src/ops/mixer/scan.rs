//! The recurrence of one head over one document, forward and backward, vectorised over the head's channels.
//!
//! `h_t = a_t h_(t-1) + Delta_t B_t x_t^T`, `y_t = C_t h_t + D x_t`; the state is kept as `state` rows of
//! `head_dim` channels. With `G_t` the gradient of `h_t` (`G_t = a_(t+1) G_(t+1) + C_t dy_t^T`):
//!
//! ```text
//! dC_t = h_t dy_t          dB_t = Delta_t G_t x_t           dx_t = Delta_t B_t G_t + D dy_t
//! da_t = <G_t, h_(t-1)>    dDelta_t = B_t . (G_t x_t)       dD = sum of x_t . dy_t
//! ```
//!
//! (and what reaches Delta through `a_t` is the caller's). The backward pass needs every `h_t`: the forward
//! pass keeps the state before each block of [`BLOCK`] tokens, and the states inside a block are computed
//! again. Memory: one state per block, and one block of states. For states of 16 to 32 this costs no more
//! than the block dual form, and it takes any per-token decay, also one that is no exponential.

use pulp::{Simd, WithSimd};

/// Tokens between two states that are kept.
pub(super) const BLOCK: usize = 16;

/// Vectors of channels handled together in registers.
const WIDE: usize = 4;

/// One head's view of a document: rows of `x, B, C` and its own Delta and decay.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    /// Rows of `conv_dim` values.
    pub(super) xbc: &'a [f32],
    pub(super) conv_dim: usize,
    /// Columns of x, B, C.
    pub(super) x_at: usize,
    pub(super) b_at: usize,
    pub(super) c_at: usize,
    pub(super) head_dim: usize,
    pub(super) state: usize,
    /// One value per token.
    pub(super) delta: &'a [f32],
    pub(super) decay: &'a [f32],
    pub(super) d: f32,
}

impl<'a> Head<'a> {
    #[inline(always)]
    fn row(&self, t: usize) -> (&'a [f32], &'a [f32], &'a [f32]) {
        let row = &self.xbc[t * self.conv_dim..(t + 1) * self.conv_dim];
        let (n, p) = (self.state, self.head_dim);
        (&row[self.x_at..self.x_at + p], &row[self.b_at..self.b_at + n], &row[self.c_at..self.c_at + n])
    }

    /// Channels rounded up to whole vectors.
    #[inline(always)]
    fn vectors<S: Simd>(&self) -> usize {
        self.head_dim.div_ceil(S::F32_LANES)
    }
}

/// `head_dim` values as whole vectors, zeros behind.
#[inline(always)]
fn load<S: Simd>(simd: S, from: &[f32], to: &mut [S::f32s]) {
    let (whole, rest) = S::as_simd_f32s(from);
    to[..whole.len()].copy_from_slice(whole);
    if let Some(last) = to.get_mut(whole.len()) {
        *last = simd.partial_load_f32s(rest);
    }
}

#[inline(always)]
fn store<S: Simd>(simd: S, from: &[S::f32s], to: &mut [f32]) {
    let (whole, rest) = S::as_mut_simd_f32s(to);
    let count = whole.len();
    whole.copy_from_slice(&from[..count]);
    if let Some(last) = from.get(count) {
        simd.partial_store_f32s(rest, *last);
    }
}

/// One step of the state on `K` vectors of channels from `at` on; returns `C h`.
#[inline(always)]
fn step<S: Simd, const K: usize>(
    simd: S,
    state: &mut [S::f32s],
    vectors: usize,
    at: usize,
    x: &[S::f32s],
    (decay, delta): (f32, f32),
    (b, c): (&[f32], &[f32]),
) -> [S::f32s; K] {
    let zero = simd.splat_f32s(0.0);
    let mut y = [zero; K];
    let Some(x) = x[at..].first_chunk::<K>() else { return y };
    let a = simd.splat_f32s(decay);
    for ((row, b), c) in state.chunks_exact_mut(vectors).zip(b).zip(c) {
        let Some(h) = row[at..].first_chunk_mut::<K>() else { return y };
        let b = simd.splat_f32s(delta * b);
        let c = simd.splat_f32s(*c);
        for k in 0..K {
            h[k] = simd.mul_add_e_f32s(h[k], a, simd.mul_f32s(b, x[k]));
            y[k] = simd.mul_add_e_f32s(c, h[k], y[k]);
        }
    }
    y
}

/// The same step from one place to another, without output: bit for bit the same state.
#[inline(always)]
fn advance<S: Simd>(
    simd: S,
    before: &[S::f32s],
    after: &mut [S::f32s],
    x: &[S::f32s],
    (decay, delta): (f32, f32),
    b: &[f32],
) {
    let a = simd.splat_f32s(decay);
    let rows = before.chunks_exact(x.len()).zip(after.chunks_exact_mut(x.len()));
    for ((before, after), b) in rows.zip(b) {
        let b = simd.splat_f32s(delta * b);
        for ((before, after), x) in before.iter().zip(after).zip(x) {
            *after = simd.mul_add_e_f32s(*before, a, simd.mul_f32s(b, *x));
        }
    }
}

/// All tokens: writes y and keeps the state before every block.
pub(super) struct Forward<'a, 'b> {
    pub(super) head: Head<'a>,
    /// Rows of `stride` values; this head's begin at `at`.
    pub(super) y: &'b mut [f32],
    pub(super) stride: usize,
    pub(super) at: usize,
    /// Where the states go, if they are needed.
    pub(super) keep: Option<&'b mut Vec<f32>>,
}

impl WithSimd for Forward<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let head = self.head;
        let vectors = head.vectors::<S>();
        let zero = simd.splat_f32s(0.0);
        let mut state = vec![zero; head.state * vectors];
        let (mut x, mut y) = (vec![zero; vectors], vec![zero; vectors]);
        let d = simd.splat_f32s(head.d);
        for (t, out) in self.y.chunks_exact_mut(self.stride).enumerate() {
            if t % BLOCK == 0
                && let Some(keep) = &mut self.keep
            {
                keep.extend_from_slice(bytemuck::cast_slice(&state));
            }
            let (x_row, b, c) = head.row(t);
            load(simd, x_row, &mut x);
            let rates = (head.decay[t], head.delta[t]);
            let mut at = 0;
            while at + WIDE <= vectors {
                let part = step::<S, WIDE>(simd, &mut state, vectors, at, &x, rates, (b, c));
                y[at..at + WIDE].copy_from_slice(&part);
                at += WIDE;
            }
            while at < vectors {
                let [part] = step::<S, 1>(simd, &mut state, vectors, at, &x, rates, (b, c));
                y[at] = part;
                at += 1;
            }
            for (y, x) in y.iter_mut().zip(&x) {
                *y = simd.mul_add_e_f32s(d, *x, *y);
            }
            store(simd, &y, &mut out[self.at..self.at + head.head_dim]);
        }
    }
}

/// All tokens, backwards; returns the gradient of D.
pub(super) struct Backward<'a, 'b> {
    pub(super) head: Head<'a>,
    /// States before the blocks, as [`Forward`] kept them.
    pub(super) kept: &'a [f32],
    /// Gradient of y: rows of `stride` values, this head's from `at` on.
    pub(super) dy: &'a [f32],
    pub(super) stride: usize,
    pub(super) at: usize,
    /// Gradient of `x, B, C`, added to.
    pub(super) dxbc: &'b mut [f32],
    /// Gradient of the decay, one value per token.
    pub(super) ddecay: &'b mut [f32],
    /// Gradient of Delta without its way through the decay, one value per token.
    pub(super) ddelta: &'b mut [f32],
}

/// One token's backward step on `K` vectors; returns dx and the part of `<G, h_(t-1)>` in every lane.
struct Step<'a, V> {
    before: &'a [V],
    after: &'a [V],
    x: &'a [V],
    dy: &'a [V],
    decay: f32,
    delta: f32,
    b: &'a [f32],
    c: &'a [f32],
}

impl<V> Step<'_, V> {
    #[inline(always)]
    fn run<S: Simd<f32s = V>, const K: usize>(
        &self,
        simd: S,
        vectors: usize,
        at: usize,
        g: &mut [V],
        db: &mut [V],
        dc: &mut [V],
    ) -> ([V; K], V)
    where
        V: Copy,
    {
        let zero = simd.splat_f32s(0.0);
        let (mut dx, mut da) = ([zero; K], [zero; K]);
        let (Some(x), Some(dy)) = (self.x[at..].first_chunk::<K>(), self.dy[at..].first_chunk::<K>()) else {
            return (dx, zero);
        };
        let a = simd.splat_f32s(self.decay);
        let states = self.before.chunks_exact(vectors).zip(self.after.chunks_exact(vectors));
        let rates = self.b.iter().zip(self.c);
        let sums = db.iter_mut().zip(dc);
        for (((g, (before, after)), (b, c)), (db, dc)) in g.chunks_exact_mut(vectors).zip(states).zip(rates).zip(sums) {
            let (Some(g), Some(before), Some(after)) =
                (g[at..].first_chunk_mut::<K>(), before[at..].first_chunk::<K>(), after[at..].first_chunk::<K>())
            else {
                return (dx, zero);
            };
            let (b, c) = (simd.splat_f32s(self.delta * b), simd.splat_f32s(*c));
            let (mut db_sum, mut dc_sum) = (*db, *dc);
            for k in 0..K {
                let here = simd.mul_add_e_f32s(c, dy[k], g[k]);
                dc_sum = simd.mul_add_e_f32s(after[k], dy[k], dc_sum);
                db_sum = simd.mul_add_e_f32s(here, x[k], db_sum);
                dx[k] = simd.mul_add_e_f32s(b, here, dx[k]);
                da[k] = simd.mul_add_e_f32s(here, before[k], da[k]);
                g[k] = simd.mul_f32s(a, here);
            }
            (*db, *dc) = (db_sum, dc_sum);
        }
        let da = da.iter().fold(zero, |sum, v| simd.add_f32s(sum, *v));
        (dx, da)
    }
}

impl WithSimd for Backward<'_, '_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let head = self.head;
        let vectors = head.vectors::<S>();
        let zero = simd.splat_f32s(0.0);
        let size = head.state * vectors;
        let mut states = vec![zero; size * (BLOCK + 1)];
        let mut g = vec![zero; size];
        let (mut x, mut dy, mut dx) = (vec![zero; vectors], vec![zero; vectors], vec![zero; vectors]);
        let (mut db, mut dc) = (vec![zero; head.state], vec![zero; head.state]);
        let d = simd.splat_f32s(head.d);
        let mut dd = zero;
        let length = head.delta.len();
        for from in (0..length.div_ceil(BLOCK)).rev().map(|block| block * BLOCK) {
            let to = (from + BLOCK).min(length);
            let kept = from / BLOCK * size;
            let (whole, _) = S::as_simd_f32s(self.kept);
            states[..size].copy_from_slice(&whole[kept..kept + size]);
            for t in from..to {
                let (before, after) = states[(t - from) * size..].split_at_mut(size);
                let (x_row, b, _) = head.row(t);
                load(simd, x_row, &mut x);
                advance(simd, before, &mut after[..size], &x, (head.decay[t], head.delta[t]), b);
            }
            for t in (from..to).rev() {
                let (x_row, b, c) = head.row(t);
                load(simd, x_row, &mut x);
                let dy_row = &self.dy[t * self.stride + self.at..][..head.head_dim];
                load(simd, dy_row, &mut dy);
                let (before, after) = states[(t - from) * size..][..2 * size].split_at(size);
                let (decay, delta) = (head.decay[t], head.delta[t]);
                let token = Step { before, after, x: &x, dy: &dy, decay, delta, b, c };
                db.fill(zero);
                dc.fill(zero);
                let mut da = zero;
                let mut at = 0;
                while at + WIDE <= vectors {
                    let (part, more) = token.run::<S, WIDE>(simd, vectors, at, &mut g, &mut db, &mut dc);
                    dx[at..at + WIDE].copy_from_slice(&part);
                    da = simd.add_f32s(da, more);
                    at += WIDE;
                }
                while at < vectors {
                    let ([part], more) = token.run::<S, 1>(simd, vectors, at, &mut g, &mut db, &mut dc);
                    dx[at] = part;
                    da = simd.add_f32s(da, more);
                    at += 1;
                }
                for ((dx, x), dy) in dx.iter_mut().zip(&x).zip(&dy) {
                    *dx = simd.mul_add_e_f32s(d, *dy, *dx);
                    dd = simd.mul_add_e_f32s(*x, *dy, dd);
                }
                let row = &mut self.dxbc[t * head.conv_dim..(t + 1) * head.conv_dim];
                store(simd, &dx, &mut row[head.x_at..head.x_at + head.head_dim]);
                let mut ddelta = 0.0;
                for ((out, db), b) in row[head.b_at..].iter_mut().zip(&db).zip(b) {
                    let sum = simd.reduce_sum_f32s(*db);
                    *out += delta * sum;
                    ddelta += b * sum;
                }
                for (out, dc) in row[head.c_at..].iter_mut().zip(&dc) {
                    *out += simd.reduce_sum_f32s(*dc);
                }
                self.ddecay[t] = simd.reduce_sum_f32s(da);
                self.ddelta[t] = ddelta;
            }
        }
        simd.reduce_sum_f32s(dd)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::random;
    use pulp::Scalar;

    fn values(seed: u8, count: usize) -> Vec<f32> {
        random(seed, &[count]).to_vec1().unwrap()
    }

    /// Everything that both passes give, on one kind of processor.
    fn all<S: Simd>(simd: S, head: Head<'_>, dy: &[f32]) -> Vec<f32> {
        let (length, p) = (head.delta.len(), head.head_dim);
        let (mut y, mut keep) = (vec![0.0; length * p], Vec::new());
        simd.vectorize(Forward { head, y: &mut y, stride: p, at: 0, keep: Some(&mut keep) });
        let mut dxbc = vec![0.0; head.xbc.len()];
        let (mut ddecay, mut ddelta) = (vec![0.0; length], vec![0.0; length]);
        let (kept, stride, at) = (&keep[..], p, 0);
        let (d_xbc, d_decay, d_delta) = (&mut dxbc[..], &mut ddecay[..], &mut ddelta[..]);
        let pass = Backward { head, kept, dy, stride, at, dxbc: d_xbc, ddecay: d_decay, ddelta: d_delta };
        let dd = simd.vectorize(pass);
        [y, dxbc, ddecay, ddelta, vec![dd]].concat()
    }

    /// The tests elsewhere run on this machine's widest vectors only.
    #[test]
    fn all_processors_agree() {
        for (head_dim, state, length) in [(64, 8, 40), (5, 3, 17), (100, 2, 16), (8, 1, 1)] {
            let conv_dim = head_dim + 2 * state;
            let xbc = values(1, length * conv_dim);
            let delta: Vec<f32> = values(2, length).iter().map(|v| v.abs()).collect();
            let decay: Vec<f32> = values(3, length).iter().map(|v| 0.5 + 0.5 * v.abs()).collect();
            let dy = values(4, length * head_dim);
            let (x_at, b_at, c_at, d) = (0, head_dim, head_dim + state, 0.7);
            let (xbc, delta, decay) = (&xbc[..], &delta[..], &decay[..]);
            let head = Head { xbc, conv_dim, x_at, b_at, c_at, head_dim, state, delta, decay, d };
            let expected = all(Scalar, head, &dy);
            let close = |found: Vec<f32>| {
                assert_eq!(found.len(), expected.len());
                let size = expected.iter().fold(1.0f32, |m, v| m.max(v.abs()));
                assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 2e-5 * size), "{head_dim} {state}");
            };
            #[cfg(target_arch = "x86_64")]
            {
                if let Some(simd) = pulp::x86::V3::try_new() {
                    close(all(simd, head, &dy));
                }
                if let Some(simd) = pulp::x86::V4::try_new() {
                    close(all(simd, head, &dy));
                }
            }
            close(all(pulp::Scalar512b, head, &dy));
        }
    }
}
