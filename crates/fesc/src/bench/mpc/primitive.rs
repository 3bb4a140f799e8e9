//! The primitives of `fesc_mpc::protocol` with random inputs and their true results.

use anyhow::{Result, anyhow};
use fesc_approx::RING48;
use fesc_mpc::MpcError;
use fesc_mpc::correlation::Bundle;
use fesc_mpc::protocol::{ArgMax, Bilinear, BitToArithmetic, Compare, Convert, CotMux, Mux, Open, Sender, Thresholds};
use fesc_ring::Ring;

use super::inputs::Inputs;
use super::operation::{Operation, Output, Plain, worst};

/// Fractional bits of fixed-point values.
const FRAC: u32 = 16;

/// Inner and right dimension of a matrix product.
const SIDE: usize = 64;

/// Values of a row of an arg-max.
const COLUMNS: usize = 10;

/// A ring element as a real number.
pub fn real(ring: Ring, frac: u32, v: u64) -> f64 {
    ring.to_signed(v) as f64 / f64::from(frac).exp2()
}

pub fn open(inputs: &mut Inputs, n: usize) -> Operation {
    let x = inputs.integers(RING48, 46, n);
    let step = Open { ring: RING48, count: n, to: None };
    Operation {
        elements: n,
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        // The opened vector goes back in as a public one, so that the check sees it.
        run: Box::new(move |party| {
            let opened = step.run(party, &x.share)?.unwrap_or_default();
            Ok(Output::Numbers(fesc_mpc::Shared::public(RING48, party.role(), &opened)))
        }),
        error: Box::new(move |p| worst(p, n, |i, v| (RING48.to_signed(v) as f64 - x.values[i] as f64).abs())),
    }
}

/// One bundle of one product, and the truncation that brings the scale back.
fn product(
    bundle: Bundle,
    tensors: Vec<fesc_mpc::Shared>,
    results: usize,
    want: Vec<f64>,
) -> Result<Operation, MpcError> {
    let step = Bilinear { bundle };
    let truncate = Convert::truncate(RING48, FRAC, results)?;
    let declared = step.clone();
    Ok(Operation {
        elements: results,
        declare: Box::new(move |l| {
            declared.declare(l);
            truncate.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| {
            let mut products = step.run(party, &tensors.iter().collect::<Vec<_>>())?;
            let product = products.pop().ok_or(MpcError::Shape { what: "products", expected: 1, got: 0 })?;
            Ok(Output::Numbers(truncate.run(party, &product)?))
        }),
        error: Box::new(move |p| worst(p, results, |i, v| (real(RING48, FRAC, v) - want[i]).abs())),
    })
}

pub fn multiply(inputs: &mut Inputs, n: usize) -> Result<Operation, MpcError> {
    let [x, y] = [0, 1].map(|_| inputs.reals(RING48, FRAC, (-8.0, 8.0), n));
    let want = x.values.iter().zip(&y.values).map(|(a, b)| a * b).collect();
    product(Bundle::triples(RING48, n), vec![x.share, y.share], n, want)
}

pub fn square(inputs: &mut Inputs, n: usize) -> Result<Operation, MpcError> {
    let x = inputs.reals(RING48, FRAC, (-8.0, 8.0), n);
    let want = x.values.iter().map(|a| a * a).collect();
    product(Bundle::squares(RING48, n), vec![x.share], n, want)
}

pub fn matmul(inputs: &mut Inputs, n: usize) -> Result<Operation, MpcError> {
    let rows = n.div_ceil(SIDE);
    let x = inputs.reals(RING48, FRAC, (-1.0, 1.0), rows * SIDE);
    let y = inputs.reals(RING48, FRAC, (-1.0, 1.0), SIDE * SIDE);
    let entry = |r: usize, c: usize| (0..SIDE).map(|j| x.values[r * SIDE + j] * y.values[j * SIDE + c]).sum();
    let want = (0..rows * SIDE).map(|i| entry(i / SIDE, i % SIDE)).collect();
    product(Bundle::matmul(RING48, 1, rows, SIDE, SIDE), vec![x.share, y.share], rows * SIDE, want)
}

pub fn truncate(inputs: &mut Inputs, n: usize) -> Result<Operation, MpcError> {
    let x = inputs.reals(RING48, 2 * FRAC, (-64.0, 64.0), n);
    convert(Convert::truncate(RING48, FRAC, n)?, x.share, x.values)
}

pub fn extend(inputs: &mut Inputs, n: usize) -> Result<Operation, MpcError> {
    let from = Ring::new(32)?;
    let x = inputs.reals(from, FRAC, (-8192.0, 8192.0), n);
    convert(Convert::new(from, RING48, 0, n)?, x.share, x.values)
}

fn convert(step: Convert, share: fesc_mpc::Shared, values: Vec<f64>) -> Result<Operation, MpcError> {
    Ok(Operation {
        elements: values.len(),
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| Ok(Output::Numbers(step.run(party, &share)?))),
        error: Box::new(move |p| worst(p, values.len(), |i, v| (real(RING48, FRAC, v) - values[i]).abs())),
    })
}

/// Values take a quarter of the ring on each side, thresholds an eighth: no difference leaves the ring.
pub fn compare(inputs: &mut Inputs, n: usize, (bits, thresholds): (u32, usize)) -> Result<Operation> {
    if bits < 4 {
        return Err(anyhow!(crate::exit::Refusal::Usage("a measured comparison has at least 4 bits".into())));
    }
    let ring = Ring::new(bits)?;
    let x = inputs.integers(ring, bits - 2, n);
    let span = (1i64 << (bits - 3)) as f64;
    let place = |k: usize| (span * (2.0 * (k + 1) as f64 / (thresholds + 1) as f64 - 1.0)).round() as i64;
    let tau: Vec<i64> = (0..thresholds).map(place).collect();
    let wire: Vec<u64> = tau.iter().map(|&t| ring.from_signed(t)).collect();
    let step = Compare::new(ring, n, thresholds, Sender::Split)?;
    let wrong = move |p: &Plain| match p {
        Plain::Bits(b) if b.len() == tau.len() && b.iter().all(|b| b.len() == n) => {
            let right = |k: usize| (0..n).all(|i| b[k][i] == (x.values[i] >= tau[k]));
            if (0..tau.len()).all(right) { 0.0 } else { 1.0 }
        }
        _ => f64::NAN,
    };
    Ok(Operation {
        elements: n,
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| Ok(Output::Bits(step.run(party, &x.share, Thresholds::Same(&wire))?))),
        error: Box::new(wrong),
    })
}

pub fn mux(inputs: &mut Inputs, n: usize) -> Operation {
    let (x, b) = (inputs.integers(RING48, 46, n), inputs.bits(n));
    let step = Mux { ring: RING48, count: n };
    let want: Vec<i64> = x.values.iter().zip(&b.values).map(|(&x, &b)| if b { x } else { 0 }).collect();
    Operation {
        elements: n,
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| Ok(Output::Numbers(step.run(party, &b.share, &x.share)?))),
        error: Box::new(move |p| worst(p, n, |i, v| (RING48.to_signed(v) as f64 - want[i] as f64).abs())),
    }
}

pub fn mux_by_transfers(inputs: &mut Inputs, n: usize) -> Result<Operation> {
    let (x, b) = (inputs.integers(RING48, 46, n), inputs.bits(n));
    let step = CotMux::new(RING48, n, 1)?;
    let want: Vec<i64> = x.values.iter().zip(&b.values).map(|(&x, &b)| if b { x } else { 0 }).collect();
    Ok(Operation {
        elements: n,
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| Ok(Output::Numbers(step.run(party, &[&b.share], &[&x.share])?))),
        error: Box::new(move |p| worst(p, n, |i, v| (RING48.to_signed(v) as f64 - want[i] as f64).abs())),
    })
}

pub fn bit_to_arithmetic(inputs: &mut Inputs, n: usize) -> Operation {
    let b = inputs.bits(n);
    let step = BitToArithmetic { ring: RING48, count: n };
    Operation {
        elements: n,
        declare: Box::new(move |l| {
            step.declare(l);
            Ok(())
        }),
        run: Box::new(move |party| Ok(Output::Numbers(step.run(party, &b.share)?))),
        error: Box::new(move |p| {
            worst(p, n, |i, v| (RING48.to_signed(v) as f64 - f64::from(u8::from(b.values[i]))).abs())
        }),
    }
}

pub fn arg_max(inputs: &mut Inputs, n: usize) -> Operation {
    let rows = n.div_ceil(COLUMNS);
    let x = inputs.reals(RING48, FRAC, (-64.0, 64.0), rows * COLUMNS);
    let step = ArgMax { ring: RING48, rows, columns: COLUMNS };
    let missed = move |i: usize, v: u64| {
        let row = &x.values[i * COLUMNS..(i + 1) * COLUMNS];
        let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.get(v as usize).map_or(f64::INFINITY, |chosen| best - chosen)
    };
    Operation {
        elements: rows * COLUMNS,
        declare: Box::new(move |l| step.declare(l)),
        run: Box::new(move |party| Ok(Output::Numbers(step.run(party, &x.share)?))),
        error: Box::new(move |p| worst(p, rows, &missed)),
    }
}
