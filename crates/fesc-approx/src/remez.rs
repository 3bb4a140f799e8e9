//! Weighted minimax approximation by the Remez exchange, in `f64`, over any set of powers.
//!
//! Finds `c` that minimises `max_x w(x) |f(x) - sum_j c_j x^(p_j)|` on `[a, b]`. The best `c` is known by its
//! error taking its largest size with alternating signs at one point more than there are powers (Chebyshev):
//! [`Minimax::reference`]. Each round solves for an equal, alternating error on the reference, then moves the
//! reference to the extrema.
//!
//! Good for the degrees of this project (up to about 10); powers are scaled to the interval, no orthogonal
//! basis is used.

/// Smooth functions are sampled at this many points to find the extrema, which are then refined.
const SAMPLES: usize = 48;
const ROUNDS: usize = 60;

/// A best approximation.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimax {
    /// One coefficient per power, for the unscaled variable.
    pub coeffs: Vec<f64>,
    /// The largest weighted error found on the interval.
    pub error: f64,
    /// The points of equal, alternating error.
    pub reference: Vec<f64>,
}

/// The best approximation of `f` on `[a, b]` by the given powers under the weight `w > 0`.
///
/// Powers must be distinct; 0 may be left out, and then `x = 0` may only be an end of the interval.
pub fn minimax(f: impl Fn(f64) -> f64, w: impl Fn(f64) -> f64, powers: &[u32], a: f64, b: f64) -> Minimax {
    let m = powers.len();
    let scale = a.abs().max(b.abs());
    let samples = SAMPLES * (1 + m / 3);
    let term = |x: f64, p: u32| (x / scale).powi(p as i32);
    let value = |c: &[f64], x: f64| c.iter().zip(powers).map(|(c, &p)| c * term(x, p)).sum::<f64>();
    // Inner Chebyshev points: never an end, where a basis without constant may vanish.
    let mut reference: Vec<f64> = (0..=m)
        .map(|i| {
            let t = (std::f64::consts::PI * (i as f64 + 0.5) / (m as f64 + 1.0)).cos();
            (a + b) / 2.0 - (b - a) / 2.0 * t
        })
        .collect();
    let mut coeffs = vec![0.0; m];
    let mut worst = f64::INFINITY;
    for _ in 0..ROUNDS {
        let rows = reference.iter().enumerate().map(|(i, &x)| {
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            let mut row: Vec<f64> = powers.iter().map(|&p| term(x, p)).collect();
            row.extend([sign / w(x), f(x)]);
            row
        });
        let Some(solution) = solve(rows.collect()) else { break };
        let error = |x: f64| w(x) * (f(x) - value(&solution[..m], x));
        let extrema = extrema(&error, a, b, samples);
        let largest = extrema.iter().map(|&(_, e)| e.abs()).fold(0.0, f64::max);
        if largest >= worst {
            break; // Rounding noise: no further progress.
        }
        coeffs.copy_from_slice(&solution[..m]);
        worst = largest;
        let Some(next) = alternation(extrema, m + 1) else { break };
        reference = next;
        if largest <= solution[m].abs() * (1.0 + 1e-9) {
            break;
        }
    }
    for (c, &p) in coeffs.iter_mut().zip(powers) {
        *c /= scale.powi(p as i32);
    }
    Minimax { coeffs, error: worst, reference }
}

/// The point of largest size in each run of equal sign.
fn extrema(error: &impl Fn(f64) -> f64, a: f64, b: f64, samples: usize) -> Vec<(f64, f64)> {
    let at = |i: usize| if i == samples { b } else { a + (b - a) * i as f64 / samples as f64 };
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for i in 0..=samples {
        let e = error(at(i));
        match runs.last_mut() {
            Some(last) if (last.1 < 0.0) == (e < 0.0) => {
                if e.abs() > last.1.abs() {
                    *last = (i, e);
                }
            }
            _ => runs.push((i, e)),
        }
    }
    runs.into_iter()
        .map(|(i, e)| refine(error, at(i.saturating_sub(1)), at((i + 1).min(samples)), (at(i), e)))
        .collect()
}

/// Golden-section search for the largest size near a sampled extremum.
fn refine(error: &impl Fn(f64) -> f64, lo: f64, hi: f64, start: (f64, f64)) -> (f64, f64) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let sign = start.1.signum();
    let (mut lo, mut hi, mut best) = (lo, hi, start);
    for _ in 0..12 {
        let (x1, x2) = (hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo));
        let (e1, e2) = (error(x1), error(x2));
        for (x, e) in [(x1, e1), (x2, e2)] {
            if e * sign > best.1 * sign {
                best = (x, e);
            }
        }
        if e1 * sign > e2 * sign { hi = x2 } else { lo = x1 }
    }
    best
}

/// `count` consecutive extrema, keeping the largest one: the smaller end goes first.
fn alternation(mut extrema: Vec<(f64, f64)>, count: usize) -> Option<Vec<f64>> {
    while extrema.len() > count {
        let (first, last) = (extrema.first()?.1.abs(), extrema.last()?.1.abs());
        if first < last {
            extrema.remove(0);
        } else {
            extrema.pop();
        }
    }
    (extrema.len() == count).then(|| extrema.into_iter().map(|(x, _)| x).collect())
}

/// Solves a square system given as rows `[a_1 .. a_n | b]`; `None` if it is singular.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| rows[p][i].abs().total_cmp(&rows[q][i].abs()))?;
        rows.swap(i, pivot);
        let head = rows[i].clone();
        if head[i] == 0.0 || !head[i].is_finite() {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(r, _)| *r != i) {
            let factor = row[i] / head[i];
            row.iter_mut().zip(&head).skip(i).for_each(|(v, h)| *v -= factor * h);
        }
    }
    Some(rows.iter().enumerate().map(|(i, row)| row[n] / row[i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best polynomial of degree 4 for x^5 on [-1, 1] is x^5 - T_5 / 16.
    #[test]
    fn chebyshev_polynomial() {
        let m = minimax(|x| x.powi(5), |_| 1.0, &[0, 1, 2, 3, 4], -1.0, 1.0);
        assert!((m.error - 1.0 / 16.0).abs() < 1e-9, "{}", m.error);
        for (c, want) in m.coeffs.iter().zip([0.0, -5.0 / 16.0, 0.0, 20.0 / 16.0, 0.0]) {
            assert!((c - want).abs() < 1e-6, "{c} {want}");
        }
        assert_eq!(m.reference.len(), 6);
    }

    /// The best line for x^2 on [a, b] has error (b - a)^2 / 8; a weight of 3 triples it.
    #[test]
    fn weight_and_interval() {
        let m = minimax(|x| x * x, |_| 3.0, &[0, 1], 2.0, 5.0);
        assert!((m.error - 27.0 / 8.0).abs() < 1e-9);
        assert!((m.coeffs[1] - 7.0).abs() < 1e-6 && (m.coeffs[0] + (4.0 + 60.0 + 25.0) / 8.0).abs() < 1e-6);
    }

    /// A basis without the constant is exact at zero.
    #[test]
    fn anchored_basis() {
        let m = minimax(|x| x.exp_m1(), |_| 1.0, &[1, 2], -1.0, 0.0);
        assert_eq!(m.reference.len(), 3);
        assert!(m.error > 1e-4 && m.error < 0.02, "{}", m.error);
    }

    /// A function inside the span is found exactly, and the search ends.
    #[test]
    fn exact_function() {
        let m = minimax(|x| 1.0 - 2.0 * x, |_| 1.0, &[0, 1, 2], -3.0, 4.0);
        assert!(m.error < 1e-12);
    }
}
