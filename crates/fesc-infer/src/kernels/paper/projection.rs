//! A matrix of a layer under CKKS: HEInProj with HEConv, or HEOutProj, between two conversions.
//!
//! Weights are the integers of the twin divided by their scale, so that the twin of the RLWE projection is
//! also this one's, up to the noise of CKKS and one rounding. Biases are added to the server's share.
//!
//! # The bound
//! A normed value is at most `2^e`, `2^e` the power of two above `sqrt w`; whatever is shared, the conversion
//! carries at most three times that ([`ToCiphertexts::largest`]). The sum of magnitudes of a column's weights
//! must be at most `8 sqrt(2 rows)` and that of a channel's taps at most [`TAPS`], public numbers that a
//! server holds its weights to before it publishes anything ([`check_weights`]). No slot of a result exceeds
//! `sqrt(2)` times the product of the three; a unit more is for noise.
//!
//! # Cost
//! Declared: one conversion up, one down. Key switches: [`fesc_hybrid::project`].

mod weights;

pub(crate) use weights::check_weights;

use std::sync::Arc;

use fesc_hybrid::backend::{Backend, Ckks, Count, Plain, PlainCt};
use fesc_hybrid::boundary::{Encoding, Fixed, Layout, MaskBound, ToCiphertexts, ToShares, Values};
use fesc_hybrid::circuit::{Circuit, Inputs, gather};
use fesc_hybrid::ckks::{Ciphertext, mask, sets};
use fesc_hybrid::project::{InProjection, Projection as OutProjection};
use fesc_hybrid::verify::{Deviation, Witness, most_lanes};
use fesc_hybrid::work::Work;
use fesc_model::twin::Twin;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;
use fesc_rlwe::linear::{Block, Server};

use crate::crossings::{Crossings, Projections};
use crate::keys;
use crate::schedule::{Schedule, Segment};
use crate::setup::Matrix;
use crate::stage::{Kit, Projection, Side, Widths};
use crate::{InferError, Result};
use weights::Integers;

/// Largest sum of magnitudes of a channel's taps.
const TAPS: f64 = 8.0;
/// Most fractional bits of a result.
const FRACTION: u32 = 20;

enum Kernel {
    In(InProjection),
    Out(OutProjection),
}

/// A projection of one layer on one segment.
pub struct CkksProjection {
    layer: usize,
    matrix: Matrix,
    segment: Segment,
    widths: Widths,
    ring: Ring,
    kernel: Kernel,
    count: Arc<Count>,
    circuit: Circuit,
    slots: usize,
    /// Fractional bits of results as they come down.
    fraction: u32,
    /// Results are divided by this power of two.
    divided: u32,
    /// Fractional bits of weights, taps and results of each part.
    scales: Vec<[u32; 3]>,
    columns: usize,
    /// Tokens that go up, the past with them.
    rows: usize,
    /// Bound on a slot of a result.
    largest: f64,
    past: usize,
}

impl CkksProjection {
    pub(crate) fn new(schedule: &Schedule, layer: usize, matrix: Matrix, segment: &Segment) -> Result<Self> {
        let (outline, crossings): (_, &Arc<Crossings>) = (schedule.outline(), schedule.crossings());
        let missing = InferError::Misuse { what: "the schedule", why: "its projections are not under encryption" };
        let projections = crossings.projections.as_ref().ok_or(missing)?;
        let (shape, f, s) = (outline.shape(), outline.frac(), schedule.forms(layer)?.scales);
        let (kernel, count, rows, columns, tokens, width) = match matrix {
            Matrix::InProj => {
                let (kernel, count) = projections.input(segment)?;
                let kernel = Kernel::In(kernel.clone());
                (kernel, count, shape.d_model, shape.proj_dim(), segment.before + segment.tokens, shape.d_model)
            }
            Matrix::OutProj => {
                let group = shape.inner() / shape.norm_groups;
                let (kernel, count) = projections.output(segment)?;
                (Kernel::Out(*kernel), count, shape.inner(), shape.d_model, segment.tokens, group)
            }
        };
        let conv = [s.conv_weight, s.conv_tap, f + s.conv_weight + s.conv_tap];
        let scales = match matrix {
            Matrix::InProj => {
                let plain = |weight| [weight, 0, f + weight];
                vec![plain(s.gate_weight), conv, conv, conv, plain(s.step_weight)]
            }
            Matrix::OutProj => vec![[s.out_weight, 0, f]],
        };
        let input = Input { values: tokens * rows, frac: f, range: (width as f64).sqrt().log2().ceil() as u32 };
        let taps = if matrix == Matrix::InProj { TAPS } else { 1.0 };
        let least = scales.iter().map(|s| s[2]).min().unwrap_or(0).min(FRACTION);
        let made = kernel.circuit(projections, crossings, &input, column_bound(rows) * taps, least)?;
        let Made { circuit, largest, fraction, divided } = made;
        let (widths, ring) = (schedule.widths(), outline.ring());
        let past = if matrix == Matrix::InProj { shape.conv_width - 1 } else { 0 };
        Ok(Self {
            layer,
            matrix,
            segment: *segment,
            widths,
            ring,
            kernel,
            count: count.clone(),
            circuit,
            slots: projections.params.slots(),
            fraction,
            divided,
            scales,
            columns,
            rows: tokens,
            largest,
            past,
        })
    }

    /// Columns of each part.
    fn parts(&self) -> Vec<std::ops::Range<usize>> {
        match self.matrix {
            Matrix::InProj => self.widths.columns().to_vec(),
            Matrix::OutProj => std::iter::once(0..self.columns).collect(),
        }
    }

    /// What a unit of each column's weights is, and of its taps.
    fn units(&self) -> [Vec<f64>; 2] {
        let mut units = [0, 1].map(|_| vec![0.0; self.columns]);
        for (columns, [weight, tap, _]) in self.parts().into_iter().zip(&self.scales) {
            units[0][columns.clone()].fill(unit(*weight));
            units[1][columns].fill(unit(*tap));
        }
        units
    }

    /// Refuses weights that give larger results than are masked. `weights(r, c)` and `taps(c, r)`, `r` tokens
    /// in the past, are the twin's integers.
    fn bounded(&self, weights: &impl Fn(usize, usize) -> i64, taps: &impl Fn(usize, usize) -> i64) -> Result<()> {
        let ([weight_units, tap_units], first) = (self.units(), self.widths.inner);
        let weights = |r: usize, c: usize| weights(r, c) as f64 * weight_units[c];
        let part = self.circuit.up.iter().map(ToCiphertexts::largest).fold(0.0, f64::max);
        let bound = match &self.kernel {
            Kernel::In(kernel) => {
                let taps = |c: usize, r: usize| taps(c, r) as f64 * tap_units[first + c];
                kernel.output_bound(&weights, &taps, &|_| 0.0, part)
            }
            Kernel::Out(kernel) => kernel.output_bound(&weights, part),
        };
        let (layer, matrix, most) = (self.layer, self.matrix.name(), self.largest);
        if bound > most { Err(InferError::WeightBound { layer, matrix, bound, most }) } else { Ok(()) }
    }

    /// The computation, on any back end, by the same.
    fn evaluate<B: Backend>(
        &self,
        backend: &B,
        weights: &(impl Fn(usize, usize) -> i64 + Sync),
        taps: &(impl Fn(usize, usize) -> i64 + Sync),
        input: &(impl Fn(usize) -> fesc_hybrid::Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        self.bounded(weights, taps)?;
        let ([weight_units, tap_units], first) = (self.units(), self.widths.inner);
        let small = unit(self.divided);
        let divided = |r: usize, c: usize| weights(r, c) as f64 * weight_units[c] * small;
        Ok(match &self.kernel {
            Kernel::In(kernel) => {
                let taps = |c: usize, r: usize| taps(c, r) as f64 * tap_units[first + c];
                kernel.run(backend, &divided, &taps, &|_| 0.0, input)?
            }
            Kernel::Out(kernel) => kernel.run(backend, &divided, input)?,
        })
    }

    /// The server's computation.
    fn serve(&self, ckks: &Ckks, server: &Server, inputs: &Inputs) -> Result<Vec<Ciphertext>> {
        let (ring, values, taps) = (self.ring, server.weights(), server.taps());
        let (first, width) = (self.widths.inner, self.past + 1);
        let weights = |r: usize, c: usize| ring.to_signed(values[r * self.columns + c]);
        let taps = |c: usize, r: usize| taps[(first + c) * width + width - 1 - r];
        self.evaluate(ckks, &weights, &taps, &|i| inputs.get(i))
    }

    /// The same in the clear, by the twin's integers.
    fn in_the_clear(&self, twin: &Twin, plain: &Plain, input: Clear<'_>) -> Result<Vec<PlainCt>> {
        let own = Integers::of(twin, self)?;
        self.evaluate(plain, &|r, c| own.weight(r, c), &|c, r| own.tap(c, r), &|i| input(i))
    }

    /// Parts at their scales, without the past, from all results.
    fn split(&self, all: &Shared) -> Result<Vec<Shared>> {
        let first = if self.matrix == Matrix::InProj { self.segment.before } else { 0 };
        let rows = all.values().chunks_exact(self.columns).skip(first);
        let mut parts = Vec::with_capacity(self.scales.len());
        for (columns, [_, _, frac]) in self.parts().into_iter().zip(&self.scales) {
            let values = rows.clone().flat_map(|row| row[columns.clone()].iter().copied()).collect();
            parts.push(Shared::new(self.ring, values).scale(1 << (frac - self.fraction)));
        }
        Ok(parts)
    }

    /// Adds the server's biases, which have the scales of the parts.
    fn add_biases(&self, parts: &mut [Shared], conv: &[i64], step: &[i64]) {
        let Widths { inner, mixed, .. } = self.widths;
        let (x, bc) = conv.split_at(inner.min(conv.len()));
        let (b, c) = bc.split_at(mixed.min(bc.len()));
        for (part, bias) in parts.iter_mut().zip([&[][..], x, b, c, step]) {
            if bias.is_empty() {
                continue;
            }
            let values = part.values().iter().zip(bias.iter().cycle());
            let sums = values.map(|(&v, &b)| self.ring.add(v, self.ring.from_signed(b))).collect();
            *part = Shared::new(self.ring, sums);
        }
    }
}

fn unit(frac: u32) -> f64 {
    (-f64::from(frac)).exp2()
}

/// What a circuit takes when it is computed in the clear.
type Clear<'a> = &'a (dyn Fn(usize) -> fesc_hybrid::Result<PlainCt> + Sync);

/// What the weights are refused for is not the back end's to say: it is set aside, and the result is empty.
fn apart<T>(made: Result<Vec<T>>, refused: &mut Option<InferError>) -> fesc_hybrid::Result<Vec<T>> {
    made.or_else(|e| match e {
        InferError::Hybrid(e) => Err(e),
        e => {
            *refused = Some(e);
            Ok(Vec::new())
        }
    })
}

/// What goes up.
struct Input {
    values: usize,
    frac: u32,
    /// Logarithm of the largest magnitude.
    range: u32,
}

/// The conversions and what follows from them.
struct Made {
    circuit: Circuit,
    /// Bound on a slot of a result, before it is divided.
    largest: f64,
    /// Fractional bits of results.
    fraction: u32,
    /// Results are divided by this power of two.
    divided: u32,
}

/// Largest sum of magnitudes of a column of weights.
fn column_bound(rows: usize) -> f64 {
    8.0 * (2.0 * rows as f64).sqrt()
}

impl Kernel {
    fn outputs(&self, i: usize) -> Vec<[Option<u32>; 2]> {
        match self {
            Self::In(k) => k.outputs(i),
            Self::Out(k) => k.outputs(i),
        }
    }

    /// The conversions; `gain` is the most by which a result exceeds an input.
    fn circuit(
        &self,
        projections: &Projections,
        crossings: &Crossings,
        input: &Input,
        gain: f64,
        fraction: u32,
    ) -> Result<Made> {
        let (params, totals, ring) = (&projections.params, crossings.totals(), fesc_model::outline::scale::RING);
        let (level, count, layout) = match self {
            Self::In(k) => {
                let kernel = k.clone();
                let layout = Layout::made(params, input.values, k.inputs(), move |i| kernel.lanes(i));
                (k.level(), k.results(), layout)
            }
            Self::Out(k) => {
                let kernel = *k;
                let layout = Layout::made(params, input.values, k.inputs(), move |i| kernel.lanes(i));
                (k.level(), k.results(), layout)
            }
        };
        let inference = totals.values.next_power_of_two();
        let values = Values { ring, bits: input.frac + input.range + 1, fraction: input.frac, inference };
        let encoding = Encoding::slots(level, projections.chain.scale(level));
        let up = ToCiphertexts::new(params, layout, values, encoding)?;
        let largest = std::f64::consts::SQRT_2 * up.largest() * gain;
        let (masked, scale) = (totals.masked.next_power_of_two(), projections.chain.scale(sets::BOUNDARY));
        let phase = |g: u32| (scale * (largest * (-f64::from(g)).exp2() + 1.0)).log2().ceil() as u32;
        let log_q = params.log_q(sets::BOUNDARY).map_err(fesc_hybrid::HybridError::from)?;
        let most = mask::MAX_WIDTH.min(log_q as u32 - 2);
        let divided = (0..=32).find(|&g| mask::mask_width(phase(g), masked) <= most).unwrap_or(32);
        let bound = MaskBound { phase_bits: phase(divided), masked };
        let down = |fraction: u32| {
            let fixed = Fixed { ring, fraction: fraction + divided };
            ToShares::new(params, count, scale, bound, fixed).map(|down| (down, fraction))
        };
        let (down, fraction) =
            (0..fraction).rev().map(|f| down(f + 1)).find(|d| d.is_ok()).unwrap_or_else(|| down(0))?;
        Ok(Made { circuit: Circuit { up: vec![up], down: vec![down] }, largest, fraction, divided })
    }
}

impl Projection for CkksProjection {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        Ok(self.circuit.declare(ledger)?)
    }

    fn work(&self) -> Option<Work> {
        Work::new(&self.circuit, &self.count)
    }

    fn deviation(&self, twin: &Twin, witness: &Witness) -> Result<Option<Deviation>> {
        let mut refused = None;
        let evaluate = |plain: &Plain, input: Clear<'_>| apart(self.in_the_clear(twin, plain, input), &mut refused);
        let deviation = self.circuit.deviation(witness, evaluate);
        if let Some(refused) = refused {
            return Err(refused);
        }
        let names = (0..self.circuit.down.iter().map(ToShares::ciphertexts).sum()).map(|i| self.kernel.outputs(i));
        let lanes = most_lanes(self.rows * self.columns, names);
        Ok(Some(deviation?.of_values([f64::from(self.divided).exp2(), 1.0], [lanes, 0])))
    }

    fn past(&self) -> usize {
        self.past
    }

    fn ahead(&self) -> &[Block] {
        &[]
    }

    fn run(&self, party: &mut Party, kit: Kit<'_, '_>, x: &Shared) -> Result<Vec<Shared>> {
        let setup = match &kit {
            Side::Client(_) => None,
            Side::Server(kit) => Some(kit.setup),
        };
        let server = setup.map(|setup| setup.matrix(self.layer, self.matrix)).transpose()?;
        let none = InferError::Misuse { what: "keys of the projections", why: "a session must bring them" };
        let keys = keys::of(kit.keys(), |k| &mut k.project, |k| &k.project).ok_or(none)?;
        let mut refused = None;
        let lanes = self.circuit.run(party, keys, &[x], |ckks, inputs| {
            let Some(server) = &server else { return Ok(Vec::new()) };
            apart(self.serve(ckks, server, inputs), &mut refused)
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        let none = InferError::Size { what: "ways down of a projection", expected: 1, got: 0 };
        let lanes = lanes?.pop().ok_or(none)?;
        let all = gather(self.ring, &lanes, self.slots, self.rows * self.columns, |i| self.kernel.outputs(i))?;
        let mut parts = self.split(&all)?;
        if let (Some(setup), Matrix::InProj) = (setup, self.matrix) {
            let vectors = setup.vectors(self.layer)?;
            self.add_biases(&mut parts, &vectors.conv_bias, &vectors.step_bias);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests;
