//! The steps of [`Dual`](super::Dual) on shares, in the order of its schedule.

use fesc_model::outline::scale::DELTA;
use fesc_mpc::protocol::Opened;
use fesc_mpc::{Party, Role, Shared};

use super::Dual;
use super::layout::{add_to_diagonal, by_head, fill_level, lower_of, on_diagonal, pad, sums, triangle};
use super::segment::Part;
use super::steps::{exponential, rescale};
use super::tree::Target;
use super::wiring::Wires;
use crate::Result;
use crate::contract::{Carry, Packet};
use crate::error::{check, check_presence};

/// Tensors on their way to one opening.
type Ready = Vec<(usize, Shared)>;

/// What the exps give. `columns` and `rows` are `[chunk][token][head]`.
struct Exps {
    /// By level, `[chunk][head][node][right]`.
    rights: Vec<Shared>,
    rows: Shared,
    /// Left factors, then columns: exp and the Delta that it is multiplied by.
    scaled: Shared,
    deltas: Shared,
    /// How many of them are left factors.
    lefts: usize,
}

impl Dual {
    pub(super) fn execute(
        &self,
        party: &mut Party,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)> {
        self.check(party.role(), packet, skip, carry)?;
        let (s, d, w, q) = (&self.scales, &self.dims, &self.wiring, self.segment.q);
        let (tile, tokens, states) = (triangle(q), q * d.inner(), d.state * d.inner());

        let delta = by_head(&self.segment, &packet.delta, d.heads());
        let sums = sums(q, &by_head(&self.segment, &packet.z, d.heads()));
        let exps = exponential(party, &self.chunk, self.exponents(&sums))?;
        let decays = exponential(party, &self.document, self.between(&sums))?;
        let exps = self.place(&exps, &delta);

        let mut opened = Opened::start(party, &w.bundle)?;
        let mut ready = self.inputs(packet, &exps.rows)?;
        if let Some(f) = &w.factors {
            ready.extend([(f.left, exps.scaled), (f.right, exps.deltas)]);
        }
        ready.extend(w.levels.iter().map(|l| l.left).zip(exps.rights));
        ready.extend(w.chain.map(|c| (c.left, self.decay_matrix(party.role(), &decays))));
        open(&mut opened, party, ready)?;

        let mut scores = Vec::with_capacity(self.segment.chunks * d.groups * tile);
        for wires in &w.parts {
            lower_of(q, opened.product(wires.scores)?.values(), &mut scores);
        }
        let scores = rescale(party, Shared::new(self.ring, scores), 2 * s.bc, s.score)?;
        let scaled = match &w.factors {
            Some(f) => opened.product(f.product)?,
            None => self.empty(),
        };
        let lefts = rescale(party, scaled.slice(0..exps.lefts)?, s.exp + DELTA, DELTA)?;
        let columns = Shared::concat(&[&scaled.slice(exps.lefts..scaled.len())?, &self.last_columns(&delta)])?;
        let columns = rescale(party, columns, s.exp + DELTA, s.column)?;
        let mut ready = self.split(&scores, 0, d.groups * tile, |w| Some(w.score))?;
        ready.extend(w.levels.iter().map(|l| l.right).zip(self.lefts(&lefts, &delta)));
        ready.extend(self.split(&self.columns(&columns), 0, q * d.heads(), |w| Some(w.kept?.column))?);
        open(&mut opened, party, ready)?;

        let mut lower = on_diagonal(self.ring, q, delta.values(), 1 << s.exp);
        for (level, pair) in self.levels.iter().zip(&w.levels) {
            fill_level(q, level, opened.product(pair.product)?.values(), &mut lower);
        }
        let lower = rescale(party, Shared::new(self.ring, lower), s.exp + DELTA, DELTA)?;
        let weighted = self.gather(&mut opened, |w| Some(w.kept?.push))?;
        let weighted = rescale(party, weighted, s.column + s.x, s.weighted)?;
        let mut ready = self.split(&lower, 0, d.heads() * tile, |w| Some(w.lower))?;
        ready.extend(self.split(&weighted, 0, tokens, |w| Some(w.kept?.weighted))?);
        drop((lower, weighted));
        open(&mut opened, party, ready)?;

        let mixed = self.gather(&mut opened, |w| Some(w.mix))?;
        let mut mixed = rescale(party, mixed, s.score + DELTA, s.mixed)?;
        if let Some(skip) = skip {
            mixed = add_to_diagonal(q, mixed, skip);
        }
        let own = self.gather(&mut opened, |w| Some(w.kept?.states))?;
        let own = rescale(party, own, s.bc + s.weighted, s.state)?;
        let sources = match carry {
            Some(carry) => Shared::concat(&[&carry.state, &own])?,
            None => own,
        };
        let mut ready = self.split(&mixed, 0, d.heads() * tile, |w| Some(w.mixed))?;
        ready.extend(w.chain.map(|c| (c.right, sources.clone())));
        drop(mixed);
        open(&mut opened, party, ready)?;

        let y = self.gather(&mut opened, |w| Some(w.output))?;
        // One state alone is its own sum.
        let state = match &w.chain {
            Some(chain) => rescale(party, opened.product(chain.product)?, s.exp + s.state, s.state)?,
            None => sources,
        };
        let y = if w.parts.iter().any(|w| w.entered.is_some()) {
            self.add_states(party, &mut opened, y, &state)?
        } else {
            y
        };
        let y = y.slice(0..self.segment.tokens * d.inner())?;
        let y = rescale(party, y, s.mixed + s.x, s.scanned)?;
        let after = self.segment.carry_out.then(|| state.slice(state.len() - states..state.len()));
        Ok((y, after.transpose()?.map(|state| Carry { state })))
    }

    fn check(&self, role: Role, packet: &Packet, skip: Option<&[i64]>, carry: Option<&Carry>) -> Result<()> {
        let (d, t) = (&self.dims, self.segment.tokens);
        let sizes = [
            ("x of a packet", &packet.x, t * d.inner()),
            ("B of a packet", &packet.b, t * d.width()),
            ("C of a packet", &packet.c, t * d.width()),
            ("Delta of a packet", &packet.delta, t * d.heads()),
            ("A Delta of a packet", &packet.z, t * d.heads()),
        ];
        let carried = carry.map(|c| ("state of a carry", &c.state, d.state * d.inner()));
        for (what, tensor, expected) in sizes.into_iter().chain(carried) {
            check(what, expected, tensor.len())?;
            check("ring width of a packet", self.ring.bits() as usize, tensor.ring().bits() as usize)?;
        }
        check_presence("the skip D", role == Role::P1, skip.is_some())?;
        check_presence("a carry", self.segment.carry_in, carry.is_some())?;
        check("skip D", d.heads(), skip.map_or(d.heads(), <[i64]>::len))
    }

    fn empty(&self) -> Shared {
        Shared::new(self.ring, Vec::new())
    }

    fn parts(&self) -> impl Iterator<Item = (&Part, &Wires)> {
        self.segment.parts.iter().zip(&self.wiring.parts)
    }

    /// `[chunk][head][exp of the chunk]`.
    fn exponents(&self, sums: &Shared) -> Shared {
        let heads = self.dims.heads();
        let sums = sums.values().chunks_exact(self.segment.q + 1);
        let lists = self.factors.iter().flat_map(|list| std::iter::repeat_n(list, heads));
        let out = sums.zip(lists).flat_map(|(s, list)| list.iter().map(|f| s[f.high].wrapping_sub(s[f.low])));
        Shared::new(self.ring, out.collect())
    }

    /// Sums between the ends of chunks: `[head][row][column < row]`. A carry ends where the segment begins.
    fn between(&self, sums: &Shared) -> Shared {
        let (seg, heads, q) = (&self.segment, self.dims.heads(), self.segment.q);
        let side = seg.states();
        let mut out = Vec::with_capacity(heads * triangle(side));
        for head in 0..heads {
            let mut end = 0u64;
            let ends = (0..side).map(|state| {
                if state >= usize::from(seg.carry_in) {
                    let chunk = state - usize::from(seg.carry_in);
                    end = end.wrapping_add(sums.values()[(chunk * heads + head) * (q + 1) + q]);
                }
                end
            });
            let ends = Shared::new(self.ring, ends.collect());
            for (row, &to) in ends.values().iter().enumerate() {
                out.extend(ends.values()[..row].iter().map(|&from| to.wrapping_sub(from)));
            }
        }
        Shared::new(self.ring, out)
    }

    /// Sorts the exps by what they are for.
    fn place(&self, exps: &Shared, delta: &Shared) -> Exps {
        let (heads, q) = (self.dims.heads(), self.segment.q);
        let pairs = self.segment.chunks * heads;
        let mut rights: Vec<Vec<u64>> = self.levels.iter().map(|l| vec![0; pairs * l.nodes * l.rights]).collect();
        let mut rows = vec![0; pairs * q];
        // Room for all: a vector that grows leaves copies of shares behind.
        let room = || Vec::with_capacity(exps.len());
        let (mut left, mut column) = ((room(), room()), (room(), room()));
        let mut next = exps.values().iter().copied();
        for (c, list) in self.factors.iter().enumerate() {
            for head in 0..heads {
                let at = c * heads + head;
                for (f, e) in list.iter().zip(&mut next) {
                    match f.to {
                        Target::Right { level, slot } => {
                            let l = &self.levels[level];
                            rights[level][at * l.nodes * l.rights + slot] = e;
                        }
                        Target::Left { token, .. } => {
                            left.0.push(e);
                            left.1.push(delta.values()[at * q + token]);
                        }
                        Target::Column { token } => {
                            column.0.push(e);
                            column.1.push(delta.values()[at * q + token]);
                        }
                        Target::Row { token } => rows[(c * q + token) * heads + head] = e,
                    }
                }
            }
        }
        let lefts = left.0.len();
        left.0.append(&mut column.0);
        left.1.append(&mut column.1);
        let shared = |v| Shared::new(self.ring, v);
        let rights = rights.into_iter().map(shared).collect();
        Exps { rights, rows: shared(rows), scaled: shared(left.0), deltas: shared(left.1), lefts }
    }

    /// Left factors by level, `[chunk][head][node][left]`: products where there is an exp, Delta itself next to a midpoint.
    fn lefts(&self, products: &Shared, delta: &Shared) -> Vec<Shared> {
        let (heads, q) = (self.dims.heads(), self.segment.q);
        let of_level = |l: &super::tree::Level| {
            let mut out = vec![0; self.segment.chunks * heads * l.nodes * l.half];
            for (out, delta) in out.chunks_exact_mut(l.nodes * l.half).zip(delta.values().chunks_exact(q)) {
                (0..l.nodes).for_each(|node| out[(node + 1) * l.half - 1] = delta[l.mid(node) - 1]);
            }
            out
        };
        let mut out: Vec<Vec<u64>> = self.levels.iter().map(of_level).collect();
        let mut next = products.values().iter().copied();
        for (at, list) in self.factors.iter().flat_map(|list| std::iter::repeat_n(list, heads)).enumerate() {
            let targets = list.iter().filter_map(|f| match f.to {
                Target::Left { level, slot, .. } => Some((level, slot)),
                _ => None,
            });
            for ((level, slot), v) in targets.zip(&mut next) {
                let l = &self.levels[level];
                out[level][at * l.nodes * l.half + slot] = v;
            }
        }
        out.into_iter().map(|v| Shared::new(self.ring, v)).collect()
    }

    /// exp(0) Delta of the last token of every kept chunk, by chunk and head, at the scale of a product.
    fn last_columns(&self, delta: &Shared) -> Shared {
        let (seg, heads) = (&self.segment, self.dims.heads());
        let kept = (0..seg.chunks).filter(|&c| seg.kept(c));
        let last = kept.flat_map(|c| (0..heads).map(move |h| (c * heads + h) * seg.q + seg.real(c) - 1));
        Shared::new(self.ring, last.map(|at| delta.values()[at] << self.scales.exp).collect())
    }

    /// `col` as `[chunk][token][head]` from the rounded products and the last tokens behind them.
    fn columns(&self, products: &Shared) -> Shared {
        let (seg, heads) = (&self.segment, self.dims.heads());
        let mut out = vec![0; seg.chunks * seg.q * heads];
        let mut next = products.values().iter().copied();
        let kept = || (0..seg.chunks).filter(|&c| seg.kept(c)).flat_map(|c| (0..heads).map(move |h| (c, h)));
        for (c, head) in kept() {
            for (token, v) in (0..seg.real(c) - 1).zip(&mut next) {
                out[(c * seg.q + token) * heads + head] = v;
            }
        }
        for ((c, head), v) in kept().zip(next) {
            out[(c * seg.q + seg.real(c) - 1) * heads + head] = v;
        }
        Shared::new(self.ring, out)
    }

    /// The decays as lower matrices `[head]`, with the public 1 on their diagonals.
    fn decay_matrix(&self, role: Role, decays: &Shared) -> Shared {
        let side = self.segment.states();
        let one = role.at_p0(1 << self.scales.exp);
        let mut next = decays.values().iter().copied();
        let mut out = Vec::with_capacity(self.dims.heads() * triangle(side));
        for _ in 0..self.dims.heads() {
            for row in 0..side {
                out.extend(next.by_ref().take(row));
                out.push(one);
            }
        }
        Shared::new(self.ring, out)
    }

    /// What is open from the start, part by part.
    fn inputs(&self, packet: &Packet, rows: &Shared) -> Result<Ready> {
        let (d, q) = (&self.dims, self.segment.q);
        let mut ready = Ready::new();
        for (tensor, width, mask) in [
            (&packet.b, d.width(), (|w| Some(w.b)) as fn(&Wires) -> Option<usize>),
            (&packet.c, d.width(), |w| Some(w.c)),
            (&packet.x, d.inner(), |w| Some(w.x)),
        ] {
            ready.extend(self.split(&pad(&self.segment, tensor, width)?, 0, q * width, mask)?);
        }
        ready.extend(self.split(rows, 0, q * d.heads(), |w| Some(w.entered?.row))?);
        Ok(ready)
    }

    /// Cuts a tensor that begins with chunk `first` into the parts that have a mask for it.
    fn split(
        &self,
        tensor: &Shared,
        first: usize,
        per_chunk: usize,
        mask: impl Fn(&Wires) -> Option<usize>,
    ) -> Result<Ready> {
        let parts = self.parts().filter_map(|(part, wires)| Some((part, mask(wires)?)));
        let cut = parts.map(|(part, mask)| {
            let from = part.from - first;
            Ok((mask, tensor.slice(from * per_chunk..(from + part.count) * per_chunk)?))
        });
        cut.collect()
    }

    /// One product of all parts that have it, one after the other.
    fn gather(&self, opened: &mut Opened, product: impl Fn(&Wires) -> Option<usize>) -> Result<Shared> {
        let products = self.wiring.parts.iter().filter_map(product);
        let found: Vec<Shared> = products.map(|p| Ok(opened.product(p)?)).collect::<Result<_>>()?;
        if found.is_empty() {
            return Ok(self.empty());
        }
        Ok(Shared::concat(&found.iter().collect::<Vec<_>>())?)
    }

    /// `y + row o (C H)` for the entered chunks, which are all from the first entered one on.
    fn add_states(&self, party: &mut Party, opened: &mut Opened, y: Shared, state: &Shared) -> Result<Shared> {
        let (s, d, seg) = (&self.scales, &self.dims, &self.segment);
        let first = usize::from(!seg.carry_in);
        let (tokens, states) = (seg.q * d.inner(), d.state * d.inner());
        let entering = state.slice(0..(seg.chunks - first) * states)?;
        open(opened, party, self.split(&entering, first, states, |w| Some(w.entered?.state))?)?;
        let carried = self.gather(opened, |w| Some(w.entered?.contract))?;
        let carried = rescale(party, carried, s.bc + s.state, s.mixed + s.x - s.exp)?;
        open(opened, party, self.split(&carried, first, tokens, |w| Some(w.entered?.carried))?)?;
        let carried = self.gather(opened, |w| Some(w.entered?.decay))?;
        let whole = y.slice(first * tokens..y.len())?.add(&carried)?;
        Ok(Shared::concat(&[&y.slice(0..first * tokens)?, &whole])?)
    }
}

fn open(opened: &mut Opened, party: &mut Party, ready: Ready) -> Result<()> {
    let tensors: Vec<(usize, &Shared)> = ready.iter().map(|(mask, tensor)| (*mask, tensor)).collect();
    Ok(opened.open(party, &tensors)?)
}
