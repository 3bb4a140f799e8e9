//! The passes of the transform, in plain Rust on blocks of eight numbers, which the compiler turns into registers of each path.
//!
//! Every number is the result of the same additions and multiplications in the same order whatever the block and the path, and no
//! operation is fused, so all paths agree bit for bit.

use crate::aligned::Aligned;

/// Numbers of a block.
pub(super) const LANES: usize = 8;

/// Complex numbers, `L` at a time.
#[derive(Clone, Copy)]
struct Block<const L: usize> {
    re: [f64; L],
    im: [f64; L],
}

#[inline(always)]
fn zip<const L: usize>(a: [f64; L], b: [f64; L], f: impl Fn(f64, f64) -> f64) -> [f64; L] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl<const L: usize> Block<L> {
    #[inline(always)]
    fn load(re: &[f64], im: &[f64], at: usize) -> Self {
        let (re, im) = (&re[at..at + L], &im[at..at + L]);
        Self { re: std::array::from_fn(|i| re[i]), im: std::array::from_fn(|i| im[i]) }
    }

    #[inline(always)]
    fn store(self, re: &mut [f64], im: &mut [f64], at: usize) {
        re[at..at + L].copy_from_slice(&self.re);
        im[at..at + L].copy_from_slice(&self.im);
    }

    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self { re: zip(self.re, o.re, |a, b| a + b), im: zip(self.im, o.im, |a, b| a + b) }
    }

    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self { re: zip(self.re, o.re, |a, b| a - b), im: zip(self.im, o.im, |a, b| a - b) }
    }

    #[inline(always)]
    fn mul(self, w: Self) -> Self {
        let product = |a, b| zip(a, b, |a, b| a * b);
        Self {
            re: zip(product(self.re, w.re), product(self.im, w.im), |a, b| a - b),
            im: zip(product(self.re, w.im), product(self.im, w.re), |a, b| a + b),
        }
    }

    #[inline(always)]
    fn mul_conjugate(self, w: Self) -> Self {
        let product = |a, b| zip(a, b, |a, b| a * b);
        Self {
            re: zip(product(self.re, w.re), product(self.im, w.im), |a, b| a + b),
            im: zip(product(self.im, w.re), product(self.re, w.im), |a, b| a - b),
        }
    }

    /// `self + i o`.
    #[inline(always)]
    fn add_turned(self, o: Self) -> Self {
        Self { re: zip(self.re, o.im, |a, b| a - b), im: zip(self.im, o.re, |a, b| a + b) }
    }

    /// `self - i o`.
    #[inline(always)]
    fn sub_turned(self, o: Self) -> Self {
        Self { re: zip(self.re, o.im, |a, b| a + b), im: zip(self.im, o.re, |a, b| a - b) }
    }
}

/// Two layers: `w[0], w[1], w[2]` are the twiddles of the inputs 2, 1 and 3; outputs in the order of the nodes.
#[inline(always)]
fn forward_four<const L: usize>(x: [Block<L>; 4], w: [Block<L>; 3], first: bool) -> [Block<L>; 4] {
    let (x1, x2, x3) = (x[1].mul(w[1]), x[2].mul(w[0]), x[3].mul(w[2]));
    let (even, odd) = ((x[0].add(x2), x[0].sub(x2)), (x1.add(x3), x1.sub(x3)));
    let (minus, plus) = (even.1.sub_turned(odd.1), even.1.add_turned(odd.1));
    let (second, fourth) = if first { (plus, minus) } else { (minus, plus) };
    [even.0.add(odd.0), second, even.0.sub(odd.0), fourth]
}

/// The inverse of [`forward_four`], times 4.
#[inline(always)]
fn inverse_four<const L: usize>(y: [Block<L>; 4], w: [Block<L>; 3], first: bool) -> [Block<L>; 4] {
    let (minus, plus) = if first { (y[3], y[1]) } else { (y[1], y[3]) };
    let (even, odd) = ((y[0].add(y[2]), minus.add(plus)), (y[0].sub(y[2]), minus.sub(plus)));
    [
        even.0.add(even.1),
        odd.0.add_turned(odd.1).mul_conjugate(w[1]),
        even.0.sub(even.1).mul_conjugate(w[0]),
        odd.0.sub_turned(odd.1).mul_conjugate(w[2]),
    ]
}

/// One layer.
#[inline(always)]
fn forward_two<const L: usize>(x: [Block<L>; 2], w: Block<L>) -> [Block<L>; 2] {
    let v = x[1].mul(w);
    [x[0].add(v), x[0].sub(v)]
}

#[inline(always)]
fn inverse_two<const L: usize>(y: [Block<L>; 2], w: Block<L>) -> [Block<L>; 2] {
    [y[0].add(y[1]), y[0].sub(y[1]).mul_conjugate(w)]
}

/// One pass of the transform: layers from `nodes` nodes to `radix` times as many.
pub(super) struct Stage {
    pub(super) nodes: usize,
    /// 2 (of the first stage alone) or 4.
    pub(super) radix: usize,
    /// Real and imaginary parts by twiddle, each `nodes` numbers, repeated up to [`LANES`].
    pub(super) twiddles: Aligned<f64>,
}

impl Stage {
    /// `L` twiddles of kind `kind` from `at` on.
    #[inline(always)]
    fn twiddle<const L: usize>(&self, kind: usize, at: usize) -> Block<L> {
        let row = self.nodes.max(LANES);
        let (re, im) = self.twiddles[2 * kind * row..].split_at(row);
        Block::load(re, im, at)
    }

    #[inline(always)]
    fn twiddles<const L: usize>(&self, at: usize) -> [Block<L>; 3] {
        [self.twiddle(0, at), self.twiddle(1, at), self.twiddle(2, at)]
    }
}

/// Borrowed complex input and output of a pass.
pub(super) type Input<'a> = (&'a [f64], &'a [f64]);
pub(super) type Output<'a> = (&'a mut [f64], &'a mut [f64]);

/// A pass in which a block holds whole groups of `NODES` nodes: the other side of the `R` blocks is one run of `8 R` numbers.
#[inline(always)]
fn narrow<const FORWARD: bool, const R: usize, const NODES: usize>(stage: &Stage, x: Input<'_>, y: Output<'_>) {
    let part = x.0.len() / R;
    let place = |lane: usize, b: usize| lane / NODES * R * NODES + b * NODES + lane % NODES;
    let one: Block<LANES> = stage.twiddle(0, 0);
    let w = if R == 4 { stage.twiddles(0) } else { [one; 3] };
    let zero = Block { re: [0.0; LANES], im: [0.0; LANES] };
    for at in (0..part).step_by(LANES) {
        let mut v = [zero; R];
        if FORWARD {
            v = std::array::from_fn(|a| Block::load(x.0, x.1, a * part + at));
        } else {
            let (re, im) = (&x.0[R * at..R * (at + LANES)], &x.1[R * at..R * (at + LANES)]);
            for (b, v) in v.iter_mut().enumerate() {
                v.re = std::array::from_fn(|lane| re[place(lane, b)]);
                v.im = std::array::from_fn(|lane| im[place(lane, b)]);
            }
        }
        apply::<FORWARD, R, LANES>(&mut v, w, NODES == 1);
        if FORWARD {
            let (re, im) = (&mut y.0[R * at..R * (at + LANES)], &mut y.1[R * at..R * (at + LANES)]);
            for (b, v) in v.iter().enumerate() {
                for lane in 0..LANES {
                    re[place(lane, b)] = v.re[lane];
                    im[place(lane, b)] = v.im[lane];
                }
            }
        } else {
            v.into_iter().enumerate().for_each(|(a, v)| v.store(y.0, y.1, a * part + at));
        }
    }
}

/// The butterfly of a pass on its `R` blocks.
#[inline(always)]
fn apply<const FORWARD: bool, const R: usize, const L: usize>(v: &mut [Block<L>; R], w: [Block<L>; 3], first: bool) {
    if let [a, b] = v.as_mut_slice() {
        let out = if FORWARD { forward_two([*a, *b], w[0]) } else { inverse_two([*a, *b], w[0]) };
        [*a, *b] = out;
    } else if let [a, b, c, d] = v.as_mut_slice() {
        let x = [*a, *b, *c, *d];
        [*a, *b, *c, *d] = if FORWARD { forward_four(x, w, first) } else { inverse_four(x, w, first) };
    }
}

/// A pass in which blocks of `L` lie within the nodes: runs of `L` numbers on both sides.
#[inline(always)]
fn wide<const FORWARD: bool, const R: usize, const L: usize>(stage: &Stage, x: Input<'_>, y: Output<'_>) {
    let (nodes, part) = (stage.nodes, x.0.len() / R);
    for group in 0..part / nodes {
        for j in (0..nodes).step_by(L) {
            let (apart, together) = (group * nodes + j, group * R * nodes + j);
            // Coefficient side: `R` runs in the parts of the vector. Slot side: `R` neighbouring groups.
            let (from, from_step, to, to_step) =
                if FORWARD { (apart, part, together, nodes) } else { (together, nodes, apart, part) };
            let mut v: [Block<L>; R] = std::array::from_fn(|a| Block::load(x.0, x.1, from + a * from_step));
            let w = if R == 4 { stage.twiddles(j) } else { [stage.twiddle(0, j); 3] };
            apply::<FORWARD, R, L>(&mut v, w, nodes == 1);
            v.into_iter().enumerate().for_each(|(b, v)| v.store(y.0, y.1, to + b * to_step));
        }
    }
}

/// One pass from `x` to `y`.
#[inline(always)]
pub(super) fn pass<const FORWARD: bool>(stage: &Stage, x: Input<'_>, y: Output<'_>) {
    let short = x.0.len() / stage.radix < LANES;
    match (stage.radix, stage.nodes) {
        (2, _) if short => wide::<FORWARD, 2, 1>(stage, x, y),
        (2, _) => narrow::<FORWARD, 2, 1>(stage, x, y),
        (_, _) if short => wide::<FORWARD, 4, 1>(stage, x, y),
        (_, 1) => narrow::<FORWARD, 4, 1>(stage, x, y),
        (_, 2) => narrow::<FORWARD, 4, 2>(stage, x, y),
        (_, 4) => narrow::<FORWARD, 4, 4>(stage, x, y),
        _ => wide::<FORWARD, 4, LANES>(stage, x, y),
    }
}

/// `out = round(values * factor)`, halves to even, saturating; gives the largest magnitude before rounding.
#[inline(always)]
pub(super) fn round(values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    let mut largest = [0.0f64; LANES];
    for (values, out) in values.chunks(LANES).zip(out.chunks_mut(LANES)) {
        for (lane, (&v, o)) in values.iter().zip(out).enumerate() {
            let x = v * factor;
            largest[lane] = if x.abs() > largest[lane] { x.abs() } else { largest[lane] };
            *o = x.round_ties_even() as i64;
        }
    }
    largest.into_iter().fold(0.0, |a, b| if b > a { b } else { a })
}
