//! The recurrence in floating point, token by token: what every kernel of the contract must compute.

use fesc_model::Shape;

/// A packet in the clear, laid out as [`crate::Packet`].
#[derive(Debug, Clone)]
pub struct Plain {
    /// x, rows of `inner`.
    pub x: Vec<f64>,
    /// B, rows of `groups * state`.
    pub b: Vec<f64>,
    /// C, rows of `groups * state`.
    pub c: Vec<f64>,
    /// Delta, rows of `heads`.
    pub delta: Vec<f64>,
    /// A Delta, rows of `heads`.
    pub z: Vec<f64>,
    /// D, one value per head.
    pub skip: Vec<f64>,
}

/// `H = exp(z) H + Delta B x^T`, `y = C H + D x`, token by token. `state` (`state` rows of `inner`) is what
/// the tokens begin with, and afterwards what they end with.
///
/// # Panics
/// If a tensor does not have the size that its comment states.
#[allow(clippy::indexing_slicing)]
pub fn recurrence(shape: &Shape, packet: &Plain, state: &mut [f64]) -> Vec<f64> {
    let (inner, n, width) = (shape.inner(), shape.state, shape.group_width());
    let per_group = shape.heads / shape.groups;
    let tokens = packet.delta.len() / shape.heads;
    let mut y = vec![0.0; tokens * inner];
    for t in 0..tokens {
        for e in 0..inner {
            let head = e / shape.head_dim;
            let first = t * width + head / per_group * n;
            let decay = packet.z[t * shape.heads + head].exp();
            let x = packet.x[t * inner + e];
            let pushed = packet.delta[t * shape.heads + head] * x;
            let mut sum = packet.skip[head] * x;
            for i in 0..n {
                let h = &mut state[i * inner + e];
                *h = decay * *h + packet.b[first + i] * pushed;
                sum += packet.c[first + i] * *h;
            }
            y[t * inner + e] = sum;
        }
    }
    y
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use fesc_model::Config;

    /// Two tokens by hand, and a state that is carried gives the same as one run.
    #[test]
    fn two_tokens_by_hand() {
        let shape = Shape { heads: 1, head_dim: 1, state: 1, groups: 1, ..*Config::named("tiny").unwrap().shape() };
        let half = 0.5f64.ln();
        let packet = Plain {
            x: vec![2.0, 3.0],
            b: vec![5.0, 7.0],
            c: vec![11.0, 13.0],
            delta: vec![0.1, 0.2],
            z: vec![-1.0, half],
            skip: vec![17.0],
        };
        let mut state = vec![0.0];
        let y = recurrence(&shape, &packet, &mut state);
        // H: 0.1 * 2 * 5 = 1, then 0.5 + 0.2 * 3 * 7 = 4.7.
        assert!((y[0] - (11.0 + 34.0)).abs() < 1e-12 && (y[1] - (13.0 * 4.7 + 51.0)).abs() < 1e-12, "{y:?}");
        let second = Plain {
            x: vec![3.0],
            b: vec![7.0],
            c: vec![13.0],
            delta: vec![0.2],
            z: vec![half],
            skip: packet.skip.clone(),
        };
        let mut carried = vec![1.0];
        assert!((recurrence(&shape, &second, &mut carried)[0] - y[1]).abs() < 1e-12);
        assert!((carried[0] - state[0]).abs() < 1e-12);
    }
}
