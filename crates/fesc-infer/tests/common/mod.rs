//! Small random models, and both parties in one process with a dealer, all over memory channels.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod serving;

use std::sync::{Arc, Mutex};

use fesc_hybrid::backend::{Backend, Tally};
use fesc_hybrid::keys::{ClientKeys, ServerKeys};
use fesc_hybrid::verify::Witness;
use fesc_infer::{
    Ahead, Answer, Doing, FreshBlocks, KeySets, Result, Schedule, ServerSetup, Stage, Watch, run_client_with,
    run_server_with, verify,
};
use fesc_model::twin::{Calibration, Plan, Twin};
use fesc_model::{Config, Model, Pooling, Shape, Weights};
use fesc_mpc::correlation::Material;
use fesc_mpc::provider::{Budget, Correlations, Dealer, serve_dealer};
use fesc_mpc::{Cost, Ledger, MpcError, Party, Request, Role, Shared};
use fesc_net::Channel;
use fesc_ring::{Prg, Ring};

pub const VOCAB: usize = 40;

/// Two layers, two groups, four taps.
pub fn shape() -> Shape {
    Shape {
        vocab: VOCAB,
        d_model: 24,
        layers: 2,
        heads: 4,
        head_dim: 8,
        state: 8,
        groups: 2,
        norm_groups: 2,
        pooling: Pooling::Mean,
        ..*Config::named("tiny").unwrap().shape()
    }
}

pub fn document(length: usize, seed: u8) -> Vec<u32> {
    let mut prg = Prg::from_seed([seed; 16]);
    (0..length).map(|_| (prg.next_u64() % VOCAB as u64) as u32).collect()
}

/// A random model of five classes, calibrated on documents of about this length.
pub fn twin(shape: Shape, length: usize, seed: u8) -> Twin {
    twin_by(Plan::FAST, shape, length, seed)
}

/// The same by another plan.
pub fn twin_by(plan: Plan, shape: Shape, length: usize, seed: u8) -> Twin {
    let (model, calibration) = calibrated(shape, length, seed);
    Twin::new(&model, &calibration, plan).unwrap()
}

/// The same before it is made of integers.
pub fn calibrated(shape: Shape, length: usize, seed: u8) -> (Model, Calibration) {
    let config = Config::new(shape).unwrap();
    let weights = Weights::random(&config, Some(5), &mut Prg::from_seed([seed; 16]));
    let model = Model::new(config, weights).unwrap();
    let documents = [document(length.max(60), 101), document(length.max(60), 102), document(40, 103), document(1, 104)];
    let calibration = Calibration::collect(&model, &documents).unwrap();
    (model, calibration)
}

/// Notes what is taken.
struct Noted {
    inner: Dealer,
    taken: Arc<Mutex<Vec<Request>>>,
}

impl Correlations for Noted {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        self.taken.lock().unwrap().push(request.clone());
        self.inner.take(channel, request)
    }
}

/// What a run of both parties gave.
pub struct Ran<A, B> {
    pub client: A,
    pub server: B,
    pub cost: Cost,
    pub demand: Vec<Request>,
}

impl<A, B> Ran<A, B> {
    /// Declared bytes, rounds and correlations are the counted ones, exactly.
    pub fn assert_declared(&self, declare: impl FnOnce(&mut Ledger) -> Result<()>) {
        let mut ledger = Ledger::new();
        declare(&mut ledger).unwrap();
        assert_eq!(ledger.cost(), self.cost, "declared (left) and counted (right)");
        assert_eq!(ledger.demand(), self.demand, "declared and used correlations");
    }
}

/// Both parties and their dealer; what is taken is noted.
struct Room {
    parties: [Party; 2],
    links: [Channel; 2],
    taken: Arc<Mutex<Vec<Request>>>,
}

fn room() -> Room {
    let (p0, d0) = Channel::memory_pair();
    let (p1, d1) = Channel::memory_pair();
    let (c0, c1) = Channel::memory_pair();
    let taken: Arc<Mutex<Vec<Request>>> = Arc::default();
    let party = |role, channel, link, taken| {
        Party::new(role, channel, Box::new(Noted { inner: Dealer::new(role, link), taken }))
    };
    let first = party(Role::P0, c0, p0, Arc::clone(&taken));
    Room { parties: [first, party(Role::P1, c1, p1, Arc::default())], links: [d0, d1], taken }
}

/// Lets both parties meet, whatever becomes of it; a party that fails leaves.
pub fn meet<A: Send, B: Send>(
    client: impl FnOnce(&mut Party) -> A + Send,
    server: impl FnOnce(&mut Party) -> B + Send,
) -> (A, B) {
    let Room { parties: [mut a, mut b], links: [d0, d1], .. } = room();
    std::thread::scope(|scope| {
        scope.spawn(|| serve_dealer(d0, d1, &mut Prg::from_seed([5; 16]), &Budget::unlimited()));
        let peer = scope.spawn(move || server(&mut b));
        let client = client(&mut a);
        drop(a);
        (client, peer.join().unwrap())
    })
}

/// Runs both parties with dealt correlations, counting.
pub fn both<A: Send, B: Send>(
    client: impl FnOnce(&mut Party) -> Result<A> + Send,
    server: impl FnOnce(&mut Party) -> Result<B> + Send,
) -> Ran<A, B> {
    let Room { parties: [mut a, mut b], links: [d0, d1], taken } = room();
    std::thread::scope(|scope| {
        let dealer = scope.spawn(|| serve_dealer(d0, d1, &mut Prg::from_seed([5; 16]), &Budget::unlimited()));
        let peer = scope.spawn(move || {
            let out = server(&mut b).unwrap();
            (out, b.channel().stats().total)
        });
        let client = client(&mut a).unwrap();
        let mine = a.channel().stats().total;
        drop(a);
        let (server, theirs) = peer.join().unwrap();
        dealer.join().unwrap().unwrap();
        assert_eq!((mine.sent_bytes, mine.received_bytes), (theirs.received_bytes, theirs.sent_bytes));
        assert_eq!(mine.rounds, theirs.rounds, "both ends see the same depth");
        let cost = Cost { p0_to_p1_bytes: mine.sent_bytes, p1_to_p0_bytes: mine.received_bytes, rounds: mine.rounds };
        let demand = taken.lock().unwrap().clone();
        Ran { client, server, cost, demand }
    })
}

/// Shares of signed integers.
pub fn split(ring: Ring, values: &[i64], seed: u8) -> (Shared, Shared) {
    let integers: Vec<u64> = values.iter().map(|&v| ring.from_signed(v)).collect();
    Shared::split(ring, &integers, &mut Prg::from_seed([seed; 16]))
}

pub fn join(a: &Shared, b: &Shared) -> Vec<i64> {
    a.join(b).unwrap().into_iter().map(|v| a.ring().to_signed(v)).collect()
}

/// Signed integers up to `limit` in magnitude.
pub fn integers(count: usize, limit: i64, seed: u8) -> Vec<i64> {
    let mut prg = Prg::from_seed([seed; 16]);
    (0..count).map(|_| (prg.next_u64() % (2 * limit as u64 + 1)) as i64 - limit).collect()
}

/// Keeps the shares of the stream, which no product does, and the names of the stages.
#[derive(Default)]
pub struct Streams {
    pub shares: Vec<Shared>,
    pub stages: Vec<(Stage, Option<usize>, usize)>,
    /// What entered and left circuits under encryption, joined.
    pub circuits: Vec<Witness>,
}

impl Watch for Streams {
    fn doing(&mut self, doing: Doing) {
        if let Doing::Stage(stage, layer, segment) = doing {
            self.stages.push((stage, layer, segment));
        }
    }

    fn stream(&mut self, _layer: usize, share: &Shared) {
        self.shares.push(share.clone());
    }
}

/// The CKKS keys of a schedule, sent over a channel of their own; their bytes are those declared.
pub fn keys(schedule: &Schedule) -> (KeySets<ClientKeys>, KeySets<ServerKeys>) {
    let (shapes, (mut a, mut b)) = (schedule.keys(), Channel::memory_pair());
    let seed = |n| Prg::from_seed([n; 16]);
    let (mine, theirs) = std::thread::scope(|scope| {
        let server = scope.spawn(|| shapes.receive(&mut b, &mut seed(31), &mut |_, _| ()).unwrap());
        (shapes.send(&mut a, &mut seed(32), &mut |_, _| ()).unwrap().0, server.join().unwrap())
    });
    assert_eq!(a.stats().total.sent_bytes, shapes.bytes());
    (mine, theirs)
}

/// A whole private run and its streams, joined.
pub fn infer(schedule: &Schedule, setup: &ServerSetup, ids: &[u32]) -> (Ran<Answer, ()>, Vec<Vec<i64>>, Streams) {
    let client = setup.client_setup().clone();
    let (mut seen, mut other) = (Streams::default(), Streams::default());
    let (mut mine, theirs) = keys(schedule);
    let ran = both(
        |p| {
            p.keep_witnesses();
            let mut prg = Prg::from_seed([77; 16]);
            let mut blocks = FreshBlocks::new(&client, prg.fork());
            let ahead = Ahead { blocks: &mut blocks, keys: &mut mine };
            let answer = run_client_with(p, schedule, &client, ids, &mut prg, ahead, &mut seen)?;
            Ok((answer, p.take_witnesses()))
        },
        |p| {
            p.keep_witnesses();
            run_server_with(p, schedule, setup, &theirs, &mut other)?;
            Ok(p.take_witnesses())
        },
    );
    let Ran { client: (answer, ours), server: others, cost, demand } = ran;
    assert_eq!(ours.len(), others.len());
    seen.circuits = ours.iter().zip(&others).map(|(a, b)| Witness::join(a, b).unwrap()).collect();
    let done = theirs.iter().map(|keys| keys.backend().operations().tally());
    assert_work_is_counted(schedule, done);
    let ran = Ran { client: answer, server: (), cost, demand };
    let streams = seen.shares.iter().zip(&other.shares).map(|(a, b)| join(a, b)).collect();
    assert_eq!(seen.stages, other.stages);
    (ran, streams, seen)
}

/// Operations of all back ends together are those that the schedule says, kind by kind and level by level.
fn assert_work_is_counted(schedule: &Schedule, done: impl Iterator<Item = Tally>) {
    let sum = |all: &mut dyn Iterator<Item = Tally>| {
        all.fold(Tally::default(), |mut sum, tally| {
            sum.add(&tally);
            sum
        })
    };
    let works = schedule.works().unwrap();
    assert_eq!(works.is_empty(), schedule.keys().is_empty());
    let mut declared = works.into_iter().map(|w| w.work.tally);
    assert_eq!(sum(&mut declared), sum(&mut { done }), "operations: declared (left) and done (right)");
}

/// Every layer from its private input.
pub fn check_layers(twin: &Twin, streams: &[Vec<i64>]) {
    let layers = twin.outline().unwrap().shape().layers;
    assert_eq!(streams.len(), layers + 1);
    let streams: Vec<(usize, Vec<i64>)> = streams.iter().cloned().enumerate().collect();
    for layer in verify::layers(twin, &streams).unwrap() {
        println!("{layer:?}");
        assert!(layer.within(), "{layer:?}");
    }
}
