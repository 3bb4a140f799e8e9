//! A plan: which kernel computes each stage of a block, and with which numbers. Public data.
//!
//! | stage | `fast` | `paper` |
//! |---|---|---|
//! | numbers | l = 48, F = 16, scales from calibration | l = 44, F = 19 everywhere |
//! | projections and convolution | RLWE linear layer | CKKS, rounded between the two |
//! | selective scan | block dual form on shares | HEScan, token by token |
//! | activations | piecewise by shared thresholds | MoSiLU and MoSoft D4, MMExp D4 |
//! | norms | inverse root from buckets, two Newton steps | NeRMS N1 |
//!
//! The twin computes both plans, and refuses choices that it does not compute together by name; which plans
//! two parties can run is `fesc-infer`'s to say, in the one file that turns a plan into kernels. An
//! [`Outline`](crate::Outline) carries its plan, so both parties have the same.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outline::Scales;
use crate::outline::scale;

/// Widths and fractional bits that do not depend on the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Width of the ring of shares.
    pub bits: u32,
    /// Fractional bits F of activations and of the residual stream.
    pub frac: u32,
    /// Width in which sums of a linear layer are truncated; 63 where they are computed outside the ring.
    pub product_bits: u32,
    /// Fractional bits of Delta.
    pub delta: u32,
    /// Fractional bits of dt before softplus.
    pub step: u32,
    /// Fractional bits of the embedding table.
    pub table: u32,
    /// Fractional bits of the pooling vector.
    pub pool: u32,
    /// Every other tensor has F bits too; else its scale comes from calibration.
    pub uniform: bool,
}

/// What computes the projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projection {
    /// One RLWE message from the client; the convolution is folded in. Adds noise of a few units.
    Rlwe,
    /// CKKS between two conversions; the projection is rounded before the convolution.
    Ckks,
}

/// What computes the selective scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// The block dual form on shares.
    Dual,
    /// The recurrence under CKKS.
    HeScan,
}

/// What computes SiLU, softplus and exp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// Pieces between shared thresholds.
    Piecewise {
        /// SiLU.
        silu: SiluForm,
        /// exp of sums of A Delta.
        exp: ExpForm,
        /// A Delta is clamped by a threshold of the server's.
        clamp: bool,
    },
    /// The paper's polynomials of degree four.
    Polynomial,
}

/// What computes the inverse root of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// A linear start by bucket, two Newton steps.
    Buckets,
    /// NeRMS with one Newton step.
    Nerms,
}

/// The form of SiLU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiluForm {
    /// Five thresholds, error 0.027.
    Five,
    /// Ten thresholds, error 0.0085; about twice the bytes.
    Ten,
}

/// The form of exp.
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

/// A kernel for each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Widths and scales.
    pub numbers: Numbers,
    /// Projections and convolution.
    pub projection: Projection,
    /// The selective scan.
    pub scan: Scan,
    /// SiLU, softplus, exp.
    pub activations: Activations,
    /// Norms.
    pub norm: Norm,
}

/// A name that no plan has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlan(String);

impl fmt::Display for UnknownPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Plan::NAMED.iter().map(|(name, _)| *name).collect();
        write!(f, "there is no plan {:?}; known are {}", self.0, known.join(" and "))
    }
}

impl std::error::Error for UnknownPlan {}

impl Plan {
    /// Ours.
    pub const FAST: Self = Self {
        numbers: Numbers {
            bits: scale::RING.bits(),
            frac: scale::FRAC,
            product_bits: scale::RING.bits(),
            delta: scale::DELTA,
            step: scale::STEP,
            table: scale::TABLE,
            pool: scale::POOL,
            uniform: false,
        },
        projection: Projection::Rlwe,
        scan: Scan::Dual,
        activations: Activations::Piecewise { silu: SiluForm::Five, exp: ExpForm::Power, clamp: true },
        norm: Norm::Buckets,
    };

    /// The paper's.
    pub const PAPER: Self = Self {
        numbers: Numbers {
            bits: 44,
            frac: 19,
            product_bits: 63,
            delta: 19,
            step: 19,
            table: 19,
            pool: 19,
            uniform: true,
        },
        projection: Projection::Ckks,
        scan: Scan::HeScan,
        activations: Activations::Polynomial,
        norm: Norm::Nerms,
    };

    /// The plans that have a name.
    pub const NAMED: [(&'static str, Self); 2] = [("fast", Self::FAST), ("paper", Self::PAPER)];

    /// The plan of this name.
    ///
    /// # Errors
    /// If there is none; the error lists those that there are.
    pub fn named(name: &str) -> Result<Self, UnknownPlan> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, plan)| *plan).ok_or_else(|| UnknownPlan(name.chars().take(40).collect()))
    }

    /// Its name: that of the named plan with the same kernels, whatever forms its activations have.
    pub fn name(&self) -> &'static str {
        let same = |(_, plan): &&(&'static str, Self)| {
            (plan.projection, plan.scan, plan.norm) == (self.projection, self.scan, self.norm)
        };
        Self::NAMED.iter().find(same).map_or("mixed", |(name, _)| name)
    }

    /// With another SiLU, where SiLU is piecewise.
    #[must_use]
    pub fn with_silu(mut self, form: SiluForm) -> Self {
        if let Activations::Piecewise { silu, .. } = &mut self.activations {
            *silu = form;
        }
        self
    }

    /// With another exp, where exp is piecewise.
    #[must_use]
    pub fn with_exp(mut self, form: ExpForm) -> Self {
        if let Activations::Piecewise { exp, .. } = &mut self.activations {
            *exp = form;
        }
        self
    }

    /// Without the clamp of A Delta: only to show what it is for.
    #[cfg(test)]
    pub(crate) fn without_clamp(mut self) -> Self {
        if let Activations::Piecewise { clamp, .. } = &mut self.activations {
            *clamp = false;
        }
        self
    }

    /// The piecewise forms of SiLU and exp, if it has them.
    pub(crate) fn piecewise(&self) -> Option<(SiluForm, ExpForm)> {
        match self.activations {
            Activations::Piecewise { silu, exp, .. } => Some((silu, exp)),
            Activations::Polynomial => None,
        }
    }

    /// Whether A Delta is clamped by a threshold of the server's.
    pub(crate) fn clamps(&self) -> bool {
        matches!(self.activations, Activations::Piecewise { clamp: true, .. })
    }

    /// The convolution's input is rounded to F bits, and does not have the scale of the projection's sums.
    pub(crate) fn rounds_before_convolution(&self) -> bool {
        self.projection == Projection::Ckks
    }

    /// Fractional bits of the convolution's sums.
    pub(crate) fn conv_frac(&self, scales: &Scales) -> u32 {
        let weight = if self.rounds_before_convolution() { 0 } else { scales.conv_weight };
        self.numbers.frac + weight + scales.conv_tap
    }

    /// Width of the ring.
    pub fn ring_bits(&self) -> u32 {
        self.numbers.bits
    }

    /// Fractional bits of activations and of the residual stream.
    pub fn frac(&self) -> u32 {
        self.numbers.frac
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plans_have_names_and_an_unknown_one_is_told_them() {
        for (name, plan) in Plan::NAMED {
            assert_eq!(Plan::named(name).unwrap(), plan);
            assert_eq!(plan.name(), name);
        }
        assert_eq!(Plan::FAST.with_exp(ExpForm::Fine).with_silu(SiluForm::Ten).name(), "fast");
        assert_eq!(Plan { scan: Scan::HeScan, ..Plan::FAST }.name(), "mixed");
        let unknown = Plan::named("slow").unwrap_err().to_string();
        assert_eq!(unknown, "there is no plan \"slow\"; known are fast and paper");
    }
}
