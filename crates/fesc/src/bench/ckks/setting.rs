//! A client and a server of one set in one process, the operands of all operations, and the true results.

use anyhow::{Result, bail};
use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, CkksError, Encoder, Params, Plaintext, Upload};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::op::{CkksOp, STEPS};
use crate::random::os_random;

/// Level of `decode_boundary`: two primes are left.
const BOUNDARY_LEVEL: usize = 1;

/// Keys and operands.
pub struct Setting {
    encoder: Encoder,
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    prg: Prg,
    /// Two vectors of slots, inside the unit disc.
    values: [Vec<Complex64>; 2],
    /// The same, encoded at the top level.
    plain: [Plaintext; 2],
    /// The first one at the level of the boundary.
    low: Plaintext,
    /// The same, encrypted.
    operands: [Ciphertext; 2],
    /// The first ciphertext times the second plaintext, at the square of the scale.
    product: Ciphertext,
    integers: Vec<i64>,
}

/// What an operation made.
pub enum Made {
    /// No value.
    Nothing,
    /// Coefficients, in the setting.
    Integers,
    Plain(Plaintext),
    Slots(Vec<Complex64>),
    Upload(Upload),
    One(Ciphertext),
    Many(Vec<Ciphertext>),
}

impl Setting {
    /// Makes keys and operands.
    pub fn new(params: &Params, plan: &EvaluationKeyPlan) -> Result<Self> {
        let mut prg = os_random()?;
        let (encoder, level, scale) = (Encoder::new(params), params.levels(), params.scale());
        let values = [slots(params, &mut prg), slots(params, &mut prg)];
        let plain = [encoder.encode(&values[0], level, scale)?, encoder.encode(&values[1], level, scale)?];
        let low = encoder.encode(&values[0], BOUNDARY_LEVEL, scale)?;
        let secret = SecretKey::generate(params, &mut prg);
        let generator = KeyGenerator::new(&secret);
        let public = generator.public_key(&mut prg)?;
        let mut keys = EvaluationKeys::new(params, plan, public.id());
        for key in generator.keys(plan, &mut prg) {
            keys.insert(key?)?;
        }
        let evaluator = Evaluator::new(params, keys)?;
        // As a client sends them: by its secret key, which has less noise than the public one.
        let encryptor = SecretEncryptor::new(&secret);
        let mut operand = |m: &Plaintext| Ok::<_, CkksError>(encryptor.encrypt(m, &mut prg)?.expand(public.id()));
        let operands = [operand(&plain[0])?, operand(&plain[1])?];
        let product = evaluator.multiply_plain(&operands[0], &plain[1])?;
        let integers = vec![0; params.degree()];
        Ok(Self { encoder, secret, public, evaluator, prg, values, plain, low, operands, product, integers })
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        self.encoder.params()
    }

    /// Both operands at a level, and their slots.
    pub fn at_level(&self, level: usize) -> Result<([Ciphertext; 2], &[Vec<Complex64>; 2])> {
        let [a, b] = &self.operands;
        Ok(([self.evaluator.drop_to_level(a, level)?, self.evaluator.drop_to_level(b, level)?], &self.values))
    }

    /// The encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The server.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// `-log2` of the largest distance of decrypted slots from the true ones.
    pub fn bits(&self, c: &Ciphertext, truth: impl Fn(usize) -> Complex64) -> Result<f64> {
        let slots = self.encoder.decode(&Decryptor::new(&self.secret).decrypt(c)?)?;
        Ok(-slots.iter().enumerate().map(|(i, slot)| (slot - truth(i)).norm()).fold(0.0, f64::max).log2())
    }

    /// Does it once.
    pub fn perform(&mut self, op: CkksOp) -> Result<Made> {
        let (level, scale) = (self.params().levels(), self.params().scale());
        let [a, b] = &self.operands;
        Ok(match op {
            CkksOp::Encode => Made::Plain(self.encoder.encode(&self.values[0], level, scale)?),
            CkksOp::EncodeCoefficients => {
                self.encoder.encode_slots_to_integers(&self.values[0], scale, &mut self.integers)?;
                Made::Integers
            }
            CkksOp::Encrypt => Made::One(self.public.encrypt(&self.plain[0], &mut self.prg)?),
            CkksOp::EncryptSecret => {
                Made::Upload(SecretEncryptor::new(&self.secret).encrypt(&self.plain[0], &mut self.prg)?)
            }
            CkksOp::Decrypt => Made::Plain(Decryptor::new(&self.secret).decrypt(a)?),
            CkksOp::Decode => Made::Slots(self.encoder.decode(&self.plain[0])?),
            CkksOp::DecodeBoundary => Made::Slots(self.encoder.decode(&self.low)?),
            CkksOp::Add => Made::One(self.evaluator.add(a, b)?),
            CkksOp::MultiplyPlain => Made::One(self.evaluator.multiply_plain(a, &self.plain[1])?),
            CkksOp::Multiply => Made::One(self.evaluator.multiply(a, b)?),
            CkksOp::MultiplyRescale => Made::One(self.evaluator.multiply_rescale(a, b)?),
            CkksOp::Rescale => Made::One(self.evaluator.rescale(&self.product)?),
            CkksOp::Rotate => Made::One(self.evaluator.rotate(a, STEPS[0])?),
            CkksOp::Conjugate => Made::One(self.evaluator.conjugate(a)?),
            CkksOp::Hoisted8 => Made::Many(self.evaluator.rotate_many(a, &STEPS)?),
        })
    }

    /// `-log2` of the largest error in a slot of what `op` made.
    pub fn precision(&self, op: CkksOp, made: Made) -> Result<f64> {
        let decrypted = |c: &Ciphertext| self.encoder.decode(&Decryptor::new(&self.secret).decrypt(c)?);
        let results = match made {
            Made::Nothing => bail!("{}: no result to compare", op.name()),
            Made::Integers => {
                let plain = self.encoder.encode_coefficients(&self.integers, BOUNDARY_LEVEL, self.params().scale())?;
                vec![self.encoder.decode(&plain)?]
            }
            Made::Plain(plain) => vec![self.encoder.decode(&plain)?],
            Made::Slots(slots) => vec![slots],
            Made::Upload(upload) => vec![decrypted(&upload.expand(self.public.id()))?],
            Made::One(c) => vec![decrypted(&c)?],
            Made::Many(all) => all.iter().map(decrypted).collect::<Result<_, _>>()?,
        };
        let mut largest: f64 = 0.0;
        for (slots, k) in results.iter().zip(0..) {
            for (i, slot) in slots.iter().enumerate() {
                largest = largest.max((slot - self.truth(op, k, i)).norm());
            }
        }
        Ok(-largest.log2())
    }

    /// Slot `i` of result `k`.
    fn truth(&self, op: CkksOp, k: usize, i: usize) -> Complex64 {
        let [x, y] = &self.values;
        match op {
            CkksOp::Add => x[i] + y[i],
            CkksOp::MultiplyPlain | CkksOp::Multiply | CkksOp::MultiplyRescale | CkksOp::Rescale => x[i] * y[i],
            CkksOp::Rotate | CkksOp::Hoisted8 => x[(i + STEPS[k] as usize) % x.len()],
            CkksOp::Conjugate => x[i].conj(),
            _ => x[i],
        }
    }
}

/// Random slots inside the unit disc.
fn slots(params: &Params, prg: &mut Prg) -> Vec<Complex64> {
    let mut coordinate = || ((prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0) * std::f64::consts::FRAC_1_SQRT_2;
    (0..params.slots()).map(|_| Complex64::new(coordinate(), coordinate())).collect()
}
