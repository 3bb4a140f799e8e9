//! Levels, their primes and their canonical scales.

use fesc_ckks::Params;
use fesc_ckks::sets::Set;

/// What a circuit must know of a parameter set: sizes, and the canonical scale of each level.
///
/// Scales are chosen from below: `S_0` is the set's scale and `S_l = sqrt(S_(l-1) q_l)`. That way a
/// deviation of a prime from `2^40` is halved at each step up, where from above it would double at each
/// step down.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    slots: usize,
    specials: usize,
    /// Data primes.
    moduli: Vec<f64>,
    scales: Vec<f64>,
}

impl Chain {
    fn new(slots: usize, specials: usize, log_scale: u32, moduli: Vec<f64>) -> Self {
        let mut scales = vec![2f64.powi(log_scale as i32)];
        for q in moduli.iter().skip(1) {
            let below = scales.last().copied().unwrap_or(1.0);
            scales.push((below * q).sqrt());
        }
        Self { slots, specials, moduli, scales }
    }

    /// Of a checked set.
    pub fn of(params: &Params) -> Self {
        let moduli = (0..=params.levels()).map(|i| params.modulus(i).value() as f64).collect();
        Self::new(params.slots(), params.specials(), params.literal().log_scale, moduli)
    }

    /// Of a named set, without choosing its primes: each is taken as a power of two. For counting.
    pub fn of_set(set: &Set) -> Self {
        Self::powers(1 << (set.log_n - 1), set.scale_bits, set.levels, set.specials)
    }

    /// A chain whose primes are taken as powers of two.
    fn powers(slots: usize, log_scale: u32, levels: usize, specials: usize) -> Self {
        Self::new(slots, specials, log_scale, vec![2f64.powi(log_scale as i32); levels + 1])
    }

    /// A chain of any size for [`Count`](super::Count) and [`Plain`](super::Plain): primes that are a little
    /// off a power of two, as real ones are, so that a circuit that mixes scales is refused.
    pub fn ideal(slots: usize, log_scale: u32, levels: usize, specials: usize) -> Self {
        let off = |i: usize| 1.0 + (i as f64 + 1.0) * if i.is_multiple_of(2) { 1e-6 } else { -1e-6 };
        let moduli = (0..=levels).map(|i| 2f64.powi(log_scale as i32) * off(i)).collect();
        Self::new(slots, specials, log_scale, moduli)
    }

    /// Complex slots of a ciphertext.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The highest level.
    pub fn top(&self) -> usize {
        self.moduli.len() - 1
    }

    /// Special primes.
    pub fn specials(&self) -> usize {
        self.specials
    }

    /// The canonical scale of a level; that of the highest for a level that does not exist.
    pub fn scale(&self, level: usize) -> f64 {
        self.scales[level.min(self.top())]
    }

    /// Data prime `level`; the last for a level that does not exist.
    pub fn modulus(&self, level: usize) -> f64 {
        self.moduli[level.min(self.top())]
    }

    /// Bytes of a ciphertext at `level` in memory.
    pub fn ciphertext_bytes(&self, level: usize) -> u64 {
        2 * (level as u64 + 1) * self.limb_bytes()
    }

    /// Bytes of a limb in memory: a word for each of `N` residues.
    pub fn limb_bytes(&self) -> u64 {
        2 * self.slots as u64 * 8
    }

    /// Transforms of a key switch at `level`: `(D + 2) (l + 1 + K)` with `D` digits and `K` special primes.
    pub fn switch_transforms(&self, level: usize) -> usize {
        let digits = (level + 1).div_ceil(self.specials);
        (digits + 2) * (level + 1 + self.specials)
    }
}
