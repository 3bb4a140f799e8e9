//! The evaluator with secure sets and the public interface: every operation against complex arithmetic, every
//! refusal with its numbers.
#![allow(clippy::unwrap_used)]

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::linear::Transform;
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, CkksError, Encoder, Params, ParamsLiteral, RingMask, noise};
use fesc_ring::Prg;
use fesc_ring::cpu::Path;
use num_complex::Complex64;
use sha2::{Digest, Sha256};

struct ClientAndServer {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    encoder: Encoder,
    prg: Prg,
}

impl ClientAndServer {
    fn new(log_n: u32, q_bits: &[u32], p_bits: &[u32], log_scale: u32, rotations: &[i64]) -> Self {
        let literal = ParamsLiteral { log_n, q_bits: q_bits.to_vec(), p_bits: p_bits.to_vec(), log_scale };
        let params = Params::new(&literal).unwrap();
        let mut prg = Prg::from_seed([9; 16]);
        let secret = SecretKey::generate(&params, &mut prg);
        let plan = EvaluationKeyPlan { rotations: rotations.to_vec(), conjugation: true, relinearisation: true };
        let generator = KeyGenerator::new(&secret);
        let made: Vec<_> = generator.keys(&plan, &mut prg).map(Result::unwrap).collect();
        let public = generator.public_key(&mut prg).unwrap();
        let mut keys = EvaluationKeys::new(&params, &plan, public.id());
        made.into_iter().for_each(|key| keys.insert(key).unwrap());
        let (evaluator, encoder) = (Evaluator::new(&params, keys).unwrap(), Encoder::new(&params));
        Self { params, secret, public, evaluator, encoder, prg }
    }

    /// Slots on the unit circle, all round it, by operations that every machine rounds alike.
    fn values(&mut self) -> Vec<Complex64> {
        let mut next = || {
            let word = self.prg.next_u64();
            // The tangent of half an angle between -1 and 1: the right half of the circle, turned by a random
            // power of i.
            let t = (word >> 12) as f64 / 2f64.powi(51) - 1.0;
            let z = Complex64::new((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
            (0..word & 3).fold(z, |z, _| Complex64::new(-z.im, z.re))
        };
        (0..self.params.slots()).map(|_| next()).collect()
    }

    fn encrypt(&mut self, values: &[Complex64], level: usize, scale: f64) -> Ciphertext {
        let plain = self.encoder.encode(values, level, scale).unwrap();
        SecretEncryptor::new(&self.secret).encrypt(&plain, &mut self.prg).unwrap().expand(self.public.id())
    }

    fn fresh(&mut self, level: usize) -> (Vec<Complex64>, Ciphertext) {
        let values = self.values();
        let c = self.encrypt(&values, level, self.params.scale());
        (values, c)
    }

    fn errors(&self, c: &Ciphertext, want: impl Fn(usize) -> Complex64) -> Vec<f64> {
        let plain = Decryptor::new(&self.secret).decrypt(c).unwrap();
        let got = self.encoder.decode(&plain).unwrap();
        got.iter().enumerate().map(|(i, g)| (g - want(i)).norm()).collect()
    }

    fn error(&self, c: &Ciphertext, want: impl Fn(usize) -> Complex64) -> f64 {
        self.errors(c, want).into_iter().fold(0.0, f64::max)
    }
}

/// One special prime at N = 4096; one and two at N = 8192. Within 106 and 214 bits.
const SETS: [(u32, &[u32], &[u32], u32); 3] =
    [(12, &[37, 30], &[38], 30), (13, &[46, 38, 38, 38], &[48], 38), (13, &[38, 33, 33, 33], &[37, 37], 33)];

#[test]
fn every_operation_agrees_with_complex_arithmetic_at_every_level() {
    let steps = [1, -1, 100];
    for (log_n, q_bits, p_bits, log_scale) in SETS {
        let mut pair = ClientAndServer::new(log_n, q_bits, p_bits, log_scale, &steps);
        let (n, top) = (pair.params.slots(), pair.params.levels());
        // Six deviations of a few roundings.
        let bound = 64.0 * noise::slot_deviation(&pair.params, noise::rounding(&pair.params), pair.params.scale());
        for level in 0..=top {
            let ((x, a), (y, b)) = (pair.fresh(level), pair.fresh(level));
            let m = pair.encoder.encode(&y, level, pair.params.scale()).unwrap();
            let e = &pair.evaluator;
            let check = |name: &str, c: Ciphertext, want: &dyn Fn(usize) -> Complex64| {
                let error = pair.error(&c, want);
                assert!(error < bound, "{name} at level {level} of N = 2^{log_n}: {error:e} over {bound:e}");
            };
            check("add", e.add(&a, &b).unwrap(), &|i| x[i] + y[i]);
            check("sub", e.sub(&a, &b).unwrap(), &|i| x[i] - y[i]);
            check("negate", e.negate(&a).unwrap(), &|i| -x[i]);
            check("add_plain", e.add_plain(&a, &m).unwrap(), &|i| x[i] + y[i]);
            check("sub_plain", e.sub_plain(&a, &m).unwrap(), &|i| x[i] - y[i]);
            check("multiply_by_i", e.multiply_by_i(&a).unwrap(), &|i| Complex64::I * x[i]);
            let c = Complex64::new(-0.75, 0.5);
            check("add_constant", e.add_constant(&a, c).unwrap(), &|i| x[i] + c);
            check("conjugate", e.conjugate(&a).unwrap(), &|i| x[i].conj());
            for step in steps.into_iter().chain([0, n as i64, n as i64 - 1]) {
                let want = |i: usize| x[(i as i64 + step).rem_euclid(n as i64) as usize];
                check("rotate", e.rotate(&a, step).unwrap(), &want);
            }
            let mut z = a.clone();
            e.add_assign(&mut z, &b).unwrap();
            e.negate_assign(&mut z).unwrap();
            e.sub_assign(&mut z, &a).unwrap();
            e.add_plain_assign(&mut z, &m).unwrap();
            e.sub_plain_assign(&mut z, &m).unwrap();
            e.multiply_by_i_assign(&mut z).unwrap();
            e.add_constant_assign(&mut z, c).unwrap();
            check("in place", z, &|i| Complex64::I * (-(x[i] + y[i]) - x[i]) + c);
            for lower in 0..=level {
                let low = e.drop_to_level(&a, lower).unwrap();
                assert_eq!((low.level(), low.scale()), (lower, a.scale()));
                check("drop_to_level", low, &|i| x[i]);
            }
            if level == 0 {
                continue;
            }
            check("multiply_plain", e.multiply_plain(&a, &m).unwrap(), &|i| x[i] * y[i]);
            let mut z = a.clone();
            e.multiply_plain_assign(&mut z, &m).unwrap();
            check("multiply_plain_assign", e.rescale(&z).unwrap(), &|i| x[i] * y[i]);
            let q = pair.params.modulus(level).value() as f64;
            let scaled = e.multiply_constant(&a, c, q).unwrap();
            let back = e.rescale(&scaled).unwrap();
            assert_eq!((back.level(), back.scale()), (level - 1, a.scale()));
            check("multiply_constant", back, &|i| x[i] * c);
            check("multiply", e.multiply(&a, &b).unwrap(), &|i| x[i] * y[i]);
            check("square", e.square(&a).unwrap(), &|i| x[i] * x[i]);
            check("multiply_rescale", e.multiply_rescale(&a, &b).unwrap(), &|i| x[i] * y[i]);
            check("square_rescale", e.square_rescale(&a).unwrap(), &|i| x[i] * x[i]);
            let sum = e.add_tensor(&e.tensor(&a, &b).unwrap(), &e.tensor_square(&a).unwrap()).unwrap();
            check("relinearise", e.relinearise(&sum).unwrap(), &|i| x[i] * (x[i] + y[i]));
            check("relinearise_rescale", e.relinearise_rescale(&sum).unwrap(), &|i| x[i] * (x[i] + y[i]));
        }
    }
}

#[test]
fn mismatches_are_errors_with_the_numbers() {
    let mut pair = ClientAndServer::new(12, &[37, 30], &[38], 30, &[]);
    let other = ClientAndServer::new(12, &[36, 30], &[38], 30, &[]);
    let (x, a) = pair.fresh(1);
    let low = pair.fresh(0).1;
    let coarse = pair.encrypt(&x, 1, 2f64.powi(29));
    let close = pair.encrypt(&x, 1, 2f64.powi(30) * (1.0 + 2f64.powi(-41)));
    let m = pair.encoder.encode(&x, 0, pair.params.scale()).unwrap();
    let coarse_plain = pair.encoder.encode(&x, 1, 2f64.powi(29)).unwrap();
    let e = &pair.evaluator;
    let levels = Some(CkksError::LevelMismatch { left: 1, right: 0 });
    assert_eq!(e.add(&a, &low).err(), levels);
    assert_eq!(e.sub_assign(&mut a.clone(), &low).err(), levels);
    assert_eq!(e.multiply(&a, &low).err(), levels);
    assert_eq!(e.multiply_rescale(&a, &low).err(), levels);
    assert_eq!(e.add_plain(&a, &m).err(), levels);
    assert_eq!(e.multiply_plain(&a, &m).err(), levels);
    let scales = Some(CkksError::ScaleMismatch { left: a.scale(), right: coarse.scale(), difference: 0.5 });
    assert_eq!(e.add(&a, &coarse).err(), scales);
    assert_eq!(e.sub(&a, &coarse).err(), scales);
    assert_eq!(e.add_plain(&a, &coarse_plain).err(), scales);
    assert_eq!(e.sub_plain_assign(&mut a.clone(), &coarse_plain).err(), scales);
    assert!(e.add(&a, &close).is_ok(), "a difference of 2^-41 is rounding");
    assert_eq!(e.rescale(&low).err(), Some(CkksError::NoLevel { operation: "rescaling" }));
    // The product of the scales has 60 bits, level 0 has 37, level 1 has 67.
    assert!(matches!(e.multiply(&low, &low), Err(CkksError::Scale { level: 0, .. })));
    assert!(matches!(e.multiply_constant(&a, 1.0.into(), 2f64.powi(38)), Err(CkksError::Scale { level: 1, .. })));
    assert!(matches!(e.multiply_constant(&a, f64::NAN.into(), 2.0), Err(CkksError::NotFinite { .. })));
    assert!(matches!(e.multiply_constant(&a, 1e300.into(), 2.0), Err(CkksError::TooLarge { level: 1, .. })));
    assert!(matches!(e.add_constant(&a, 1e20.into()), Err(CkksError::TooLarge { level: 1, .. })));
    // Nothing would be left of a scale of 2^30 but 1; of one of 2^10 less.
    let fine = pair.evaluator.drop_to_level(&a, 2).err();
    assert_eq!(fine, Some(CkksError::Level { level: 2, max: 1 }));
    let thin = SecretEncryptor::new(&pair.secret)
        .encrypt(&pair.encoder.encode(&x, 1, 1024.0).unwrap(), &mut Prg::from_seed([1; 16]))
        .unwrap()
        .expand(pair.public.id());
    assert!(matches!(e.rescale(&thin), Err(CkksError::Scale { level: 0, .. })));
    let wide = e.multiply_constant(&a, 1.0.into(), 256.0).unwrap();
    assert!(matches!(e.drop_to_level(&wide, 0), Err(CkksError::Scale { level: 0, .. })));
    let sets = e.add(&a, &a).and_then(|c| other.evaluator.add(&c, &c)).err();
    assert!(matches!(sets, Some(CkksError::ParamsMismatch { .. })));
    for result in [other.evaluator.rotate(&a, 0), other.evaluator.multiply(&a, &a), other.evaluator.rescale(&a)] {
        assert!(matches!(result.err(), Some(CkksError::ParamsMismatch { .. })));
    }
    let keys = EvaluationKeys::new(&other.params, &EvaluationKeyPlan::default(), other.public.id());
    assert!(matches!(Evaluator::new(&pair.params, keys).err(), Some(CkksError::ParamsMismatch { .. })));
}

#[test]
fn a_missing_key_is_named_with_the_step_and_the_remedy() {
    let mut pair = ClientAndServer::new(12, &[37, 30], &[38], 30, &[2]);
    let (_, a) = pair.fresh(1);
    let e = &pair.evaluator;
    for text in
        [e.rotate(&a, -3), e.rotate_many(&a, &[2, -3]).map(|mut v| v.remove(0))].map(|r| r.err().unwrap().to_string())
    {
        assert!(text.contains("rotation by -3 ") && text.contains("client's plan"), "{text}");
    }
    let none = EvaluationKeys::new(&pair.params, &EvaluationKeyPlan::default(), pair.public.id());
    let bare = Evaluator::new(&pair.params, none).unwrap();
    let text = bare.conjugate(&a).err().unwrap().to_string();
    assert!(text.contains("conjugation") && text.contains("client's plan"), "{text}");
    for result in [bare.multiply(&a, &a), bare.multiply_rescale(&a, &a), bare.square(&a)] {
        let text = result.err().unwrap().to_string();
        assert!(text.contains("relinearisation") && text.contains("client's plan"), "{text}");
    }
    // What needs no key needs none.
    assert!(bare.rotate(&a, 0).is_ok() && bare.tensor(&a, &a).is_ok());
}

/// 2^-22 after a product at scale 2^40, and a loss per level that is the formula's to within a bit.
#[test]
fn precision_after_each_product_is_the_formulas() {
    let mut pair = ClientAndServer::new(13, &[50, 40, 40], &[50], 40, &[]);
    let params = pair.params.clone();
    let (mut want, mut c) = pair.fresh(2);
    let mut variance = noise::fresh_secret() + 1.0 / 12.0;
    for level in [2, 1] {
        let (y, b) = pair.fresh(level);
        let fresh = noise::fresh_secret() + 1.0 / 12.0;
        let product =
            noise::tensor(&params, (noise::energy(1.0, c.scale()), variance), (noise::energy(1.0, b.scale()), fresh));
        variance = noise::relinearise_rescale(&params, level, product).unwrap();
        c = pair.evaluator.multiply_rescale(&c, &b).unwrap();
        want.iter_mut().zip(&y).for_each(|(w, y)| *w *= y);
        let errors = pair.errors(&c, |i| want[i]);
        let largest = errors.iter().fold(0.0, |a: f64, &b| a.max(b));
        assert!(largest < 2f64.powi(-22), "level {level}: 2^{}", largest.log2());
        let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        let formula = noise::precision_bits(&params, variance, c.scale());
        assert!((-deviation.log2() - formula).abs() < 0.2, "level {level}: {} bits for {formula}", -deviation.log2());
    }
}

/// A product, a rotation, hoisted rotations and a linear map from fixed seeds, as bytes.
fn bytes() -> [u8; 32] {
    let mut hash = Sha256::new();
    for (log_n, q_bits, p_bits, log_scale) in SETS {
        let mut pair = ClientAndServer::new(log_n, q_bits, p_bits, log_scale, &[1, 2, 3, 4]);
        let level = pair.params.levels();
        let ((x, a), (_, b)) = (pair.fresh(level), pair.fresh(level));
        let e = &pair.evaluator;
        let diagonals: Vec<_> = (0..6).map(|k| (k, x.clone())).collect();
        let scale = pair.params.modulus(level).value() as f64;
        let map = Transform::prepare(&pair.params, &diagonals, level, scale, std::num::NonZeroUsize::new(4)).unwrap();
        let mut results = e.rotate_many(&a, &[1, 3]).unwrap();
        results.push(e.decompose(&a).unwrap().rotate(2).unwrap());
        results.push(e.multiply_rescale(&a, &b).unwrap());
        results.push(e.multiply(&a, &b).unwrap());
        results.push(e.rescale(&e.square(&b).unwrap()).unwrap());
        results.push(e.conjugate(&a).unwrap());
        results.push(e.multiply_constant(&a, Complex64::new(0.5, -0.25), 16.0).unwrap());
        results.push(map.apply(e, &a).unwrap());
        results.push(map.apply_rescale(e, &a).unwrap());
        for c in results {
            let zero = pair.public.zero(c.level(), &mut pair.prg).unwrap();
            let mask = RingMask::uniform(&pair.params, c.level(), &mut pair.prg).unwrap();
            let mut out = Vec::new();
            c.mask(zero, mask).unwrap().0.write(&mut out).unwrap();
            hash.update(&out);
        }
    }
    hash.finalize().into()
}

fn on_threads(count: usize) -> [u8; 32] {
    rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap().install(bytes)
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let one = on_threads(1);
    assert_eq!(on_threads(2), one);
    assert_eq!(on_threads(3), one);
}

#[test]
fn known_answer() {
    let text: String = on_threads(1).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(text, "0569b422c462ff992e56b10c5080785c7c615081f35aaa3bb066218a7658014c");
}

/// This program again, held to each path: the answer is the known one.
#[test]
fn the_bytes_are_the_same_on_every_path() {
    let program = std::env::current_exe().unwrap();
    for path in Path::available() {
        let output = std::process::Command::new(&program)
            .args(["known_answer", "--exact"])
            .env("FESC_SIMD", path.name())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", path.name());
    }
}

/// A ciphertext of one client under the keys of another of the same set: every operation refuses it, as does
/// a sum of both.
#[test]
fn ciphertexts_of_another_client_are_refused() {
    let mut pair = ClientAndServer::new(12, &[37, 30], &[38], 30, &[1]);
    let (_, mine) = pair.fresh(1);
    let mut prg = Prg::from_seed([77; 16]);
    let secret = SecretKey::generate(&pair.params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    let plain = pair.encoder.encode_real(&[1.0], 1, pair.params.scale()).unwrap();
    let theirs = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().expand(public.id());
    let e = &pair.evaluator;
    let ones = vec![Complex64::ONE; pair.params.slots()];
    let map = Transform::prepare(&pair.params, &[(1, ones)], 1, 2f64.powi(20), None);
    let refused = |result: fesc_ckks::Result<Ciphertext>| matches!(result, Err(CkksError::KeyMismatch { .. }));
    for (a, b) in [(&theirs, &theirs), (&mine, &theirs), (&theirs, &mine)] {
        assert!(refused(e.add(a, b)) && refused(e.sub(a, b)) && refused(e.multiply(a, b)));
        assert!(refused(e.multiply_rescale(a, b)) && refused(e.add_assign(&mut a.clone(), b).map(|()| a.clone())));
    }
    for result in [
        e.rotate(&theirs, 0),
        e.rotate(&theirs, 1),
        e.conjugate(&theirs),
        e.negate(&theirs),
        e.rescale(&theirs),
        e.square(&theirs),
        e.add_plain(&theirs, &plain),
        e.multiply_plain(&theirs, &plain),
        e.multiply_by_i(&theirs),
        e.add_constant(&theirs, 1.0.into()),
        e.drop_to_level(&theirs, 0),
        e.rotate_many(&theirs, &[1]).map(|mut all| all.remove(0)),
        e.decompose(&theirs).and_then(|h| h.rotate(1)),
        map.unwrap().apply(e, &theirs),
    ] {
        assert!(refused(result));
    }
    let text = e.add(&mine, &theirs).err().unwrap().to_string();
    assert!(text.contains(&pair.public.id().to_string()) && text.contains("that client's keys"), "{text}");
    // Control: its own.
    assert!(e.add(&mine, &mine).is_ok() && e.rotate(&mine, 1).is_ok());
}
