//! Two real parties over a channel in memory, with correlations by oblivious transfer, on sets of 128 bits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod back;
mod counts;
mod pairs;
mod shares;
mod zero;

use std::sync::{Arc, Mutex};

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, Encoder, Params, ParamsLiteral, Upload};
use fesc_mpc::provider::{Queue, TwoParty};
use fesc_mpc::{Cost, Ledger, MpcError, Party, Role};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::{Prg, Ring};
use num_complex::Complex64;

pub(super) fn ring(bits: u32) -> Ring {
    Ring::new(bits).unwrap()
}

/// A client's key, and what a server has of it.
pub(super) struct Keys {
    pub params: Params,
    pub secret: SecretKey,
    pub public: PublicKey,
    pub evaluator: Evaluator,
}

/// N = 8192, four primes of 40 bits, scale 2^30.
pub(super) fn keys() -> Keys {
    keys_of(&ParamsLiteral { log_n: 13, q_bits: vec![40; 4], p_bits: vec![45], log_scale: 30 })
}

pub(super) fn keys_of(literal: &ParamsLiteral) -> Keys {
    let params = Params::new(literal).unwrap();
    let mut prg = Prg::from_seed([literal.log_n as u8; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
    let none = EvaluationKeys::new(&params, &EvaluationKeyPlan::default(), public.id());
    let evaluator = Evaluator::new(&params, none).unwrap();
    Keys { params, secret, public, evaluator }
}

impl Keys {
    /// A fresh encryption, as the server has it.
    pub fn encrypt(&self, slots: &[Complex64], level: usize, prg: &mut Prg) -> Ciphertext {
        let plain = Encoder::new(&self.params).encode(slots, level, self.params.scale()).unwrap();
        self.expand(SecretEncryptor::new(&self.secret).encrypt(&plain, prg).unwrap())
    }

    /// The same, of coefficients.
    pub fn encrypt_integers(&self, values: &[i128], level: usize, prg: &mut Prg) -> Ciphertext {
        let encoder = Encoder::new(&self.params);
        let plain = encoder.encode_coefficients(values, level, self.params.scale()).unwrap();
        self.expand(SecretEncryptor::new(&self.secret).encrypt(&plain, prg).unwrap())
    }

    fn expand(&self, upload: Upload) -> Ciphertext {
        upload.expand(self.public.id())
    }

    pub fn decrypt(&self, c: &Ciphertext) -> Vec<Complex64> {
        let plain = Decryptor::new(&self.secret).decrypt(c).unwrap();
        Encoder::new(&self.params).decode(&plain).unwrap()
    }
}

/// Tag and length of each message that the client sent.
pub(super) type Sent = Arc<Mutex<Vec<(u16, Vec<u8>)>>>;

/// Both parties of a run with correlations made ahead, the cost that the channel counted, and what the
/// server received.
pub(super) struct Outcome<A, B> {
    pub client: A,
    pub server: B,
    pub cost: Cost,
    pub sent: Vec<(u16, Vec<u8>)>,
}

impl<A, B> Outcome<A, B> {
    /// Declared bytes and rounds must be the counted ones. Correlations are: a queue hands out what was
    /// declared, in that order, and nothing else.
    pub fn assert_declared(&self, declare: impl FnOnce(&mut Ledger)) {
        let mut ledger = Ledger::new();
        declare(&mut ledger);
        assert_eq!(ledger.cost(), self.cost, "declared (left) and counted (right)");
    }
}

/// Runs both halves. Correlations are made before, on a channel of their own, from what `declare` says.
pub(super) fn both<A: Send, B: Send>(
    declare: impl Fn(&mut Ledger),
    client: impl FnOnce(&mut Party) -> A + Send,
    server: impl FnOnce(&mut Party) -> B + Send,
) -> Outcome<A, B> {
    let mut ledger = Ledger::new();
    declare(&mut ledger);
    let demand = ledger.demand();
    let make = |role: Role, mut channel: Channel| {
        let prg = Prg::from_seed([role.index() as u8 + 40; 16]);
        let mut source = TwoParty::setup(role, &mut channel, CotKind::Iknp, prg)?;
        Queue::prepare(&mut source, &mut channel, demand)
    };
    let (a, b) = Channel::memory_pair();
    let (mine, theirs) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| make(Role::P1, b));
        (make(Role::P0, a), peer.join().unwrap())
    });
    let queues: Result<[Queue; 2], MpcError> = mine.and_then(|a| Ok([a, theirs?]));
    let [q0, q1] = queues.unwrap();
    let (c0, mut c1) = Channel::memory_pair();
    let sent = Sent::default();
    let log = sent.clone();
    c1.set_tap(Box::new(move |tag, payload| log.lock().unwrap().push((tag.0, payload.clone()))));
    let (mut p0, mut p1) = (Party::new(Role::P0, c0, Box::new(q0)), Party::new(Role::P1, c1, Box::new(q1)));
    let (client, server) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| server(&mut p1));
        (client(&mut p0), peer.join().unwrap())
    });
    let (s0, s1) = (p0.channel().stats().total, p1.channel().stats().total);
    assert_eq!((s0.sent_bytes, s0.received_bytes), (s1.received_bytes, s1.sent_bytes));
    let cost = Cost { p0_to_p1_bytes: s0.sent_bytes, p1_to_p0_bytes: s1.sent_bytes, rounds: s0.rounds };
    let sent = sent.lock().unwrap().clone();
    Outcome { client, server, cost, sent }
}
