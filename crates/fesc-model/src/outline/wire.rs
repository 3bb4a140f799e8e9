//! An outline as JSON, and the checks of one that came from a peer.

use serde::{Deserialize, Serialize};

use super::{Last, Layer, Outline, refuse};
use crate::plan::{Activations, ExpForm, Norm, Projection, Scan};
use crate::{Config, ModelError, Plan, Pooling, Result, Shape};

const VERSION: u32 = 1;
/// The longest text taken. A layer has about a kilobyte.
const TEXT: usize = 4 << 20;
/// The most layers.
const LAYERS: usize = 1 << 10;
/// The most classes.
const CLASSES: usize = 1 << 12;
/// The most bytes of a class's name.
const NAME: usize = 256;

/// The shape with its floats as bits.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Shape", deny_unknown_fields)]
struct WireShape {
    vocab: usize,
    d_model: usize,
    layers: usize,
    heads: usize,
    head_dim: usize,
    state: usize,
    groups: usize,
    conv_width: usize,
    chunk: usize,
    #[serde(with = "bits")]
    norm_eps: f32,
    norm_groups: usize,
    #[serde(with = "bits")]
    delta_limit: (f32, f32),
    tied: bool,
    residual_in_fp32: bool,
    pooling: Pooling,
}

/// Floats as the integers of their bits: one text for one value, infinities included.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// One float or two.
    pub(super) trait Floats: Copy {
        type Bits: Serialize + for<'de> Deserialize<'de>;
        fn to_bits(self) -> Self::Bits;
        fn from_bits(bits: Self::Bits) -> Self;
    }

    impl Floats for f32 {
        type Bits = u32;
        fn to_bits(self) -> u32 {
            f32::to_bits(self)
        }
        fn from_bits(bits: u32) -> Self {
            f32::from_bits(bits)
        }
    }

    impl Floats for (f32, f32) {
        type Bits = [u32; 2];
        fn to_bits(self) -> [u32; 2] {
            [self.0.to_bits(), self.1.to_bits()]
        }
        fn from_bits([low, high]: [u32; 2]) -> Self {
            (f32::from_bits(low), f32::from_bits(high))
        }
    }

    pub(super) fn serialize<F: Floats, S: Serializer>(value: &F, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'de, F: Floats, D: Deserializer<'de>>(from: D) -> Result<F, D::Error> {
        F::Bits::deserialize(from).map(F::from_bits)
    }
}

/// An outline as it travels. Choices of the plan that are the fast plan's are left out, so that its text is
/// the same as before there were others.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wire {
    version: u32,
    #[serde(with = "WireShape")]
    shape: Shape,
    classes: usize,
    labels: Vec<String>,
    silu: Activations,
    exp: ExpForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clamp: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    projection: Option<Projection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scan: Option<Scan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    norm: Option<Norm>,
    layers: Vec<Layer>,
    last: Last,
}

/// The choice, unless it is the fast plan's.
fn other<T: PartialEq>(choice: T, fast: T) -> Option<T> {
    (choice != fast).then_some(choice)
}

impl From<Outline> for Wire {
    fn from(o: Outline) -> Self {
        let shape = *o.config.shape();
        let labels = o.config.labels().to_vec();
        let Outline { classes, plan, layers, last, .. } = o;
        Self {
            version: VERSION,
            shape,
            classes,
            labels,
            silu: plan.activations,
            exp: plan.exp,
            clamp: other(plan.clamp, Plan::FAST.clamp),
            projection: other(plan.projection, Plan::FAST.projection),
            scan: other(plan.scan, Plan::FAST.scan),
            norm: other(plan.norm, Plan::FAST.norm),
            layers,
            last,
        }
    }
}

impl TryFrom<Wire> for Outline {
    type Error = ModelError;

    fn try_from(wire: Wire) -> Result<Self> {
        let Wire { version, shape, classes, labels, silu, exp, clamp, layers, last, .. } = wire;
        if version != VERSION {
            return Err(refuse(format!("its version is {version}, this program reads {VERSION}")));
        }
        let plan = Plan {
            numbers: Plan::FAST.numbers,
            projection: wire.projection.unwrap_or(Plan::FAST.projection),
            scan: wire.scan.unwrap_or(Plan::FAST.scan),
            activations: silu,
            exp,
            clamp: clamp.unwrap_or(Plan::FAST.clamp),
            norm: wire.norm.unwrap_or(Plan::FAST.norm),
        };
        let config = Config::new(shape)?;
        let outline = Self { config: config.with_labels(labels), classes, plan, layers, last };
        outline.check()?;
        Ok(outline)
    }
}

/// Ring and fractional bits of an outline are constants.
pub(super) fn check_plan(plan: &Plan) -> Result<()> {
    if plan.numbers != Plan::FAST.numbers {
        return Err(refuse(format!("the plan {} has none; take the numbers of the fast plan", plan.name())));
    }
    plan.check().map_err(|e| refuse(e.to_string()))
}

impl Outline {
    /// Reads what [`Outline::to_json`] wrote, and trusts nothing of it.
    pub fn from_json(text: &str) -> Result<Self> {
        if text.len() > TEXT {
            return Err(refuse(format!("it has {} bytes, at most {TEXT} are taken", text.len())));
        }
        let wire: Wire = serde_json::from_str(text)
            .map_err(|e| ModelError::Json { path: "the model's outline".into(), reason: e.to_string() })?;
        wire.try_into()
    }

    /// The outline as JSON: one text for one outline.
    pub fn to_json(&self) -> String {
        // Integers, texts and lists only: nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Everything that a stage relies on.
    pub(super) fn check(&self) -> Result<()> {
        check_plan(&self.plan)?;
        let shape = self.shape();
        if shape.layers > LAYERS || self.layers.len() != shape.layers {
            let (said, found) = (shape.layers, self.layers.len());
            return Err(refuse(format!("it has {found} layers of {said}, at most {LAYERS} are taken")));
        }
        self.check_sizes()?;
        self.check_classes()?;
        for (i, layer) in self.layers.iter().enumerate() {
            let refused = |reason| refuse(format!("layer {i}: {reason}"));
            layer.scales.check().map_err(refused)?;
            if layer.ranges.is_some() != self.plan.scans_encrypted() {
                return Err(refused("ranges of a scan belong to plans with a scan under encryption".into()));
            }
            layer.ranges.map_or(Ok(()), |ranges| ranges.check()).map_err(refused)?;
            self.layer(i)?;
        }
        super::scales::STREAM.check("the final norm", self.last.square).map_err(refuse)?;
        self.last()?;
        Ok(())
    }

    /// Sizes that a party allocates by. Every one of them is many times that of the largest Mamba-2.
    fn check_sizes(&self) -> Result<()> {
        let s = self.shape();
        let sizes = [
            ("embedding", [s.vocab, s.d_model, 1], 1u64 << 32),
            ("in_proj", [s.proj_dim(), s.d_model, 1], 1 << 28),
            ("state", [s.state, s.inner(), 1], 1 << 26),
            ("weights of all layers", [s.layers, s.proj_dim() + s.inner(), s.d_model], 1 << 36),
        ];
        for (name, sides, limit) in sizes {
            let size = sides.iter().fold(1u64, |size, &side| size.saturating_mul(side as u64));
            if size > limit {
                return Err(refuse(format!("{name} would have {size} values, at most {limit} are taken")));
            }
        }
        Ok(())
    }

    pub(super) fn check_classes(&self) -> Result<()> {
        let (classes, labels) = (self.classes, self.labels());
        if classes > CLASSES || !(labels.is_empty() || labels.len() == classes) {
            let named = labels.len();
            return Err(refuse(format!("{classes} classes with {named} names; all or none, and at most {CLASSES}")));
        }
        // Names are shown on the client's terminal.
        match labels.iter().position(|name| name.len() > NAME || name.chars().any(char::is_control)) {
            Some(i) => {
                Err(refuse(format!("the name of class {i} is longer than {NAME} bytes or has control characters")))
            }
            None => Ok(()),
        }
    }
}
