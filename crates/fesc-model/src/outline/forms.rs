//! The forms of one layer.

use fesc_approx::transcript::Transcript;

use super::activation::{Silu, Softplus};
use super::exponential::Exponential;
use super::norm::NormForm;
use super::scales::Scales;

/// Everything public that the protocol of one block needs besides the shape.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerForms {
    /// Fractional bits.
    pub scales: Scales,
    /// The norm before the mixer.
    pub norm: NormForm,
    /// The gated norm, one group of it.
    pub gated: NormForm,
    /// SiLU of z, F bits in and out.
    pub gate: Silu,
    /// SiLU of x, out at s.x.
    pub x: Silu,
    /// SiLU of B and C, out at s.bc.
    pub bc: Silu,
    /// From dt to Delta. Compares on 14 bits, one more than the form alone needs: the server-secret threshold
    /// of the clamp may be as large as an input.
    pub softplus: Softplus,
    /// exp of sums inside a chunk, out at s.exp.
    pub chunk: Exponential,
    /// exp of sums over a segment, out at s.exp.
    pub document: Exponential,
}

impl Transcript for LayerForms {
    fn write(&self, out: &mut Vec<u64>) {
        for norm in [&self.norm, &self.gated] {
            out.extend(norm.widths());
            norm.rsqrt.write(out);
        }
        [&self.gate, &self.x, &self.bc].into_iter().for_each(|form| form.write(out));
        self.softplus.write(out);
        [&self.chunk, &self.document].into_iter().for_each(|form| form.write(out));
    }
}
