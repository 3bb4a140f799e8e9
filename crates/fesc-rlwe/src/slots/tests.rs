#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_ring::Prg;

use super::*;

mod conversions;
mod engine;
mod noise;
mod views;
mod wire;

fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

fn parties(seed: u8) -> (KeyHolder, Evaluator) {
    let params = SlotParams::standard().unwrap();
    let (holder, public) = KeyHolder::new(params.clone(), &mut prg(seed));
    (holder, Evaluator::new(params, &public).unwrap())
}

/// Centred values of 48 bits, the extremes among them.
fn values(rng: &mut Prg, count: usize) -> Vec<i64> {
    (0..count)
        .map(|i| match i {
            0 => -(1 << 47),
            1 => (1 << 47) - 1,
            2 => 1 << 47,
            3 => 0,
            _ => (rng.next_u64() as i64) >> 16,
        })
        .collect()
}

/// All sums of a combination.
fn combine(
    evaluator: &Evaluator,
    ciphers: &[Cipher],
    outputs: usize,
    run: usize,
    skip: impl Fn(usize, usize) -> bool + Sync,
    value: impl Fn(usize, usize, usize) -> i64 + Sync,
) -> crate::Result<Vec<Sum>> {
    let mut sums = Vec::with_capacity(outputs);
    evaluator.combine_each(ciphers, outputs, run, skip, value, |_, sum| {
        sums.push(sum);
        Ok::<_, crate::RlweError>(())
    })?;
    Ok(sums)
}
