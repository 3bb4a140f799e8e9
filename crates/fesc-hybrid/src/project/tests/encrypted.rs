//! Under encryption, with a real set.

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeys, Evaluator, KeyId};
use fesc_ckks::{Params, sets};
use fesc_ring::Prg;
use num_complex::Complex64;

use crate::Result;
use crate::backend::{Backend, Chain, Ckks, CkksCt, Count, Plain, PlainCt};
use crate::project::{InProjection, Lane, Layout, Pairing, SquareSums};

use super::clear::{Layer, error, numbers, read, slots};

struct Session {
    secret: SecretKey,
    owner: KeyId,
    server: Ckks,
    seed: u8,
}

impl Session {
    /// With the keys that what `counted` runs needs.
    fn new(params: &Params, counted: impl FnOnce(&Count)) -> Self {
        let count = Count::new(Chain::of(params));
        counted(&count);
        let plan = count.operations().key_plan();
        let mut prg = Prg::from_seed([21; 16]);
        let secret = SecretKey::generate(params, &mut prg);
        let owner = KeyGenerator::new(&secret).public_key(&mut prg).unwrap().id();
        let mut keys = EvaluationKeys::new(params, &plan, owner);
        for key in KeyGenerator::new(&secret).keys(&plan, &mut prg) {
            keys.insert(key.unwrap()).unwrap();
        }
        let server = Ckks::new(Evaluator::new(params, keys).unwrap(), 2).unwrap();
        Self { secret, owner, server, seed: 0 }
    }

    fn encrypt(&self, lanes: &[Lane], values: &[f64], level: usize, number: usize) -> Result<CkksCt> {
        let scale = self.server.chain().scale(level);
        let plain = self.server.encoder().encode(&slots(lanes, values), level, scale)?;
        let mut prg = Prg::from_seed([self.seed.wrapping_add(number as u8); 16]);
        Ok(SecretEncryptor::new(&self.secret).encrypt(&plain, &mut prg)?.expand(self.owner))
    }

    fn decrypt(&self, results: &[CkksCt]) -> Vec<Vec<Complex64>> {
        let decryptor = Decryptor::new(&self.secret);
        let open = |c: &CkksCt| self.server.encoder().decode(&decryptor.decrypt(c).unwrap()).unwrap();
        results.iter().map(open).collect()
    }
}

/// Errors of results against the formula: `clear` are the same results in the clear. Both ways, since a
/// formula that is too large says as little as one that is too small.
fn errors_are_those_of_the_formula(got: &[f64], want: &[f64], outputs: &[Vec<Lane>], clear: &[PlainCt]) {
    let rms = |squares: f64| (squares / want.len() as f64).sqrt();
    let measured = rms(got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum());
    // Half of a slot's error is in each part.
    let halves = |c: &PlainCt| c.errors().iter().map(|e| Complex64::new(e / 2.0, e / 2.0)).collect();
    let formula = rms(read(outputs, &clear.iter().map(halves).collect::<Vec<_>>(), want.len()).iter().sum());
    println!("{:.3} times the formula", measured / formula);
    assert!(measured < 2.0 * formula && formula < 2.0 * measured, "{measured:e}, formula {formula:e}");
}

#[test]
fn an_encrypted_projection_with_convolution_is_the_direct_sum() {
    let params = sets::PROJECT.params().unwrap();
    for (pairing, tokens) in [(Pairing::Tokens, 2 * 2048 + 5), (Pairing::Features, 2051)] {
        // A group of 2048 rows and one more, which is nearly empty.
        let layout = Layout { slots: params.slots(), segment: 8, tokens, pairing, floor: 2 };
        let layer = Layer::random(tokens, [11, 14], 3..10, 4);
        let kernel = InProjection::new(layout, layer.rows, layer.columns, layer.range.clone(), 4).unwrap();
        let (weights, taps, bias) = (
            |r: usize, c: usize| layer.w[r * layer.columns + c],
            |c: usize, r: usize| layer.taps[c * layer.count + r],
            |c: usize| layer.bias[c],
        );
        let session = Session::new(&params, |count| {
            kernel.run(count, &weights, &taps, &bias, &|_| Ok(count.fresh(kernel.level()))).unwrap();
        });
        let input = |i| session.encrypt(&kernel.lanes(i), &layer.x, kernel.level(), i);
        let results = kernel.run(&session.server, &weights, &taps, &bias, &input).unwrap();
        assert!(results.iter().all(|c| c.level() == 2));
        let outputs: Vec<_> = (0..kernel.results()).map(|i| kernel.outputs(i)).collect();
        let got = read(&outputs, &session.decrypt(&results), tokens * layer.columns);
        let e = error(&got, &layer.want());
        assert!(e < 2f64.powi(-20), "2^{:.1}", e.log2());
        // What is counted in the clear is what was done.
        let plain = Plain::of(&params);
        let input = |i| plain.fresh(&slots(&kernel.lanes(i), &layer.x), kernel.level());
        let clear = kernel.run(&plain, &weights, &taps, &bias, &input).unwrap();
        assert_eq!(plain.operations().tally(), session.server.operations().tally());
        errors_are_those_of_the_formula(&got, &layer.want(), &outputs, &clear);
    }
}

#[test]
fn encrypted_sums_of_squares_are_those_of_each_token() {
    let params = sets::PROJECT.params().unwrap();
    let layout = Layout { slots: params.slots(), segment: 16, tokens: 1500, pairing: Pairing::Tokens, floor: 2 };
    let kernel = SquareSums::new(layout, 21).unwrap();
    let x = numbers(1500 * 21, 12);
    let session = Session::new(&params, |count| {
        kernel.run(count, &|_| Ok(count.fresh(kernel.level()))).unwrap();
    });
    let input = |i| session.encrypt(&kernel.lanes(i), &x, kernel.level(), i);
    let results = kernel.run(&session.server, &input).unwrap();
    let outputs: Vec<_> = (0..kernel.results()).map(|i| kernel.outputs(i)).collect();
    let want: Vec<f64> = x.chunks(21).map(|x| x.iter().map(|x| x * x).sum()).collect();
    let got = read(&outputs, &session.decrypt(&results), 1500);
    let e = error(&got, &want);
    assert!(e < 2f64.powi(-19), "2^{:.1}", e.log2());
    let plain = Plain::of(&params);
    let clear = kernel.run(&plain, &|i| plain.fresh(&slots(&kernel.lanes(i), &x), kernel.level())).unwrap();
    errors_are_those_of_the_formula(&got, &want, &outputs, &clear);
}
