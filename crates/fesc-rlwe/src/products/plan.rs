//! Which operands are encrypted, in which layout: the cheapest in bytes.
//!
//! A product has `b` batch places, `l` left, `r` right, and `s` summands ([`ProductShape`]). A ciphertext
//! holds a *split* `b' l' r' s'` of them, at most `N`, and `x'' = ceil(x / x')` ciphertexts cover an index
//! `x`. An uploaded operand is repeated along the index that it lacks; the `s'` partial sums of a response
//! are added by both parties, each its shares. With `U` and `D` the bytes of an upload and of a response,
//! frames included:
//!
//! | method | bytes |
//! |---|---|
//! | [`Method::Left`], each party uploads its left share | `2 b'' (l'' s'' U + l'' r'' D)` |
//! | [`Method::Right`], its right share | `2 b'' (r'' s'' U + l'' r'' D)` |
//! | [`Method::Both`], one party uploads both | `b'' ((l'' + r'') s'' U + l'' r'' D)` |
//! | [`Method::Square`], one mask times itself | `b'' (s'' U + D)` |
//! | [`Method::Shared`], sums of squares and scaled rows | `b'' (s'' + 1) (U + D)`, one more `U` per group |
//!
//! `Both` gets one answer for both cross terms; `Shared` makes the sums of squares of rows together with the
//! same rows times scalars. All splits into powers of two and whole indices are tried. Full tiles of the
//! batch and what is left over are planned apart. The parties take turns as the one who uploads in the last
//! three methods, so a single tile is worth a little more than its bytes.

use std::ops::Range;

use fesc_mpc::correlation::{Bundle, ProductShape};
use fesc_mpc::{MpcError, Role};
use fesc_net::HEADER_BYTES;

use crate::slots::SlotParams;

/// What is uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Left,
    Right,
    Both,
    Square,
    Shared,
}

/// One of the two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Left,
    Right,
}

impl Operand {
    pub(super) fn other(self) -> Self {
        match self {
            Operand::Left => Operand::Right,
            Operand::Right => Operand::Left,
        }
    }
}

/// The rows of a sum of squares times scalars: a product that shares the uploads of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    pub product: usize,
    /// Which operand the scalars are.
    pub scalars: Operand,
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
    pub(super) fn of(shape: &ProductShape) -> Self {
        Self { batch: shape.batch(), left: shape.left(), right: shape.right(), sum: shape.sum() }
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
    /// Most ciphertexts that an evaluator holds at once, 2.1 MB each, and twice the sums that it holds when
    /// the summands of a response come in several parts.
    pub held: usize,
    pub slots: usize,
    pub upload: u64,
    pub answer: u64,
}

impl Prices {
    pub(super) fn new(params: &SlotParams, held: usize) -> Self {
        let wire = |payload: usize| (payload + HEADER_BYTES) as u64;
        let (upload, answer) = (wire(params.upload_bytes()), wire(params.response_bytes()));
        Self { held, slots: params.slots(), upload, answer }
    }
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
    /// Most parts of the sum that are held together.
    step: usize,
    /// With [`Method::Shared`], the other product.
    pub scale: Option<Scale>,
}

/// What is being planned: a product, or a sum of squares and a scaling together.
#[derive(Debug, Clone, Copy)]
struct Goal {
    product: usize,
    whole: Extent,
    methods: &'static [Method],
    scale: Option<Scale>,
}

impl Goal {
    fn piece(&self, method: Method, split: Extent, batch: Range<usize>, prices: &Prices) -> Piece {
        let parts = Extent { batch: batch.len(), ..self.whole }.parts(&split);
        let mut piece = Piece { product: self.product, method, split, batch, parts, step: 1, scale: self.scale };
        // As many parts as are held: the scalars of a shared piece come once, all else with every part.
        let fixed = piece.uploads(0);
        piece.step = ((prices.held - fixed) / (piece.uploads(1) - fixed)).max(1);
        piece
    }
}

impl Piece {
    /// Whether both parties upload the same, or only one of them.
    pub(super) fn is_mutual(&self) -> bool {
        matches!(self.method, Method::Left | Method::Right)
    }

    /// Tasks of a tile for each party that uploads in it.
    fn tasks(&self) -> usize {
        match self.method {
            Method::Left => self.parts.left,
            Method::Right => self.parts.right,
            Method::Both | Method::Square | Method::Shared => 1,
        }
    }

    /// Uploads of `parts` parts of the sum that are held together.
    pub(super) fn uploads(&self, parts: usize) -> usize {
        match self.method {
            Method::Left | Method::Right | Method::Square => parts,
            Method::Both => parts * (self.parts.left + self.parts.right),
            Method::Shared => parts + 1,
        }
    }

    /// Parts of the sum that are held together.
    pub(super) fn steps(&self) -> impl Iterator<Item = Range<usize>> {
        let (sum, step) = (self.parts.sum, self.step);
        (0..sum).step_by(step).map(move |start| start..sum.min(start + step))
    }

    /// Responses of a task.
    pub(super) fn answers(&self) -> usize {
        match self.method {
            Method::Left => self.parts.right,
            Method::Right => self.parts.left,
            Method::Both => self.parts.left * self.parts.right,
            Method::Square => 1,
            Method::Shared => self.parts.sum + 1,
        }
    }

    /// Whether the memory of an evaluator stays bounded.
    fn is_bounded(&self, prices: &Prices) -> bool {
        let waiting = if self.method == Method::Shared { 1 } else { self.answers() };
        self.uploads(1) <= prices.held && (self.parts.sum <= self.step || waiting <= prices.held / 2)
    }

    /// Bytes of a task: uploads, answers.
    fn task_bytes(&self, prices: &Prices) -> (u64, u64) {
        let uploads = self.uploads(self.parts.sum) + (self.parts.sum.div_ceil(self.step) - 1) * self.uploads(0);
        (uploads as u64 * prices.upload, self.answers() as u64 * prices.answer)
    }

    /// Bytes of all tasks, both directions together.
    fn bytes(&self, prices: &Prices) -> u64 {
        let (up, down) = self.task_bytes(prices);
        let ways = if self.is_mutual() { 2 } else { 1 };
        ways * (self.parts.batch * self.tasks()) as u64 * (up + down)
    }

    /// What planning compares: a little more than the bytes where only one party would have work.
    fn weight(&self, prices: &Prices) -> u64 {
        let bytes = self.bytes(prices);
        bytes + if self.parts.batch == 1 && !self.is_mutual() { bytes / 32 } else { 0 }
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
pub(super) struct ProductPlan {
    pub shapes: Vec<ProductShape>,
    pub pieces: Vec<Piece>,
    /// Tasks by the party that uploads.
    pub tasks: [Vec<Task>; 2],
}

impl ProductPlan {
    pub(super) fn new(bundle: &Bundle, prices: &Prices) -> Result<Self, MpcError> {
        let shapes = bundle.products.iter().map(|p| ProductShape::new(bundle, p)).collect::<Result<Vec<_>, _>>()?;
        let mut made: Vec<Vec<Piece>> = Vec::new();
        for (i, (product, shape)) in bundle.products.iter().zip(&shapes).enumerate() {
            let methods: &[Method] = if product.left == product.right {
                &[Method::Square]
            } else {
                &[Method::Both, Method::Left, Method::Right]
            };
            made.push(pieces(&Goal { product: i, whole: Extent::of(shape), methods, scale: None }, prices));
        }
        let weight = |pieces: &[Piece]| pieces.iter().map(|p| p.weight(prices)).sum::<u64>();
        for square in 0..made.len() {
            let partner =
                (0..made.len()).find_map(|p| scaling(bundle, &shapes, square, p).filter(|_| !made[p].is_empty()));
            let Some(scale) = partner else { continue };
            let whole = Extent::of(&shapes[square]);
            let goal = Goal { product: square, whole, methods: &[Method::Shared], scale: partner };
            let shared = pieces(&goal, prices);
            if !shared.is_empty() && weight(&shared) < weight(&made[square]) + weight(&made[scale.product]) {
                made[square] = shared;
                made[scale.product].clear();
            }
        }
        let mut plan = Self { shapes, pieces: made.concat(), tasks: [Vec::new(), Vec::new()] };
        let mut turn = Role::P0;
        for (number, piece) in plan.pieces.iter().enumerate() {
            for tile in 0..piece.parts.batch {
                for part in 0..piece.tasks() {
                    let task = Task { piece: number, tile, part };
                    if piece.is_mutual() {
                        plan.tasks.iter_mut().for_each(|t| t.push(task));
                    } else {
                        plan.tasks[turn.index()].push(task);
                        turn = turn.other();
                    }
                }
            }
        }
        Ok(plan)
    }

    /// Bytes of one product, both directions together; `None` if it shares uploads with another one.
    pub(super) fn bytes_of(&self, product: usize, prices: &Prices) -> Option<u64> {
        let shared = |p: &Piece| p.scale.is_some_and(|s| p.product == product || s.product == product);
        let own = self.pieces.iter().filter(|p| p.product == product);
        (!self.pieces.iter().any(shared)).then(|| own.map(|p| p.bytes(prices)).sum())
    }

    /// Leaves a product that shares nothing to somebody else.
    pub(super) fn leave(&mut self, product: usize) {
        let pieces = &self.pieces;
        self.tasks.iter_mut().for_each(|t| t.retain(|task| pieces[task.piece].product != product));
    }

    /// Bytes from P0 and from P1.
    pub(super) fn bytes(&self, prices: &Prices) -> (u64, u64) {
        let mut bytes = [0u64; 2];
        for (holder, tasks) in self.tasks.iter().enumerate() {
            for task in tasks {
                let (up, down) = self.pieces[task.piece].task_bytes(prices);
                bytes[holder] += up;
                bytes[1 - holder] += down;
            }
        }
        (bytes[0], bytes[1])
    }
}

/// Whether product `p` is the rows of sum of squares `square`, times scalars.
fn scaling(bundle: &Bundle, shapes: &[ProductShape], square: usize, p: usize) -> Option<Scale> {
    let (rows, product) = (&bundle.products[square], &bundle.products[p]);
    if rows.left != rows.right || product.left == product.right {
        return None;
    }
    let shape = &shapes[p];
    let (scalars, index) = if product.right == rows.right {
        (Operand::Left, shape.right_index())
    } else if product.left == rows.right {
        (Operand::Right, shape.left_index())
    } else {
        return None;
    };
    let alone = if scalars == Operand::Left { shape.left() } else { shape.right() };
    let same = shapes[square].right_index();
    let fits = alone == 1 && shape.sum() == 1 && same.batch == index.batch && same.sum == index.free;
    fits.then_some(Scale { product: p, scalars })
}

/// The pieces of a goal.
fn pieces(goal: &Goal, prices: &Prices) -> Vec<Piece> {
    let whole = goal.whole;
    if whole.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut from = 0;
    while from < whole.batch {
        let rest = whole.batch - from;
        // One layout for all that is left, or the one with the cheapest full tiles and something else after
        // them.
        let mut all: Option<(u64, Piece)> = None;
        let mut tiled: Option<(f64, Piece)> = None;
        each_piece(goal, from..whole.batch, prices, |piece| {
            let weight = piece.weight(prices);
            let better = |old: &Piece| piece.run() > old.run();
            if all.as_ref().is_none_or(|(w, old)| weight < *w || (weight == *w && better(old))) {
                all = Some((weight, piece.clone()));
            }
            if rest > piece.split.batch {
                let full = rest - rest % piece.split.batch;
                let tiles = goal.piece(piece.method, piece.split, from..from + full, prices);
                let each = tiles.weight(prices) as f64 / full as f64;
                if tiled.as_ref().is_none_or(|(w, old)| each < *w || (each == *w && better(old))) {
                    tiled = Some((each, tiles));
                }
            }
        });
        let Some((weight, one)) = all else { break };
        let next = match tiled {
            Some((_, tiles)) if tiles.batch.end < whole.batch => {
                let mut least = u64::MAX;
                each_piece(goal, tiles.batch.end..whole.batch, prices, |p| least = least.min(p.weight(prices)));
                if tiles.weight(prices).saturating_add(least) < weight { tiles } else { one }
            }
            _ => one,
        };
        from = next.batch.end;
        found.push(next);
    }
    found
}

/// All layouts of a range of a goal's batch.
fn each_piece(goal: &Goal, range: Range<usize>, prices: &Prices, mut f: impl FnMut(Piece)) {
    let (n, whole) = (prices.slots, goal.whole);
    for left in splits(whole.left, n) {
        for right in splits(whole.right, n / left) {
            for sum in splits(whole.sum, n / left / right) {
                let fit = (n / left / right / sum).min(range.len());
                let half = range.len().div_ceil(2).min(fit);
                let mut sizes = [fit, 1 << fit.ilog2(), half].to_vec();
                sizes.dedup();
                for batch in sizes {
                    for &method in goal.methods {
                        let piece = goal.piece(method, Extent { batch, left, right, sum }, range.clone(), prices);
                        if piece.is_bounded(prices) {
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
