//! Many sums over the same ciphertexts: a small matrix product for each prime and each run of slots.
//!
//! `out_o = sum_j m[o][j] o c_j` with `m[o][j]` constant on runs of slots is, for one prime and one run, an (outputs x ciphers) matrix times
//! (ciphers x slots of the run). Blocks of outputs bound the memory; inside a block the residues of all `m[o][j]` are made once (transforms of
//! `N / run` points), and tiles of 4 outputs by 16 slots are summed without reduction ([`fesc_ring::lazy`]).
//!
//! Cost: 14 products modulo a prime per slot product, one vector instruction pair for eight of them.

use std::ops::Range;

use fesc_ring::lazy::{COLUMNS, ROWS};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::basis::{Basis, LIMBS, PLAIN};
use super::evaluator::{Cipher, Evaluator, Sum};
use super::key::check_values;
use crate::Result;
use crate::RlweError;

/// Most outputs of a block: their sums take as much memory as so many ciphertexts.
const BLOCK: usize = 64;
/// Most words of a block's weights: 128 MB.
const WEIGHTS: usize = 1 << 24;
/// Ciphertexts whose weights are turned at once: 4 outputs by 4 ciphertexts are two cache lines.
const TURN: usize = 4;
/// Slots whose ciphertext words are gathered at once.
const GATHER: usize = 64;
/// Least slots of a task.
const TASK: usize = 1024;

/// The weights of a block: for each group of 4 outputs, prime, run and ciphertext, 4 words.
struct Weights {
    words: Zeroizing<Vec<u64>>,
    /// For each group, the ciphertexts that count.
    spans: Vec<Range<usize>>,
    runs: usize,
    ciphers: usize,
}

impl Weights {
    fn new(
        basis: &Basis,
        block: Range<usize>,
        runs: usize,
        ciphers: usize,
        skip: &(impl Fn(usize, usize) -> bool + Sync),
        value: &(impl Fn(usize, usize, usize) -> i64 + Sync),
    ) -> Result<Self> {
        let groups: Vec<Range<usize>> =
            block.clone().step_by(ROWS).map(|first| first..block.end.min(first + ROWS)).collect();
        let used = |outputs: &Range<usize>, j: usize| outputs.clone().any(|o| !skip(o, j));
        let span = |outputs: &Range<usize>| {
            let first = (0..ciphers).find(|&j| used(outputs, j)).unwrap_or(ciphers);
            let last = (first..ciphers).rfind(|&j| used(outputs, j)).map_or(first, |j| j + 1);
            first..last
        };
        let spans: Vec<Range<usize>> = groups.iter().map(span).collect();
        let size = LIMBS * runs * ciphers * ROWS;
        let mut words = Zeroizing::new(vec![0; groups.len() * size]);
        words.par_chunks_mut(size.max(1)).zip(&groups).zip(&spans).try_for_each(|((words, outputs), span)| {
            let mut rows = Zeroizing::new(vec![0; TURN * ROWS * LIMBS * runs]);
            let mut values = Zeroizing::new(vec![0; runs]);
            for first in span.clone().step_by(TURN) {
                let count = TURN.min(span.end - first);
                rows.fill(0);
                for (k, rows) in rows.chunks_exact_mut(LIMBS * runs).enumerate() {
                    let (o, j) = (outputs.start + k % ROWS, first + k / ROWS);
                    if o >= outputs.end || j >= span.end || skip(o, j) {
                        continue;
                    }
                    values.iter_mut().enumerate().for_each(|(r, v)| *v = value(o, j, r));
                    check_values("values of a combination", &values)?;
                    for (row, limb) in rows.chunks_exact_mut(runs).zip(&basis.limbs[..PLAIN]) {
                        row.iter_mut().zip(values.iter()).for_each(|(o, &v)| *o = limb.residue(v));
                    }
                    basis.extend(rows);
                }
                // From (cipher, output, prime, run) to (prime, run, cipher, output).
                for (at, words) in words.chunks_exact_mut(ciphers * ROWS).enumerate() {
                    let line = &mut words[first * ROWS..(first + count) * ROWS];
                    for (k, word) in line.iter_mut().enumerate() {
                        *word = rows[k * LIMBS * runs + at];
                    }
                }
            }
            Ok::<_, RlweError>(())
        })?;
        Ok(Self { words, spans, runs, ciphers })
    }

    /// The rows of one group, prime and run inside the group's span.
    fn rows(&self, group: usize, limb: usize, run: usize) -> &[[u64; ROWS]] {
        let start = ((group * LIMBS + limb) * self.runs + run) * self.ciphers;
        let span = &self.spans[group];
        &self.words.as_chunks::<ROWS>().0[start + span.start..start + span.end]
    }
}

impl Evaluator {
    /// `out_o = sum_j m[o][j] o c_j` for all outputs at once; see [`Evaluator::combine_each`].
    ///
    /// # Errors
    /// As there.
    pub fn combine(
        &self,
        ciphers: &[Cipher],
        outputs: usize,
        run: usize,
        skip: impl Fn(usize, usize) -> bool + Sync,
        value: impl Fn(usize, usize, usize) -> i64 + Sync,
    ) -> Result<Vec<Sum>> {
        let mut sums = Vec::with_capacity(outputs);
        self.combine_each(ciphers, outputs, run, skip, value, |_, sum| {
            sums.push(sum);
            Ok::<_, RlweError>(())
        })?;
        Ok(sums)
    }

    /// Hands each `out_o = sum_j m[o][j] o c_j` to `sink`, in order. `value(o, j, r)` is `m[o][j]` on run `r` of `run` slots; where `skip(o, j)`, it
    /// is zero and not asked for. Works on up to 64 outputs at once: their sums and at most 128 MB of weights are all the memory it takes.
    ///
    /// # Errors
    /// If `run` is not a power of two up to the slots, if a value is above `2^47` in magnitude, or what `sink` says.
    pub fn combine_each<E: From<RlweError>>(
        &self,
        ciphers: &[Cipher],
        outputs: usize,
        run: usize,
        skip: impl Fn(usize, usize) -> bool + Sync,
        value: impl Fn(usize, usize, usize) -> i64 + Sync,
        mut sink: impl FnMut(usize, Sum) -> Result<(), E>,
    ) -> Result<(), E> {
        let runs = self.check_run(run)?;
        if run < COLUMNS {
            // No tile fits a run: one product at a time.
            for o in 0..outputs {
                let mut sum = self.sum();
                for (j, cipher) in ciphers.iter().enumerate().filter(|&(j, _)| !skip(o, j)) {
                    let values = Zeroizing::new((0..runs).map(|r| value(o, j, r)).collect::<Vec<_>>());
                    self.mul_add(&mut sum, cipher, &self.multiplier(&values, run)?);
                }
                sink(o, sum)?;
            }
            return Ok(());
        }
        let affordable = WEIGHTS / (LIMBS * runs * ciphers.len()).max(1);
        let block = (affordable / ROWS * ROWS).clamp(ROWS, BLOCK);
        for first in (0..outputs).step_by(block) {
            let range = first..outputs.min(first + block);
            let weights = Weights::new(self.params().basis(), range.clone(), runs, ciphers.len(), &skip, &value)?;
            for (o, sum) in range.clone().zip(self.multiply(ciphers, range.len(), run, &weights)) {
                sink(o, sum)?;
            }
        }
        Ok(())
    }

    fn multiply(&self, ciphers: &[Cipher], outputs: usize, run: usize, weights: &Weights) -> Vec<Sum> {
        let (basis, n) = (self.params().basis(), self.params().slots());
        let size = run.clamp(TASK.min(n), n);
        let mut sums: Vec<Sum> = (0..outputs).map(|_| self.sum()).collect();
        // The same slots of the same row of every sum make a task.
        let mut tasks: Vec<Vec<&mut [u64]>> = (0..2 * LIMBS * n / size).map(|_| Vec::with_capacity(outputs)).collect();
        for sum in &mut sums {
            tasks.iter_mut().zip(sum.rows.chunks_exact_mut(size)).for_each(|(task, part)| task.push(part));
        }
        tasks.into_par_iter().enumerate().for_each(|(at, mut parts)| {
            let start = at * size;
            let limb = start / n % LIMBS;
            let width = run.min(GATHER);
            let mut panel = vec![[0; COLUMNS]; width / COLUMNS * ciphers.len()];
            for base in (0..size).step_by(width) {
                // Ciphertexts lie megabytes apart: gathered, a strip of all of them fits the first cache.
                for (j, cipher) in ciphers.iter().enumerate() {
                    let slots = cipher.rows[start + base..start + base + width].as_chunks::<COLUMNS>().0;
                    slots.iter().enumerate().for_each(|(strip, &s)| panel[strip * ciphers.len() + j] = s);
                }
                let run_index = (start + base) % n / run;
                for (strip, panel) in panel.chunks_exact(ciphers.len().max(1)).enumerate() {
                    let from = base + strip * COLUMNS;
                    for (group, parts) in parts.chunks_mut(ROWS).enumerate() {
                        let panel = &panel[weights.spans[group].clone()];
                        let tile = basis.limbs[limb].lazy.tile(weights.rows(group, limb, run_index), panel);
                        for (part, row) in parts.iter_mut().zip(&tile) {
                            part[from..from + COLUMNS].copy_from_slice(row);
                        }
                    }
                }
            }
        });
        sums
    }
}
