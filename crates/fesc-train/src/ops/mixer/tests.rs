//! The mixer against elementary candle operations and against finite differences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{D, Device, Tensor};
use fesc_model::{Config, Pooling};

use super::*;
use crate::forms::FormSet;
use crate::ops::testing::{Check, random};

fn shape(heads: usize, head_dim: usize, state: usize, groups: usize, conv_width: usize) -> Shape {
    let shape = Shape {
        vocab: 8,
        d_model: heads * head_dim / 2,
        layers: 1,
        heads,
        head_dim,
        state,
        groups,
        conv_width,
        chunk: 64,
        norm_eps: 1e-5,
        norm_groups: 1,
        delta_limit: (0.0, f32::INFINITY),
        tied: false,
        residual_in_fp32: true,
        pooling: Pooling::Mean,
    };
    Config::new(shape).unwrap();
    shape
}

fn silu(x: &Tensor) -> Result<Tensor> {
    x / (x.neg()?.exp()? + 1.0)?
}

/// The same with elementary operations, token by token.
fn elementary(s: &Shape, layout: &Layout, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let parts = Parts::new(s);
    let part = |r: &Range<usize>| w.narrow(0, r.start, r.len());
    let taps = part(&parts.conv)?.reshape((s.conv_dim(), s.conv_width))?;
    let (bias, dt_bias) = (part(&parts.conv_bias)?, part(&parts.dt_bias)?);
    let (a, d) = (part(&parts.a_log)?.exp()?.neg()?, part(&parts.d)?.reshape((s.heads, 1))?);
    let per_group = s.heads / s.groups;
    let mut rows = Vec::new();
    for document in layout.documents() {
        let x = x.narrow(0, document.start, document.len())?;
        let mut state = Tensor::zeros((s.heads, s.head_dim, s.state), candle_core::DType::F32, &Device::Cpu)?;
        for t in 0..document.len() {
            let mut u = bias.clone();
            for k in 0..s.conv_width {
                if t + 1 + k < s.conv_width {
                    continue;
                }
                let row = x.get(t + 1 + k - s.conv_width)?.narrow(0, s.inner(), s.conv_dim())?;
                u = (u + (row * taps.narrow(1, k, 1)?.flatten_all()?)?)?;
            }
            let u = silu(&u)?;
            let xs = u.narrow(0, 0, s.inner())?.reshape((s.heads, s.head_dim, 1))?;
            // B and C of every head: those of its group.
            let wide = |at: usize| {
                let all = u.narrow(0, at, s.group_width())?.reshape((s.groups, 1, s.state))?;
                all.broadcast_as((s.groups, per_group, s.state))?.reshape((s.heads, 1, s.state))
            };
            let (b, c) = (wide(s.inner())?, wide(s.inner() + s.group_width())?);
            let dt = (x.get(t)?.narrow(0, s.proj_dim() - s.heads, s.heads)? + &dt_bias)?;
            let delta = (dt.exp()? + 1.0)?.log()?;
            let decay = (&a * &delta)?.exp()?.reshape((s.heads, 1, 1))?;
            let delta = delta.reshape((s.heads, 1, 1))?;
            state = (state.broadcast_mul(&decay)? + xs.broadcast_mul(&delta)?.broadcast_mul(&b)?)?;
            let y = (state.broadcast_mul(&c)?.sum(D::Minus1)? + xs.squeeze(2)?.broadcast_mul(&d)?)?;
            let z = x.get(t)?.narrow(0, 0, s.inner())?;
            rows.push((y.reshape(s.inner())? * silu(&z)?)?);
        }
    }
    Tensor::stack(&rows, 0)
}

#[test]
fn agrees_with_elementary_operations_and_with_differences() {
    // Whole vectors, parts of vectors, more than four vectors; groups; blocks that end early; one tap.
    let cases = [
        (shape(2, 4, 3, 1, 4), vec![5, 1, 3]),
        (shape(4, 3, 2, 2, 2), vec![2, 19]),
        (shape(1, 20, 2, 1, 4), vec![6]),
        (shape(2, 2, 5, 1, 1), vec![33]),
    ];
    for (seed, (shape, lengths)) in cases.into_iter().enumerate() {
        let layout = Arc::new(Layout::new(lengths));
        let (x, w) = (
            random(10 + seed as u8, &[layout.rows(), shape.proj_dim()]),
            random(20 + seed as u8, &[Parts::new(&shape).size()]),
        );
        let op = Mixer::new(&shape, layout.clone(), Arc::new(Forms::exact()));
        Check { x: &x, w: &w, step: 1e-2, tolerance: 2e-4 }
            .run(|x, w| mixer(x, w, op.clone()), |x, w| elementary(&shape, &layout, x, w));
    }
}

#[test]
fn wide_heads_agree_with_elementary_operations() {
    // Too many values for differences: the two graphs' gradients are compared.
    let shape = shape(2, 64, 16, 1, 4);
    let layout = Arc::new(Layout::new([40, 7]));
    let (x, w) = (random(1, &[47, shape.proj_dim()]), random(2, &[Parts::new(&shape).size()]));
    let op = Mixer::new(&shape, layout.clone(), Arc::new(Forms::exact()));
    Check { x: &x, w: &w, step: 0.0, tolerance: 2e-4 }
        .run_without_differences(|x, w| mixer(x, w, op.clone()), |x, w| elementary(&shape, &layout, x, w));
}

/// Forms are piecewise: differences are right where no value crosses a knot, so that most entries must agree.
#[test]
fn forms_have_the_gradients_of_what_they_compute() {
    let shape = shape(2, 4, 3, 1, 4);
    let layout = Arc::new(Layout::new([9, 4]));
    let (x, w) = (random(31, &[13, shape.proj_dim()]), random(32, &[Parts::new(&shape).size()]));
    for name in ["fast", "d2", "d4", "d6", "e4", "e6"] {
        let set: FormSet = name.parse().unwrap();
        let ranges = [crate::forms::Range { low: 0.1, high: 10.0 }];
        let forms = Arc::new(Forms::new(set, Some(&ranges)).unwrap());
        let op = Mixer::new(&shape, layout.clone(), forms);
        let share =
            Check { x: &x, w: &w, step: 1e-3, tolerance: 1e-3 }.share_of_differences(|x, w| mixer(x, w, op.clone()));
        assert!(share > 0.85, "{name}: {share}");
    }
}

#[test]
fn delta_limits_stop_the_gradient() {
    let mut limited = shape(1, 2, 2, 1, 1);
    limited.delta_limit = (5.0, 6.0);
    let layout = Arc::new(Layout::new([3]));
    let (x, w) = (random(41, &[3, limited.proj_dim()]), random(42, &[Parts::new(&limited).size()]));
    let x = candle_core::Var::from_tensor(&x).unwrap();
    let op = Mixer::new(&limited, layout, Arc::new(Forms::exact()));
    let grads = mixer(&x, &w, op).unwrap().sum_all().unwrap().backward().unwrap();
    let grad: Vec<Vec<f32>> = grads.get(&x).unwrap().to_vec2().unwrap();
    assert!(grad.iter().all(|row| row.last() == Some(&0.0)));
    assert!(grad.iter().any(|row| row[0] != 0.0));
}

/// The protocol's Delta is the form's, also where that is a little below 0: nothing is cut there, so that
/// gradients pass.
#[test]
fn a_form_below_zero_is_taken_as_it_is() {
    let shape = shape(1, 2, 2, 1, 1);
    let forms = Arc::new(Forms::new("d2".parse().unwrap(), None).unwrap());
    let grid: Vec<f32> = (0..400).map(|i| -0.01 * i as f32).collect();
    let mut values = grid.clone();
    forms.softplus.values(&grid, &mut values);
    let dt =
        grid.iter().zip(&values).find(|(_, v)| **v < -1e-3).map(|(x, _)| *x).expect("the form is below 0 somewhere");
    let (proj, parts) = (shape.proj_dim(), Parts::new(&shape));
    let mut x: Vec<f32> = random(51, &[3 * proj]).to_vec1().unwrap();
    x.chunks_exact_mut(proj).for_each(|row| row[proj - 1] = dt);
    let mut w: Vec<f32> = random(52, &[parts.size()]).to_vec1().unwrap();
    w[parts.dt_bias].fill(0.0);
    let x = candle_core::Var::from_vec(x, (3, proj), &Device::Cpu).unwrap();
    let w = Tensor::new(w, &Device::Cpu).unwrap();
    let op = Mixer::new(&shape, Arc::new(Layout::new([3])), forms);
    let grads = mixer(&x, &w, op).unwrap().sum_all().unwrap().backward().unwrap();
    let grad: Vec<Vec<f32>> = grads.get(&x).unwrap().to_vec2().unwrap();
    assert!(grad.iter().all(|row| row[proj - 1] != 0.0), "{grad:?}");
}
