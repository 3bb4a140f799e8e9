//! A plan: which kernel computes each stage of a block, and with which numbers. Public data.
//!
//! | stage | `fast` | `paper` |
//! |---|---|---|
//! | projections and convolution | RLWE linear layer | CKKS, rounded between the two |
//! | selective scan | block dual form on shares | HEScan, under CKKS |
//! | SiLU, softplus | pieces between shared thresholds | MoSiLU and MoSoft, degree 4 |
//! | exp | power of a quadratic | MMExp, degree 4 |
//! | norms | inverse root from buckets, two Newton steps | NeRMS, 8 buckets, one step |
//!
//! Every stage is chosen on its own, and a plan has a text ([`Plan::parse`], [`Plan::name`]). Both of these
//! have the fast plan's numbers: l = 48, F = 16, scales from calibration. `paper-44` is the paper's plan in
//! the paper's numbers, l = 44 and F = 19 everywhere; NeRMS does not fit them, so it is for computing in the
//! clear. The twin refuses choices that it does not compute together by name; which plans two parties can run
//! is `fesc-infer`'s to say, in the one file that turns a plan into kernels. An [`Outline`](crate::Outline)
//! carries its plan, so both parties have the same.
//!
//! The names of choices are beside the enums (`Choice::ALL`); texts, refusals and tests take them from there.

mod text;

pub use text::{PlanError, stages};

use serde::{Deserialize, Serialize};

use crate::outline::Scales;
use crate::outline::scale;
use text::{Choice, Names};

/// Widths and fractional bits that do not depend on the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

impl Choice for Projection {
    const STAGE: &'static str = "projection";
    const ALL: Names<Self> = &[("rlwe", Self::Rlwe), ("ckks", Self::Ckks)];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.projection
    }
}

/// What computes the selective scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// The block dual form on shares.
    Dual,
    /// The recurrence under CKKS.
    HeScan(HeScanKernel),
}

impl Choice for Scan {
    const STAGE: &'static str = "scan";
    const ALL: Names<Self> = &[
        ("dual", Self::Dual),
        ("hescan", Self::HeScan(HeScanKernel::Hybrid)),
        ("hybrid", Self::HeScan(HeScanKernel::Hybrid)),
        ("lanes", Self::HeScan(HeScanKernel::Lanes)),
        ("chunks", Self::HeScan(HeScanKernel::Chunks)),
        ("he-dual", Self::HeScan(HeScanKernel::Dual)),
    ];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.scan
    }
}

/// How a scan under CKKS packs and composes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeScanKernel {
    /// Leaves of tokens in one product, then lanes.
    Hybrid,
    /// State coordinates across ciphertexts.
    Lanes,
    /// The paper's chunks.
    Chunks,
    /// The block dual form.
    Dual,
}

impl Scan {
    /// Most tokens that it takes at once; what is carried between them is on shares. A scan under encryption
    /// whose state does not leave the kernel takes a document whole, so that none is longer.
    pub const fn segment(self) -> usize {
        match self {
            Self::HeScan(kernel) if kernel.refresh().is_none() => scale::WHOLE,
            _ => scale::SEGMENT,
        }
    }

    /// The only exp that it goes with, if there is one: a twin that multiplies exps of tokens follows exps of
    /// sums where the exp is right near 0.
    pub const fn exp(self) -> Option<ExpForm> {
        match self {
            Self::HeScan(HeScanKernel::Dual) => Some(ExpForm::Power),
            _ => None,
        }
    }

    /// Whether a document may have several segments.
    pub const fn carries(self) -> bool {
        self.segment() == scale::SEGMENT
    }
}

impl HeScanKernel {
    /// Tokens after which the state goes through shares (the paper's secure carry refresh), if it does.
    pub const fn refresh(self) -> Option<usize> {
        match self {
            Self::Chunks => Some(scale::CHUNK),
            Self::Hybrid | Self::Lanes | Self::Dual => None,
        }
    }
}

/// What computes SiLU and softplus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// Pieces between shared thresholds, five of them in SiLU, error 0.027.
    Five,
    /// Ten of them, error 0.0085; about twice the bytes.
    Ten,
    /// The paper's even polynomials, MoSiLU and MoSoft.
    Polynomial(Polynomial),
    /// SiLU from sign and magnitude, error 0.027 and a rounding to 1/1024; about half the bytes of five.
    Folded,
}

impl Choice for Activations {
    const STAGE: &'static str = "activations";
    const ALL: Names<Self> = &[
        ("piecewise", Self::Five),
        ("piecewise-ten", Self::Ten),
        ("polynomial", Plan::PAPER.activations),
        ("folded", Self::Folded),
    ];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.activations
    }
}

/// The paper's even polynomials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polynomial {
    /// Degree in x.
    pub degree: u32,
    /// The polynomial is used on `[-tau, tau]`.
    pub tau: u32,
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
    /// The paper's MMExp on `[-8, 0]`.
    Minimax(Minimax),
}

impl Choice for ExpForm {
    const STAGE: &'static str = "exp";
    const ALL: Names<Self> =
        &[("stable", Self::Power), ("coarse", Self::Coarse), ("fine", Self::Fine), ("mmexp", Plan::PAPER.exp)];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.exp
    }
}

/// The paper's exp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimax {
    /// Degree.
    pub degree: u32,
}

/// What computes the inverse root of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// A linear start by bucket, two Newton steps.
    Buckets,
    /// A constant start by bucket.
    Nerms(Nerms),
}

impl Choice for Norm {
    const STAGE: &'static str = "norm";
    const ALL: Names<Self> = &[("buckets", Self::Buckets), ("nerms", Plan::PAPER.norm)];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.norm
    }
}

/// The paper's inverse root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nerms {
    /// Buckets of equal ratio over the calibrated range.
    pub buckets: u32,
    /// Newton steps.
    pub steps: u32,
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
    /// SiLU and softplus.
    pub activations: Activations,
    /// exp of sums of A Delta, or of A Delta itself.
    pub exp: ExpForm,
    /// A Delta is clamped by a threshold of the server's.
    pub clamp: bool,
    /// Norms.
    pub norm: Norm,
}

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
        activations: Activations::Five,
        exp: ExpForm::Power,
        clamp: true,
        norm: Norm::Buckets,
    };

    /// The paper's kernels.
    pub const PAPER: Self = Self {
        projection: Projection::Ckks,
        scan: Scan::HeScan(HeScanKernel::Hybrid),
        activations: Activations::Polynomial(Polynomial { degree: 4, tau: 4 }),
        exp: ExpForm::Minimax(Minimax { degree: 4 }),
        norm: Norm::Nerms(Nerms { buckets: 8, steps: 1 }),
        ..Self::FAST
    };

    /// The same in the paper's numbers, token by token.
    pub const PAPER_44: Self = Self {
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
        clamp: false,
        ..Self::PAPER
    };

    /// The plans that have a name.
    pub const NAMED: [(&'static str, Self); 3] =
        [("fast", Self::FAST), ("paper", Self::PAPER), ("paper-44", Self::PAPER_44)];

    /// With another SiLU and softplus.
    #[must_use]
    pub fn with_activations(self, activations: Activations) -> Self {
        Self { activations, ..self }
    }

    /// With another exp.
    #[must_use]
    pub fn with_exp(self, exp: ExpForm) -> Self {
        Self { exp, ..self }
    }

    /// Why its choices do not go together, and what to take instead.
    pub fn misfit(&self) -> Option<&'static str> {
        match self {
            p if p.numbers.uniform => None,
            // The kernel's sums are cut as is cheapest under CKKS, which only its own crate knows.
            Self { scan: Scan::HeScan(HeScanKernel::Dual), exp, .. } if *exp != ExpForm::Power => Some(
                "he-dual takes exp of sums where its twin multiplies exps, which is the same only for an exp that is \
                 right near 0: take exp=stable, or scan=dual",
            ),
            _ => None,
        }
    }

    /// The convolution's input is rounded to F bits, and does not have the scale of the projection's sums.
    pub(crate) fn rounds_before_convolution(&self) -> bool {
        self.projection == Projection::Ckks && self.numbers.uniform
    }

    /// Fractional bits of z as the projection gives it.
    pub fn gate_frac(&self, scales: &Scales) -> u32 {
        self.numbers.frac + scales.gate_weight
    }

    /// Fractional bits of x, B and C as the convolution gives them.
    pub fn conv_frac(&self, scales: &Scales) -> u32 {
        let weight = if self.rounds_before_convolution() { 0 } else { scales.conv_weight };
        self.numbers.frac + weight + scales.conv_tap
    }

    /// Fractional bits of dt as the projection gives it.
    pub fn step_frac(&self, scales: &Scales) -> u32 {
        self.numbers.frac + scales.step_weight
    }

    /// Whether the scan is under encryption, on calibrated scales.
    pub fn scans_encrypted(&self) -> bool {
        matches!(self.scan, Scan::HeScan(_)) && !self.numbers.uniform
    }

    /// Whether anything is under CKKS, so that a client has keys for it.
    pub fn encrypts(&self) -> bool {
        self.scans_encrypted() || self.projection == Projection::Ckks
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
