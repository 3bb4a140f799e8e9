//! The conversions around a kernel: how wide what goes up is, how large what comes down can be.

use std::sync::Arc;

use fesc_hybrid::HybridError;
use fesc_hybrid::boundary::{Fixed, MaskBound, ToCiphertexts, ToShares, Values};
use fesc_hybrid::circuit::Circuit;
use fesc_model::outline::scale::{PUSHED, RING};
use fesc_model::outline::{Ranges, Scales};

use super::Totals;
use super::geometry::{Geometry, Kind};
use crate::hescan::HeScan;
use crate::{Result, ScanError};

/// Largest width of a mask.
const WIDEST: u32 = fesc_ckks::mask::MAX_WIDTH;

/// The conversions, and the fractional bits of what comes down.
pub(super) struct Conversions {
    pub circuit: Circuit,
    /// Of outputs.
    pub outputs: u32,
    /// Of the state that is handed on; 0 if none is.
    pub states: u32,
    /// Outputs and states are divided by these powers of two under encryption.
    pub divided: [u32; 2],
}

/// Bits of a value with its sign.
fn width(range: i32, frac: u32) -> Result<u32> {
    let bits = i64::from(frac) + i64::from(range) + 1;
    let refused = ScanError::Scale { what: "a tensor of the packet", bits };
    u32::try_from(bits).ok().filter(|b| (2..RING.bits()).contains(b)).ok_or(refused)
}

/// The largest of x, B, C and of the state that enters, as they go up.
struct Largest {
    x: f64,
    b: f64,
    c: f64,
    state: f64,
}

impl Largest {
    /// What a factor may be off by: 512 deviations of the set's noise. Parts of a packed ciphertext have
    /// sixteen times the error of a fresh one, which is below that.
    fn error(geometry: &Geometry) -> f64 {
        (9.0 - geometry.chosen().set.precision()).exp2()
    }

    /// What errors of decays make of a sum at most.
    fn decays(geometry: &Geometry) -> f64 {
        (1.0 + Self::error(geometry)).powi(geometry.shape().tokens as i32)
    }

    /// The largest magnitude of a slot of a state that is handed on.
    fn of_states(&self, geometry: &Geometry) -> f64 {
        let e = Self::error(geometry);
        let updates = geometry.shape().tokens as f64 * (self.x + e) * (self.b + e);
        // A unit for what the last steps and the fresh zero add, here and below.
        std::f64::consts::SQRT_2 * Self::decays(geometry) * (updates + self.entering(e)) + 1.0
    }

    /// The largest magnitude of a slot of outputs.
    fn of_outputs(&self, geometry: &Geometry) -> f64 {
        let (kernel, e) = (&geometry.chosen().kernel, Self::error(geometry));
        let products = kernel.terms() as f64 * (self.x + e) * (self.b + e);
        let entered = geometry.shape().state as f64 * self.entering(e);
        std::f64::consts::SQRT_2 * Self::decays(geometry) * (products + entered) * (self.c + e) + 1.0
    }

    fn entering(&self, error: f64) -> f64 {
        if self.state > 0.0 { self.state + error } else { 0.0 }
    }
}

impl Conversions {
    /// Of a kernel, for a layer's scales and ranges.
    pub fn new(geometry: &Arc<Geometry>, s: &Scales, ranges: &Ranges, totals: Totals) -> Result<Self> {
        let params = geometry.params();
        let [carry_in, carry_out] = geometry.carried();
        let up = |kind: Kind, bits: u32, fraction: u32| {
            let values = Values { ring: RING, bits, fraction, inference: totals.values.next_power_of_two() };
            ToCiphertexts::with_encodings(params, geometry.layout(kind), values, geometry.encodings(kind))
        };
        // As wide as the state may be, and a bit of sign.
        let state = RING.bits() - 1 - s.exp;
        let bc = width(ranges.bc, s.bc)?;
        let x = up(Kind::X, width(ranges.pushed, PUSHED)?, PUSHED)?;
        let b = up(Kind::B, bc, s.bc)?;
        let h = if carry_in { Some(up(Kind::State, state, s.state)?) } else { None };
        let largest = |first: u32, second: u32| {
            let small = (-f64::from(first)).exp2();
            let state = h.as_ref().map_or(0.0, ToCiphertexts::largest) * small;
            Largest { x: x.largest() * small, b: b.largest(), c: b.largest() * (-f64::from(second)).exp2(), state }
        };
        let (scale, masked) = (geometry.result_scale(), totals.masked.next_power_of_two());
        let phase = |largest: f64| (scale * largest).log2().ceil() as u32;
        let most = WIDEST.min(params.log_q(geometry.floor()).map_err(HybridError::from)? as u32 - 2);
        let fits = |phase: u32| fesc_ckks::mask::mask_width(phase, masked) <= most;
        let of_states = |first: u32| phase(largest(first, 0).of_states(geometry));
        let first = (0..=32).find(|&g| !carry_out || fits(of_states(g))).unwrap_or(32);
        let of_outputs = |second: u32| phase(largest(first, second).of_outputs(geometry));
        let second = (0..=32).find(|&g| fits(of_outputs(g))).unwrap_or(32);
        let down = |count: usize, phase_bits: u32, divided: u32, most: u32| {
            let bound = MaskBound { phase_bits, masked };
            let with = |fraction: u32| {
                let fixed = Fixed { ring: RING, fraction: fraction + divided };
                ToShares::new(params, count, scale, bound, fixed).map(|down| (down, fraction))
            };
            // As many bits as the arithmetic of decoding has.
            (0..most).rev().map(|f| with(f + 1)).find(|d| d.is_ok()).unwrap_or_else(|| with(0))
        };
        let (outputs, states) = geometry.results_by_kind();
        let (down_outputs, fraction) = down(outputs, of_outputs(second), first + second, s.scanned)?;
        let mut conversions = Self {
            circuit: Circuit { up: Vec::new(), down: vec![down_outputs] },
            outputs: fraction,
            states: 0,
            divided: [first + second, first],
        };
        if carry_out {
            let (down_states, fraction) = down(states, of_states(first), first, s.state)?;
            conversions.circuit.down.push(down_states);
            conversions.states = fraction;
        }
        let x = if first == 0 { x } else { up(Kind::X, x.values().bits, PUSHED + first)? };
        let h = match h {
            Some(_) if first > 0 => Some(up(Kind::State, state, s.state + first)?),
            h => h,
        };
        // Decays are at most 1, exactly.
        let (decays, c) = (up(Kind::Decays, s.exp + 2, s.exp)?, up(Kind::C, bc, s.bc + second)?);
        conversions.circuit.up = [x, decays, b, c].into_iter().chain(h).collect();
        Ok(conversions)
    }
}
