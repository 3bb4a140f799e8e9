//! Presets: which widths and which forms.

use serde::{Deserialize, Serialize};

use crate::outline::scale;

/// The form of SiLU in the fast preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiluForm {
    /// Five thresholds, error 0.027.
    Five,
    /// Ten thresholds, error 0.0085; about twice the bytes.
    Ten,
}

/// The form of exp in the fast preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpForm {
    /// Linear pieces, seven thresholds, error 0.005.
    Coarse,
    /// Linear pieces, sixteen thresholds, error 0.001.
    Fine,
    /// `(1 + y + y^2/2)^16`, error 0.00103, exact at 0 and never above 1.
    Power,
}

/// Which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Fast,
    Paper,
}

/// A named set of widths and forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Preset {
    pub(super) kind: Kind,
    pub(super) bits: u32,
    pub(super) frac: u32,
    pub(super) silu: SiluForm,
    pub(super) exp: ExpForm,
    pub(super) clamp: bool,
}

impl Preset {
    /// Ours: l = 48, F = 16, piecewise forms, block dual scan.
    pub const FAST: Self = Self {
        kind: Kind::Fast,
        bits: scale::RING.bits(),
        frac: scale::FRAC,
        silu: SiluForm::Five,
        exp: ExpForm::Power,
        clamp: true,
    };

    /// The paper's: l = 44, F = 19, MoSiLU and MoSoft D4 with tau 4, NeRMS N1, MMExp D4, token by token.
    pub const PAPER: Self = Self { kind: Kind::Paper, bits: 44, frac: 19, ..Self::FAST };

    /// `fast` or `paper`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fast" => Some(Self::FAST),
            "paper" => Some(Self::PAPER),
            _ => None,
        }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Fast => "fast",
            Kind::Paper => "paper",
        }
    }

    /// The fast preset with another SiLU; nothing changes in the paper's.
    #[must_use]
    pub fn with_silu(self, silu: SiluForm) -> Self {
        Self { silu, ..self }
    }

    /// The fast preset with another exp; nothing changes in the paper's.
    #[must_use]
    pub fn with_exp(self, exp: ExpForm) -> Self {
        Self { exp, ..self }
    }

    /// The fast preset without the server-secret clamp of A Delta (review E): only to show what it is for.
    #[cfg(test)]
    pub(super) fn without_clamp(self) -> Self {
        Self { clamp: false, ..self }
    }

    /// The forms that the fast preset leaves open; `None` in the paper's, whose forms are the paper's.
    pub(crate) fn fast_forms(&self) -> Option<(SiluForm, ExpForm)> {
        (self.kind == Kind::Fast).then_some((self.silu, self.exp))
    }

    /// Width of the ring.
    pub fn ring_bits(&self) -> u32 {
        self.bits
    }

    /// Fractional bits of activations and of the residual stream.
    pub fn frac(&self) -> u32 {
        self.frac
    }
}
