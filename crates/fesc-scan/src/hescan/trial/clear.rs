//! A random packet, and a kernel on it in the clear.

use fesc_ckks::Params;
use fesc_hybrid::Result;
use fesc_hybrid::backend::{Chain, Count, Plain, PlainCt};
use fesc_ring::Prg;
use num_complex::Complex64;

use crate::hescan::{Factor, Factors, Given, HeScan, ScanShape, Value, decay_product};

/// A packet in the clear.
pub struct ClearPacket {
    shape: ScanShape,
    factors: Factors,
    x: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    /// The state that enters: coordinate by coordinate, rows of channels.
    state: Vec<f64>,
    /// Whether the last state is an output too.
    carry_out: bool,
}

impl ClearPacket {
    /// Values in -1 .. 1, decays of absolute values in 0 .. 1, every second one of a token's above 0.9; what
    /// the server knows is as given. No state enters or is handed on.
    pub fn random(shape: ScanShape, factors: &Factors, seed: u8) -> Self {
        let mut prg = Prg::from_seed([seed; 16]);
        let mut unit = || (prg.next_u64() >> 11) as f64 / 2f64.powi(53);
        let (tokens, states, decays) = (shape.tokens, shape.groups * shape.state, factors.decays(&shape));
        let mut signed = |n: usize| (0..n).map(|_| 2.0 * unit() - 1.0).collect::<Vec<f64>>();
        let x = signed(tokens * shape.channels());
        let drawn = |factor: &Factor, size: usize, draw: &mut dyn FnMut(usize) -> Vec<f64>| match &factor.given {
            Given::Encrypted => draw(factor.values(tokens, size)),
            Given::Plain(values) | Given::Fixed(values) => values.to_vec(),
        };
        let (b, c) = (drawn(&factors.b, states, &mut signed), drawn(&factors.c, states, &mut signed));
        let a = drawn(&factors.a, decays, &mut |n| {
            let numbers = n / (1 + usize::from(factors.a.complex));
            let size = |i: usize, u: f64| if (i % decays).is_multiple_of(2) { u } else { 0.9 + 0.1 * u };
            let turned = |i: usize| {
                let r = size(i, unit());
                if factors.a.complex {
                    let z = Complex64::from_polar(r, std::f64::consts::TAU * unit());
                    vec![z.re, z.im]
                } else {
                    vec![r]
                }
            };
            (0..numbers).flat_map(turned).collect()
        });
        let state = vec![0.0; shape.state * shape.channels()];
        Self { shape, factors: factors.clone(), x, a, b, c, state, carry_out: false }
    }

    /// What a kernel takes: with a state in -1 .. 1, if one enters.
    pub fn of(kernel: &impl HeScan, seed: u8) -> Self {
        let [carry_in, carry_out] = kernel.carried();
        let mut clear = Self { carry_out, ..Self::random(*kernel.shape(), kernel.factors(), seed) };
        if carry_in {
            let mut prg = Prg::from_seed([!seed; 16]);
            clear.state.fill_with(|| (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0);
        }
        clear
    }

    /// Some tokens of a packet of Mamba-2, after a state that came from elsewhere ([`Value::State`]).
    #[must_use]
    pub fn part(&self, tokens: std::ops::Range<usize>, state: Vec<f64>) -> Self {
        let ScanShape { heads, groups, state: coordinates, .. } = self.shape;
        let cut = |all: &[f64], width: usize| all[tokens.start * width..tokens.end * width].to_vec();
        Self {
            shape: ScanShape { tokens: tokens.len(), ..self.shape },
            factors: self.factors.clone(),
            x: cut(&self.x, self.shape.channels()),
            a: cut(&self.a, heads),
            b: cut(&self.b, groups * coordinates),
            c: cut(&self.c, groups * coordinates),
            state,
            carry_out: self.carry_out,
        }
    }

    /// The packet's a, B and C as the server's: for every token, or those of the first for all.
    pub fn known(&self, fixed: bool) -> [Given; 3] {
        let first = |values: &Vec<f64>| Given::Fixed(values[..values.len() / self.shape.tokens].into());
        let every = |values: &Vec<f64>| Given::Plain(values.as_slice().into());
        [&self.a, &self.b, &self.c].map(|values| if fixed { first(values) } else { every(values) })
    }

    /// One value.
    pub fn value(&self, v: Value) -> f64 {
        match v {
            Value::X(i) => self.x[i as usize],
            Value::A(i) => self.a[i as usize],
            Value::B(i) => self.b[i as usize],
            Value::C(i) => self.c[i as usize],
            Value::State(i) => self.state[i as usize],
            Value::Decays { head, from, to } => {
                decay_product(&self.a, self.shape.heads, head as usize, from as usize..to as usize)
            }
        }
    }

    /// The slots of an input of a kernel.
    pub fn slots(&self, kernel: &impl HeScan, i: usize) -> Vec<Complex64> {
        let part = |v: Option<Value>| v.map_or(0.0, |v| self.value(v));
        kernel.lanes(i).into_iter().map(|[re, im]| Complex64::new(part(re), part(im))).collect()
    }

    /// An input of a kernel in the clear.
    ///
    /// # Errors
    /// If there is no such level.
    pub fn fresh(&self, plain: &Plain, kernel: &impl HeScan, i: usize) -> Result<PlainCt> {
        plain.fresh_parts(&self.slots(kernel, i), kernel.level(i), kernel.parts(i))
    }

    /// `m_t[e]` at `t E + e`, token by token, and the last state behind them if a kernel hands it on.
    pub fn recurrence(&self) -> Vec<f64> {
        let ScanShape { tokens, head_dim, groups, state, .. } = self.shape;
        let (channels, factors) = (self.shape.channels(), &self.factors);
        let number = |factor: &Factor, values: &[f64], t: usize, size: usize, n: usize| {
            let t = if matches!(factor.given, Given::Fixed(_)) { 0 } else { t };
            factor.number(values, t * size + n)
        };
        let mut h: Vec<Complex64> = self.state.iter().map(|&s| s.into()).collect();
        let mut m = vec![0.0; tokens * channels];
        for t in 0..tokens {
            for e in 0..channels {
                let group = self.shape.group(e / head_dim) * state;
                for i in 0..state {
                    let decay = factors.decay(&self.shape, e, i);
                    let a = number(&factors.a, &self.a, t, factors.decays(&self.shape), decay);
                    let b = number(&factors.b, &self.b, t, groups * state, group + i);
                    let c = number(&factors.c, &self.c, t, groups * state, group + i);
                    let s = &mut h[i * channels + e];
                    *s = a * *s + b * self.x[t * channels + e];
                    m[t * channels + e] += (c * *s).re;
                }
            }
        }
        if self.carry_out {
            m.extend(h.iter().map(|s| s.re));
        }
        m
    }

    /// The outputs that results hold: zero where no slot names one.
    pub fn read<'a>(&self, kernel: &impl HeScan, results: impl Iterator<Item = &'a [Complex64]>) -> Vec<f64> {
        gather(kernel, results.map(|slots| slots.iter().map(|z| [z.re, z.im])))
    }
}

/// For every output the sum of what the parts of results say that name it.
fn gather<S: Iterator<Item = [f64; 2]>>(kernel: &impl HeScan, results: impl Iterator<Item = S>) -> Vec<f64> {
    let shape = kernel.shape();
    let rows = shape.tokens + if kernel.carried()[1] { shape.state } else { 0 };
    let mut sums = vec![0.0; rows * shape.channels()];
    for (i, slots) in results.enumerate() {
        for (lane, parts) in kernel.outputs(i).into_iter().zip(slots) {
            for (place, part) in lane.into_iter().zip(parts) {
                if let Some(sum) = place.and_then(|at| sums.get_mut(at as usize)) {
                    *sum += part;
                }
            }
        }
    }
    sums
}

/// A kernel, counted.
///
/// # Errors
/// If the chain has too few levels.
pub fn count(kernel: &impl HeScan, chain: Chain) -> Result<Count> {
    let count = Count::new(chain);
    kernel.run(&count, &|i| Ok(count.fresh(kernel.level(i))))?;
    Ok(count)
}

/// How right a trial was.
#[derive(Debug, Clone, Copy)]
pub struct Precision {
    /// Largest error of an output.
    pub error: f64,
    /// Root of the mean square of the errors of all outputs.
    pub rms: f64,
    /// Largest output.
    pub largest: f64,
}

impl Precision {
    /// Of these outputs, against what they should be.
    pub fn of(got: &[f64], want: &[f64]) -> Self {
        let errors = || got.iter().zip(want).map(|(g, w)| (g - w).abs());
        let rms = (errors().map(|e| e * e).sum::<f64>() / want.len() as f64).sqrt();
        Self { error: errors().fold(0.0, f64::max), rms, largest: want.iter().fold(0.0, |m, x| x.abs().max(m)) }
    }

    /// `-log2` of the largest error over the largest output.
    pub fn bits(&self) -> f64 {
        -(self.error / self.largest).log2()
    }
}

/// A kernel in the clear.
///
/// # Errors
/// If the back end refuses an operation.
pub fn in_the_clear(kernel: &impl HeScan, plain: &Plain, seed: u8) -> Result<Precision> {
    let clear = ClearPacket::of(kernel, seed);
    let results = kernel.run(plain, &|i| clear.fresh(plain, kernel, i))?;
    Ok(Precision::of(&clear.read(kernel, results.iter().map(|c| c.slots())), &clear.recurrence()))
}

/// Root of the mean square of the outputs' errors by formula ([`Plain::of`]), for the same packet.
///
/// # Errors
/// If the back end refuses an operation.
pub fn noise(kernel: &impl HeScan, params: &Params, seed: u8) -> Result<f64> {
    let (plain, clear) = (Plain::of(params), ClearPacket::of(kernel, seed));
    let results = kernel.run(&plain, &|i| clear.fresh(&plain, kernel, i))?;
    // Half of a slot's error is in each part.
    let squares = gather(kernel, results.iter().map(|c| c.errors().iter().map(|e| [e / 2.0; 2])));
    Ok((squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
}
