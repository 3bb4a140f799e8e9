//! A kernel whose repeated inputs go up packed: as few uploads as there are distinct values.
//!
//! Inputs that follow each other, at one level and with slots that repeat equally often, share a ciphertext.
//! The server takes them apart as the kernel asks for them ([`fesc_hybrid::expand`]): one key switch for
//! each, no level. At base and L = 128, `hybrid` has 52 uploads in place of 608.
//!
//! What is not guaranteed: that this is faster where a network is not the limit.

use fesc_hybrid::Result;
use fesc_hybrid::backend::Backend;
use fesc_hybrid::expand::Parts;

use super::{Factors, HeScan, Lane, ScanShape, Value};

/// Inputs `first .. first + count` of the kernel as `parts` parts of one ciphertext.
#[derive(Debug, Clone, Copy)]
struct Pack {
    first: usize,
    count: usize,
    parts: usize,
}

/// A kernel with packed inputs.
#[derive(Debug, Clone)]
pub struct Packed<K> {
    kernel: K,
    packs: Vec<Pack>,
    /// Where an input of the kernel is: pack and part.
    places: Vec<(usize, usize)>,
}

impl<K: HeScan> Packed<K> {
    /// Packs what can be packed.
    pub fn new(kernel: K) -> Self {
        let (mut packs, mut first): (Vec<Pack>, usize) = (Vec::new(), 0);
        let kind = |i: usize| (kernel.repeats(i), kernel.level(i));
        while first < kernel.inputs() {
            let own = kind(first);
            let like = (first..kernel.inputs()).take(own.0.times.max(1)).take_while(|&i| kind(i) == own).count();
            // The last ones may be few.
            packs.push(Pack { first, count: like, parts: like.next_power_of_two() });
            first += like;
        }
        Self::with(kernel, packs)
    }

    /// Every input in a ciphertext of its own.
    pub fn apart(kernel: K) -> Self {
        let packs = (0..kernel.inputs()).map(|first| Pack { first, count: 1, parts: 1 }).collect();
        Self::with(kernel, packs)
    }

    fn with(kernel: K, packs: Vec<Pack>) -> Self {
        let places = packs.iter().enumerate().flat_map(|(p, pack)| (0..pack.count).map(move |part| (p, part)));
        Self { places: places.collect(), kernel, packs }
    }

    /// The kernel itself.
    pub fn inner(&self) -> &K {
        &self.kernel
    }
}

impl<K: HeScan> HeScan for Packed<K> {
    fn shape(&self) -> &ScanShape {
        self.kernel.shape()
    }

    fn inputs(&self) -> usize {
        self.packs.len()
    }

    fn level(&self, i: usize) -> usize {
        self.kernel.level(self.packs[i].first)
    }

    fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        let Pack { first, count, parts } = self.packs[i];
        let mut lanes = self.kernel.lanes(first);
        if parts == 1 {
            return lanes;
        }
        let (slots, run) = (lanes.len(), lanes.len() / parts);
        lanes.truncate(run);
        (first + 1..first + count).for_each(|i| lanes.extend(self.kernel.lanes(i).into_iter().take(run)));
        lanes.resize(slots, [None, None]);
        lanes
    }

    fn parts(&self, i: usize) -> usize {
        self.packs[i].parts
    }

    fn results(&self) -> usize {
        self.kernel.results()
    }

    fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        self.kernel.outputs(i)
    }

    fn factors(&self) -> &Factors {
        self.kernel.factors()
    }

    fn carried(&self) -> [bool; 2] {
        self.kernel.carried()
    }

    fn holds_state(&self, i: usize) -> bool {
        self.kernel.holds_state(i)
    }

    fn terms(&self) -> usize {
        self.kernel.terms()
    }

    fn result_scale(&self) -> f64 {
        self.kernel.result_scale()
    }

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        if self.packs.iter().all(|pack| pack.parts == 1) {
            return self.kernel.run_apart(backend, &|i| input(self.places[i].0));
        }
        let trees = self.packs.iter().map(|pack| Parts::new(backend, pack.parts)).collect::<Result<Vec<_>>>()?;
        self.kernel.run(backend, &|i| {
            let (pack, part) = self.places[i];
            trees[pack].get(part, || input(pack))
        })
    }
}
