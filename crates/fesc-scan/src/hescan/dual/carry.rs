//! The carries between chunks.

use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Term};

use super::DualScan;
use super::layout::Input;

/// Chunks that one step of the recurrence over chunks takes together.
const RADIX: usize = 4;

/// Diagonals in memory at once, for each thread. Products are reduced once for so many.
const AT_ONCE: usize = 8;

impl DualScan {
    /// Whether there is more than one chunk.
    pub(super) fn carries(&self) -> bool {
        self.chunk < self.shape.tokens
    }

    /// Distances of chunks in every step of the recurrence over chunks. The first chunk gets nothing, so that
    /// the largest distance is two less than the chunks.
    pub(super) fn strides(&self) -> Vec<Vec<usize>> {
        let end = self.shape.tokens.div_ceil(self.chunk).saturating_sub(1);
        let steps = std::iter::successors(Some(1), |w| Some(w * RADIX)).take_while(|w| *w < end);
        steps.map(|w| (1..RADIX).map(|u| u * w).filter(|w| *w < end).collect()).collect()
    }

    /// Baby steps of a band of `2 chunk - 1` diagonals: about `2 sqrt(chunk)`.
    pub(super) fn band(&self) -> usize {
        2 << self.chunk.ilog2().div_ceil(2)
    }

    /// Key switches of the carries of a block: two bands, the product with `col`, the shift of the result by
    /// a chunk, and the recurrence.
    pub(super) fn carry_switches(&self) -> usize {
        if !self.carries() {
            return 0;
        }
        let giants = 2 * self.chunk / self.band();
        2 * (self.band() - 1 + 2 * giants - 1) + 2 + self.strides().iter().map(|step| step.len() + 1).sum::<usize>()
    }
}

/// Twice what the state before its chunk adds to every output, without the decays since the chunk's start.
pub(super) fn before_rows<B: Backend>(
    plan: &DualScan,
    b: &B,
    input: &(impl Fn(&dyn Fn(usize, usize) -> Input) -> Result<B::Ct> + Sync),
    x: &B::Ct,
) -> Result<B::Ct> {
    let column = input(&Input::Column)?;
    let x = b.combine(b.level(x), &[Term::Product(&column, x)])?;
    let mut state = band(plan, b, &|d| input(&|g, _| Input::BandB(g, d)), &x)?;
    for step in plan.strides() {
        let moves: Vec<i64> = step.iter().map(|w| -((w * plan.chunk) as i64)).collect();
        let moved = b.rotate_many(&state, &moves)?;
        let decays = step.iter().map(|&w| input(&|g, block| Input::Carry(g, block, w))).collect::<Result<Vec<_>>>()?;
        let mut terms: Vec<_> = decays.iter().zip(&moved).map(|(a, h)| Term::Product(a, h)).collect();
        terms.push(Term::Addend(&state));
        state = b.combine(b.level(&state), &terms)?;
    }
    let late = band(plan, b, &|d| input(&|g, _| Input::BandC(g, d)), &state)?;
    let read = b.rotate(&late, plan.chunk as i64)?;
    b.add(&read, &read)
}

/// The sum over `0 < d < 2 chunk` of diagonal `d` times `x` moved by `d`. Diagonals are moved to the left by
/// their giant step.
fn band<B: Backend>(
    plan: &DualScan,
    b: &B,
    diagonal: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    x: &B::Ct,
) -> Result<B::Ct> {
    let (baby, level) = (plan.band(), b.level(x));
    let moved = b.rotate_many(x, &(0..baby as i64).map(|d| -d).collect::<Vec<_>>())?;
    let sums = b.each(2 * plan.chunk / baby, |giant| {
        let mut sum = b.empty_sum(level)?;
        let shifts: Vec<usize> = ((giant * baby).max(1)..(giant + 1) * baby).collect();
        for few in shifts.chunks(AT_ONCE) {
            let diagonals = few.iter().map(|&d| diagonal(d)).collect::<Result<Vec<_>>>()?;
            let terms = few.iter().zip(&diagonals).map(|(d, c)| Term::Product(c, &moved[d % baby]));
            b.extend(&mut sum, &terms.collect::<Vec<_>>())?;
        }
        b.finish(sum)
    })?;
    let mut sums = sums.into_iter().rev();
    // A band has at least two giant steps.
    let last = sums.next().map_or_else(|| b.combine(level, &[]), Ok)?;
    sums.try_fold(last, |later, sum| b.add(&b.rotate(&later, -(baby as i64))?, &sum))
}
