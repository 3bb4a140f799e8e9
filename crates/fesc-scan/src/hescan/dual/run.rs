//! The circuit.

use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Term};

use super::layout::Input;
use super::{DualScan, carry};

/// Scores of a group.
struct Scores<Ct> {
    /// Twice `S_d`, moved to the left by the giant step of `d`.
    all: Vec<Ct>,
    /// Those of the near shifts, at the level of the last products.
    near: Vec<Ct>,
}

/// All blocks of all groups.
pub(super) fn run<B: Backend>(
    plan: &DualScan,
    b: &B,
    input: &(impl Fn(Input) -> Result<B::Ct> + Sync),
) -> Result<Vec<B::Ct>> {
    let mut results = Vec::new();
    for g in 0..plan.shape.groups {
        let scores = b.part("scores", || scores(plan, b, input, g))?;
        let block = |block: usize| outputs(plan, b, &|which| input(which(g, block)), &scores);
        results.extend(b.part("outputs", || match plan.blocks() {
            // Alone it has all threads for its own loops.
            1 => Ok(vec![block(0)?]),
            blocks => b.each(blocks, block),
        })?);
    }
    Ok(results)
}

fn scores<B: Backend>(
    plan: &DualScan,
    b: &B,
    input: &(impl Fn(Input) -> Result<B::Ct> + Sync),
    g: usize,
) -> Result<Scores<B::Ct>> {
    let (tokens, top) = (plan.span(), plan.out + 3);
    let babies: Vec<i64> = (0..plan.baby.min(tokens)).step_by(2).map(|d| -(d as i64)).collect();
    let giants: Vec<i64> = (0..tokens).step_by(plan.baby).map(|d| d as i64).collect();
    let factors = b.each(2 * plan.parts(), |i| match i % 2 {
        0 => b.rotate_many(&input(Input::B(g, i / 2))?, &babies),
        _ => b.rotate_many(&input(Input::C(g, i / 2))?, &giants),
    })?;
    // Even shifts: each comes with the next.
    let pairs = b.each(tokens.div_ceil(2), |i| {
        let (giant, baby) = (2 * i / plan.baby, 2 * i % plan.baby / 2);
        let terms: Vec<_> = factors.chunks(2).map(|f| Term::Product(&f[0][baby], &f[1][giant])).collect();
        let both = b.fold(b.combine(top, &terms)?, plan.axis(), plan.states)?;
        let mirror = b.conjugate(&both)?;
        Ok([b.add(&both, &mirror)?, b.times_i(&b.sub(&mirror, &both)?)?])
    })?;
    let all: Vec<B::Ct> = pairs.into_iter().flatten().take(tokens).collect();
    let near = all.iter().take(plan.near()).map(|s| b.lower(s, plan.out + 1)).collect::<Result<_>>()?;
    Ok(Scores { all, near })
}

/// The outputs of a block of channels.
fn outputs<B: Backend>(
    plan: &DualScan,
    b: &B,
    input: &(impl Fn(&dyn Fn(usize, usize) -> Input) -> Result<B::Ct> + Sync),
    scores: &Scores<B::Ct>,
) -> Result<B::Ct> {
    let x = input(&Input::X)?;
    let near = near(plan, b, &|d| input(&|g, block| Input::Near(g, block, d)), &x)?;
    let top = b.lower(&x, plan.out + 3)?;
    let levels: Vec<u32> = plan.levels().collect();
    let mut far = b.each(levels.len(), |i| {
        let r = input(&|g, block| Input::R(g, block, levels[i]))?;
        let rx = b.combine(plan.out + 3, &[Term::Product(&r, &top)])?;
        let l = input(&|g, block| Input::L(g, block, levels[i]))?;
        Ok((l, shifted_sum(plan, b, levels[i], &rx, &scores.all)?))
    })?;
    if plan.carries() {
        far.push((input(&Input::Row)?, carry::before_rows(plan, b, input, &x)?));
    }
    let mut terms: Vec<_> = scores.near.iter().zip(&near).map(|(s, x)| Term::Product(s, x)).collect();
    terms.extend(far.iter().map(|(l, sum)| Term::Product(l, sum)));
    b.halve(&b.combine(plan.out + 1, &terms)?)
}

/// For every near shift `x` moved by it, times the decays in between.
fn near<B: Backend>(plan: &DualScan, b: &B, decays: &impl Fn(usize) -> Result<B::Ct>, x: &B::Ct) -> Result<Vec<B::Ct>> {
    let mut near = vec![b.lower(x, plan.out + 1)?];
    if plan.near() > 1 {
        let x = b.lower(x, plan.out + 2)?;
        let steps: Vec<i64> = (1..plan.near()).map(|d| -(d as i64)).collect();
        for (i, moved) in b.rotate_many(&x, &steps)?.iter().enumerate() {
            near.push(b.combine(plan.out + 2, &[Term::Product(&decays(i + 1)?, moved)])?);
        }
    }
    Ok(near)
}

/// The sum over the shifts of a level of scores times `rx` moved by the shift.
fn shifted_sum<B: Backend>(plan: &DualScan, b: &B, k: u32, rx: &B::Ct, scores: &[B::Ct]) -> Result<B::Ct> {
    let (baby, shifts) = (plan.baby, plan.shifts(k));
    let mut used: Vec<usize> = shifts.clone().take(baby).map(|d| d % baby).collect();
    used.sort_unstable();
    let steps: Vec<i64> = used.iter().map(|d| -(*d as i64)).collect();
    let moved = b.rotate_many(rx, &steps)?;
    // From the largest giant step down: the sum so far moves by one giant step each time, with one key.
    let mut sum: Option<B::Ct> = None;
    for giant in (0..=(shifts.end - 1) / baby).rev() {
        let inside = shifts.start.max(giant * baby)..shifts.end.min((giant + 1) * baby);
        let term = |d: usize| {
            let at = used.partition_point(|u| *u < d % baby);
            Term::Product(&scores[d], &moved[at])
        };
        let terms: Vec<_> = inside.map(term).collect();
        let earlier = sum.map(|s| b.rotate(&s, -(baby as i64))).transpose()?;
        sum = Some(match earlier {
            None => b.combine(plan.out + 2, &terms)?,
            Some(s) if terms.is_empty() => s,
            Some(s) => b.add(&s, &b.combine(plan.out + 2, &terms)?)?,
        });
    }
    // A level has shifts, so that there is a sum.
    sum.map_or_else(|| b.combine(plan.out + 2, &[]), Ok)
}
