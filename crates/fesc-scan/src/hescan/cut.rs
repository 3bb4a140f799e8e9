//! Which cut of a scan is taken: all that are possible are counted, and the cheapest that fits the memory is
//! the one.
//!
//! The cost of a count is in transforms of one prime, from the formulas of the evaluator: nothing is
//! measured, so that the choice is the same on every machine.

use fesc_ckks::sets::{self, Set};
use fesc_hybrid::backend::{Backend, Chain, Count, Operation};
use fesc_hybrid::{HybridError, Result};

use super::chunks::{Carry, Chunks, Options, Work};
use super::dual::DualScan;
use super::kernel::Kernel;
use super::lanes::{Lanes, LanesParams};
use super::packed::Packed;
use super::prefix::Topology;
use super::{Factors, HeScan, ScanShape};

/// Where values lie in slots, and with it the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Token blocks in slots, pairs of tokens as leaves.
    Lanes,
    /// The same with leaves of 4 tokens up to a whole block.
    Hybrid,
    /// The paper's: state chunks.
    Chunks,
    /// The block dual form, no state.
    Dual,
}

/// What a cut must be: nothing means any.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The packing.
    pub packing: Packing,
    /// Blocks in the slots of a ciphertext (`lanes`, `hybrid`).
    pub blocks: Option<usize>,
    /// State coordinates in the slots of a ciphertext (`lanes`, `hybrid`).
    pub coordinates: Option<usize>,
    /// Tokens of a leaf (`lanes`, `hybrid`).
    pub leaf: Option<usize>,
    /// Sum coordinates by rotations (`lanes`, `hybrid`).
    pub fold: bool,
    /// Tokens of a block (`chunks`).
    pub block: Option<usize>,
    /// The prefix network (`chunks`).
    pub topology: Topology,
    /// Which work is done (`chunks`).
    pub work: Work,
    /// How a, B and C are given; others than Mamba-2's are for `chunks` alone.
    pub factors: Factors,
    /// Whether a state enters, and whether the last one is handed on (`chunks`).
    pub carries: [bool; 2],
    /// The set.
    pub set: Option<Set>,
    /// Bytes that ciphertexts may take at once.
    pub memory: u64,
    /// Inputs that repeat go up packed.
    pub packed: bool,
}

impl Wanted {
    /// Any cut of a packing within 8 GB, of a whole document.
    pub fn new(packing: Packing) -> Self {
        Self {
            packing,
            blocks: None,
            coordinates: None,
            leaf: None,
            fold: false,
            block: None,
            topology: Topology::BrentKung,
            work: Work::Needed,
            factors: Factors::MAMBA2,
            carries: [false, false],
            set: None,
            memory: 8_000_000_000,
            packed: false,
        }
    }
}

/// Products of a limb that take as long as a transform of one.
const PRODUCTS_PER_TRANSFORM: f64 = 6.0;

/// A cut whose formula has more than this times the key switches of one that fits is not counted.
const CLOSE: u64 = 2;

/// How a scan is cut; what a packing has not is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cut {
    /// Tokens of a block.
    pub block: usize,
    /// Blocks in the slots of a ciphertext.
    pub blocks: Option<usize>,
    /// State coordinates in the slots of a ciphertext.
    pub coordinates: Option<usize>,
    /// Tokens of a leaf.
    pub leaf: Option<usize>,
}

/// A kernel on a set, counted.
pub struct Chosen {
    /// The kernel.
    pub kernel: Packed<Kernel>,
    /// Its cut.
    pub cut: Cut,
    /// The named set of the smallest depth that suffices.
    pub set: Set,
    /// The count.
    pub count: Count,
    /// In transforms of one prime.
    cost: f64,
}

/// A cut that is possible; `weight` is about its key switches, to count the promising ones first.
struct Candidate {
    kernel: Kernel,
    cut: Cut,
    set: Set,
    weight: u64,
}

/// The cheapest cut that fits the memory.
///
/// # Errors
/// If none is possible, or none fits.
pub fn choose(args: &Wanted, shape: ScanShape) -> Result<Chosen> {
    if args.packing != Packing::Chunks {
        only_mamba2(&args.factors)?;
    }
    let mut candidates = match args.packing {
        Packing::Lanes | Packing::Hybrid => lanes(args, shape)?,
        Packing::Chunks => chunks(args, shape)?,
        Packing::Dual => dual(shape)?,
    };
    candidates.sort_by_key(|c| c.weight);
    let most = args.memory;
    let (mut best, mut least): (Option<Chosen>, u64) = (None, u64::MAX);
    let mut close = u64::MAX;
    for candidate in candidates {
        if candidate.weight > close {
            break;
        }
        let weight = candidate.weight;
        // What fits no better than another that does not fit is not counted to its end.
        let limit = if best.is_some() { most } else { most.max(least) };
        let Some(chosen) = candidate.counted(args.packed, limit)? else { continue };
        let live = chosen.count.live().most_bytes();
        least = least.min(live);
        if live > most {
            continue;
        }
        close = close.min(weight.saturating_mul(CLOSE));
        if best.as_ref().is_none_or(|b| chosen.cost < b.cost) {
            best = Some(chosen);
        }
    }
    let need = format!("at most {most}: give more memory, fewer tokens, or another packing or cut");
    best.ok_or(HybridError::Shape { what: "bytes of ciphertexts at once", got: least as usize, need })
}

/// Refuses factors that the packings `lanes`, `hybrid` and `dual` do not take.
fn only_mamba2(factors: &Factors) -> Result<()> {
    let own = Factors::MAMBA2;
    let others = [factors.a != own.a || factors.per != own.per, factors.b != own.b, factors.c != own.c];
    match others.into_iter().filter(|other| *other).count() {
        0 => Ok(()),
        got => {
            let need = "lanes, hybrid and dual take encrypted real ones and a decay for each head: take chunks".into();
            Err(HybridError::Shape { what: "factors that are not Mamba-2's", got, need })
        }
    }
}

impl Candidate {
    /// Nothing if more bytes are alive at once than `limit`.
    fn counted(self, packed: bool, limit: u64) -> Result<Option<Chosen>> {
        let kernel = if packed { Packed::new(self.kernel) } else { Packed::apart(self.kernel) };
        let count = Count::new(Chain::of_set(&self.set)).within(limit);
        match kernel.run(&count, &|i| Ok(count.fresh(kernel.level(i)))) {
            Err(_) if count.exceeded() => return Ok(None),
            done => drop(done?),
        }
        let cost = count.operations().tally().cost(|operation, level| transforms(count.chain(), operation, level));
        Ok(Some(Chosen { kernel, cut: self.cut, set: self.set, count, cost }))
    }
}

/// What an operation costs, in transforms of one prime.
pub(super) fn transforms(chain: &Chain, operation: Operation, level: usize) -> f64 {
    let (limbs, all) = ((level + 1) as f64, (level + 1 + chain.specials()) as f64);
    match operation {
        Operation::Relinearisation | Operation::Rotation | Operation::Conjugation => {
            chain.switch_transforms(level) as f64
        }
        // The digits are shared; the division by the special primes is not.
        Operation::HoistedRotation => 2.0 * all,
        Operation::Rescale => 2.0 * limbs,
        Operation::Product => 4.0 * limbs / PRODUCTS_PER_TRANSFORM,
        Operation::PlainProduct => 2.0 * limbs / PRODUCTS_PER_TRANSFORM,
    }
}

/// The set for scans of the smallest depth that suffices.
pub fn deep_enough(log_n: u32, depth: usize) -> Option<Set> {
    let fits = |s: &&Set| s.name.starts_with("scan-") && s.log_n == log_n && s.depth >= depth;
    sets::ALL.iter().filter(fits).min_by_key(|s| s.depth).copied()
}

/// A kernel on the set that is wanted, or on the first one that is deep enough: of ciphertexts as short as
/// possible, then of the smallest depth. Nothing if there is none.
fn on_a_set(wanted: Option<Set>, make: impl Fn(usize) -> Result<Kernel>) -> Result<Option<(Kernel, Set)>> {
    if let Some(set) = wanted {
        let kernel = make(1 << (set.log_n - 1))?;
        return Ok((kernel.depth() <= set.depth).then_some((kernel, set)));
    }
    for log_n in [15, 16] {
        let kernel = make(1 << (log_n - 1))?;
        if let Some(set) = deep_enough(log_n, kernel.depth()) {
            return Ok(Some((kernel, set)));
        }
    }
    Ok(None)
}

/// All cuts of `lanes` or `hybrid` that the options allow.
fn lanes(args: &Wanted, shape: ScanShape) -> Result<Vec<Candidate>> {
    let powers = |most: usize| (0..=most.next_power_of_two().ilog2()).map(|k| 1usize << k);
    let fixed = |option: Option<usize>, most: usize| option.map_or_else(|| powers(most).collect(), |n| vec![n]);
    let mut found = Vec::new();
    let mut refused = None;
    for blocks in fixed(args.blocks, shape.tokens) {
        let block = shape.tokens.div_ceil(blocks).next_power_of_two();
        let leaves: Vec<usize> = match (args.leaf, args.packing) {
            (Some(leaf), _) => vec![leaf],
            (None, Packing::Hybrid) => powers(block).filter(|&w| w >= 4).collect(),
            (None, _) => vec![2],
        };
        for coordinates in fixed(args.coordinates, shape.state) {
            for &leaf in leaves.iter().filter(|&&w| args.leaf.is_some() || w <= block.max(2)) {
                let params = |together| LanesParams {
                    blocks,
                    coordinates,
                    leaf,
                    floor: sets::BOUNDARY,
                    fold: args.fold,
                    together,
                };
                let cut = Cut {
                    block: block.max(leaf),
                    blocks: Some(blocks),
                    coordinates: Some(coordinates),
                    leaf: Some(leaf),
                };
                // Loading B and C once for all is worth its memory where it takes work.
                for &together in if args.packed { &[usize::MAX, 1][..] } else { &[1] } {
                    match on_a_set(args.set, |slots| Lanes::new(shape, slots, params(together)).map(Kernel::Lanes)) {
                        Ok(Some((kernel, set))) => {
                            found.push(Candidate { weight: weight(&kernel, &set), kernel, cut, set });
                        }
                        Ok(None) => refused = Some("no named set is deep enough; give fewer tokens".to_string()),
                        Err(e) => refused = Some(e.to_string()),
                    }
                }
            }
        }
    }
    if found.is_empty() {
        return Err(no_cut(shape, refused.unwrap_or_else(|| "give more tokens, or the packing lanes".into())));
    }
    Ok(found)
}

fn no_cut(shape: ScanShape, why: String) -> HybridError {
    HybridError::Shape { what: "tokens of a scan", got: shape.tokens, need: format!("no cut is possible: {why}") }
}

/// Key switches by formula; where cuts differ in depth, those of all at the highest level, in transforms.
fn weight(kernel: &Kernel, set: &Set) -> u64 {
    let highest = || Chain::of_set(set).switch_transforms(kernel.depth() + sets::BOUNDARY) as u64;
    match kernel {
        Kernel::Lanes(k) => k.formula().total(),
        Kernel::Chunks(k) => k.key_switches() * highest(),
        Kernel::Dual(k) => k.key_switches(),
    }
}

/// `chunks` with blocks of any power of two, or of the size that is told; carries in sequence or in parallel;
/// B and C in memory or made again.
fn chunks(args: &Wanted, shape: ScanShape) -> Result<Vec<Candidate>> {
    let halves = std::iter::successors(Some(shape.tokens), |&n| (n > 16).then(|| n.next_power_of_two() / 2));
    let sizes: Vec<usize> = args.block.map_or_else(|| halves.collect(), |b| vec![b]);
    let (mut found, mut refused) = (Vec::new(), None);
    let cuts = sizes.into_iter().flat_map(|block| {
        // What the paper counts has its carries in parallel.
        let serial = (args.work == Work::Needed).then_some(Carry::Serial);
        let parallel = (args.work == Work::Counted || block < shape.tokens).then_some(Carry::Parallel);
        [serial, parallel].into_iter().flatten().flat_map(move |carry| [(block, carry, true), (block, carry, false)])
    });
    for (block, carry, hold) in cuts {
        let [carry_in, carry_out] = args.carries;
        let make = |slots: usize| {
            let options = Options {
                state_slots: slots,
                block,
                topology: args.topology,
                carry,
                work: args.work,
                hold,
                carry_in,
                carry_out,
                end: sets::BOUNDARY,
            };
            let kernel = Chunks::with_factors(shape, slots, options, args.factors.clone())?;
            Ok(Kernel::Chunks(Box::new(kernel)))
        };
        match on_a_set(args.set, make) {
            Ok(Some((kernel, set))) => {
                found.push(Candidate {
                    weight: weight(&kernel, &set),
                    kernel,
                    cut: Cut { block, ..Cut::default() },
                    set,
                });
            }
            Ok(None) => refused = Some("no named set is deep enough; give a smaller block".to_string()),
            Err(e) => refused = Some(e.to_string()),
        }
    }
    if found.is_empty() {
        return Err(no_cut(shape, refused.unwrap_or_default()));
    }
    Ok(found)
}

/// `dual` in one chunk, and in chunks with carries where that is another plan.
fn dual(shape: ScanShape) -> Result<Vec<Candidate>> {
    let slots = 1 << (sets::PROJECT.log_n - 1);
    let whole = DualScan::new(shape, slots, sets::BOUNDARY).map_err(|e| no_cut(shape, e.to_string()))?;
    let chunked = DualScan::chunked(shape, slots, sets::BOUNDARY).map_err(|e| no_cut(shape, e.to_string()))?;
    let mut found = Vec::new();
    for (kernel, block) in [(whole, shape.tokens), (chunked, shape.tokens.min(shape.state.next_power_of_two()))] {
        let shallow = Some(sets::PROJECT).filter(|s| s.depth >= kernel.depth());
        if let Some(set) = shallow.or_else(|| deep_enough(sets::PROJECT.log_n, kernel.depth())) {
            let (kernel, cut) = (Kernel::Dual(kernel), Cut { block, ..Cut::default() });
            found.push(Candidate { weight: weight(&kernel, &set), kernel, cut, set });
        }
    }
    Ok(found)
}

/// Bytes of all inputs of a kernel.
pub fn input_bytes(kernel: &impl HeScan, chain: &Chain) -> u64 {
    (0..kernel.inputs()).map(|i| chain.ciphertext_bytes(kernel.level(i))).sum()
}
