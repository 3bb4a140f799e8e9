//! Random inputs of a measurement and this party's shares of them.
//!
//! Both parties draw everything from the seed of the task, so the inputs are nobody's secret.

use fesc_mpc::{Role, Shared, SharedBits};
use fesc_ring::{Prg, Ring};

/// A stream of inputs.
pub struct Inputs {
    prg: Prg,
    role: Role,
}

/// A shared vector and what it holds.
pub struct Input<S, T> {
    /// This party's share.
    pub share: S,
    /// The values, known to both.
    pub values: Vec<T>,
}

impl Inputs {
    /// The stream of a seed, seen by one party.
    pub fn new(seed: [u8; 16], role: Role) -> Self {
        Self { prg: Prg::from_seed(seed), role }
    }

    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `n` reals in `[low, high]`, rounded to `frac` fractional bits; the values are the rounded ones.
    pub fn reals(&mut self, ring: Ring, frac: u32, (low, high): (f64, f64), n: usize) -> Input<Shared, f64> {
        self.mapped(ring, frac, n, |u| low + u * (high - low))
    }

    /// As [`Self::reals`], uniform on a logarithmic scale.
    pub fn log_reals(&mut self, ring: Ring, frac: u32, (low, high): (f64, f64), n: usize) -> Input<Shared, f64> {
        self.mapped(ring, frac, n, |u| low * (high / low).powf(u))
    }

    fn mapped(&mut self, ring: Ring, frac: u32, n: usize, f: impl Fn(f64) -> f64) -> Input<Shared, f64> {
        let scale = f64::from(frac).exp2();
        let integers: Vec<i64> = (0..n).map(|_| (f(self.unit()) * scale).round() as i64).collect();
        let values = integers.iter().map(|&v| v as f64 / scale).collect();
        let share = self.split(ring, &integers.iter().map(|&v| ring.from_signed(v)).collect::<Vec<_>>());
        Input { share, values }
    }

    /// `n` signed integers of at most `bits` bits and a sign.
    pub fn integers(&mut self, ring: Ring, bits: u32, n: usize) -> Input<Shared, i64> {
        let bound = 1i64 << bits;
        let values: Vec<i64> = (0..n).map(|_| (self.prg.next_u64() % (2 * bound as u64)) as i64 - bound).collect();
        let share = self.split(ring, &values.iter().map(|&v| ring.from_signed(v)).collect::<Vec<_>>());
        Input { share, values }
    }

    /// `n` random bits.
    pub fn bits(&mut self, n: usize) -> Input<SharedBits, bool> {
        let values: Vec<bool> = (0..n).map(|_| self.prg.next_u64() & 1 == 1).collect();
        let (first, second) = SharedBits::split(&values, &mut self.prg);
        let share = if self.role == Role::P0 { first } else { second };
        Input { share, values }
    }

    fn split(&mut self, ring: Ring, values: &[u64]) -> Shared {
        let (first, second) = Shared::split(ring, values, &mut self.prg);
        if self.role == Role::P0 { first } else { second }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_two_parties_hold_shares_of_the_same_values() {
        let ring = Ring::new(48).unwrap();
        let [mut a, mut b] = [Role::P0, Role::P1].map(|r| Inputs::new([1; 16], r));
        let (x, y) = (a.reals(ring, 16, (-8.0, 8.0), 100), b.reals(ring, 16, (-8.0, 8.0), 100));
        assert_eq!(x.values, y.values);
        for (&v, &real) in x.share.join(&y.share).unwrap().iter().zip(&x.values) {
            assert_eq!(ring.to_signed(v) as f64 / 65536.0, real);
            assert!((-8.0..=8.0).contains(&real));
        }
        let (x, y) = (a.integers(ring, 10, 100), b.integers(ring, 10, 100));
        let joined: Vec<i64> = x.share.join(&y.share).unwrap().iter().map(|&v| ring.to_signed(v)).collect();
        assert_eq!(joined, x.values);
        assert!(x.values.iter().all(|v| (-1024..1024).contains(v)));
        let (x, y) = (a.bits(100), b.bits(100));
        assert_eq!(x.share.join(&y.share).unwrap(), x.values);
        assert!(x.values.iter().any(|&v| v) && x.values.iter().any(|&v| !v));
    }
}
