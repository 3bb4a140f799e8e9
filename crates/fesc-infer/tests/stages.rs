//! Every stage by itself: its result on shares, and its declared cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_approx::functions::softplus;
use fesc_approx::trunc;
use fesc_infer::kernels::fast::{Activate, Bias, Linear, Norm, Steps};
use fesc_infer::kernels::private_plan;
use fesc_infer::stage::{
    Embed, Gate, Head, HeadSecrets, Label, Norm as _, Pool, Rescale, Rows, Side, StepSecrets, Widths, selection,
};
use fesc_infer::{Embedding, InferError};
use fesc_model::outline::scale::{CLAMP, DECAY, DELTA, POOL, RING};
use fesc_model::outline::{LayerForms, Silu};
use fesc_model::{Model, Pooling, Shape, twin::Twin};
use fesc_mpc::{Party, Role, Shared};
use fesc_ring::{Prg, Ring};
use fesc_rlwe::embedding::Owner;
use fesc_rlwe::linear::{Domain, Prepared, Server, Shape as LinearShape};
use fesc_rlwe::{Params, Secrets, Seed};

const F: u32 = 16;

fn forms() -> (Twin, LayerForms) {
    forms_by("fast")
}

fn forms_by(plan: &str) -> (Twin, LayerForms) {
    let twin = twin_by(private_plan(plan).unwrap(), shape(), 60, 1);
    let forms = twin.outline().unwrap().layer(0).unwrap();
    (twin, forms)
}

/// The two results that a rounding may give.
fn rounded(x: i64, shift: u32) -> [i64; 2] {
    [false, true].map(|high| RING.to_signed(trunc::round(RING, RING.from_signed(x), shift, high)))
}

#[test]
fn rescaling() {
    let values = integers(300, 1 << 40, 1);
    let (a, b) = split(RING, &values, 2);
    for (from, to) in [(30, 16), (16, 16), (16, 20)] {
        let step = Rescale::new(RING, from, to, values.len());
        let values: Vec<i64> = values.iter().map(|v| if to > from { v >> 8 } else { *v }).collect();
        let (a, b) = if to > from { split(RING, &values, 2) } else { (a.clone(), b.clone()) };
        let ran = both(|p| Ok(step.run(p, a)?), |p| Ok(step.run(p, b)?));
        ran.assert_declared(|l| Ok(step.declare(l)?));
        for (&x, got) in values.iter().zip(join(&ran.client, &ran.server)) {
            let may = if to > from { [x << (to - from); 2] } else { rounded(x, from - to) };
            assert!(may.contains(&got), "{x} from {from} to {to}: {got}");
        }
    }
}

/// Into a narrow ring and back: local where nothing is to be known, else one round; the integers are those of
/// one ring.
#[test]
fn rescaling_between_rings() {
    let narrow = Ring::new(34).unwrap();
    for (rings, from, to, bits, rounds) in [
        ((RING, narrow), 30, 16, 45, 0),
        ((RING, narrow), 38, 16, 45, 1),
        ((narrow, RING), 25, 16, 31, 1),
        ((narrow, RING), 16, 16, 31, 1),
        ((narrow, RING), 16, 20, 31, 1),
        ((RING, narrow), 16, 20, 28, 0),
    ] {
        let values = integers(300, 1 << bits, 1);
        let (a, b) = split(rings.0, &values, 2);
        let step = Rescale::new(rings.0, from, to, values.len()).into_ring(rings.1);
        let ran = both(|p| Ok(step.run(p, a)?), |p| Ok(step.run(p, b)?));
        ran.assert_declared(|l| Ok(step.declare(l)?));
        assert_eq!(ran.cost.rounds, rounds, "from {from} to {to}");
        assert_eq!(ran.client.ring(), rings.1);
        for (&x, got) in values.iter().zip(join(&ran.client, &ran.server)) {
            let may = if to > from { [x << (to - from); 2] } else { rounded(x, from - to) };
            let held = may.map(|v| rings.1.to_signed(rings.1.from_signed(v)));
            assert!(held.contains(&got), "{x} from {from} to {to}: {got}");
        }
    }
}

/// Norms of rows of very different size: within the inverse root's error and two ulps.
#[test]
fn norm_of_rows() {
    let (_, forms) = forms();
    let (form, rows) = (&forms.norm, 70);
    let (low, high) = form.range;
    // v = sum of squares / 4^e: rms so that v runs through its range.
    let w = form.width;
    let mut values = Vec::new();
    for row in 0..rows {
        let v = low * 1.2 * (0.6 * high / low).powf(row as f64 / rows as f64);
        let rms = (v * 4f64.powi(form.exponent as i32) / w as f64).sqrt();
        let unit = integers(w, 1 << 20, row as u8);
        let size = (unit.iter().map(|u| (u * u) as f64).sum::<f64>() / w as f64).sqrt();
        values.extend(unit.iter().map(|&u| (u as f64 / size * rms * 65536.0).round() as i64));
    }
    let step = Norm::new(RING, form, F, rows);
    let (a, b) = split(RING, &values, 4);
    let ran = both(|p| step.run(p, a), |p| step.run(p, b));
    ran.assert_declared(|l| step.declare(l));
    let got = join(&ran.client, &ran.server);
    for (x, y) in values.chunks(w).zip(got.chunks(w)) {
        let real = |v: i64| v as f64 / 65536.0;
        let eps = form.eps as f64 / f64::from(form.rsqrt.v_frac()).exp2();
        let v = x.iter().map(|&v| real(v).powi(2)).sum::<f64>() / 4f64.powi(form.exponent as i32) + eps;
        // An ulp of the input (at its own scale) and one of v move the result in proportion.
        let input = (-f64::from(form.square)).exp2() / v.sqrt();
        for (&x, &y) in x.iter().zip(y) {
            let want = real(x) / v.sqrt();
            assert!((real(y) - want).abs() < 2e-3 * want.abs() + 2.0 * input + 2.0 / 65536.0, "{} {want}", real(y));
        }
    }
}

/// A convolution with a bias, after three rows of the past, cut into parts of columns.
#[test]
fn linear_layer_with_past_and_parts() {
    let (inputs, outputs, taps, before, tokens) = (5, 7, 4, 3, 2047);
    let (params, linear) = (Params::linear().unwrap(), LinearShape::new(5, 7, 4).unwrap());
    let weights = integers(inputs * outputs, 1 << 12, 1);
    let tap = integers(outputs * taps, 1 << 8, 2);
    let domain = Domain { seed: Seed([3; 32]), layer: 0, matrix: 0 };
    let mut prg = Prg::from_seed([4; 16]);
    let secrets = Secrets::random(&mut prg);
    let (server, hint) = Server::publish(params, linear, domain, &weights, &tap, &secrets).unwrap();
    let x = integers((before + tokens) * inputs, 1 << 18, 5);
    let bias = integers(3, 1 << 30, 6);
    let parts = [0..2, 4..7, 2..2];
    let step = Linear::new(params, linear, before, tokens, parts.clone()).unwrap();
    assert_eq!(
        (step.blocks().len(), step.overlap()),
        (2, 3),
        "2,047 tokens and three of the past fill more than a ring"
    );
    let (a, b) = split(RING, &x, 7);
    let mut pads = |i: usize| Ok(Prepared::new(&hint, step.blocks()[i], &mut prg)?);
    let biases = [Bias { first: 1, values: &bias[..1] }, Bias { first: 4, values: &bias[1..] }];
    let ran = both(|p| step.run(p, Side::Client(&mut pads), &a), |p| step.run(p, Side::Server((&server, &biases)), &b));
    ran.assert_declared(|l| {
        step.declare(l);
        Ok(())
    });
    for ((part, a), b) in parts.iter().zip(&ran.client).zip(&ran.server) {
        let got = join(a, b);
        assert_eq!(got.len(), part.len() * tokens);
        for (at, &got) in got.iter().enumerate() {
            let (t, k) = (at / part.len(), part.start + at % part.len());
            let row = |t: usize| -> i64 { (0..inputs).map(|j| x[t * inputs + j] * weights[j * outputs + k]).sum() };
            let sum: i64 = (0..taps).map(|d| row(before + t - d) * tap[k * taps + taps - 1 - d]).sum();
            let bias = biases.iter().find_map(|b| b.values.get(k.checked_sub(b.first)?)).copied().unwrap_or(0);
            let error = (got - sum - bias) as f64;
            assert!(
                error.abs() < 6.5 * server.noise(k),
                "token {t}, column {k}: {error}, deviation {}",
                server.noise(k)
            );
        }
    }
    // Parts beyond the matrix, and halves of the wrong party, are refused.
    assert!(Linear::new(params, linear, 0, 3, std::iter::once(0..8)).is_err());
    let ran = both(
        |p| Ok(step.run(p, Side::Server((&server, &[])), &a).is_err()),
        |p| Ok(step.run(p, Side::Client(&mut |_| Err(InferError::BlockSource)), &b).is_err()),
    );
    assert!(ran.client && ran.server && ran.cost.total_bytes() == 0);
}

/// Whether `y` is what the form gives for one of the roundings of `x`.
fn is_outcome(form: &Silu, x: i64, shift: u32, y: i64) -> bool {
    let shift = shift + F - form.in_frac();
    let carries = |count: u32| (0..1u32 << count).map(|mask| move |i: u32| mask >> i & 1 == 1);
    let results = |v: i64| -> Vec<i64> {
        match form {
            Silu::Piecewise(form) => {
                let (ring, at) = (form.ring(), form.ring().from_signed(v));
                carries(2).map(|bit| ring.to_signed(form.eval_jitter(at, bit(0), bit(1)))).collect()
            }
            Silu::Polynomial(form, out) => {
                let plan = form.plan();
                let products = form.rest().len() as u32;
                let one = |bit: &dyn Fn(u32) -> bool| {
                    let mut next = 0;
                    let y = form.eval(RING.from_signed(v), &mut || {
                        next += 1;
                        bit(next - 1)
                    });
                    RING.to_signed(trunc::round(RING, y, plan.frac - out, bit(products + 2)))
                };
                carries(products + 3).map(|bit| one(&bit)).collect()
            }
            Silu::Folded(form) => carries(3).map(|bit| form.eval(v, bit(0), bit(1), bit(2))).collect(),
        }
    };
    rounded(x, shift).iter().any(|&v| results(v).contains(&y))
}

#[test]
fn activations_of_a_projection() {
    for plan in ["fast", "fast,activations=folded", "paper", "paper,degree=2", "paper,degree=6,tau=5", "paper,tau=8"] {
        let (twin, forms) = forms_by(plan);
        let (widths, tokens, s) = (Widths::new(twin.outline().unwrap().shape()), 5, &forms.scales);
        let step = Activate::new(RING, &forms, F, &widths, tokens).unwrap();
        let conv = s.conv_weight + s.conv_tap;
        let sizes = [widths.inner, widths.inner, widths.mixed, widths.mixed].map(|w| w * tokens);
        let shifts = [s.gate_weight, conv, conv, conv];
        let mut inputs: Vec<Vec<i64>> = (0..4).map(|i| integers(sizes[i], 12 << (F + shifts[i]), i as u8)).collect();
        // To the ends of SiLU's range, and of its ring: there the sum of pieces is 122 of 128.
        for (values, shift) in inputs.iter_mut().zip(shifts) {
            let (low, high) = forms.gate.input_range_int();
            let shift = shift + F - forms.gate.in_frac();
            values[..4].copy_from_slice(&[low, low + 1, high - 1, high].map(|v| v << shift));
        }
        let shares: Vec<_> = inputs.iter().map(|v| split(RING, v, 9)).collect();
        let pick =
            |i: usize| [0, 1, 2, 3].map(|n: usize| if i == 0 { shares[n].0.clone() } else { shares[n].1.clone() });
        let ran = both(|p| step.run(p, pick(0)), |p| step.run(p, pick(1)));
        ran.assert_declared(|l| step.declare(l));
        let (a, b) = (ran.client, ran.server);
        let outputs = [(&a.gate, &b.gate), (&a.x, &b.x), (&a.b, &b.b), (&a.c, &b.c)];
        let of = [&forms.gate, &forms.x, &forms.bc, &forms.bc];
        for (i, (a, b)) in outputs.into_iter().enumerate() {
            for (&x, y) in inputs[i].iter().zip(join(a, b)) {
                assert!(is_outcome(of[i], x, shifts[i], y), "{plan}, tensor {i}: {x} gave {y}");
            }
        }
    }
}

/// Delta and A Delta, also where the product wraps: the clamp is exact.
#[test]
fn steps_with_a_secret_clamp() {
    // Besides a few units of the comparison, Delta is off by the error of MoSoft, which is absolute.
    for (plan, relative, error) in [
        ("fast", 0.02, 1e-5),
        ("paper", 1e-3, 0.0185),
        ("paper,degree=2", 1e-3, 0.0801),
        ("paper,degree=6,tau=5", 1e-3, 0.0068),
    ] {
        check_steps(plan, relative, error);
    }
}

fn check_steps(plan: &str, relative: f64, error: f64) {
    let rates = [1 << 18, 40 << 18, 36_315 << 18];
    let (heads, tokens) = (3, 90);
    let (model, calibration) = calibrated(Shape { heads, groups: 1, norm_groups: 1, ..shape() }, 60, 1);
    let mut weights = model.weights().clone();
    weights.layers[0].a_log = rates.map(|r| ((r >> 18) as f32).ln()).to_vec();
    let model = Model::new(model.config().clone(), weights).unwrap();
    // The clamp as the twin sets it, in units of the comparison.
    let twin = Twin::new(&model, &calibration, private_plan(plan).unwrap()).unwrap();
    let (forms, secrets) = (twin.outline().unwrap().layer(0).unwrap(), twin.secrets(0).unwrap());
    let from = F + forms.scales.step_weight;
    let dt: Vec<i64> = (0..heads * tokens).map(|i| ((i as i64 * 37) % 240 - 140) << (from - 4)).collect();
    let step = Steps::new(RING, &forms, F, heads, tokens);
    let (a, b) = split(RING, &dt, 3);
    let secrets = StepSecrets { rates: secrets.rates, thresholds: secrets.thresholds };
    let ran = both(|p| step.run(p, Side::Client(()), a), |p| step.run(p, Side::Server(secrets), b));
    ran.assert_declared(|l| step.declare(l));
    let (delta, z) = (join(&ran.client.0, &ran.server.0), join(&ran.client.1, &ran.server.1));
    let mut clamped = 0;
    for (i, &dt) in dt.iter().enumerate() {
        let (real, head) = (dt as f64 / f64::from(from).exp2(), i % heads);
        let want = softplus(real);
        let got = delta[i] as f64 / f64::from(DELTA).exp2();
        assert!((got / want - 1.0).abs() < relative || (got - want).abs() < error, "Delta of {real}: {got} {want}");
        let product = delta[i] as f64 / f64::from(DELTA).exp2() * (rates[head] >> 18) as f64;
        let z = z[i] as f64 / f64::from(DECAY).exp2();
        clamped += usize::from(z == -(CLAMP as f64));
        assert!(delta[i] >= 0 && z <= 0.0);
        // Beside the threshold either is right; beyond it only the clamp.
        let near = (product / CLAMP as f64 - 1.0).abs() < 0.08;
        let want = -product.min(CLAMP as f64);
        let rate = secrets.rates[head] as f64 / 262_144.0 / (rates[head] >> 18) as f64;
        let is = |v: f64| (z - v * rate).abs() < 1e-6 || (z - v).abs() < 1e-6;
        assert!(is(want) || near && is(-product), "{plan}, A Delta of {real}: {z} {want}");
    }
    assert!(clamped > tokens / 2, "{clamped}");
    let x = Shared::new(RING, vec![0; heads * tokens]);
    let refused = |p: &mut Party| {
        let wrong = if p.role() == Role::P0 { Side::Server(secrets) } else { Side::Client(()) };
        Ok(step.run(p, wrong, x.clone()).is_err())
    };
    let ran = both(refused, refused);
    assert!(ran.client && ran.server && ran.cost.total_bytes() == 0, "secrets belong to the server");
}

#[test]
fn gate_of_values() {
    let (_, forms) = forms();
    let s = &forms.scales;
    let (y, z) = (integers(200, 3 << s.scanned, 1), integers(200, 3 << F, 2));
    let step = Gate::new(RING, &forms, F, 200);
    let ((y0, y1), (z0, z1)) = (split(RING, &y, 3), split(RING, &z, 4));
    let ran = both(|p| step.run(p, &y0, &z0), |p| step.run(p, &y1, &z1));
    ran.assert_declared(|l| step.declare(l));
    for ((y, z), got) in y.iter().zip(&z).zip(join(&ran.client, &ran.server)) {
        assert!(rounded(y * z, s.scanned + F - s.gated).contains(&got));
    }
}

#[test]
fn pooling_and_head_are_exact() {
    let (width, rows, classes) = (6, 9, 3);
    for (pooling, tokens) in [(Pooling::Mean, 5), (Pooling::Last, 5), (Pooling::Last, 9), (Pooling::Mean, 1)] {
        let select = selection(pooling, tokens, rows);
        assert_eq!(select.len(), rows);
        assert!(select[tokens..].iter().all(|&w| w == 0), "padding has no weight");
        assert!((select.iter().sum::<u64>() as f64 / f64::from(1 << POOL) - 1.0).abs() < 1e-6);
        let states = integers(rows * width, 5 << F, 1);
        let (a, b) = split(RING, &states, 2);
        let pool = Pool::new(RING, width, rows);
        let ran = both(|p| pool.run(p, Side::Client(&select[..]), &a), |p| pool.run(p, Side::Server(()), &b));
        ran.assert_declared(|l| pool.declare(l));
        let sum: Vec<i64> =
            (0..width).map(|j| (0..rows).map(|t| states[t * width + j] * select[t] as i64).sum()).collect();
        assert_eq!(join(&ran.client, &ran.server), sum);

        let (weights, bias) = (integers(classes * width, 1 << 16, 3), integers(classes, 1 << 30, 4));
        let head = Head::new(RING, width, classes, F);
        let ran = both(
            |p| head.run(p, Side::Client(()), ran.client.clone()),
            |p| head.run(p, Side::Server(HeadSecrets { weights: &weights, bias: &bias }), ran.server.clone()),
        );
        ran.assert_declared(|l| head.declare(l));
        for (c, got) in join(&ran.client, &ran.server).into_iter().enumerate() {
            // Only the pooled state was rounded: by less than one each.
            let pooled = |j: usize| rounded(sum[j], POOL);
            let of = |pick: fn([i64; 2], i64) -> i64| -> i64 {
                bias[c] + (0..width).map(|j| pick(pooled(j), weights[c * width + j])).sum::<i64>()
            };
            let low = of(|p, w| (p[0] * w).min(p[1] * w));
            let high = of(|p, w| (p[0] * w).max(p[1] * w));
            assert!((low..=high).contains(&got), "{low} {got} {high}");
        }
    }
}

#[test]
fn the_label_goes_to_the_client_alone() {
    for (logits, best) in [(vec![3], 0), (vec![-5, -4], 1), (vec![7, 9, 9, -2, 8], 1), (vec![1 << 45, -(1 << 45)], 0)] {
        let step = Label::new(RING, logits.len());
        let (a, b) = split(RING, &logits, 1);
        let ran = both(|p| step.run(p, &a), |p| step.run(p, &b));
        ran.assert_declared(|l| step.declare(l));
        assert_eq!((ran.client, ran.server), (Some(best), None));
    }
}

#[test]
fn rows_of_the_table() {
    let (width, tokens) = (12, 70);
    let params = Params::linear().unwrap();
    let table = integers(width * VOCAB, 1 << 31, 1);
    let mut prg = Prg::from_seed([2; 16]);
    let secrets = Secrets::random(&mut prg);
    let (owner, copy) = Owner::new(params, width, VOCAB, Seed([6; 32]), &secrets).unwrap();
    let encrypted = owner.rows(0, &table, &secrets).unwrap();
    let ids = document(tokens, 3);
    let pick = |id: &u32| *id as usize * width..(*id as usize + 1) * width;
    let rows: Vec<u64> = ids.iter().flat_map(|id| &encrypted[pick(id)]).copied().collect();
    let clear: Vec<u64> = ids.iter().flat_map(|id| &table[pick(id)]).map(|&v| RING.from_signed(v)).collect();
    let step = Embed::new(params, Embedding::Encrypted, width, F, tokens);
    let mut client = |rows: &[u64], p: &mut Party| {
        let (ids, table) = (&ids[..], &copy);
        step.run(p, Side::Client(Rows::Encrypted { ids, rows, table, prg: &mut prg }))
    };
    let ran = both(|p| client(&rows, p), |p| step.run(p, Side::Server(Some(&owner))));
    ran.assert_declared(|l| step.declare(l));
    let public = Embed::new(params, Embedding::Public, width, F, tokens);
    let open = both(|p| public.run(p, Side::Client(Rows::Public(&clear))), |p| public.run(p, Side::Server(None)));
    open.assert_declared(|l| public.declare(l));
    let (private, open) = (join(&ran.client, &ran.server), join(&open.client, &open.server));
    for (at, (&a, &b)) in private.iter().zip(&open).enumerate() {
        let exact = table[ids[at / width] as usize * width + at % width] as f64 / 16384.0;
        // Noise of deviation 167 at 30 bits is a hundredth of an ulp.
        assert!((a as f64 - exact).abs() < 1.1 && (b as f64 - exact).abs() <= 0.5, "{a} {b} {exact}");
    }
    // The wrong kind, the wrong party, a row too few: nothing is sent.
    let ran = both(
        |p| {
            Ok([
                step.run(p, Side::Client(Rows::Public(&clear))).is_err(),
                public.run(p, Side::Client(Rows::Public(&clear[width..]))).is_err(),
                client(&rows[width..], p).is_err(),
            ])
        },
        |p| Ok(step.run(p, Side::Server(None)).is_err()),
    );
    assert!(ran.client == [true; 3] && ran.server && ran.cost.total_bytes() == 0);
}
