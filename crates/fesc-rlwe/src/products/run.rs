//! The exchange: both parties upload, evaluate and open at the same time.
//!
//! Tasks are cut into units (a part of the sum) and units gathered into groups of at most `held` uploads.
//! Step `i`: each party sends the uploads of its own group `i`, takes the peer's, evaluates and answers, then
//! opens the answers to its own. To a peer that reads as it should, not more than a group of uploads and
//! [`WINDOW`] answers are on their way: 120 MB, which the channel's queue must take. (A party that awaits
//! nothing in a step does not pause after a window; its answers are then held up by nothing but the peer's
//! reading.) To a peer that sends and does not read they pile up to the queue's limit, whatever the window,
//! and there the channel ends in a stall.

use std::collections::VecDeque;
use std::ops::Range;

use fesc_mpc::correlation::Bundle;
use fesc_mpc::{MpcError, Role};
use fesc_net::Channel;
use fesc_ring::Prg;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::layout::{Layout, Places};
use super::plan::{Method, Operand, Piece, ProductPlan, Task};
use crate::Result;
use crate::messages::tag;
use crate::slots::{Cipher, Evaluator, KeyHolder, Multiplier, Sum};

/// Answers sent before as many of the peer's are awaited.
const WINDOW: usize = if cfg!(test) { 8 } else { 64 };
/// Ciphertexts worked on at once.
const BATCH: usize = if cfg!(test) { 4 } else { 16 };

/// Some parts of the sum of a task.
struct Unit {
    task: Task,
    sum: Range<usize>,
    last: bool,
}

/// A unit of the peer's in the evaluator's hands.
#[derive(Clone, Copy)]
struct Job<'a> {
    piece: &'a Piece,
    unit: &'a Unit,
    ciphers: &'a [Cipher],
}

/// The units of one party's tasks, by group.
fn groups(plan: &ProductPlan, held: usize, holder: Role) -> Vec<Vec<Unit>> {
    let mut groups: Vec<Vec<Unit>> = Vec::new();
    let mut uploads = held;
    for &task in &plan.tasks[holder.index()] {
        let piece = &plan.pieces[task.piece];
        for sum in piece.steps() {
            let more = piece.uploads(sum.len());
            if uploads + more > held {
                groups.push(Vec::new());
                uploads = 0;
            }
            uploads += more;
            let unit = Unit { task, last: sum.end == piece.parts.sum, sum };
            if let Some(group) = groups.last_mut() {
                group.push(unit);
            }
        }
    }
    groups
}

/// What a task uploads for every part of the sum, in order.
fn sources(piece: &Piece, task: &Task) -> Vec<(Operand, usize)> {
    match piece.method {
        Method::Left => vec![(Operand::Left, task.part)],
        Method::Right => vec![(Operand::Right, task.part)],
        Method::Square | Method::Shared => vec![(Operand::Right, 0)],
        Method::Both => {
            let left = (0..piece.parts.left).map(|p| (Operand::Left, p));
            left.chain((0..piece.parts.right).map(|p| (Operand::Right, p))).collect()
        }
    }
}

/// All uploads of a unit in order: operand, part of its own index, part of the sum.
fn uploads(piece: &Piece, unit: &Unit) -> Vec<(Operand, usize, usize)> {
    let sources = sources(piece, &unit.task);
    let scalars = (piece.method == Method::Shared).then_some((Operand::Left, 0, 0));
    let rows = unit.sum.clone().flat_map(|s| sources.iter().map(move |&(side, part)| (side, part, s)));
    scalars.into_iter().chain(rows).collect()
}

/// The answers that a unit gives, by number.
fn answers(piece: &Piece, unit: &Unit) -> Range<usize> {
    match piece.method {
        Method::Shared => unit.sum.start..unit.sum.end + usize::from(unit.last),
        _ if unit.last => 0..piece.answers(),
        _ => 0..0,
    }
}

/// Parts of left and right that answer `o` of a task is about.
fn parts(piece: &Piece, task: &Task, o: usize) -> (usize, usize) {
    match piece.method {
        Method::Left => (task.part, o),
        Method::Right => (o, task.part),
        Method::Square | Method::Shared => (0, 0),
        Method::Both => (o / piece.parts.right, o % piece.parts.right),
    }
}

/// What does not change: keys, shares, plan.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub holder: &'a KeyHolder,
    pub evaluator: &'a Evaluator,
    pub bundle: &'a Bundle,
    pub masks: &'a [Vec<u64>],
    pub plan: &'a ProductPlan,
    pub places: &'a [Places],
    /// Most uploads of a group.
    pub held: usize,
}

impl<'a> Work<'a> {
    fn layout(&self, task: &Task) -> Layout<'a> {
        let piece = &self.plan.pieces[task.piece];
        Layout::new(piece, self.places, self.bundle.ring)
    }

    /// This party's share of an operand.
    fn operand(&self, task: &Task, side: Operand) -> &'a [u64] {
        let piece = &self.plan.pieces[task.piece];
        let (product, side) = match (piece.scale, side) {
            (Some(scale), Operand::Left) => (scale.product, scale.scalars),
            _ => (piece.product, side),
        };
        let product = &self.bundle.products[product];
        &self.masks[if side == Operand::Left { product.left } else { product.right }]
    }

    /// This party's shares of what is uploaded in a unit, as multipliers, in the order of the ciphertexts.
    fn factors(&self, piece: &Piece, unit: &Unit) -> Result<Vec<Multiplier>> {
        let layout = self.layout(&unit.task);
        let made = uploads(piece, unit).into_par_iter().map(|(side, part, s)| {
            let run = if side == Operand::Left { piece.run() } else { 1 };
            let values = layout.values(&unit.task, side, (part, s), run, self.operand(&unit.task, side));
            self.evaluator.multiplier(&Zeroizing::new(values), run)
        });
        made.collect()
    }
}

/// One party's end of a bundle in work.
pub(super) struct Session<'a> {
    pub role: Role,
    pub channel: &'a mut Channel,
    pub prg: &'a mut Prg,
    pub work: Work<'a>,
    pub out: Vec<Vec<u64>>,
}

/// Answers in both directions: sums that wait for theirs, and answers that we wait for.
#[derive(Default)]
struct Traffic {
    ready: Vec<(Task, usize, Sum)>,
    sent: usize,
    awaited: VecDeque<(Task, usize)>,
}

impl<'a> Session<'a> {
    /// Makes all products.
    pub(super) fn run(mut self) -> Result<Vec<Vec<u64>>, MpcError> {
        let [mine, theirs] = [self.role, self.role.other()].map(|r| groups(self.work.plan, self.work.held, r));
        let mut held = Vec::new();
        for i in 0..mine.len().max(theirs.len()) {
            let mut traffic = Traffic::default();
            for unit in mine.get(i).into_iter().flatten() {
                self.upload(unit)?;
                let piece = &self.work.plan.pieces[unit.task.piece];
                traffic.awaited.extend(answers(piece, unit).map(|o| (unit.task, o)));
            }
            // All uploads of the group are taken off the channel before the first answer is awaited on it.
            let theirs: Vec<&Unit> = theirs.get(i).into_iter().flatten().collect();
            let ciphers: Vec<Vec<Cipher>> = theirs.iter().map(|u| self.receive(u)).collect::<Result<_, _>>()?;
            for (unit, ciphers) in theirs.iter().zip(ciphers) {
                let job = Job { piece: &self.work.plan.pieces[unit.task.piece], unit, ciphers: &ciphers };
                self.evaluate(job, &mut held, &mut traffic)?;
            }
            self.answer(&mut traffic)?;
            while !traffic.awaited.is_empty() {
                self.open(&mut traffic)?;
            }
        }
        Ok(self.out)
    }

    fn upload(&mut self, unit: &Unit) -> Result<(), MpcError> {
        let (work, task) = (self.work, &unit.task);
        let layout = work.layout(task);
        for jobs in uploads(&work.plan.pieces[task.piece], unit).chunks(BATCH) {
            let seeded: Vec<_> = jobs.iter().map(|&job| (job, self.prg.fork())).collect();
            let encrypt = |((side, part, s), mut prg): ((Operand, usize, usize), Prg)| {
                let values = layout.values(task, side, (part, s), 1, work.operand(task, side));
                work.holder.encrypt(&Zeroizing::new(values), &mut prg)
            };
            let made = seeded.into_par_iter().map(encrypt).collect::<Result<Vec<_>>>()?;
            for bytes in made {
                self.channel.send(tag::SLOTS_UPLOAD, bytes)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, unit: &Unit) -> Result<Vec<Cipher>, MpcError> {
        let count = self.work.plan.pieces[unit.task.piece].uploads(unit.sum.len());
        let mut ciphers = Vec::with_capacity(count);
        for start in (0..count).step_by(BATCH) {
            let bytes: Vec<Vec<u8>> = (start..count.min(start + BATCH))
                .map(|_| self.channel.recv(tag::SLOTS_UPLOAD, self.work.evaluator.params().upload_bytes()))
                .collect::<Result<_, _>>()?;
            let evaluator = self.work.evaluator;
            let read: Vec<Cipher> = bytes.par_iter().map(|b| evaluator.receive(b)).collect::<Result<_>>()?;
            ciphers.extend(read);
        }
        Ok(ciphers)
    }

    /// The evaluator's part of a unit. Sums of a task in several units stay in `held` between them.
    fn evaluate(&mut self, job: Job<'_>, held: &mut Vec<Sum>, traffic: &mut Traffic) -> Result<(), MpcError> {
        let Job { piece, unit, .. } = job;
        if piece.method == Method::Shared {
            return self.shared(job, held, traffic);
        }
        let evaluator = self.work.evaluator;
        let mut next = std::mem::take(held).into_iter();
        let take = |this: &mut Self, o: usize, mut sum: Sum| {
            if let Some(before) = next.next() {
                evaluator.add(&mut sum, &before);
            }
            if !unit.last {
                held.push(sum);
                return Ok(());
            }
            this.push((unit.task, o, sum), traffic)
        };
        match piece.method {
            Method::Left | Method::Right => self.combine(job, take),
            Method::Both | Method::Square | Method::Shared => self.sums(job, take),
        }
    }

    /// One operand uploaded: a product of a matrix of the evaluator's factors with the ciphertexts.
    fn combine(
        &mut self,
        job: Job<'_>,
        mut take: impl FnMut(&mut Self, usize, Sum) -> Result<(), MpcError>,
    ) -> Result<(), MpcError> {
        let Job { piece, unit, ciphers } = job;
        let other = if piece.method == Method::Left { Operand::Right } else { Operand::Left };
        let (run, first) = (piece.run(), unit.sum.start);
        let (layout, data) = (self.work.layout(&unit.task), self.work.operand(&unit.task, other));
        let entries = layout.runs(&unit.task, other, run);
        self.work.evaluator.combine_each(
            ciphers,
            piece.answers(),
            run,
            |o, j| layout.is_zero(other, o, first + j),
            |o, j, r| entries.get(r).map_or(0, |entry| layout.value(other, (o, first + j), entry, data)),
            |o, sum| take(self, o, sum),
        )
    }

    /// Both operands uploaded, or one that is multiplied with itself: product by product.
    fn sums(
        &mut self,
        job: Job<'_>,
        mut take: impl FnMut(&mut Self, usize, Sum) -> Result<(), MpcError>,
    ) -> Result<(), MpcError> {
        let Job { piece, unit, ciphers } = job;
        let uploaded = sources(piece, &unit.task);
        let outputs: Vec<usize> = (0..piece.answers()).collect();
        let factors = self.work.factors(piece, unit)?;
        for block in outputs.chunks(BATCH) {
            let evaluator = self.work.evaluator;
            let sum_of = |&o: &usize| {
                let (left, right) = parts(piece, &unit.task, o);
                let at = |side, part| uploaded.iter().position(|&u| u == (side, part));
                let pairs = match piece.method {
                    Method::Square => [at(Operand::Right, 0).map(|i| (i, i)), None],
                    _ => {
                        let both = at(Operand::Left, left).zip(at(Operand::Right, right));
                        [both, both.map(|(l, r)| (r, l))]
                    }
                };
                let mut sum = evaluator.sum();
                for (ciphers, factors) in ciphers.chunks_exact(uploaded.len()).zip(factors.chunks_exact(uploaded.len()))
                {
                    for (c, f) in pairs.into_iter().flatten() {
                        evaluator.mul_add(&mut sum, &ciphers[c], &factors[f]);
                    }
                }
                sum
            };
            let sums: Vec<Sum> = block.par_iter().map(sum_of).collect();
            for (&o, sum) in block.iter().zip(sums) {
                take(self, o, sum)?;
            }
        }
        Ok(())
    }

    /// Rows uploaded once, for their sums of squares and for their products with scalars.
    fn shared(&mut self, job: Job<'_>, held: &mut Vec<Sum>, traffic: &mut Traffic) -> Result<(), MpcError> {
        let Job { piece, unit, ciphers } = job;
        let evaluator = self.work.evaluator;
        let factors = self.work.factors(piece, unit)?;
        let (Some((scalars, rows)), Some((scalar_factor, row_factors))) =
            (ciphers.split_first(), factors.split_first())
        else {
            return Ok(());
        };
        let mut squares = held.pop().unwrap_or_else(|| evaluator.sum());
        let numbered: Vec<_> = unit.sum.clone().zip(rows.iter().zip(row_factors)).collect();
        for block in numbered.chunks(BATCH) {
            block.iter().for_each(|(_, (row, factor))| evaluator.mul_add(&mut squares, row, factor));
            let scale = |&(o, (row, factor)): &(usize, (&Cipher, &Multiplier))| {
                let mut sum = evaluator.sum();
                evaluator.mul_add(&mut sum, row, scalar_factor);
                evaluator.mul_add(&mut sum, scalars, factor);
                (unit.task, o, sum)
            };
            let scaled: Vec<_> = block.par_iter().map(scale).collect();
            scaled.into_iter().try_for_each(|item| self.push(item, traffic))?;
        }
        if unit.last {
            return self.push((unit.task, piece.parts.sum, squares), traffic);
        }
        held.push(squares);
        Ok(())
    }

    /// Puts a sum into the queue; answers when there are enough.
    fn push(&mut self, item: (Task, usize, Sum), traffic: &mut Traffic) -> Result<(), MpcError> {
        traffic.ready.push(item);
        if traffic.ready.len() < BATCH { Ok(()) } else { self.answer(traffic) }
    }

    /// Answers all sums that are ready.
    fn answer(&mut self, traffic: &mut Traffic) -> Result<(), MpcError> {
        let ready: Vec<_> = traffic.ready.drain(..).map(|(task, o, sum)| (task, o, sum, self.prg.fork())).collect();
        let evaluator = self.work.evaluator;
        let answers: Vec<_> = ready
            .into_par_iter()
            .map(|(task, o, sum, mut prg)| {
                let (bytes, share) = evaluator.respond(sum, &mut prg);
                (task, o, bytes, Zeroizing::new(share))
            })
            .collect();
        for (task, o, bytes, share) in answers {
            self.channel.send(tag::SLOTS_ANSWER, bytes)?;
            self.add(&task, o, &share);
            traffic.sent += 1;
            if traffic.sent.is_multiple_of(WINDOW) {
                (0..WINDOW / BATCH).try_for_each(|_| self.open(traffic))?;
            }
        }
        Ok(())
    }

    /// Opens up to [`BATCH`] of the answers that are awaited.
    fn open(&mut self, traffic: &mut Traffic) -> Result<(), MpcError> {
        let count = traffic.awaited.len().min(BATCH);
        let awaited: Vec<_> = traffic.awaited.drain(..count).collect();
        let bytes: Vec<Vec<u8>> = awaited
            .iter()
            .map(|_| self.channel.recv(tag::SLOTS_ANSWER, self.work.holder.params().response_bytes()))
            .collect::<Result<_, _>>()?;
        let holder = self.work.holder;
        let shares: Vec<_> = bytes.par_iter().map(|b| holder.open(b).map(Zeroizing::new)).collect::<Result<_>>()?;
        for ((task, o), share) in awaited.iter().zip(&shares) {
            self.add(task, *o, share);
        }
        Ok(())
    }

    /// Adds a share of an answer to the product's.
    fn add(&mut self, task: &Task, o: usize, share: &[u64]) {
        let (piece, layout) = (&self.work.plan.pieces[task.piece], self.work.layout(task));
        match piece.scale {
            Some(scale) if o < piece.parts.sum => layout.add_scaled(task, o, share, &mut self.out[scale.product]),
            _ => layout.add(task, parts(piece, task, o), share, &mut self.out[piece.product]),
        }
    }
}
