#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;

use fesc_approx::transcript::Transcript;
use fesc_ring::Prg;

use super::*;
use crate::plan::{Activations, ExpForm};
use crate::twin::{Calibration, Rounding, Twin};
use crate::{Model, Pooling, Weights};

fn shape() -> Shape {
    let base = *Config::named("tiny").unwrap().shape();
    Shape { vocab: 50, groups: 2, norm_groups: 2, conv_width: 3, delta_limit: (0.001, 0.1), ..base }
}

/// Delta is not limited.
fn free() -> Shape {
    Shape { delta_limit: (0.0, f32::INFINITY), ..shape() }
}

fn model(shape: Shape, labels: &[&str], classes: Option<usize>, seed: u8) -> Model {
    let config = Config::new(shape).unwrap().with_labels(labels.iter().map(|&l| l.into()).collect());
    let weights = Weights::random(&config, classes, &mut Prg::from_seed([seed; 16]));
    Model::new(config, weights).unwrap()
}

fn calibration(model: &Model) -> Calibration {
    Calibration::collect(model, [(0..150u32).map(|i| i * i % 50).collect::<Vec<_>>()]).unwrap()
}

const NAMES: [&str; 3] = ["one", "a \"quoted\" name", "drei \u{fc}"];

fn outline() -> Outline {
    let model = model(shape(), &NAMES, Some(3), 1);
    Outline::new(model.config(), &calibration(&model), Plan::FAST).unwrap()
}

/// The text is read back to the same outline and the same tables, and there is one text only.
#[test]
fn text_comes_back() {
    let limits = [(0.0, f32::INFINITY), (1.0 / 3.0, 40.1), (0.001, 0.1)];
    let plans = [Plan::FAST, Plan::FAST.with_activations(Activations::Ten).with_exp(ExpForm::Fine)];
    for (delta_limit, pooling) in limits.into_iter().zip([Pooling::Mean, Pooling::Last, Pooling::Mean]) {
        let model = model(Shape { delta_limit, pooling, norm_eps: 1e-5 / 3.0, ..shape() }, &NAMES, Some(3), 2);
        for plan in plans {
            let made = Outline::new(model.config(), &calibration(&model), plan).unwrap();
            let text = made.to_json();
            let read = Outline::from_json(&text).unwrap();
            assert_eq!(read, made);
            assert_eq!(read.to_json(), text);
            assert_eq!(serde_json::from_str::<Outline>(&text).unwrap(), made);
            assert_eq!(read.digest().unwrap(), made.digest().unwrap());
            assert_eq!(read.shape(), model.config().shape());
            for i in 0..2 {
                assert_eq!(read.layer(i).unwrap(), made.layer(i).unwrap());
            }
            assert_eq!(read.last().unwrap(), made.last().unwrap());
            assert!(!text.contains('.'), "a float in {text}");
        }
    }
}

/// Whatever kernels a plan names, the outline that is read back names them too; the fast plan's are not
/// written.
#[test]
fn every_choice_of_a_plan_comes_back() {
    use crate::plan::{Nerms, Norm, Projection};
    let fast = outline();
    let text = fast.to_json();
    for key in ["scan", "norm", "projection", "clamp"] {
        let text: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(text.get(key).is_none(), "{key} of the fast plan is written");
    }
    let others = [
        Plan { scan: Plan::PAPER.scan, ..Plan::FAST },
        Plan { norm: Plan::PAPER.norm, ..Plan::FAST },
        Plan { projection: Projection::Ckks, ..Plan::FAST },
        Plan { clamp: false, ..Plan::FAST },
        Plan { scan: Plan::PAPER.scan, norm: Plan::PAPER.norm, ..Plan::FAST.with_exp(ExpForm::Fine) },
        Plan { exp: Plan::PAPER.exp, ..Plan::FAST },
    ];
    let polynomials = ["paper", "fast,activations=polynomial", "paper,degree=6,tau=8", "paper,exp-degree=2"];
    let polynomials = polynomials.map(|text| Plan::parse(text).unwrap());
    let model = model(shape(), &NAMES, Some(3), 1);
    let free = self::model(free(), &NAMES, Some(3), 1);
    let limited = others.into_iter().map(|plan| (&model, plan));
    for (model, plan) in limited.chain(polynomials.into_iter().map(|plan| (&free, plan))) {
        let made = Outline::new(model.config(), &calibration(model), plan).unwrap();
        let read = Outline::from_json(&made.to_json()).unwrap();
        assert_eq!((*read.plan(), read.to_json()), (plan, made.to_json()));
        assert_ne!(read.digest().unwrap(), fast.digest().unwrap());
    }
    let mut beyond = fast;
    beyond.plan.norm = Norm::Nerms(Nerms { buckets: 1 << 20, steps: 1 });
    let refused = Outline::from_json(&beyond.to_json()).unwrap_err().to_string();
    assert!(refused.contains("buckets is 1048576; there is buckets from 2 to 64"), "{refused}");
    let refused = Outline::new(model.config(), &calibration(&model), Plan::PAPER_44).unwrap_err().to_string();
    assert!(refused.contains("paper-44 has none"), "{refused}");
    assert!(Outline::from_json(&text.replacen("\"silu\"", "\"scan\":\"other\",\"silu\"", 1)).is_err());
}

/// A twin has the outline that config and calibration give, whatever the weights are, and computes with its
/// tables.
#[test]
fn an_outline_does_not_depend_on_weights() {
    let (first, second) = (model(shape(), &NAMES, Some(3), 1), model(shape(), &NAMES, Some(3), 2));
    let calibration = calibration(&first);
    let twin = Twin::new(&first, &calibration, Plan::FAST).unwrap();
    let other = Twin::new(&second, &calibration, Plan::FAST).unwrap();
    let outline = Outline::new(first.config(), &calibration, Plan::FAST).unwrap();
    assert_eq!((twin.outline().unwrap(), other.outline().unwrap()), (&outline, &outline));
    assert_eq!(twin.outline().unwrap().digest().unwrap(), other.outline().unwrap().digest().unwrap());
    assert!(twin.in_proj(0).unwrap() != other.in_proj(0).unwrap());
    assert_eq!((outline.classes(), outline.labels()), (3, &NAMES.map(String::from)[..]));
    assert_eq!((outline.ring().bits(), outline.frac()), (48, 16));
    let scales: Vec<Scales> = (0..2).map(|i| outline.layer(i).unwrap().scales).collect();
    assert_eq!(twin.scales().copied().collect::<Vec<_>>(), scales);
    assert!(outline.layer(2).unwrap_err().to_string().contains("layer 2 was asked for, it has 2"));
    assert!(matches!(
        Outline::new(first.config(), &calibration, Plan::PAPER_44),
        Err(ModelError::Outline { reason }) if reason.contains("paper")
    ));
}

/// Secrets have the sizes and scales that their docs say: with the outline's forms they give the twin's own
/// products.
#[test]
fn secrets_are_the_weights() {
    let model = model(shape(), &NAMES, Some(3), 3);
    let twin = Twin::new(&model, &calibration(&model), Plan::FAST).unwrap();
    let (outline, shape) = (twin.outline().unwrap(), model.config().shape());
    let real = |v: i64, frac: u32| v as f64 * (-f64::from(frac)).exp2();
    for (i, w) in model.weights().layers.iter().enumerate() {
        let (secrets, forms) = (twin.secrets(i).unwrap(), outline.layer(i).unwrap());
        let s = &forms.scales;
        let (in_proj, out_proj) = (twin.in_proj(i).unwrap(), twin.out_proj(i).unwrap());
        let sizes = [in_proj.len(), out_proj.len(), secrets.taps.len(), secrets.conv_bias.len()];
        assert_eq!(sizes, [shape.proj_dim() * 32, 32 * shape.inner(), 3, shape.conv_dim()]);
        let near = |got: f64, want: f64, frac: u32| assert!((got - want).abs() <= 0.51 * real(1, frac), "{got} {want}");
        for (k, (&got, &want)) in in_proj.iter().zip(&w.in_proj).enumerate() {
            let frac = match k / 32 {
                row if row < shape.inner() => s.gate_weight,
                row if row < shape.inner() + shape.conv_dim() => s.conv_weight,
                _ => s.step_weight,
            };
            near(real(got, frac), f64::from(want) * f64::from(w.norm[k % 32]) * forms.norm.ratio(), frac);
        }
        for (k, (&got, &want)) in out_proj.iter().zip(&w.out_proj).enumerate() {
            let gamma = f64::from(w.gated_norm[k % shape.inner()]) * forms.gated.ratio();
            near(real(got, s.out_weight), f64::from(want) * gamma, s.out_weight);
        }
        for (d, taps) in secrets.taps.iter().enumerate() {
            for (c, &tap) in taps.iter().enumerate() {
                near(real(tap, s.conv_tap), w.conv[c * 3 + 2 - d].into(), s.conv_tap);
            }
        }
        let sum = scale::FRAC + s.conv_weight + s.conv_tap;
        secrets.conv_bias.iter().zip(&w.conv_bias).for_each(|(&a, &b)| near(real(a, sum), b.into(), sum));
        let sum = scale::FRAC + s.step_weight;
        for head in 0..shape.heads {
            near(real(secrets.step_bias[head], sum), w.dt_bias[head].into(), sum);
            near(real(secrets.rates[head], scale::RATE), f64::from(w.a_log[head]).exp(), scale::RATE);
            near(real(secrets.skip[head], s.mixed), w.d[head].into(), s.mixed);
        }
        let (first, last) = forms.softplus.input_range_int();
        let shift = forms.softplus.cmp_shift();
        assert!(secrets.thresholds.iter().all(|t| ((first >> shift) - 1..=(last >> shift) + 2).contains(t)));
    }
    let head = twin.head_secrets().unwrap();
    assert_eq!((head.weights.len(), head.bias.len()), (3 * 32, 3));
    let table = twin.table(0..50).unwrap();
    for (&got, &want) in table.iter().zip(&model.weights().embedding) {
        assert!((real(got, scale::TABLE) - f64::from(want)).abs() <= 0.51 * real(1, scale::TABLE), "{got} {want}");
    }
    assert_eq!((table.len(), twin.table(7..9).unwrap()), (50 * 32, table[7 * 32..9 * 32].to_vec()));
    assert!(twin.secrets(2).is_none() && twin.in_proj(2).is_err() && twin.out_proj(2).is_err());
    assert!(twin.table(49..51).is_err());
    let paper = Twin::new(&model, &calibration(&model), Plan::PAPER_44).unwrap();
    assert!(paper.secrets(0).is_none() && paper.head_secrets().is_none() && paper.outline().is_err());
}

/// The scan alone takes what a document's block would take, and refuses what it would not.
#[test]
fn a_scan_by_itself() {
    let model = model(shape(), &NAMES, Some(3), 4);
    let twin = Twin::new(&model, &calibration(&model), Plan::FAST).unwrap();
    let (heads, width) = (model.config().heads, model.config().conv_dim());
    let run = |layer: usize, tokens: usize, z: i64, extra: usize| {
        let (xbc, delta) = (vec![9_000; tokens * width], vec![1 << 16; tokens * heads]);
        twin.scan(layer, &xbc, &delta, &vec![z; tokens * heads + extra], &mut Rounding::nearest())
    };
    let slow = run(0, 130, -10, 0).unwrap();
    assert_eq!(slow.len(), 130 * model.config().inner());
    let forgetful = run(0, 130, -(16 << 22), 0).unwrap();
    assert_eq!(slow[..32], forgetful[..32]);
    // The same at every token, but for what is remembered.
    let last = 129 * model.config().inner();
    assert!(slow[last] > slow[0] && (forgetful[last] - forgetful[0]).abs() <= 2);
    assert!(matches!(run(0, 0, 0, 0), Err(ModelError::NoTokens)));
    assert!(matches!(run(0, 3, 0, 1), Err(ModelError::WeightSize { .. })));
    assert!(matches!(run(2, 3, 0, 0), Err(ModelError::Outline { .. })));
    for z in [1, i64::MIN, i64::MAX] {
        assert!(run(0, 3, z, 0).unwrap_err().to_string().contains("A Delta"), "{z}");
    }
}

#[test]
fn classes_and_names_belong_together() {
    let named = outline();
    assert!(named.clone().with_classes(4).unwrap_err().to_string().contains("4 classes with 3 names"));
    let none = named.clone().with_classes(0).unwrap();
    assert_eq!((none.classes(), none.labels().len()), (0, 0));
    let unnamed = model(shape(), &[], Some(5), 1);
    let twin = Twin::new(&unnamed, &calibration(&unnamed), Plan::FAST).unwrap();
    assert_eq!((twin.outline().unwrap().classes(), twin.outline().unwrap().labels().len()), (5, 0));
    // A backbone alone has an outline too.
    let backbone = model(shape(), &[], None, 1);
    let twin = Twin::new(&backbone, &calibration(&backbone), Plan::FAST).unwrap();
    assert_eq!(twin.outline().unwrap().classes(), 0);
    assert!(twin.head_secrets().is_none());
    for name in ["\u{1b}[2J", "a\nb", &"x".repeat(257)] {
        let spoilt = model(shape(), &["a", "b", name], Some(3), 1);
        let error = Outline::new(spoilt.config(), &calibration(&spoilt), Plan::FAST).unwrap_err().to_string();
        assert!(error.contains("the name of class 2"), "{error}");
    }
}

/// Every number of the tables is in the digest.
#[test]
fn digests_tell_outlines_apart() {
    let made = outline();
    let mut seen = vec![made.digest().unwrap()];
    let mut see = |change: &dyn Fn(&mut Outline)| {
        let mut other = made.clone();
        change(&mut other);
        seen.push(other.digest().unwrap());
    };
    see(&|o| o.layers[1].scales.state -= 1);
    see(&|o| o.layers[0].scales.state -= 1);
    see(&|o| o.plan = o.plan.with_activations(Activations::Ten));
    see(&|o| o.plan = o.plan.with_exp(ExpForm::Fine));
    see(&|o| o.last.square -= 1);
    let free = |o: &mut Outline, plan: &str| {
        o.config = Config::new(free()).unwrap();
        o.plan = Plan::parse(plan).unwrap();
    };
    see(&|o| free(o, "fast"));
    see(&|o| free(o, "fast,activations=polynomial"));
    see(&|o| free(o, "fast,activations=polynomial,degree=2"));
    see(&|o| free(o, "fast,activations=polynomial,tau=5"));
    see(&|o| free(o, "fast,exp=mmexp"));
    see(&|o| free(o, "fast,exp=mmexp,exp-degree=6"));
    see(&|o| o.layers.swap(0, 1));
    see(&|o| o.classes = 9);
    see(&|o| o.config = o.config.clone().with_labels(vec!["x".into(); 3]));
    see(&|o| o.config = Config::new(Shape { delta_limit: (0.001, 0.2), ..*o.config.shape() }).unwrap());
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
    let words = made.layer(0).unwrap().words();
    let mut other = made.clone();
    other.layers[0].norm = other.layers[0].gated;
    assert_ne!(other.layer(0).unwrap().words(), words);
    // The tables of polynomials are in the words too, not only their names in the text.
    let words = |plan: &str| {
        let mut other = made.clone();
        free(&mut other, plan);
        other.layer(0).unwrap().words()
    };
    let plans = ["fast", "fast,activations=polynomial", "paper,norm=buckets", "paper,norm=buckets,degree=6", "paper"];
    let all: std::collections::BTreeSet<_> = plans.into_iter().map(words).collect();
    assert_eq!(all.len(), plans.len());
}
