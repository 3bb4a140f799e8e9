//! The causal depthwise convolution of one document and its backward pass.
//!
//! `u[t, c] = bias[c] + sum_k w[k, c] x[t + 1 - K + k, c]` on the columns `first .. first + channels` of rows
//! of `stride` values, with zeros before the document. Taps are stored by tap here, so that inner loops run
//! over channels.

use pulp::Arch;

/// Where the channels are in the projected rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) stride: usize,
    pub(super) first: usize,
    pub(super) channels: usize,
}

impl Columns {
    fn of<'a>(&self, data: &'a [f32], row: usize) -> &'a [f32] {
        let at = row * self.stride + self.first;
        &data[at..at + self.channels]
    }
}

/// Weights by channel (`channels` rows of K taps) to weights by tap.
pub(super) fn by_tap(weight: &[f32], channels: usize) -> Vec<f32> {
    let taps = weight.len() / channels;
    (0..taps).flat_map(|k| weight.iter().skip(k).step_by(taps).copied()).collect()
}

/// And back, added.
pub(super) fn add_by_channel(by_tap: &[f32], channels: usize, out: &mut [f32]) {
    let taps = by_tap.len() / channels;
    for (k, tap) in by_tap.chunks_exact(channels).enumerate() {
        for (c, v) in tap.iter().enumerate() {
            out[c * taps + k] += v;
        }
    }
}

/// Writes `u` for all rows of `x`.
pub(super) fn forward(x: &[f32], at: Columns, taps: &[f32], bias: &[f32], u: &mut [f32]) {
    let count = taps.len() / at.channels;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (t, u) in u.chunks_exact_mut(at.channels).enumerate() {
                u.copy_from_slice(bias);
                for (k, w) in taps.chunks_exact(at.channels).enumerate() {
                    let Some(from) = (t + 1 + k).checked_sub(count) else { continue };
                    u.iter_mut().zip(at.of(x, from)).zip(w).for_each(|((u, x), w)| *u += x * w);
                }
            }
        },
    );
}

/// Adds to the gradients of the input columns, of the taps (by tap) and of the bias.
pub(super) fn backward(
    x: &[f32],
    at: Columns,
    taps: &[f32],
    du: &[f32],
    dx: &mut [f32],
    dtaps: &mut [f32],
    dbias: &mut [f32],
) {
    let count = taps.len() / at.channels;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (t, du) in du.chunks_exact(at.channels).enumerate() {
                dbias.iter_mut().zip(du).for_each(|(b, du)| *b += du);
                for (k, (w, dw)) in taps.chunks_exact(at.channels).zip(dtaps.chunks_exact_mut(at.channels)).enumerate()
                {
                    let Some(from) = (t + 1 + k).checked_sub(count) else { continue };
                    let x = at.of(x, from);
                    let first = from * at.stride + at.first;
                    let dx = &mut dx[first..first + at.channels];
                    for ((((dx, dw), x), w), du) in dx.iter_mut().zip(dw).zip(x).zip(w).zip(du) {
                        *dx += w * du;
                        *dw += x * du;
                    }
                }
            }
        },
    );
}
