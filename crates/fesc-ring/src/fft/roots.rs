//! Roots of unity in double precision that are the same on every machine: no `libm`, no fused operation.
//!
//! `exp(i pi k / 2^s)` is computed in double-double arithmetic (about 104 bits; Dekker, "A floating-point technique for extending the
//! available precision", 1971) and rounded once. The angle is first brought into the first eighth of the circle with integers, so that the
//! symmetries hold exactly: `cos` and `sin` of `pi / 4` are equal, multiples of a quarter turn are exact. There, `angle = coarse + fine`,
//! each from a small table of Taylor series, joined by the addition theorems. The result is within `1/2 + 2^-40` units in the last
//! place.

/// A number as the unevaluated sum of two doubles.
#[derive(Clone, Copy)]
struct Double(f64, f64);

/// `a + b` exactly.
fn two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let t = s - a;
    Double(s, (a - (s - t)) + (b - t))
}

/// `a b` exactly, for factors far from overflow: both are split in halves of 26 bits.
fn two_product(a: f64, b: f64) -> Double {
    let split = |x: f64| {
        let t = 134_217_729.0 * x;
        let high = t - (t - x);
        (high, x - high)
    };
    let p = a * b;
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    Double(p, ((ah * bh - p) + ah * bl + al * bh) + al * bl)
}

impl Double {
    fn add(self, o: Self) -> Self {
        let s = two_sum(self.0, o.0);
        two_sum(s.0, s.1 + (self.1 + o.1))
    }

    fn mul(self, o: Self) -> Self {
        let p = two_product(self.0, o.0);
        two_sum(p.0, p.1 + (self.0 * o.1 + self.1 * o.0))
    }

    fn neg(self) -> Self {
        Self(-self.0, -self.1)
    }

    /// `self / d` for a small whole number, one Newton step after the first quotient.
    fn div(self, d: f64) -> Self {
        let q = self.0 / d;
        let rest = self.add(two_product(q, d).neg());
        two_sum(q, rest.0 / d)
    }
}

/// Half a turn: the first 106 bits of pi.
const PI: Double = Double(std::f64::consts::PI, 1.224_646_799_147_353_2e-16);

/// `(cos, sin)` of an angle of at most `pi / 4`, by the Taylor series of both.
fn taylor(angle: Double) -> [Double; 2] {
    let (mut term, mut sums) = (Double(1.0, 0.0), [Double(0.0, 0.0); 2]);
    // (pi / 4)^29 / 29! is below 2^-112.
    for k in 0..29 {
        sums[k % 2] = sums[k % 2].add(if k % 4 < 2 { term } else { term.neg() });
        term = term.mul(angle).div((k + 1) as f64);
    }
    sums
}

/// `exp(i (a + b))` from `exp(i a)` and `exp(i b)`.
fn join(a: [Double; 2], b: [Double; 2]) -> [Double; 2] {
    [a[0].mul(b[0]).add(a[1].mul(b[1]).neg()), a[1].mul(b[0]).add(a[0].mul(b[1]))]
}

/// The roots `exp(2 pi i k / order)` for one order, a power of two.
pub(super) struct Roots {
    order: usize,
    /// `(cos, sin)` of the first eighth of the circle, both ends included.
    eighth: Vec<[f64; 2]>,
}

impl Roots {
    /// The roots of an order that is a power of two of at least 8.
    pub(super) fn new(order: usize) -> Self {
        let count = order / 8;
        // count = rows * columns; the angle of k is that of its row plus that of its column.
        let columns = 1 << (count.trailing_zeros() / 2);
        let angle = |k: usize| {
            // 2 pi k / order: the factor is exact.
            let factor = 2.0 * k as f64 / order as f64;
            PI.mul(Double(factor, 0.0))
        };
        let fine: Vec<_> = (0..columns).map(|k| taylor(angle(k))).collect();
        let mut eighth = Vec::with_capacity(count + 1);
        for row in 0..count / columns {
            let coarse = taylor(angle(row * columns));
            eighth.extend(fine.iter().map(|&f| join(coarse, f).map(|x| x.0)));
        }
        // cos = sin at the end, whatever the rounding.
        eighth.push([taylor(angle(count))[0].0; 2]);
        Self { order, eighth }
    }

    /// `exp(2 pi i k / order)` as real and imaginary part, for any `k`.
    pub(super) fn get(&self, k: usize) -> [f64; 2] {
        let (eighth, k) = (self.order / 8, k % self.order);
        let (part, rest) = (k / eighth, k % eighth);
        let [c, s] = if part.is_multiple_of(2) { self.eighth[rest] } else { self.eighth[eighth - rest] };
        match part {
            0 => [c, s],
            1 => [s, c],
            2 => [-s, c],
            3 => [-c, s],
            4 => [-c, -s],
            5 => [-s, -c],
            6 => [s, -c],
            _ => [c, -s],
        }
    }
}
