//! The residues of a block's multipliers, and their order for the tiles.

use std::ops::Range;
use std::sync::PoisonError;

use fesc_ring::lazy::ROWS;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::basis::{Basis, LIMBS, PLAIN};
use super::evaluator::Evaluator;
use super::key::check_values;
use crate::Result;
use crate::RlweError;

/// For each group of 4 outputs, prime, ciphertext and output: one word per run, as the transforms make them.
/// The memory goes back to the evaluator, which wipes it at its end.
pub(super) struct Weights<'a> {
    owner: &'a Evaluator,
    words: Zeroizing<Vec<u64>>,
    /// For each group, the ciphertexts that count.
    spans: Vec<Range<usize>>,
    runs: usize,
    ciphers: usize,
}

impl<'a> Weights<'a> {
    pub(super) fn new(
        owner: &'a Evaluator,
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
        let (part, size) = (ciphers * ROWS * runs, LIMBS * ciphers * ROWS * runs);
        let mut words = std::mem::take(&mut *owner.scratch.lock().unwrap_or_else(PoisonError::into_inner));
        // What is outside the spans is never read, so old content does not matter. Growing in place would
        // leave a copy behind.
        if words.len() < groups.len() * size {
            words = Zeroizing::new(vec![0; groups.len() * size]);
        }
        let mut weights = Self { owner, words, spans, runs, ciphers };
        let basis = owner.params().basis();
        let work = weights.words.par_chunks_mut(size.max(1)).zip(&groups).zip(&weights.spans);
        work.try_for_each(|((words, outputs), span)| {
            let mut rows = Zeroizing::new(vec![0; LIMBS * runs]);
            let (mut values, mut digits) = (Zeroizing::new(vec![0; runs]), Zeroizing::new(Vec::new()));
            for (j, k) in span.clone().flat_map(|j| (0..ROWS).map(move |k| (j, k))) {
                let o = outputs.start + k;
                if o >= outputs.end || skip(o, j) {
                    rows.fill(0);
                } else {
                    values.iter_mut().enumerate().for_each(|(r, v)| *v = value(o, j, r));
                    check_values("values of a combination", &values)?;
                    residues(basis, &values, &mut rows, &mut digits);
                }
                for (words, row) in words.chunks_exact_mut(part).zip(rows.chunks_exact(runs)) {
                    words[(j * ROWS + k) * runs..][..runs].copy_from_slice(row);
                }
            }
            Ok::<_, RlweError>(())
        })?;
        Ok(weights)
    }

    /// How many of the first ciphertexts matter.
    pub(super) fn used(&self) -> usize {
        self.spans.iter().map(|span| span.end).max().unwrap_or(0)
    }

    /// The weights of one prime and some runs for tiles, into `turned`.
    pub(super) fn turn(&self, limb: usize, runs: Range<usize>, turned: &mut Turned) {
        let size = self.spans.iter().map(Range::len).sum::<usize>();
        let rows = &mut turned.rows;
        if rows.len() < size * runs.len() {
            *rows = Zeroizing::new(vec![[0; ROWS]; size * runs.len()]);
        }
        turned.size = size;
        turned.places.clear();
        let mut start = 0;
        for (group, span) in self.spans.iter().enumerate() {
            turned.places.push((start, span.clone()));
            let first = (group * LIMBS + limb) * self.ciphers;
            let columns = self.words[(first + span.start) * ROWS * self.runs..(first + span.end) * ROWS * self.runs]
                .chunks_exact(ROWS * self.runs);
            for (j, columns) in columns.enumerate() {
                let at = start + j;
                for (k, column) in columns.chunks_exact(self.runs).enumerate() {
                    // The words of neighbouring runs share a cache line, which is read once.
                    let column = &column[runs.clone()];
                    column.iter().enumerate().for_each(|(r, &word)| rows[r * size + at][k] = word);
                }
            }
            start += span.len();
        }
    }
}

impl Drop for Weights<'_> {
    fn drop(&mut self) {
        *self.owner.scratch.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.words);
    }
}

/// For each run, group and ciphertext of the group's span: 4 words. Wiped on drop.
#[derive(Default)]
pub(super) struct Turned {
    rows: Zeroizing<Vec<[u64; ROWS]>>,
    /// Where a group starts inside a run, and its span.
    places: Vec<(usize, Range<usize>)>,
    /// Rows of a run.
    size: usize,
}

impl Turned {
    /// The rows of one group and run, and the ciphertexts they belong to. Runs count from the first that was
    /// turned.
    pub(super) fn rows(&self, group: usize, run: usize) -> (&[[u64; ROWS]], Range<usize>) {
        let (start, span) = &self.places[group];
        let start = run * self.size + start;
        (&self.rows[start..start + span.len()], span.clone())
    }
}

/// Values of all runs to residues modulo all primes.
pub(super) fn residues(basis: &Basis, values: &[i64], rows: &mut [u64], digits: &mut Vec<u64>) {
    for (row, limb) in rows.chunks_exact_mut(values.len()).zip(&basis.limbs[..PLAIN]) {
        limb.residues(values, row);
    }
    basis.extend(rows, digits);
}
