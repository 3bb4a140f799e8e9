//! Both parties and a dealer in one process, a calibrated random layer, and documents in integers.

use std::sync::{Arc, Mutex};

use fesc_hybrid::keys::{ClientKeys, Keys, ServerKeys};
use fesc_model::float::Factors;
use fesc_model::outline::{LayerForms, scale};
use fesc_model::twin::{Calibration, ExpForm, Plan, Twin};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::correlation::Material;
use fesc_mpc::provider::{Budget, Correlations, Dealer, TwoParty, serve_dealer};
use fesc_mpc::{Cost, Ledger, MpcError, Party, Request, Role, Shared};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::Prg;

use crate::{Carry, Dual, Packet, Result, Scan};

/// One layer with its forms.
pub(crate) struct Layer {
    pub(crate) twin: Twin,
    pub(crate) shape: Shape,
    pub(crate) forms: LayerForms,
}

/// A layer whose scales are those of moderate ranges: Delta to 0.25, x, B, C to 1.
pub(crate) fn layer(groups: usize, heads: usize, head_dim: usize, state: usize) -> Layer {
    with_exp(ExpForm::Power, groups, heads, head_dim, state)
}

/// The same with another form of exp.
pub(crate) fn with_exp(exp: ExpForm, groups: usize, heads: usize, head_dim: usize, state: usize) -> Layer {
    by_plan(Plan::FAST.with_exp(exp), groups, heads, head_dim, state)
}

/// The same by another plan.
pub(crate) fn by_plan(plan: Plan, groups: usize, heads: usize, head_dim: usize, state: usize) -> Layer {
    let tiny = *Config::named("tiny").unwrap().shape();
    let shape = Shape { vocab: 50, d_model: 16, layers: 1, heads, head_dim, state, groups, ..tiny };
    let config = Config::new(shape).unwrap();
    let mut prg = Prg::from_seed([3; 16]);
    let mut weights = Weights::random(&config, Some(3), &mut prg);
    for (h, d) in weights.layers[0].d.iter_mut().enumerate() {
        *d = 0.75 - 0.5 * h as f32;
    }
    let model = Model::new(config.clone(), weights).unwrap();
    let mut calibration = Calibration::collect(&model, [vec![1u32, 2, 3, 4, 5, 6, 7, 8]]).unwrap();
    let stats = &mut calibration.layers[0];
    (stats.delta, stats.x, stats.bc, stats.score) = (0.25, 1.0, 1.0, (state as f64).min(16.0));
    (stats.chunk_state, stats.state, stats.carried, stats.scanned) = (16.0, 64.0, 128.0, 128.0);
    let twin = Twin::new(&model, &calibration, plan).unwrap();
    let forms = twin.outline().unwrap().layer(0).unwrap();
    Layer { shape: *config.shape(), twin, forms }
}

/// How fast the state decays.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Decay {
    /// `-rate Delta`, rates from 0.1 to 12 by head.
    Mixed,
    /// -16 everywhere: every token forgets all.
    Violent,
    /// 0 everywhere: nothing is forgotten.
    None,
}

/// A document's packet as integers.
pub(crate) struct Document {
    pub(crate) tokens: usize,
    pub(crate) x: Vec<i64>,
    pub(crate) b: Vec<i64>,
    pub(crate) c: Vec<i64>,
    pub(crate) delta: Vec<i64>,
    pub(crate) z: Vec<i64>,
}

/// A random document; with `grid` every value is a multiple of 1/8 (Delta: of 1/32), so that no product has
/// bits to be rounded.
pub(crate) fn document(layer: &Layer, tokens: usize, decay: Decay, grid: bool, seed: u8) -> Document {
    let (shape, s) = (&layer.shape, &layer.forms.scales);
    let mut prg = Prg::from_seed([seed; 16]);
    let mut unit = move || (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let fixed = |v: f64, bits: u32, step: f64| {
        let v = if grid { (v / step).round() * step } else { v };
        (v * f64::from(bits).exp2()).round() as i64
    };
    let x = (0..tokens * shape.inner()).map(|_| fixed(2.0 * unit() - 1.0, s.x, 0.125)).collect();
    let b = (0..tokens * shape.group_width()).map(|_| fixed(2.0 * unit() - 1.0, s.bc, 0.125)).collect();
    let c = (0..tokens * shape.group_width()).map(|_| fixed(2.0 * unit() - 1.0, s.bc, 0.125)).collect();
    let delta: Vec<i64> =
        (0..tokens * shape.heads).map(|_| fixed(0.001 + 0.2 * unit(), scale::DELTA, 0.03125)).collect();
    let rate = |h: usize| 0.1 * 120f64.powf(h as f64 / shape.heads as f64);
    let z = delta.iter().enumerate().map(|(i, &d)| match decay {
        Decay::Mixed => -(rate(i % shape.heads) * d as f64).round() as i64,
        Decay::Violent => -(scale::CLAMP << scale::DECAY),
        Decay::None => 0,
    });
    Document { tokens, x, b, c, z: z.collect(), delta }
}

impl Document {
    /// x, B, C by token, as the twin takes them.
    pub(crate) fn xbc(&self, shape: &Shape) -> Vec<i64> {
        let rows = self.x.chunks_exact(shape.inner());
        let bc = self.b.chunks_exact(shape.group_width()).zip(self.c.chunks_exact(shape.group_width()));
        rows.zip(bc).flat_map(|(x, (b, c))| [x, b, c].concat()).collect()
    }

    /// The packet in floating point.
    pub(crate) fn plain(&self, layer: &Layer) -> Factors {
        let s = &layer.forms.scales;
        let real = |v: &[i64], bits: u32| v.iter().map(|&v| v as f64 / f64::from(bits).exp2()).collect();
        Factors {
            x: real(&self.x, s.x),
            b: real(&self.b, s.bc),
            c: real(&self.c, s.bc),
            delta: real(&self.delta, scale::DELTA),
            z: real(&self.z, scale::DECAY),
            skip: real(layer.twin.secrets(0).unwrap().skip, s.mixed),
        }
    }

    /// Both parties' shares of some tokens.
    fn share(&self, shape: &Shape, tokens: std::ops::Range<usize>, prg: &mut Prg) -> [Packet; 2] {
        let mut split = |all: &[i64], width: usize| {
            let values = &all[tokens.start * width..tokens.end * width];
            let secret: Vec<u64> = values.iter().map(|&v| scale::RING.from_signed(v)).collect();
            Shared::split(scale::RING, &secret, prg)
        };
        let (x0, x1) = split(&self.x, shape.inner());
        let (b0, b1) = split(&self.b, shape.group_width());
        let (c0, c1) = split(&self.c, shape.group_width());
        let (d0, d1) = split(&self.delta, shape.heads);
        let (z0, z1) = split(&self.z, shape.heads);
        [Packet { x: x0, b: b0, c: c0, delta: d0, z: z0 }, Packet { x: x1, b: b1, c: c1, delta: d1, z: z1 }]
    }
}

/// A dealer's connection that notes what it is asked for.
struct Noted {
    dealer: Dealer,
    taken: Arc<Mutex<Vec<Request>>>,
}

impl Correlations for Noted {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        self.taken.lock().unwrap().push(request.clone());
        self.dealer.take(channel, request)
    }
}

/// What a private run gave.
pub(crate) struct Outcome {
    pub(crate) y: Vec<i64>,
    /// The state after the last kernel, if it hands one on.
    pub(crate) state: Option<Vec<i64>>,
    pub(crate) cost: Cost,
    pub(crate) demand: Vec<Request>,
}

/// Who makes the correlations.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum MadeBy {
    Dealer,
    /// The parties themselves; their messages are counted with the online ones.
    TwoParty,
}

/// Runs kernels one after the other over a document, each on its tokens.
pub(crate) fn private(layer: &Layer, document: &Document, kernels: &[(Dual, usize)], source: MadeBy) -> Outcome {
    private_with(layer, document, kernels, None, source)
}

/// Both parties' CKKS keys.
pub(crate) type BothKeys = (ClientKeys, ServerKeys);

/// The same with any kernels, and keys for them.
pub(crate) fn private_with(
    layer: &Layer,
    document: &Document,
    kernels: &[(impl Scan + Sync, usize)],
    keys: Option<BothKeys>,
    source: MadeBy,
) -> Outcome {
    let mut prg = Prg::from_seed([5; 16]);
    let mut from = 0;
    let mut packets: Vec<[Packet; 2]> = Vec::new();
    for (_, tokens) in kernels {
        packets.push(document.share(&layer.shape, from..from + tokens, &mut prg));
        from += tokens;
    }
    assert_eq!(from, document.tokens);
    let secrets = layer.twin.secrets(0).unwrap();
    let taken: [Arc<Mutex<Vec<Request>>>; 2] = Default::default();
    let (mut client, server) = keys.unzip();
    let run = |role: Role, mut channel: Channel, dealer: Channel, own: Prg, mut keys: Option<Keys<'_>>| {
        let taken = Arc::clone(&taken[role.index()]);
        let source: Box<dyn Correlations + Send> = match source {
            MadeBy::Dealer => Box::new(Noted { dealer: Dealer::new(role, dealer), taken }),
            MadeBy::TwoParty => Box::new(TwoParty::setup(role, &mut channel, CotKind::Silent, own).unwrap()),
        };
        let mut party = Party::new(role, channel, source);
        let skip = (role == Role::P1).then_some(secrets.skip);
        let (mut out, mut carry) = (Vec::new(), None::<Carry>);
        for ((kernel, _), packet) in kernels.iter().zip(&packets) {
            let keys = keys.as_mut().map(Keys::again);
            let (y, next) = kernel.run(&mut party, keys, &packet[role.index()], skip, carry.as_ref()).unwrap();
            out.push(y);
            carry = next;
        }
        (out, carry, party.channel().stats().total)
    };
    let (p0, p1) = Channel::memory_pair();
    let (d0, e0) = Channel::memory_pair();
    let (d1, e1) = Channel::memory_pair();
    let (mut dealing, first, second) = (prg.fork(), prg.fork(), prg.fork());
    let (mine, theirs) = std::thread::scope(|scope| {
        scope.spawn(move || serve_dealer(e0, e1, &mut dealing, &Budget::unlimited()).unwrap());
        let peer = scope.spawn(|| run(Role::P1, p1, d1, second, server.as_ref().map(Keys::Server)));
        (run(Role::P0, p0, d0, first, client.as_mut().map(Keys::Client)), peer.join().unwrap())
    });
    assert_eq!(mine.2.rounds, theirs.2.rounds);
    let cost = Cost { p0_to_p1_bytes: mine.2.sent_bytes, p1_to_p0_bytes: theirs.2.sent_bytes, rounds: mine.2.rounds };
    let join =
        |a: &Shared, b: &Shared| -> Vec<i64> { a.join(b).unwrap().iter().map(|&v| scale::RING.to_signed(v)).collect() };
    let y = mine.0.iter().zip(&theirs.0).flat_map(|(a, b)| join(a, b)).collect();
    let state = mine.1.zip(theirs.1).map(|(a, b)| join(&a.state, &b.state));
    let demand = taken[0].lock().unwrap().clone();
    Outcome { y, state, cost, demand }
}

impl Outcome {
    /// Declared bytes, rounds and correlations must be the counted ones.
    pub(crate) fn assert_declared(&self, kernels: &[(impl Scan, usize)]) {
        let mut ledger = Ledger::new();
        kernels.iter().for_each(|(kernel, _)| kernel.declare(&mut ledger).unwrap());
        assert_eq!(ledger.cost(), self.cost, "declared (left) and counted (right) cost");
        assert!(ledger.demand() == self.demand, "declared and used correlations");
    }

    /// And the sum of the steps.
    pub(crate) fn assert_steps(&self, kernels: &[(Dual, usize)]) {
        let steps = kernels.iter().flat_map(|(kernel, _)| kernel.steps().unwrap());
        let sum = steps.fold((0, 0), |sum, (_, cost)| (sum.0 + cost.total_bytes(), sum.1 + cost.rounds));
        assert_eq!((self.cost.total_bytes(), self.cost.rounds), sum, "sum of the steps");
    }
}

/// Root mean square and largest of the differences.
pub(crate) fn distance(got: impl Iterator<Item = f64>, want: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut squares, mut largest, mut count) = (0.0, 0f64, 0);
    for (a, b) in got.zip(want) {
        squares += (a - b) * (a - b);
        largest = largest.max((a - b).abs());
        count += 1;
    }
    ((squares / f64::from(count.max(1))).sqrt(), largest)
}
