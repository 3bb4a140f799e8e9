#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use fesc_ckks::{Params, ParamsLiteral};
use fesc_ring::{Prg, Ring};
use num_complex::Complex64;

use super::Witness;
use crate::Result;
use crate::backend::{Backend, Chain, Plain, PlainCt, Term};
use crate::boundary::{Encoding, Fixed, Layout, MaskBound, ToCiphertexts, ToShares, Values};
use crate::circuit::Circuit;

const VALUES: usize = 6000;

/// N = 8192, four primes, one product; `fraction` bits of results.
fn circuit(fraction: u32) -> Circuit {
    let literal = ParamsLiteral { log_n: 13, q_bits: vec![40; 4], p_bits: vec![45], log_scale: 40 };
    let params = Params::new(&literal).unwrap();
    let ring = Ring::new(48).unwrap();
    let values = Values { ring, bits: 20, fraction: 18, inference: 1 << 13 };
    let encoding = Encoding::slots(3, Chain::of(&params).scale(3));
    let layout = Layout::compact(&params, VALUES).unwrap();
    let up = vec![ToCiphertexts::new(&params, layout, values, encoding).unwrap()];
    let bound = MaskBound { phase_bits: 44, masked: 1 << 13 };
    let scale = Chain::of(&params).scale(2);
    let down = ToShares::new(&params, 1, scale, bound, Fixed { ring, fraction }).unwrap();
    Circuit { up, down: vec![down] }
}

fn square<B: Backend>(b: &B, x: &B::Ct) -> Result<Vec<B::Ct>> {
    Ok(vec![b.combine(b.level(x), &[Term::Product(x, x)])?])
}

/// What two parties would have: the circuit with noise by formula, `times` its deviation, the values rounded
/// by chance.
fn witness(circuit: &Circuit, fraction: u32, times: f64, seed: u8) -> Witness {
    let mut prg = Prg::from_seed([seed; 16]);
    let tensor: Vec<i64> = (0..VALUES).map(|_| (prg.next_u64() as i64) >> 45).collect();
    let slots = circuit.up[0].slots(0, &tensor);
    let run = |plain: &Plain| -> Vec<Complex64> {
        let x = plain.fresh(&slots, 3).unwrap();
        square(plain, &x).unwrap()[0].slots().to_vec()
    };
    let params = circuit.down[0].params();
    let (exact, noisy) = (run(&Plain::of(params)), run(&Plain::noisy(params, prg.fork())));
    let mut lane = |part: fn(&Complex64) -> f64| {
        let all = exact.iter().zip(&noisy).map(|(e, n)| {
            let value = (part(e) + times * (part(n) - part(e))) * f64::from(fraction).exp2();
            let chance = (prg.next_u64() >> 11) as f64 / 2f64.powi(53);
            value.floor() as i64 + i64::from(chance < value - value.floor())
        });
        all.collect::<Vec<i64>>()
    };
    let (re, im) = (lane(|z| z.re), lane(|z| z.im));
    Witness { parts: vec![tensor, re, im] }
}

fn deviation(circuit: &Circuit, witness: &Witness) -> Result<super::Deviation> {
    circuit.deviation(witness, |plain, input| square::<Plain>(plain, &input(0)?))
}

#[test]
fn results_within_the_noise_formula_agree_and_noisier_ones_do_not() {
    // Noise of many units, and of a small part of one.
    for fraction in [36, 20] {
        let circuit = circuit(fraction);
        let found = deviation(&circuit, &witness(&circuit, fraction, 1.0, 3)).unwrap();
        assert!(found.within() && found.rms > 0.6 * found.formula, "{fraction} bits: {found:?}");
    }
    let noisy = deviation(&circuit(36), &witness(&circuit(36), 36, 3.0, 3)).unwrap();
    assert!(!noisy.within(), "{noisy:?}");
}

#[test]
fn one_wrong_lane_is_found_and_another_circuits_witness_is_refused() {
    for fraction in [36, 20] {
        let circuit = circuit(fraction);
        let mut one = witness(&circuit, fraction, 1.0, 4);
        // Two units where roundings are all there is; where noise is many, as many again.
        let off = if fraction == 20 { 2 } else { 60 * (deviation(&circuit, &one).unwrap().rms * 2f64.powi(36)) as i64 };
        one.parts[2][7] += off;
        let found = deviation(&circuit, &one).unwrap();
        assert!(!found.within() && found.rms < found.rms_limit(), "{fraction} bits: {found:?}");
        one.parts[2].pop();
        assert!(deviation(&circuit, &one).is_err());
        one.parts.clear();
        assert!(deviation(&circuit, &one).is_err());
    }
    let nobody: fn(&Plain, &PlainCt) -> Result<Vec<PlainCt>> = |_, _| Ok(Vec::new());
    let circuit = circuit(20);
    let none = circuit.deviation(&witness(&circuit, 20, 1.0, 4), |plain, input| nobody(plain, &input(0)?));
    assert!(none.is_err(), "a kernel without results");
}
