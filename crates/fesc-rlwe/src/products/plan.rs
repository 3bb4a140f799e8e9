//! Which operands are encrypted, in which layout: the cheapest in bytes.
//!
//! A product has `b` batch places, `l` left, `r` right, and `s` summands ([`Form`]). A ciphertext holds a *split* `b' l' r' s'` of them, at most
//! `N`, and `x'' = ceil(x / x')` ciphertexts cover an index `x`. An uploaded operand is repeated along the index that it lacks; the `s'` partial
//! sums of a response are added by both parties, each its shares. With `U` and `D` the bytes of an upload and of a response, frames included:
//!
//! | method | bytes |
//! |---|---|
//! | [`Method::Left`], each party uploads its left share | `2 b'' (l'' s'' U + l'' r'' D)` |
//! | [`Method::Right`], its right share | `2 b'' (r'' s'' U + l'' r'' D)` |
//! | [`Method::Both`], one party uploads both its shares and gets one answer for both cross terms | `b'' ((l'' + r'') s'' U + l'' r'' D)` |
//! | [`Method::Square`], one mask times itself | `b'' (s'' U + D)` |
//!
//! All splits into powers of two and whole indices are tried. Full tiles of the batch and what is left over are planned apart. The parties take
//! turns as the one who uploads in the last two methods.

use std::ops::Range;

use fesc_mpc::correlation::{Bundle, Form};
use fesc_mpc::{MpcError, Role};

/// Most ciphertexts that an evaluator holds at once: 1.8 MB each. Few in tests, so that these see more than one group.
pub(super) const HELD: usize = if cfg!(test) { 10 } else { 128 };
/// Most sums that it holds when the summands of a response come in several parts.
const SUMS: usize = if cfg!(test) { 6 } else { 64 };

/// What is uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Left,
    Right,
    Both,
    Square,
}

/// Places along batch, left, right and sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub batch: usize,
    pub left: usize,
    pub right: usize,
    pub sum: usize,
}

impl Extent {
    pub(super) fn of(form: &Form) -> Self {
        Self { batch: form.batch(), left: form.left(), right: form.right(), sum: form.sum() }
    }

    fn is_empty(&self) -> bool {
        self.batch * self.left * self.right * self.sum == 0
    }

    /// Ciphertexts that cover each index.
    fn parts(&self, split: &Extent) -> Extent {
        Extent {
            batch: self.batch.div_ceil(split.batch),
            left: self.left.div_ceil(split.left),
            right: self.right.div_ceil(split.right),
            sum: self.sum.div_ceil(split.sum),
        }
    }
}

/// Bytes of an upload and of a response with their frames, and slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices {
    pub slots: usize,
    pub upload: u64,
    pub answer: u64,
}

/// A range of a product's batch in one layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub product: usize,
    pub method: Method,
    pub split: Extent,
    pub batch: Range<usize>,
    /// Ciphertexts along each index.
    pub parts: Extent,
}

impl Piece {
    fn new(product: usize, method: Method, whole: Extent, split: Extent, batch: Range<usize>) -> Self {
        let parts = Extent { batch: batch.len(), ..whole }.parts(&split);
        Self { product, method, split, batch, parts }
    }

    /// Tasks of a tile for each party that uploads in it.
    fn tasks(&self) -> usize {
        match self.method {
            Method::Left => self.parts.left,
            Method::Right => self.parts.right,
            Method::Both | Method::Square => 1,
        }
    }

    /// Uploads of a task for one part of the sum.
    pub(super) fn uploads(&self) -> usize {
        match self.method {
            Method::Left | Method::Right | Method::Square => 1,
            Method::Both => self.parts.left + self.parts.right,
        }
    }

    /// Responses of a task.
    pub(super) fn answers(&self) -> usize {
        match self.method {
            Method::Left => self.parts.right,
            Method::Right => self.parts.left,
            Method::Both => self.parts.left * self.parts.right,
            Method::Square => 1,
        }
    }

    /// Parts of the sum whose ciphertexts are held at once.
    pub(super) fn step(&self) -> usize {
        (HELD / self.uploads()).max(1)
    }

    /// Whether the memory of an evaluator stays bounded.
    fn is_bounded(&self) -> bool {
        self.uploads() <= HELD && (self.parts.sum <= self.step() || self.answers() <= SUMS)
    }

    /// Bytes of all tasks, both directions together.
    fn bytes(&self, prices: &Prices) -> u64 {
        let task = (self.parts.sum * self.uploads()) as u64 * prices.upload + self.answers() as u64 * prices.answer;
        let ways = if matches!(self.method, Method::Left | Method::Right) { 2 } else { 1 };
        ways * (self.parts.batch * self.tasks()) as u64 * task
    }

    /// Slots over which the evaluator's factor is constant.
    pub(super) fn run(&self) -> usize {
        let inner = if self.method == Method::Left { self.split.left } else { self.split.right };
        1 << inner.trailing_zeros()
    }
}

/// Uploads of one party and the answers to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub piece: usize,
    /// Number of the batch tile.
    pub tile: usize,
    /// Part of the left or right index that is uploaded, by method.
    pub part: usize,
}

/// How all products of a bundle are made.
pub(super) struct Plan {
    pub forms: Vec<Form>,
    pub pieces: Vec<Piece>,
    /// Tasks by the party that uploads.
    pub tasks: [Vec<Task>; 2],
}

impl Plan {
    pub(super) fn new(bundle: &Bundle, prices: &Prices) -> Result<Self, MpcError> {
        let mut plan = Self { forms: Vec::new(), pieces: Vec::new(), tasks: [Vec::new(), Vec::new()] };
        let mut turn = Role::P0;
        for (i, product) in bundle.products.iter().enumerate() {
            let form = Form::new(bundle, product)?;
            for piece in pieces(i, Extent::of(&form), product.left == product.right, prices) {
                for tile in 0..piece.parts.batch {
                    for part in 0..piece.tasks() {
                        let task = Task { piece: plan.pieces.len(), tile, part };
                        if matches!(piece.method, Method::Left | Method::Right) {
                            plan.tasks.iter_mut().for_each(|t| t.push(task));
                        } else {
                            plan.tasks[turn.index()].push(task);
                            turn = turn.other();
                        }
                    }
                }
                plan.pieces.push(piece);
            }
            plan.forms.push(form);
        }
        Ok(plan)
    }

    /// Bytes from P0 and from P1.
    pub(super) fn bytes(&self, prices: &Prices) -> (u64, u64) {
        let mut bytes = [0u64; 2];
        for (holder, tasks) in self.tasks.iter().enumerate() {
            for task in tasks {
                let piece = &self.pieces[task.piece];
                bytes[holder] += (piece.parts.sum * piece.uploads()) as u64 * prices.upload;
                bytes[1 - holder] += piece.answers() as u64 * prices.answer;
            }
        }
        (bytes[0], bytes[1])
    }
}

/// The pieces of one product.
fn pieces(product: usize, whole: Extent, square: bool, prices: &Prices) -> Vec<Piece> {
    if whole.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut from = 0;
    while from < whole.batch {
        let rest = Extent { batch: whole.batch - from, ..whole };
        // One layout for all that is left, or the one with the cheapest full tiles and something else after them.
        let mut all: Option<(u64, Piece)> = None;
        let mut tiled: Option<(f64, Piece)> = None;
        each_piece(product, rest, from, square, prices, |piece| {
            let bytes = piece.bytes(prices);
            let better = |old: &Piece| piece.run() > old.run();
            if all.as_ref().is_none_or(|(b, old)| bytes < *b || (bytes == *b && better(old))) {
                all = Some((bytes, piece.clone()));
            }
            if rest.batch > piece.split.batch {
                let full = rest.batch - rest.batch % piece.split.batch;
                let tiles = Piece::new(product, piece.method, whole, piece.split, from..from + full);
                let each = tiles.bytes(prices) as f64 / full as f64;
                if tiled.as_ref().is_none_or(|(b, old)| each < *b || (each == *b && better(old))) {
                    tiled = Some((each, tiles));
                }
            }
        });
        let Some((bytes, one)) = all else { break };
        let next = match tiled {
            Some((_, tiles)) if !rest.batch.is_multiple_of(tiles.split.batch) => {
                let left = Extent { batch: rest.batch % tiles.split.batch, ..whole };
                let mut least = u64::MAX;
                each_piece(product, left, tiles.batch.end, square, prices, |p| least = least.min(p.bytes(prices)));
                if tiles.bytes(prices).saturating_add(least) < bytes { tiles } else { one }
            }
            _ => one,
        };
        from = next.batch.end;
        found.push(next);
    }
    found
}

/// All layouts of a product's batch from `from` on.
fn each_piece(product: usize, whole: Extent, from: usize, square: bool, prices: &Prices, mut f: impl FnMut(Piece)) {
    let n = prices.slots;
    let methods: &[Method] = if square { &[Method::Square] } else { &[Method::Both, Method::Left, Method::Right] };
    for left in splits(whole.left, n) {
        for right in splits(whole.right, n / left) {
            for sum in splits(whole.sum, n / left / right) {
                let fit = (n / left / right / sum).min(whole.batch);
                let power = 1 << fit.ilog2();
                for batch in [fit, power].into_iter().take(if fit == power { 1 } else { 2 }) {
                    for &method in methods {
                        let split = Extent { batch, left, right, sum };
                        let piece = Piece::new(product, method, whole, split, from..from + whole.batch);
                        if piece.is_bounded() {
                            f(piece);
                        }
                    }
                }
            }
        }
    }
}

/// Powers of two up to `whole`, and `whole` itself, as far as they fit `room` (at least 1).
fn splits(whole: usize, room: usize) -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS).map(|e| 1usize << e).take_while(move |&p| p < whole);
    powers.chain(std::iter::once(whole)).take_while(move |&p| p <= room)
}
