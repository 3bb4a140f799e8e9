//! The bundle of one segment: which tensors are opened, and which products they serve.
//!
//! Every tensor is opened once under a mask of its own. Axes of size 1 are left out, so that the bundle stays within the limits of
//! `fesc-mpc` at every shape. The five sums (S, Y, states, H, C H) are asked for as rounded products. k: chunks, g: groups, r: heads of a group, i, j: tokens of a chunk, n: states, p: channels of a head.
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

use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_ring::Ring;

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

/// A product of two masks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) product: usize,
}

/// Masks and products if a chunk is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) column: usize,
    pub(super) weighted: usize,
    /// V.
    pub(super) push: usize,
    /// B^T V.
    pub(super) states: usize,
}

/// Masks and products if a chunk is entered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entered {
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
    pub(super) kept: Option<Kept>,
    pub(super) entered: Option<Entered>,
}

/// The bundle and the numbers of its masks and products.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    pub(super) bundle: Bundle,
    pub(super) chunks: Wires,
    /// exp, Delta.
    pub(super) factors: Option<Pair>,
    /// right, left; by level.
    pub(super) levels: Vec<Pair>,
    /// decay, states; if there are at least two states.
    pub(super) chain: Option<Pair>,
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

    /// A matrix product. The scan truncates it next, so its correlation may be off by a few units of the last place.
    fn matrix(&mut self, left: usize, right: usize, out: &[&[u8]]) -> usize {
        self.result(Product::new(left, right, Tensor::new(&out.concat())).rounded())
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
    pub(super) fn new(ring: Ring, dims: &Dims, segment: &Segment, levels: &[Level], factors: usize) -> Self {
        let mut b = Builder { bundle: Bundle { ring, sizes: vec![], masks: vec![], products: vec![] } };
        let axes = Axes {
            g: b.axis(dims.groups),
            r: b.axis(dims.per_group),
            i: b.fixed(segment.q),
            j: b.fixed(segment.q),
            n: b.fixed(dims.state),
            p: b.axis(dims.head_dim),
        };
        let chunks = wires(&mut b, &axes, segment);
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
            Pair { left, right, product: b.matrix(left, right, &[&o, n, g, r, p]) }
        });
        Self { bundle: b.bundle, chunks, factors, levels, chain }
    }
}

fn pair(b: &mut Builder, left: &[&[u8]], right: &[&[u8]], out: &[&[u8]]) -> Pair {
    let (left, right) = (b.mask(left), b.mask(right));
    Pair { left, right, product: b.product(left, right, out) }
}

fn wires(builder: &mut Builder, axes: &Axes, segment: &Segment) -> Wires {
    let Axes { g, r, i, j, n, p } = axes;
    let k = &builder.axis(segment.chunks);
    let (b, c) = (builder.mask(&[k, j, g, n]), builder.mask(&[k, i, g, n]));
    let x = builder.mask(&[k, j, g, r, p]);
    let score = builder.lower(&[k, g, i, j]);
    let lower = builder.lower(&[k, g, r, i, j]);
    let mixed = builder.lower(&[k, g, r, i, j]);
    let scores = builder.matrix(c, b, &[k, g, i, j]);
    let weights = Tensor::lower(&[k, g, r, i, j].map(Vec::as_slice).concat());
    let mix = builder.result(Product::new(score, lower, weights));
    let output = builder.matrix(mixed, x, &[k, i, g, r, p]);
    let kept = (segment.kept_chunks() > 0).then(|| {
        let (column, weighted) = (builder.mask(&[k, j, g, r]), builder.mask(&[k, j, g, r, p]));
        let push = builder.product(column, x, &[k, j, g, r, p]);
        Kept { column, weighted, push, states: builder.matrix(b, weighted, &[k, n, g, r, p]) }
    });
    let entered = (segment.entered_chunks() > 0).then(|| {
        let (state, row) = (builder.mask(&[k, n, g, r, p]), builder.mask(&[k, i, g, r]));
        let carried = builder.mask(&[k, i, g, r, p]);
        let contract = builder.matrix(c, state, &[k, i, g, r, p]);
        Entered { state, row, carried, contract, decay: builder.product(row, carried, &[k, i, g, r, p]) }
    });
    Wires { b, c, x, score, lower, mixed, scores, mix, output, kept, entered }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dual::tree::levels;
    use fesc_mpc::Request;

    /// Every bundle is one that `fesc-mpc` takes, also at odd shapes and at the largest.
    #[test]
    fn bundles_are_valid() {
        let ring = Ring::new(48).unwrap();
        for (groups, per_group, head_dim, state) in [(1, 24, 64, 128), (2, 3, 5, 7), (1, 1, 1, 1), (8, 4, 64, 128)] {
            let dims = Dims { groups, per_group, head_dim, state };
            for (tokens, chunk) in [(1, 128), (2, 128), (127, 128), (128, 128), (129, 128), (2048, 128), (2048, 256)] {
                for (carry_in, carry_out) in [(false, false), (true, false), (false, true), (true, true)] {
                    let segment = Segment::new(tokens, chunk, carry_in, carry_out);
                    let wiring = Wiring::new(ring, &dims, &segment, &levels(segment.q), 5);
                    Request::Bundle(wiring.bundle).validate().unwrap();
                }
            }
        }
    }
}
