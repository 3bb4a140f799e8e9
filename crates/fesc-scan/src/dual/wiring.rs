//! The bundle of one segment: which tensors are opened, and which products they serve.
//!
//! Every tensor is opened once under a mask of its own. Axes of size 1 are left out, so that the bundle
//! stays within the limits of `fesc-mpc` at every shape. The five sums (S, Y, states, H, C H) are asked for
//! as rounded products where they are truncated by [`MIN_SHIFT_FOR_ROUNDED`] bits or more next. k: chunks,
//! g: groups, r: heads of a group, i, j: tokens of a chunk, n: states, p: channels of a head.
//!
//! | product | operands | result |
//! |---|---|---|
//! | scores S | C `[k,i,g,n]`, B `[k,j,g,n]` | `[k,g,i,j]` |
//! | factors | exp `[e]`, Delta `[e]` | `[e]`, all left factors, then all columns |
//! | level of Lt | right `[w,a]`, left `[w,b]`, w = (chunk, head, node) | `[w,a,b]` |
//! | M | S `[k,g,i,j]` lower, Lt `[k,g,r,i,j]` lower | `[k,g,r,i,j]` lower |
//! | Y | M, X `[k,j,g,r,p]` | `[k,i,g,r,p]` |
//! | V | col `[k,j,g,r]`, X | `[k,j,g,r,p]` |
//! | states | B, V | `[k,n,g,r,p]` |
//! | H | decay `[g,r,o,s]` lower, states `[s,n,g,r,p]` | `[o,n,g,r,p]` |
//! | C H | C, H `[k,n,g,r,p]` | `[k,i,g,r,p]` |
//! | row o C H | row `[k,i,g,r]`, C H | `[k,i,g,r,p]` |

use fesc_model::outline::{Scales, scale};
use fesc_mpc::correlation::{Bundle, Product, Tensor};

use super::segment::Segment;
use super::tree::Level;

/// The sizes of a scan that do not depend on the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dims {
    pub(super) groups: usize,
    pub(super) per_group: usize,
    pub(super) head_dim: usize,
    pub(super) state: usize,
}

impl Dims {
    pub(super) fn heads(&self) -> usize {
        self.groups * self.per_group
    }

    pub(super) fn inner(&self) -> usize {
        self.heads() * self.head_dim
    }

    pub(super) fn width(&self) -> usize {
        self.groups * self.state
    }
}

/// A product that is truncated by at least so many bits may come from a rounded triple: truncating by 8 bits
/// or more hides that triple's error (7 sigma = 0.36 ulp).
///
/// A rounded triple is off by the errors of two cross terms (`fesc_rlwe::coefficients`): together they have a
/// deviation of at most 13 units of the last place (sums of 512, 64 to an answer; 6.5 at the base size).
/// Seven deviations are 91 units, 0.36 of an ulp of what is truncated, and 46 units, 0.18, at the base size.
/// So a result is less than 1.36 ulps from the exact quotient, where an exact product would leave 1 (but for
/// one result in 10^11). A limit of 10 is not free: it would ask for exact triples of the sums that a layer's
/// scales truncate by 8 or 9 bits, at up to six times the bytes.
pub(super) const MIN_SHIFT_FOR_ROUNDED: u32 = 8;

/// By how many bits each sum is truncated next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shifts {
    pub(super) scores: u32,
    pub(super) output: u32,
    pub(super) states: u32,
    pub(super) chain: u32,
    pub(super) contract: u32,
}

impl Shifts {
    /// As the schedule has them.
    pub(super) fn new(s: &Scales) -> Self {
        let sum = s.mixed + s.x;
        Self {
            scores: (2 * s.bc).saturating_sub(s.score),
            output: sum.saturating_sub(s.scanned),
            states: (s.bc + s.weighted).saturating_sub(s.state),
            chain: s.exp,
            contract: (s.bc + s.state + s.exp).saturating_sub(sum),
        }
    }
}

/// A product of two masks.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskedProduct {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) product: usize,
}

/// Masks and products if a chunk is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptChunk {
    pub(super) column: usize,
    pub(super) weighted: usize,
    /// V.
    pub(super) push: usize,
    /// B^T V.
    pub(super) states: usize,
}

/// Masks and products if a chunk is entered.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnteredChunk {
    pub(super) state: usize,
    pub(super) row: usize,
    pub(super) carried: usize,
    /// C H.
    pub(super) contract: usize,
    /// row o C H.
    pub(super) decay: usize,
}

/// Masks and products of the chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wires {
    pub(super) b: usize,
    pub(super) c: usize,
    pub(super) x: usize,
    pub(super) score: usize,
    pub(super) lower: usize,
    pub(super) mixed: usize,
    /// S.
    pub(super) scores: usize,
    /// M.
    pub(super) mix: usize,
    /// Y.
    pub(super) output: usize,
    pub(super) kept: Option<KeptChunk>,
    pub(super) entered: Option<EnteredChunk>,
}

/// The bundle and the numbers of its masks and products.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    pub(super) bundle: Bundle,
    pub(super) chunks: Wires,
    /// exp, Delta.
    pub(super) factors: Option<MaskedProduct>,
    /// right, left; by level.
    pub(super) levels: Vec<MaskedProduct>,
    /// decay, states; if there are at least two states.
    pub(super) chain: Option<MaskedProduct>,
}

struct Builder {
    bundle: Bundle,
}

impl Builder {
    /// An axis, or none for size 1.
    fn axis(&mut self, size: usize) -> Vec<u8> {
        if size == 1 { Vec::new() } else { self.fixed(size) }
    }

    /// An axis also for size 1.
    fn fixed(&mut self, size: usize) -> Vec<u8> {
        self.bundle.sizes.push(size);
        vec![(self.bundle.sizes.len() - 1) as u8]
    }

    fn mask(&mut self, axes: &[&[u8]]) -> usize {
        self.push(Tensor::new(&axes.concat()))
    }

    fn lower(&mut self, axes: &[&[u8]]) -> usize {
        self.push(Tensor::lower(&axes.concat()))
    }

    fn push(&mut self, tensor: Tensor) -> usize {
        self.bundle.masks.push(tensor);
        self.bundle.masks.len() - 1
    }

    fn product(&mut self, left: usize, right: usize, out: &[&[u8]]) -> usize {
        self.result(Product::new(left, right, Tensor::new(&out.concat())))
    }

    /// A product that is truncated by `shift` bits next: its correlation may be off by a few units of the
    /// last place if that is enough.
    fn sum(&mut self, left: usize, right: usize, out: &[&[u8]], shift: u32) -> usize {
        let product = Product::new(left, right, Tensor::new(&out.concat()));
        self.result(if shift < MIN_SHIFT_FOR_ROUNDED { product } else { product.rounded() })
    }

    fn result(&mut self, product: Product) -> usize {
        self.bundle.products.push(product);
        self.bundle.products.len() - 1
    }
}

/// The axes of a chunk.
struct Axes {
    g: Vec<u8>,
    r: Vec<u8>,
    i: Vec<u8>,
    j: Vec<u8>,
    n: Vec<u8>,
    p: Vec<u8>,
}

impl Wiring {
    /// `factors` is the number of exps that are multiplied by Delta, all chunks and heads.
    pub(super) fn new(scales: &Scales, dims: &Dims, segment: &Segment, levels: &[Level], factors: usize) -> Self {
        let (ring, shifts) = (scale::RING, Shifts::new(scales));
        let mut b = Builder { bundle: Bundle { ring, sizes: vec![], masks: vec![], products: vec![] } };
        let axes = Axes {
            g: b.axis(dims.groups),
            r: b.axis(dims.per_group),
            i: b.fixed(segment.q),
            j: b.fixed(segment.q),
            n: b.fixed(dims.state),
            p: b.axis(dims.head_dim),
        };
        let chunks = wires(&mut b, &axes, segment, &shifts);
        let factors = (factors > 0).then(|| {
            let e = b.fixed(factors);
            pair(&mut b, &[&e], &[&e], &[&e])
        });
        let levels = levels
            .iter()
            .map(|l| {
                let w = b.fixed(segment.chunks * dims.heads() * l.nodes);
                let (right, left) = (b.axis(l.rights), b.axis(l.half));
                pair(&mut b, &[&w, &right], &[&w, &left], &[&w, &right, &left])
            })
            .collect();
        let chain = (segment.states() > 1).then(|| {
            let Axes { g, r, n, p, .. } = &axes;
            let (o, s) = (b.fixed(segment.states()), b.fixed(segment.states()));
            let (left, right) = (b.lower(&[g, r, &o, &s]), b.mask(&[&s, n, g, r, p]));
            MaskedProduct { left, right, product: b.sum(left, right, &[&o, n, g, r, p], shifts.chain) }
        });
        Self { bundle: b.bundle, chunks, factors, levels, chain }
    }
}

fn pair(b: &mut Builder, left: &[&[u8]], right: &[&[u8]], out: &[&[u8]]) -> MaskedProduct {
    let (left, right) = (b.mask(left), b.mask(right));
    MaskedProduct { left, right, product: b.product(left, right, out) }
}

fn wires(builder: &mut Builder, axes: &Axes, segment: &Segment, shifts: &Shifts) -> Wires {
    let Axes { g, r, i, j, n, p } = axes;
    let k = &builder.axis(segment.chunks);
    let (b, c) = (builder.mask(&[k, j, g, n]), builder.mask(&[k, i, g, n]));
    let x = builder.mask(&[k, j, g, r, p]);
    let score = builder.lower(&[k, g, i, j]);
    let lower = builder.lower(&[k, g, r, i, j]);
    let mixed = builder.lower(&[k, g, r, i, j]);
    let scores = builder.sum(c, b, &[k, g, i, j], shifts.scores);
    let weights = Tensor::lower(&[k, g, r, i, j].map(Vec::as_slice).concat());
    let mix = builder.result(Product::new(score, lower, weights));
    let output = builder.sum(mixed, x, &[k, i, g, r, p], shifts.output);
    let kept = (segment.kept_chunks() > 0).then(|| {
        let (column, weighted) = (builder.mask(&[k, j, g, r]), builder.mask(&[k, j, g, r, p]));
        let push = builder.product(column, x, &[k, j, g, r, p]);
        KeptChunk { column, weighted, push, states: builder.sum(b, weighted, &[k, n, g, r, p], shifts.states) }
    });
    let entered = (segment.entered_chunks() > 0).then(|| {
        let (state, row) = (builder.mask(&[k, n, g, r, p]), builder.mask(&[k, i, g, r]));
        let carried = builder.mask(&[k, i, g, r, p]);
        let contract = builder.sum(c, state, &[k, i, g, r, p], shifts.contract);
        EnteredChunk { state, row, carried, contract, decay: builder.product(row, carried, &[k, i, g, r, p]) }
    });
    Wires { b, c, x, score, lower, mixed, scores, mix, output, kept, entered }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dual::tree::levels;
    use fesc_mpc::Request;

    fn scales() -> Scales {
        Scales {
            norm: 12,
            gate_weight: 12,
            conv_weight: 12,
            conv_tap: 10,
            step_weight: 12,
            x: 16,
            bc: 14,
            exp: 20,
            score: 16,
            mixed: 20,
            column: 20,
            weighted: 20,
            state: 12,
            scanned: 16,
            gated: 16,
            out_weight: 12,
        }
    }

    /// Every bundle is one that `fesc-mpc` takes, also at odd shapes and at the largest.
    #[test]
    fn bundles_are_valid() {
        for (groups, per_group, head_dim, state) in [(1, 24, 64, 128), (2, 3, 5, 7), (1, 1, 1, 1), (8, 4, 64, 128)] {
            let dims = Dims { groups, per_group, head_dim, state };
            for (tokens, chunk) in [(1, 128), (2, 128), (127, 128), (128, 128), (129, 128), (2048, 128), (2048, 256)] {
                for (carry_in, carry_out) in [(false, false), (true, false), (false, true), (true, true)] {
                    let segment = Segment::new(tokens, chunk, carry_in, carry_out);
                    let wiring = Wiring::new(&scales(), &dims, &segment, &levels(segment.q), 5);
                    Request::Bundle(wiring.bundle).validate().unwrap();
                }
            }
        }
    }

    /// The five sums are rounded, nothing else is, and a sum that keeps its last places is exact.
    #[test]
    fn only_what_is_truncated_next_may_be_inexact() {
        let dims = Dims { groups: 1, per_group: 24, head_dim: 64, state: 128 };
        let segment = Segment::new(2048, 128, true, true);
        let rounded = |scales: &Scales| {
            let wiring = Wiring::new(scales, &dims, &segment, &levels(segment.q), 5);
            let products = wiring.bundle.products.iter().enumerate();
            let found: Vec<usize> = products.filter(|(_, p)| !p.exact).map(|(i, _)| i).collect();
            let (c, chain) = (wiring.chunks, wiring.chain.unwrap());
            let mut sums =
                [c.scores, c.output, c.kept.unwrap().states, c.entered.unwrap().contract, chain.product].to_vec();
            sums.sort_unstable();
            (found, sums, c.entered.unwrap().contract)
        };
        let (found, sums, _) = rounded(&scales());
        assert_eq!(found, sums);
        // C H leaves at mixed + x - exp bits: here 7 less than it comes with, then 8.
        for (state, expected) in [(9, 4), (10, 5)] {
            let (found, _, contract) = rounded(&Scales { state, ..scales() });
            assert_eq!((found.len(), found.contains(&contract)), (expected, expected == 5), "{state}");
        }
    }
}
