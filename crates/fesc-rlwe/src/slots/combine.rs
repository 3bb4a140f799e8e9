//! Many sums over the same ciphertexts: a small matrix product for each prime and each run of slots.
//!
//! `out_o = sum_j m[o][j] o c_j` with `m[o][j]` constant on runs of slots is, for one prime and one run, an
//! (outputs x ciphers) matrix times (ciphers x slots of the run). Blocks of outputs bound the memory; inside
//! a block the residues of all `m[o][j]` are made once (`weights.rs`), and tiles of 4 outputs by 16 slots are
//! summed without reduction ([`fesc_ring::lazy`]).
//!
//! Cost: 16 products modulo a prime per slot product, one pair of vector instructions for eight of them.

use fesc_ring::lazy::{COLUMNS, ROWS};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::basis::LIMBS;
use super::evaluator::{Cipher, Evaluator, Sum};
use super::weights::{Turned, Weights};
use crate::Result;
use crate::RlweError;

/// Most outputs of a block: their sums take as much memory as so many ciphertexts.
const BLOCK: usize = 64;
/// Most words of a block's weights: 128 MB.
const WEIGHTS: usize = 1 << 24;
/// Slots whose ciphertext words are gathered at once: long enough for the prefetcher, and 128 of them fit the
/// second cache.
const GATHER: usize = 256;
/// Runs of a task, where that is not too many or too few slots: a cache line of weights.
const RUNS: usize = 8;
/// Most slots of a task.
const TASK: usize = 2048;

impl Evaluator {
    /// Hands each `out_o = sum_j m[o][j] o c_j` to `sink`, in order. `value(o, j, r)` is `m[o][j]` on run `r`
    /// of `run` slots; where `skip(o, j)`, it is zero and not asked for. Works on up to 64 outputs at once:
    /// their sums and at most 128 MB of weights are all the memory it takes.
    ///
    /// # Errors
    /// If `run` is not a power of two up to the slots, if a value is above `2^47` in magnitude, or what
    /// `sink` says.
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
            let weights = Weights::new(self, range.clone(), runs, ciphers.len(), &skip, &value)?;
            let sums = self.multiply(ciphers, range.len(), run, &weights);
            drop(weights);
            for (o, sum) in range.zip(sums) {
                sink(o, sum)?;
            }
        }
        Ok(())
    }

    fn multiply(&self, ciphers: &[Cipher], outputs: usize, run: usize, weights: &Weights<'_>) -> Vec<Sum> {
        let (basis, n) = (self.params().basis(), self.params().slots());
        // Every word is written below.
        let mut sums: Vec<Sum> = (0..outputs).map(|_| Sum { rows: self.buffer() }).collect();
        // A task has the same slots of the same prime of both polynomials of every sum: they share weights.
        let size = (RUNS * run).clamp(GATHER, TASK).min(n);
        let mut tasks: Vec<[Vec<&mut [u64]>; 2]> = (0..LIMBS * n / size).map(|_| [Vec::new(), Vec::new()]).collect();
        let count = tasks.len();
        for sum in &mut sums {
            for (at, part) in sum.rows.chunks_exact_mut(size).enumerate() {
                tasks[at % count][at / count].push(part);
            }
        }
        let width = GATHER.min(size);
        let buffers = || (Turned::default(), vec![[0; COLUMNS]; width / COLUMNS * ciphers.len()]);
        tasks.into_par_iter().enumerate().for_each_init(buffers, |(turned, panel), (at, mut parts)| {
            let limb = at * size / n;
            let first_run = at * size % n / run;
            weights.turn(limb, first_run..first_run + (size / run).max(1), turned);
            for base in (0..size).step_by(width) {
                for (poly, parts) in parts.iter_mut().enumerate() {
                    let start = (poly * count + at) * size + base;
                    // Ciphertexts lie megabytes apart: gathered, a strip of all of them fits the first cache.
                    for (j, cipher) in ciphers.iter().enumerate().take(weights.used()) {
                        let slots = cipher.rows[start..start + width].as_chunks::<COLUMNS>().0;
                        slots.iter().enumerate().for_each(|(strip, &s)| panel[strip * ciphers.len() + j] = s);
                    }
                    for strip in 0..width / COLUMNS {
                        let panel = &panel[strip * ciphers.len()..(strip + 1) * ciphers.len()];
                        let from = base + strip * COLUMNS;
                        let run_index = (at * size + from) % n / run - first_run;
                        for (group, parts) in parts.chunks_mut(ROWS).enumerate() {
                            let (weights, span) = turned.rows(group, run_index);
                            let tile = basis.limbs[limb].lazy.tile(weights, &panel[span]);
                            for (part, row) in parts.iter_mut().zip(&tile) {
                                part[from..from + COLUMNS].copy_from_slice(row);
                            }
                        }
                    }
                }
            }
        });
        sums
    }
}
