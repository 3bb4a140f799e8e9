//! The steps of [`Dual`] on shares, in the order of its schedule.

use fesc_model::outline::scale::DELTA;
use fesc_mpc::protocol::Opened;
use fesc_mpc::{Ledger, Party, Role, Shared};

use super::Dual;
use super::layout::{add_to_diagonal, by_head, fill_level, lower_of, on_diagonal, pad, sums, triangle};
use super::tree::Target;
use super::wiring::EnteredChunk;
use crate::Result;
use crate::contract::{Carry, Packet, Scan, Sizes};
use crate::exponential::{exponential, rescale};
use fesc_hybrid::keys::Keys;

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

impl Scan for Dual {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.schedule().iter().try_for_each(|(_, action)| self.declare_one(action, ledger))
    }

    fn run(
        &self,
        party: &mut Party,
        _keys: Option<Keys<'_>>,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)> {
        self.sizes().check(party.role(), packet, skip, carry)?;
        let (s, d, w, q) = (&self.scales, &self.dims, &self.wiring, self.segment.q);
        let states = d.state * d.inner();

        let delta = by_head(&self.segment, &packet.delta, d.heads());
        let sums = sums(q, &by_head(&self.segment, &packet.z, d.heads()));
        let exps = exponential(party, &self.chunk, self.exponents(&sums))?;
        let decays = exponential(party, &self.document, self.between(&sums))?;
        let exps = self.place(&exps, &delta);

        let c = &w.chunks;
        let mut opened = Opened::start(party, &w.bundle)?;
        let mut ready = self.inputs(packet)?;
        ready.extend(c.entered.map(|e| (e.row, exps.rows)));
        if let Some(f) = &w.factors {
            ready.extend([(f.left, exps.scaled), (f.right, exps.deltas)]);
        }
        ready.extend(w.levels.iter().map(|l| l.left).zip(exps.rights));
        ready.extend(w.chain.map(|c| (c.left, self.decay_matrix(party.role(), &decays))));
        open(&mut opened, party, ready)?;

        let scores = lower_of(q, &opened.product(c.scores)?);
        let scores = rescale(party, scores, 2 * s.bc, s.score)?;
        let scaled = self.product(&mut opened, w.factors.map(|f| f.product))?;
        let lefts = rescale(party, scaled.slice(0..exps.lefts)?, s.exp + DELTA, DELTA)?;
        let columns = Shared::concat(&[&scaled.slice(exps.lefts..scaled.len())?, &self.last_columns(&delta)])?;
        let columns = rescale(party, columns, s.exp + DELTA, s.column)?;
        let mut ready = vec![(c.score, scores)];
        ready.extend(w.levels.iter().map(|l| l.right).zip(self.lefts(&lefts, &delta)));
        ready.extend(c.kept.map(|k| (k.column, self.columns(&columns))));
        open(&mut opened, party, ready)?;

        let mut lower = on_diagonal(self.ring, q, delta.values(), 1 << s.exp);
        for (level, pair) in self.levels.iter().zip(&w.levels) {
            fill_level(q, level, opened.product(pair.product)?.values(), &mut lower);
        }
        let lower = rescale(party, Shared::new(self.ring, lower), s.exp + DELTA, DELTA)?;
        let weighted = self.product(&mut opened, c.kept.map(|k| k.push))?;
        let weighted = rescale(party, weighted, s.column + s.x, s.weighted)?;
        let mut ready = vec![(c.lower, lower)];
        ready.extend(c.kept.map(|k| (k.weighted, weighted)));
        open(&mut opened, party, ready)?;

        let mut mixed = rescale(party, opened.product(c.mix)?, s.score + DELTA, s.mixed)?;
        if let Some(skip) = skip {
            mixed = add_to_diagonal(q, mixed, skip);
        }
        let own = self.product(&mut opened, c.kept.map(|k| k.states))?;
        let own = own.slice(0..self.segment.kept_chunks() * states)?;
        let own = rescale(party, own, s.bc + s.weighted, s.state)?;
        let sources = match carry {
            Some(carry) => Shared::concat(&[&carry.state, &own])?,
            None => own,
        };
        let mut ready = vec![(c.mixed, mixed)];
        ready.extend(w.chain.map(|c| (c.right, sources.clone())));
        open(&mut opened, party, ready)?;

        let mut y = opened.product(c.output)?;
        // One state alone is its own sum.
        let state = match &w.chain {
            Some(chain) => rescale(party, opened.product(chain.product)?, s.exp + s.state, s.state)?,
            None => sources,
        };
        if let Some(entered) = &c.entered {
            y = y.add(&self.entered_output(party, &mut opened, entered, &state)?)?;
        }
        let y = y.slice(0..self.segment.tokens * d.inner())?;
        let y = rescale(party, y, s.mixed + s.x, s.scanned)?;
        let after = self.segment.carry_out.then(|| state.slice(state.len() - states..state.len()));
        Ok((y, after.transpose()?.map(|state| Carry { state })))
    }
}

impl Dual {
    /// B, C and x with their masks, padded to whole chunks.
    fn inputs(&self, packet: &Packet) -> Result<Vec<(usize, Shared)>> {
        let (seg, c, d) = (&self.segment, &self.wiring.chunks, &self.dims);
        let wide = |x: &Shared| pad(seg, x, d.width());
        Ok(vec![(c.b, wide(&packet.b)?), (c.c, wide(&packet.c)?), (c.x, pad(seg, &packet.x, d.inner())?)])
    }

    fn sizes(&self) -> Sizes {
        let (d, tokens) = (&self.dims, self.segment.tokens);
        let (heads, inner, width, state) = (d.heads(), d.inner(), d.width(), d.state);
        Sizes { tokens, heads, inner, width, state, carried: self.segment.carry_in }
    }

    /// A product, or nothing where there is none.
    fn product(&self, opened: &mut Opened, product: Option<usize>) -> Result<Shared> {
        Ok(match product {
            Some(product) => opened.product(product)?,
            None => Shared::new(self.ring, Vec::new()),
        })
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

    /// Left factors by level, `[chunk][head][node][left]`: products where there is an exp, Delta itself next
    /// to a midpoint.
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

    /// `row o (C H)`, with H = 0 before a first chunk that nothing enters.
    fn entered_output(
        &self,
        party: &mut Party,
        opened: &mut Opened,
        wires: &EnteredChunk,
        state: &Shared,
    ) -> Result<Shared> {
        let (s, d, seg) = (&self.scales, &self.dims, &self.segment);
        let states = d.state * d.inner();
        let none = Shared::new(self.ring, vec![0; (seg.chunks - seg.entered_chunks()) * states]);
        let entering = Shared::concat(&[&none, &state.slice(0..seg.entered_chunks() * states)?])?;
        open(opened, party, vec![(wires.state, entering)])?;
        let carried = rescale(party, opened.product(wires.contract)?, s.bc + s.state, s.mixed + s.x - s.exp)?;
        open(opened, party, vec![(wires.carried, carried)])?;
        Ok(opened.product(wires.decay)?)
    }
}

fn open(opened: &mut Opened, party: &mut Party, ready: Ready) -> Result<()> {
    let tensors: Vec<(usize, &Shared)> = ready.iter().map(|(mask, tensor)| (*mask, tensor)).collect();
    Ok(opened.open(party, &tensors)?)
}
