//! Hybrid key switching (Han and Ki 2020; Halevi, Polyakov, Shoup 2019 for the conversions).
//!
//! A polynomial `c` at level `l` that multiplies a foreign key `s'` is cut into digits: `c_d` is `c` modulo
//! the product `Q_d` of the primes of digit `d`, centred, `|c_d| <= Q_d / 2`. With a key `(b_d, a_d)` that
//! encrypts `P 1_d s'` under `s` over `Q P`,
//!
//! ```text
//! (w_0, w_1) = sum_d c_d (b_d, a_d),    w_0 + w_1 s = P c s' + sum_d c_d e_d   (mod Q P),
//! ```
//!
//! and division by `P`, rounded, gives a pair under `s` modulo `Q`. Dividing by `P q_l` instead is a
//! rescaling for nothing more: the sum of the two has one rounding and `2 l + 4` transforms less.
//!
//! # Order of work
//! 1. [`LazyDigits::new`]: inverse transforms of `c`, scaled for the conversion, and its overflow, per digit.
//! 2. The primes of the divisor: all digits modulo the prime ([`Digits::at`]), their sum of products with the
//!    key, and back to coefficients: the remainders of the division ([`Remainder`]).
//! 3. Every prime that stays: digits, sum of products, minus the remainder, times the inverse of the divisor.
//!
//! The sums over `Q P` are never in memory as a whole: each prime's sum is used while it is in the cache, and
//! only the remainders wait. Several key switches of one polynomial (hoisting) share the digits of steps 2
//! and 3 inside the loop over primes ([`each_prime`]).
//!
//! Cost at level `l` with `K` special primes and `D` digits, one key:
//! `l + 1 + (D - 1) (l + 1) + D K + 2 K + 2 (l + 1)` transforms, [`SwitchCost`] counts them;
//! `2 D (l + 1 + K) N` residues of key from memory.
//!
//! **Where the time goes.** A rotation alone on one thread of an idle machine, each part measured apart and
//! in turn with the whole (`fesc bench ckks --op rotate --json`):
//!
//! | set | ms | transforms | conversions | sums with the key | its memory | the rest |
//! |---|---|---|---|---|---|---|
//! | `chain-3` (168 transforms, 144 conversions, 43 MB of key) | 28.7 | 38 % | 28 % | 11 % | 9 % | 14 % |
//! | `chain-4` (155, 116, 63 MB) | 64.3 | 38 % | 41 % | 10 % | 5 % | 7 % |
//!
//! It takes 2.6 times as long as its transforms alone on limbs in the cache.
//!
//! Threads work on different primes. What they compute does not depend on how many there are.

mod group;
mod remainder;
mod source;
mod tables;

use fesc_ring::automorphism::Table;
use fesc_ring::cpu;
use fesc_ring::modulus::Shoup;
use fesc_ring::rns::{Mode, Packed, Prime};
use rayon::prelude::*;

pub(crate) use group::each_prime;
use remainder::Remainder;
pub(crate) use source::{Digits, LazyDigits};
pub(crate) use tables::{Division, Tables};

use crate::Params;
use crate::poly::Poly;
use crate::server::{Half, SwitchingKey};

/// Coefficients of a sum with a key that are finished before the next ones: two sums of them stay in the
/// first-level cache.
const PART: usize = 2048;

/// Runs `work` on every row, in parallel when there is more than one thread.
pub(crate) fn each<T: Send>(rows: Vec<T>, work: impl Fn(usize, T) + Sync + Send) {
    if rayon::current_num_threads() > 1 {
        rows.into_par_iter().enumerate().with_max_len(1).for_each(|(i, row)| work(i, row));
    } else {
        rows.into_iter().enumerate().for_each(|(i, row)| work(i, row));
    }
}

/// The prime of limb `place` of a polynomial over `q_0 .. q_level` and the special primes.
pub(crate) fn prime_at(params: &Params, level: usize, place: usize) -> usize {
    if place <= level { place } else { params.first_special() + place - level - 1 }
}

/// `P` modulo data prime `j`.
pub(crate) fn product_of_specials(params: &Params, j: usize) -> Shoup {
    let m = params.modulus(j);
    let specials = params.first_special()..params.primes();
    m.shoup(specials.fold(1, |p, k| m.mul(p, m.reduce(params.modulus(k).value()))))
}

/// Limb `i` of several pairs of polynomials as row `i`.
pub(crate) fn rows<'a>(pairs: impl IntoIterator<Item = [&'a mut [u64]; 2]>, degree: usize) -> Vec<Row<'a>> {
    let mut out: Vec<Row<'a>> = Vec::new();
    for [x, y] in pairs {
        let limbs = x.chunks_exact_mut(degree).zip(y.chunks_exact_mut(degree));
        for (i, (x, y)) in limbs.enumerate() {
            match out.get_mut(i) {
                Some(row) => row.push([x, y]),
                None => out.push(vec![[x, y]]),
            }
        }
    }
    out
}

/// One limb of each of several pairs.
pub(crate) type Row<'a> = Vec<[&'a mut [u64]; 2]>;

/// What a key switch adds to its result.
#[derive(Clone, Copy)]
pub(crate) enum Own<'a> {
    /// To the first half, this polynomial under the automorphism; nothing to the second.
    Image(&'a Poly),
    /// What the outputs hold already.
    Preset,
}

/// One of several key switches of the same polynomial.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    /// The key.
    pub(crate) key: &'a SwitchingKey,
    /// The automorphism that the polynomial goes through before.
    pub(crate) order: Option<&'a Table>,
    /// What is added.
    pub(crate) own: Own<'a>,
}

impl Job<'_> {
    /// The key's limbs of prime `j`, for so many digits.
    pub(crate) fn at(&self, j: usize, digits: usize) -> KeyLimbs<'_> {
        let halves = [Half::B, Half::A].map(|half| self.key.limbs(j, half, digits));
        KeyLimbs { prime: self.key.params().prime(j), halves, order: self.order }
    }

    /// Where the part from `from` on of the image of `poly` goes.
    fn image(&self, poly: &[u64], from: usize, out: &mut [u64]) {
        match self.order {
            Some(table) => table.part(from, poly, out),
            None => out.copy_from_slice(&poly[from..from + out.len()]),
        }
    }
}

/// One prime's part of a key.
pub(crate) struct KeyLimbs<'a> {
    prime: &'a Prime,
    halves: [Vec<Packed<'a>>; 2],
    order: Option<&'a Table>,
}

impl KeyLimbs<'_> {
    /// Both sums of products with the digits: the part from `from` on, as long as the outputs.
    pub(crate) fn dot(&self, digits: &[&[u64]], from: usize, out: [&mut [u64]; 2], add: bool) {
        let mode = Mode { add, order: self.order, from };
        self.prime.dot2_packed_with(cpu::path(), mode, digits, self.halves.each_ref().map(Vec::as_slice), out);
    }
}

/// What one key switch does, for whoever measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchCost {
    /// Number-theoretic transforms, both directions.
    pub transforms: usize,
    /// Conversions of a digit, or of the remainder of the division, to one prime.
    pub conversions: usize,
    /// Sums of products of all digits with both halves of the key, one per prime.
    pub sums: usize,
    /// Digits.
    pub digits: usize,
    /// Bytes of key that are read.
    pub key_bytes: usize,
}

impl SwitchCost {
    /// Of a key switch at `level` that divides by `P`, or by `P q_level`.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn new(params: &Params, level: usize, rescale: bool) -> Self {
        let (digits, specials) = (params.digits(level), params.specials());
        let primes = level + 1 + specials;
        // Each digit goes to every prime that is not its own.
        let extended = digits * primes - (level + 1);
        let sources = specials + usize::from(rescale);
        let kept = level + 1 - usize::from(rescale);
        Self {
            transforms: level + 1 + extended + 2 * (sources + kept),
            conversions: extended + 2 * kept,
            sums: primes,
            digits,
            key_bytes: 2
                * digits
                * (0..primes).map(|place| params.limb_bytes(prime_at(params, level, place))).sum::<usize>(),
        }
    }
}

impl Division {
    /// Switches the digits with every job's key, divides and adds what the jobs say. All outputs must have
    /// [`Division::kept`] limbs. `last` is added to every job's sum modulo the data prime of the divisor.
    pub(crate) fn switch(
        &self,
        params: &Params,
        digits: &impl Digits,
        jobs: &[Job<'_>],
        outs: &mut [[Poly; 2]],
        last: Option<[&[u64]; 2]>,
    ) {
        let remainders = self.remainders(params, digits, jobs, last);
        let n = params.degree();
        let pairs = outs.iter_mut().map(|[x, y]| [x.words_mut(), y.words_mut()]);
        let primes: Vec<usize> = (0..self.kept()).collect();
        // For each half of each job, the remainder modulo each prime of a group; and two sums.
        let start = |primes: &[usize]| {
            let mut rests = params.pool().take(2 * jobs.len() * primes.len() * n);
            let limbs = rests.chunks_exact_mut(primes.len() * n);
            remainders.iter().flatten().zip(limbs).for_each(|(r, limbs)| r.convert(self, primes, limbs));
            (rests, params.pool().take(2 * PART), primes.len())
        };
        each_prime(params, digits, &primes, rows(pairs, n), 2 * jobs.len(), start, |state, i, j, row, parts| {
            let (rests, sums, group) = state;
            let (first, second) = sums.split_at_mut(PART);
            // All transforms of the prime in a row: its roots stay in the cache.
            let mut halves: Vec<&mut [u64]> =
                rests.chunks_exact_mut(*group * n).map(|half| &mut half[i * n..(i + 1) * n]).collect();
            halves.iter_mut().for_each(|half| params.ntt(j).forward(half));
            for ((job, outs), rests) in jobs.iter().zip(row).zip(halves.chunks_exact(2)) {
                let key = job.at(j, parts.len());
                let [out0, out1] = outs.map(|out| out.chunks_mut(PART));
                for (part, (out0, out1)) in out0.zip(out1).enumerate() {
                    let (from, len) = (part * PART, out0.len());
                    let (first, second) = (&mut first[..len], &mut second[..len]);
                    key.dot(parts, from, [&mut *first, &mut *second], false);
                    if let Own::Image(poly) = job.own {
                        job.image(poly.limb(j), from, out0);
                    }
                    let preset = matches!(job.own, Own::Preset);
                    let halves = [(&*first, out0, true), (&*second, out1, preset)];
                    for ((sum, out, add), rest) in halves.into_iter().zip(rests) {
                        self.quotient(params, j, sum, &rest[from..from + len], out, add);
                    }
                }
            }
        });
    }

    /// The remainders of every job's sums modulo the divisor.
    fn remainders(
        &self,
        params: &Params,
        digits: &impl Digits,
        jobs: &[Job<'_>],
        last: Option<[&[u64]; 2]>,
    ) -> Vec<[Remainder; 2]> {
        let n = params.degree();
        let mut remainders: Vec<[Remainder; 2]> =
            jobs.iter().map(|_| [Remainder::scratch(params, self), Remainder::scratch(params, self)]).collect();
        let pairs = remainders.iter_mut().map(|[x, y]| [x.words_mut(), y.words_mut()]);
        let divisors: Vec<usize> = (0..self.sources()).map(|i| self.divisor(i)).collect();
        let rows = rows(pairs, n).into_iter().enumerate().collect();
        each_prime(
            params,
            digits,
            &divisors,
            rows,
            0,
            |_| (),
            |(), _, j, (i, row): (usize, Row<'_>), parts| {
                let own = last.filter(|_| j < params.first_special());
                for (job, [x, y]) in jobs.iter().zip(row) {
                    if let Some([own0, own1]) = own {
                        x.copy_from_slice(own0);
                        y.copy_from_slice(own1);
                    }
                    job.at(j, parts.len()).dot(parts, 0, [&mut *x, &mut *y], own.is_some());
                    for limb in [x, y] {
                        self.take_remainder(params, i, limb);
                    }
                }
            },
        );
        each(remainders.iter_mut().flatten().collect(), |_, half: &mut Remainder| half.finish(self));
        remainders
    }

    /// The quotient of a polynomial over `q_0 .. q_level` and, if they are in the divisor, the special
    /// primes.
    pub(crate) fn divide(&self, params: &Params, sum: &Poly) -> Poly {
        let remainder = Remainder::of(params, self, sum);
        let mut out = Poly::scratch(params, self.kept());
        out.for_each_limb(|j, limb| self.divide_limb(params, &remainder, sum, j, limb));
        out
    }

    /// [`Division::divide`] of both parts: each prime's roots serve two transforms in a row.
    pub(crate) fn divide_pair(&self, params: &Params, [first, second]: [&Poly; 2]) -> [Poly; 2] {
        let remainders = [first, second].map(|sum| Remainder::of(params, self, sum));
        let mut outs = [Poly::scratch(params, self.kept()), Poly::scratch(params, self.kept())];
        let [x, y] = &mut outs;
        Poly::for_each_limb_of_two(x, y, |j, x, y| {
            self.divide_limb(params, &remainders[0], first, j, x);
            self.divide_limb(params, &remainders[1], second, j, y);
        });
        outs
    }

    fn divide_limb(&self, params: &Params, remainder: &Remainder, sum: &Poly, j: usize, out: &mut [u64]) {
        let mut rest = params.pool().take(params.degree());
        remainder.convert(self, &[j], &mut rest);
        params.ntt(j).forward(&mut rest);
        self.quotient(params, j, sum.limb(j), &rest, out, false);
    }
}

#[cfg(test)]
#[path = "switch/tests.rs"]
mod tests;
