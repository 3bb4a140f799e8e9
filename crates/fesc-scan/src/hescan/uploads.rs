//! How the packet of a scan may go up, declared layout by layout, and which one is the cheapest for a network
//! and a machine. Kernels `lanes` and `hybrid`.
//!
//! | layout | uploads | the server's part |
//! |---|---|---|
//! | replicated | one for each input of the kernel | none |
//! | packed | B, C and decays `r` to a ciphertext ([`super::packed`]) | `r - 1` rotations for `r` of them |
//! | paired | the same, two packs to a ciphertext, in real and imaginary lanes | a conjugation more for two |
//! | compact | the same, x once, not for each of `i` coordinates | a mask and `log2 i` rotations for each x |
//!
//! A pair of packs of `r` has `r - 1` rotations and `r` conjugations for `2 r` vectors, two packs have
//! `2 r - 2` rotations: pairing halves their uploads for one key switch. Packs of two levels or sizes go up
//! at the higher level and size. What is left is x, which lies in the slots of every coordinate. Compact
//! takes that away too, and merges results: coordinates are summed by `log2 i` rotations, masked and moved
//! together. Either mask is a level: uploads of x are two levels higher, all others one, on a set that is
//! that much deeper, and so is the kernel itself.
//!
//! A session's scan goes up packed, whatever the network (`crate::encrypted`). The other layouts are
//! declared and compared, not run.
//!
//! Cost: seconds of a layout are sums, `bytes / bandwidth + ciphertexts t + transforms t_ntt`, as if nothing
//! overlapped; what all layouts have in common (the kernel itself at its own levels) is in it.

use std::collections::BTreeMap;

use fesc_ckks::{sets, sets::Set, wire};
use fesc_hybrid::backend::{Backend as _, Chain, Operation};
use fesc_hybrid::{HybridError, Result};

use super::HeScan;
use super::cut::{Chosen, deep_enough, transforms};

/// How inputs go up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Every input in a ciphertext of its own.
    Replicated,
    /// What repeats is packed.
    Packed,
    /// Packed, two packs in a ciphertext.
    Paired,
    /// Paired, x without copies, results merged.
    Compact,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Replicated, Self::Packed, Self::Paired, Self::Compact];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Packed => "packed",
            Self::Paired => "paired",
            Self::Compact => "compact",
        }
    }
}

/// What a layout costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The layout.
    pub layout: Layout,
    /// The set that has its levels.
    pub set: Set,
    /// Uploads by level.
    pub uploads: BTreeMap<usize, usize>,
    /// Ciphertexts that come down.
    pub results: usize,
    /// Key switches that take uploads apart, and merge results.
    pub unpacking: u64,
    /// The kernel with them, in transforms of one prime.
    pub transforms: f64,
    /// Bytes of ciphertexts up and down, without frames and without what shares take to be extended.
    pub bytes: [u64; 2],
}

/// What things take: a network, and the machine of both parties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of either direction; nothing is without limit.
    pub bits_per_second: Option<u64>,
    /// Seconds of one transform of one prime, all threads of the server at work.
    pub transform_s: f64,
    /// Seconds of a ciphertext up, and down, of both parties.
    pub convert_s: [f64; 2],
}

impl Declared {
    /// All uploads.
    pub fn ciphertexts_up(&self) -> usize {
        self.uploads.values().sum()
    }

    /// Seconds on a network.
    pub fn seconds(&self, prices: &Prices) -> f64 {
        let [up, down] = prices.convert_s;
        let wire =
            prices.bits_per_second.map_or(0.0, |rate| (self.bytes[0] + self.bytes[1]) as f64 * 8.0 / rate as f64);
        let converted = self.ciphertexts_up() as f64 * up + self.results as f64 * down;
        wire + converted + self.transforms * prices.transform_s
    }
}

/// The place of the cheapest one.
pub fn cheapest(declared: &[Declared], prices: &Prices) -> Option<usize> {
    let seconds = declared.iter().map(|d| d.seconds(prices)).enumerate();
    seconds.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// An input, or several in one ciphertext.
struct Input {
    level: usize,
    parts: usize,
    /// Nothing in the imaginary lanes.
    real: bool,
}

/// Key switches and products by plaintexts at a level.
#[derive(Default)]
struct Extra(Vec<(Operation, usize, u64)>);

impl Extra {
    fn add(&mut self, operation: Operation, level: usize, count: usize) {
        self.0.push((operation, level, count as u64));
    }

    fn switches(&self) -> u64 {
        self.0.iter().filter(|(o, ..)| o.switches()).map(|(.., n)| n).sum()
    }
}

/// All layouts of a kernel that was chosen with packed inputs.
///
/// # Errors
/// If no set has the levels of one.
pub fn declare(chosen: &Chosen) -> Result<Vec<Declared>> {
    let kernel = &chosen.kernel;
    let inputs: Vec<Input> = (0..kernel.inputs())
        .map(|i| {
            let real = kernel.lanes(i).iter().all(|[_, imaginary]| imaginary.is_none());
            Input { level: kernel.level(i), parts: kernel.parts(i), real }
        })
        .collect();
    Layout::ALL.into_iter().map(|layout| one(chosen, layout, &inputs)).collect()
}

fn one(chosen: &Chosen, layout: Layout, inputs: &[Input]) -> Result<Declared> {
    let copies = chosen.cut.coordinates.unwrap_or(1);
    let folds = copies.ilog2() as usize;
    // Levels of masks behind the kernel, and before it.
    let (after, before) = if layout == Layout::Compact && copies > 1 { (1, 1) } else { (0, 0) };
    let set = match after + before {
        0 => chosen.set,
        more => deep_enough(chosen.set.log_n, chosen.kernel.inner().depth() + more).ok_or_else(|| {
            let need = "a set with two levels more: give fewer tokens".to_string();
            HybridError::Shape { what: "levels of a compact layout", got: chosen.kernel.inner().depth(), need }
        })?,
    };
    let (mut uploads, mut extra) = (BTreeMap::<usize, usize>::new(), Extra::default());
    if layout == Layout::Replicated {
        let inner = chosen.kernel.inner();
        (0..inner.inputs()).for_each(|i| *uploads.entry(inner.level(i)).or_default() += 1);
    }
    let paired = matches!(layout, Layout::Paired | Layout::Compact);
    let real = inputs.iter().filter(|i| i.real && layout != Layout::Replicated);
    let mut packs: Vec<(usize, usize)> = real.map(|i| (i.level + after, i.parts)).collect();
    // Neighbours differ least.
    packs.sort_unstable();
    for pair in packs.chunks(if paired { 2 } else { 1 }) {
        let (level, parts) = pair.iter().fold((0, 0), |(l, p), &(level, parts)| (l.max(level), p.max(parts)));
        *uploads.entry(level).or_default() += 1;
        extra.add(Operation::Rotation, level, parts - 1);
        extra.add(Operation::PlainProduct, level, parts - 1);
        if let [(lower, own), _] = *pair {
            extra.add(Operation::Conjugation, level, parts);
            // The other half is brought down to its level.
            extra.add(Operation::Rescale, lower + 1, if lower < level { own } else { 0 });
        }
    }
    let complex = inputs.iter().filter(|i| !i.real);
    let mut by_level = BTreeMap::<usize, usize>::new();
    complex.filter(|_| layout != Layout::Replicated).for_each(|i| *by_level.entry(i.level).or_default() += 1);
    for (level, count) in by_level {
        let sent = if before > 0 { count.div_ceil(copies) } else { count };
        *uploads.entry(level + after + before).or_default() += sent;
        if before > 0 {
            extra.add(Operation::PlainProduct, level + after + before, count);
            extra.add(Operation::Rescale, level + after + before, count);
            extra.add(Operation::Rotation, level + after, count * folds);
        }
    }
    let all = chosen.kernel.results();
    let results = if after > 0 { all.div_ceil(copies) } else { all };
    if after > 0 {
        let level = sets::BOUNDARY + after;
        extra.add(Operation::Rotation, level, all * folds);
        extra.add(Operation::PlainProduct, level, all);
        extra.add(Operation::Rescale, level, all);
        extra.add(Operation::Rotation, sets::BOUNDARY, all - results);
    }
    let params = set.params()?;
    let chain = Chain::of_set(&set);
    let apart = super::packed::Packed::apart(chosen.kernel.inner().clone());
    let tally = super::trial::count(&apart, Chain::of_set(&chosen.set))?.operations().tally();
    let own = tally.cost(|operation, level| transforms(&chain, operation, level + after));
    let more: f64 = extra.0.iter().map(|&(o, level, n)| n as f64 * transforms(&chain, o, level)).sum();
    let up = uploads.iter().map(|(&level, &n)| (n * wire::upload_bytes(&params, level)) as u64).sum();
    let down = (results * wire::masked_bytes(&params, sets::BOUNDARY)) as u64;
    let unpacking = extra.switches();
    Ok(Declared { layout, set, uploads, results, unpacking, transforms: own + more, bytes: [up, down] })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ScanShape;
    use super::super::cut::{Packing, Wanted, choose};
    use super::*;

    fn base() -> Chosen {
        let shape = ScanShape { tokens: 128, heads: 24, head_dim: 64, groups: 1, state: 128 };
        choose(&Wanted { packed: true, ..Wanted::new(Packing::Hybrid) }, shape).unwrap()
    }

    /// What is declared for the layout of a session is what its kernel counts.
    #[test]
    fn the_packed_layout_is_the_kernels_own() {
        let (chosen, declared) = (base(), declare(&base()).unwrap());
        let packed = &declared[1];
        assert_eq!(packed.layout, Layout::Packed);
        assert_eq!(packed.ciphertexts_up(), chosen.kernel.inputs());
        let all = chosen.count.operations().tally();
        let apart = super::super::packed::Packed::apart(chosen.kernel.inner().clone());
        let own = super::super::trial::count(&apart, Chain::of_set(&chosen.set)).unwrap().operations().tally();
        // Parts that nobody asks for are not made: the last pack may have fewer than a power of two.
        let made = all.key_switches() - own.key_switches();
        assert!(packed.unpacking >= made && packed.unpacking - made < 64, "{} {made}", packed.unpacking);
    }

    #[test]
    fn fewer_bytes_take_more_key_switches() {
        let declared = declare(&base()).unwrap();
        for pair in declared.windows(2) {
            let bytes = |d: &Declared| d.bytes[0] + d.bytes[1];
            assert!(bytes(&pair[1]) < bytes(&pair[0]), "{pair:?}");
            assert!(pair[1].unpacking > pair[0].unpacking, "{pair:?}");
        }
        assert_eq!((declared[0].unpacking, declared[0].results, declared[3].results), (0, 48, 6));
    }

    /// Fast networks with slow processors copy, slow networks pack.
    #[test]
    fn the_network_decides() {
        let declared = declare(&base()).unwrap();
        let at = |bits_per_second, transform_s, convert_s| {
            let prices = Prices { bits_per_second, transform_s, convert_s: [convert_s; 2] };
            declared[cheapest(&declared, &prices).unwrap()].layout
        };
        assert_eq!(at(None, 1e-3, 1e-3), Layout::Replicated);
        assert_eq!(at(Some(100_000_000_000), 1e-3, 1e-3), Layout::Replicated);
        assert_eq!(at(Some(1_000_000), 1e-4, 5e-3), Layout::Compact);
        assert!(cheapest(&[], &Prices { bits_per_second: None, transform_s: 1.0, convert_s: [1.0; 2] }).is_none());
    }
}
