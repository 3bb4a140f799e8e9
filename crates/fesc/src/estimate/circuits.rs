//! Times of stages under encryption: counts times what each thing takes on this machine.
//!
//! ```text
//! stage = sum over operations and levels of  count(operation, level) t(operation, level) / threads
//!       + expansions t_expand(level) / threads + uploads both(t_up(level)) + results both(t_down)
//! keys  = keys both(t_key) + bytes of buffers t_touch
//! both(client, server) = max(max(client, server) / threads, (client + server) / cores)
//! ```
//!
//! `t` is measured for each set, as processor time of a thread, which a busy machine changes little:
//! operations at a few levels, on all threads at once ([`Probe`]); conversions between two parties in this
//! process ([`Sample`]); a few keys made, sent and taken. Counts are the kernels' own ([`Work`]). Memory that
//! was never touched costs as much as some operations: the server does it while keys are on their way. What a
//! stage does on shares besides is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use anyhow::{Context, Result, anyhow};
use fesc_ckks::server::EvaluationKeyPlan;
use fesc_ckks::sets::Set;
use fesc_ckks::{Params, memory};
use fesc_hybrid::backend::{Operation, Tally};
use fesc_hybrid::keys::{ClientKeys, KeyShape, ServerKeys};
use fesc_hybrid::work::Work;
use fesc_infer::Stage;
use fesc_net::Channel;
use rayon::ThreadPoolBuilder;

use crate::bench::boundary::{Sample, Size};
use crate::bench::ckks::Probe;
use crate::measured::encrypted::Works;
use crate::progress::Progress;
use crate::random::os_random;
use crate::usage;

/// Levels at which operations are measured, for each set.
const POINTS: usize = 4;
/// Ciphertexts of a sample of conversions: a few messages, so that both parties work at once.
const SAMPLE: usize = 48;
/// Their distinct values.
const VALUES: usize = 1 << 12;
/// Bytes of new memory that are touched: less would be what was just given back.
const TOUCHED: u64 = 1 << 30;
/// Rotations whose keys are made.
const ROTATIONS: i64 = 3;

/// What things take on this machine, for each set by name.
pub struct Machine {
    threads: f64,
    cores: f64,
    /// Of a byte that was never touched.
    touch_s: f64,
    sets: BTreeMap<&'static str, Costs>,
}

/// Of one set.
struct Costs {
    probe: Probe,
    /// By the level of the uploads.
    conversions: BTreeMap<usize, Sample>,
    /// Of one evaluation key, at the client and at the server.
    key_s: [f64; 2],
}

impl Machine {
    /// Measures what these works need.
    pub fn measure<'a>(
        works: impl Iterator<Item = &'a Work> + Clone,
        threads: u16,
        progress: &Progress,
    ) -> Result<Self> {
        let mut sets = BTreeMap::new();
        let mut names = BTreeSet::new();
        for set in works.clone().map(set).collect::<Result<Vec<_>>>()? {
            if names.insert(set.name) {
                let own: Vec<&Work> = works.clone().filter(|w| w.set() == Some(set)).collect();
                progress.say(format!("measuring operations of the set {}", set.name));
                sets.insert(set.name, Costs::measure(set, &own, threads.into())?);
            }
        }
        let cores = thread::available_parallelism().map_or(1, |n| n.get()) as f64;
        Ok(Self { threads: f64::from(threads).min(cores), cores, touch_s: touch_s(), sets })
    }

    /// Seconds of what both parties do at once, one behind the other.
    fn both(&self, [client, server]: [f64; 2]) -> f64 {
        (client.max(server) / self.threads).max((client + server) / self.cores)
    }

    /// Seconds of a circuit.
    fn circuit(&self, work: &Work) -> Result<f64> {
        let costs = self.costs(set(work)?)?;
        let computed = work.tally.cost(|operation, level| costs.probe.seconds(operation, level));
        let sum = |counts: &BTreeMap<usize, u64>, f: &dyn Fn(&Sample) -> f64| -> f64 {
            counts.iter().map(|(level, n)| *n as f64 * costs.conversions.get(level).map_or(f64::NAN, f)).sum()
        };
        let expanded = sum(&work.expansions, &|s| s.expand.cpu_s);
        let up = sum(&work.uploads, &|s| self.both(s.up.sides));
        let down = costs.conversions.values().map(|s| self.both(s.down.sides)).fold(f64::MAX, f64::min);
        Ok((computed + expanded) / self.threads + up + down * work.results as f64)
    }

    /// Seconds of all circuits of a run, stage by stage, in the order of their first use.
    pub fn seconds(&self, works: &Works) -> Result<Vec<(Stage, f64)>> {
        let sum = |works: &[Work]| works.iter().map(|work| self.circuit(work)).sum::<Result<f64>>();
        works.iter().map(|(stage, works)| Ok((*stage, sum(works)?))).collect()
    }

    /// Seconds until the buffers of a run are ready.
    pub fn touch_s(&self, bytes: u64) -> f64 {
        bytes as f64 * self.touch_s
    }

    /// Seconds of making, sending and taking keys.
    pub fn keys_s(&self, keys: &KeyShape) -> f64 {
        let literal = keys.params().literal();
        let known = self.sets.iter().find(|(name, _)| named(name).is_some_and(|set| set.literal() == *literal));
        known.map_or(f64::NAN, |(_, costs)| self.both(costs.key_s) * keys.count() as f64)
    }

    fn costs(&self, set: &Set) -> Result<&Costs> {
        self.sets.get(set.name).with_context(|| format!("the set {} was not measured", set.name))
    }
}

fn named(name: &str) -> Option<&'static Set> {
    fesc_ckks::sets::ALL.iter().find(|set| set.name == name)
}

fn set(work: &Work) -> Result<&'static Set> {
    work.set().context("a circuit has no named parameter set")
}

impl Costs {
    fn measure(set: &Set, works: &[&Work], threads: usize) -> Result<Self> {
        let params = set.params()?;
        let mut all = Tally::default();
        works.iter().for_each(|w| all.add(&w.tally));
        let used = |level: usize| Operation::ALL.into_iter().any(|o| all.by_level(o).any(|(l, _)| l == level));
        let one = ThreadPoolBuilder::new().num_threads(1).build()?;
        let probe = Probe::sparse(set, used, POINTS, threads)?;
        let levels: BTreeSet<usize> = works.iter().flat_map(|w| w.uploads.keys().copied()).collect();
        let sample = |level: usize| {
            let size = Size { level, ciphertexts: SAMPLE, values: VALUES, threads: 1 };
            Ok((level, one.install(|| Sample::measure(&params, set, &size))?))
        };
        let conversions = levels.into_iter().map(sample).collect::<Result<_>>()?;
        Ok(Self { probe, conversions, key_s: one_key(&params)? })
    }
}

/// Processor seconds of one evaluation key, of the client and of the server.
fn one_key(params: &Params) -> Result<[f64; 2]> {
    let plan = EvaluationKeyPlan { rotations: (1..=ROTATIONS).collect(), ..EvaluationKeyPlan::default() };
    let shape = KeyShape::new(params.clone(), plan);
    let (mut near, mut far) = Channel::memory_pair();
    let clocked = |work: &mut (dyn FnMut() -> Result<()> + Send)| -> Result<f64> {
        let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
        pool.install(|| {
            let before = usage::thread_cpu_seconds();
            work()?;
            Ok((usage::thread_cpu_seconds() - before) / shape.count() as f64)
        })
    };
    let (mut mine, mut theirs) = (os_random()?, os_random()?);
    let mut send = || {
        ClientKeys::generate(shape.clone(), &mut mine).send(&mut near, &mut |_, _| ())?;
        Ok(())
    };
    let mut take = || Ok(ServerKeys::receive(&shape, &mut far, 1, theirs.fork(), &mut |_, _| ()).map(drop)?);
    thread::scope(|scope| {
        let server = scope.spawn(|| clocked(&mut take));
        let client = clocked(&mut send);
        let server = server.join().map_err(|_| anyhow!("a thread that takes keys has ended without a result"))?;
        Ok([client?, server?])
    })
}

/// Processor seconds of a byte of new memory.
fn touch_s() -> f64 {
    memory::release();
    let before = usage::thread_cpu_seconds();
    memory::reserve(TOUCHED);
    let took = usage::thread_cpu_seconds() - before;
    memory::release();
    took / TOUCHED as f64
}
