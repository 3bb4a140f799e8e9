//! The kernels of a key switch alone, as often and on as many words as one rotation at the top level has
//! them: what the whole is compared with.
//!
//! Values are arbitrary reduced residues; no kernel's time depends on them. Threads work on different primes,
//! as in the key switch.

use anyhow::Result;
use fesc_ckks::Params;
use fesc_ckks::server::rotation_element;
use fesc_ring::Ring;
use fesc_ring::aligned::Aligned;
use fesc_ring::automorphism::Table;
use fesc_ring::cpu;
use fesc_ring::rns::{Base, Mode, Packed, Prime, Target};
use rayon::prelude::*;

use super::op::STEPS;

/// Bytes after a packed limb, as a real key has them.
const SLACK: usize = 64;

/// Residues of this many bits are reduced modulo every prime of the chains.
const RESIDUE_BITS: u32 = 38;

/// A loop of forward transforms and nothing else, over all primes in turn.
pub struct TransformLoop {
    params: Params,
    /// One polynomial for each prime.
    limbs: Vec<Aligned<u64>>,
    count: usize,
}

impl TransformLoop {
    /// A loop of `transforms`; for none, one for each data prime, so that there is a time to compare with.
    pub fn new(params: &Params, transforms: usize) -> Self {
        let count = if transforms == 0 { params.levels() + 1 } else { transforms };
        let limbs = (0..params.primes()).map(|i| residues(params.degree(), i as u64)).collect();
        Self { params: params.clone(), limbs, count }
    }

    /// Transforms of a run.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs it once.
    pub fn run(&mut self) {
        let (primes, count, params) = (self.limbs.len(), self.count, &self.params);
        each(&mut self.limbs, |i, limb| {
            // Prime i has its part of the count: i, i + primes, ... below it.
            (i..count).step_by(primes).for_each(|_| params.ntt(i).forward(limb));
        });
    }
}

/// Base conversions and inner products of a rotation.
pub struct Kernels {
    primes: Vec<Prime>,
    /// For every digit and last for the special primes: the conversion, and its targets by prime.
    bases: Vec<(Base, Vec<Target>)>,
    /// Primes of each digit.
    digits: Vec<std::ops::Range<usize>>,
    order: Table,
    /// A polynomial over all primes, scaled in place.
    source: Vec<Aligned<u64>>,
    overflow: Vec<Aligned<u64>>,
    /// Two for each prime.
    out: Vec<[Aligned<u64>; 2]>,
    /// For each prime both halves of each digit's key, packed; one pair serves all if it is to stay in the
    /// cache.
    keys: Vec<[Vec<Aligned<u8>>; 2]>,
}

impl Kernels {
    /// Of the top level. `streamed`: with a key in memory as large as a real one.
    pub fn new(params: &Params, streamed: bool) -> Result<Self> {
        let (n, level) = (params.degree(), params.levels());
        let primes = (0..params.primes()).map(|i| Prime::new(params.modulus(i))).collect::<Result<Vec<_>, _>>()?;
        let digits: Vec<_> = (0..params.digits(level)).map(|d| params.digit(d, level)).collect();
        let sources = digits.iter().cloned().chain(std::iter::once(params.first_special()..params.primes()));
        let base = |range: std::ops::Range<usize>| {
            let base = Base::new(&primes[range])?;
            let targets = primes.iter().map(|p| base.target(p)).collect();
            Ok::<_, anyhow::Error>((base, targets))
        };
        let bases = sources.map(base).collect::<Result<Vec<_>>>()?;
        let limb = |i: usize| residues(n, i as u64);
        let key = |j: usize| {
            let count = if streamed { digits.len() } else { 1 };
            let packed = |at: usize| {
                let mut bytes = Ring::of_residues(params.modulus(j)).pack(&limb(at));
                bytes.resize(bytes.len() + SLACK, 0);
                Aligned::from_slice(&bytes)
            };
            [0, 1].map(|half| (0..count).map(|d| packed(j + half + d)).collect())
        };
        Ok(Self {
            order: Table::new(n, u64::from(rotation_element(params, STEPS[0])))?,
            source: (0..primes.len()).map(limb).collect(),
            overflow: bases.iter().map(|_| Aligned::zeroed(n)).collect(),
            out: (0..primes.len()).map(|i| [limb(i), limb(i + 1)]).collect(),
            keys: (0..if streamed { primes.len() } else { 1 }).map(key).collect(),
            primes,
            bases,
            digits,
        })
    }

    /// All conversions: residues scaled, overflows, each digit to every other prime, and twice the special
    /// primes to the data primes.
    pub fn convert(&mut self) {
        let (digits, bases) = (&self.digits, &self.bases);
        let data = digits.last().map_or(0, |d| d.end);
        let specials = self.source.len() - data;
        let place = |i: usize| match digits.iter().position(|d| d.contains(&i)) {
            Some(d) => (d, i - digits[d].start, 1),
            None => (digits.len(), i - data, 2),
        };
        each(&mut self.source, |i, limb| {
            let (base, at, times) = place(i);
            (0..times).for_each(|_| bases[base].0.scale(at, limb));
        });
        let source: Vec<&[u64]> = self.source.iter().map(|l| &**l).collect();
        let parts = |d: usize| digits.get(d).map_or(&source[data..data + specials], |range| &source[range.clone()]);
        each(&mut self.overflow, |d, v| {
            let times = if d == digits.len() { 2 } else { 1 };
            (0..times).for_each(|_| bases[d].0.overflow(parts(d), v));
        });
        let overflow: Vec<&[u64]> = self.overflow.iter().map(|l| &**l).collect();
        each(&mut self.out, |j, [first, second]| {
            for (d, _) in digits.iter().enumerate().filter(|(_, range)| !range.contains(&j)) {
                bases[d].1[j].apply(parts(d), overflow[d], first);
            }
            if j < data {
                for out in [first, second] {
                    bases[digits.len()].1[j].apply(parts(digits.len()), overflow[digits.len()], out);
                }
            }
        });
    }

    /// The sums of products of all digits with both halves of a key, through the permutation of the rotation.
    pub fn inner_product(&mut self) {
        let (primes, digits, keys, source) = (&self.primes, &self.digits, &self.keys, &self.source);
        let mode = Mode { order: Some(&self.order), ..Mode::default() };
        // One key for all is that of the first prime, whose residues may be longer.
        let prime = |j: usize| &primes[if keys.len() == 1 { 0 } else { j }];
        each(&mut self.out, |j, [first, second]| {
            let factors: Vec<&[u64]> = (0..digits.len()).map(|d| &*source[d]).collect();
            let [b, a] = keys[j % keys.len()].each_ref().map(|half| {
                let limb = |d: usize| Packed::new(prime(j), first.len(), &half[d % half.len()]);
                (0..digits.len()).flat_map(limb).collect::<Vec<_>>()
            });
            prime(j).dot2_packed_with(cpu::path(), mode, &factors, [&b, &a], [first, second]);
        });
    }
}

/// Runs `work` on every item, in parallel when there is more than one thread.
fn each<T: Send>(items: &mut [T], work: impl Fn(usize, &mut T) + Sync + Send) {
    if rayon::current_num_threads() > 1 {
        items.par_iter_mut().enumerate().with_max_len(1).for_each(|(i, item)| work(i, item));
    } else {
        items.iter_mut().enumerate().for_each(|(i, item)| work(i, item));
    }
}

/// A polynomial of small residues.
fn residues(n: usize, start: u64) -> Aligned<u64> {
    let mut out = Aligned::zeroed(n);
    for (x, i) in out.iter_mut().zip(start..) {
        *x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RESIDUE_BITS);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_ckks::server::SwitchCost;
    use fesc_ckks::sets;

    #[test]
    fn the_key_is_as_large_as_a_real_one() {
        let params = sets::CHAIN_2.params().unwrap();
        let bytes = |k: &Kernels| k.keys.iter().flatten().flatten().map(|l| l.len() - SLACK).sum::<usize>();
        let cost = SwitchCost::new(&params, params.levels(), false);
        assert_eq!(bytes(&Kernels::new(&params, true).unwrap()), cost.key_bytes);
        assert_eq!(bytes(&Kernels::new(&params, false).unwrap()), 2 * 50 * params.degree() / 8);
    }

    #[test]
    fn a_loop_has_its_count_of_transforms() {
        let params = sets::CHAIN_1.params().unwrap();
        for (asked, count) in [(0, 2), (1, 1), (7, 7)] {
            let mut transforms = TransformLoop::new(&params, asked);
            let before: Vec<Vec<u64>> = transforms.limbs.iter().map(|l| l.to_vec()).collect();
            transforms.run();
            assert_eq!(transforms.count(), count);
            let mut undone = 0;
            for (i, (limb, before)) in transforms.limbs.iter_mut().zip(&before).enumerate() {
                while **limb != before[..] && undone < count {
                    params.ntt(i).inverse(limb);
                    undone += 1;
                }
                assert!(**limb == before[..]);
            }
            assert_eq!(undone, count);
        }
    }
}
