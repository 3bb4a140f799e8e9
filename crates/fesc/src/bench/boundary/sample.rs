//! A sample of ciphertexts, converted from shares and to shares between two parties in this process.

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use fesc_ckks::client::{KeyGenerator, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, PublicKey};
use fesc_ckks::sets::Set;
use fesc_ckks::{Ciphertext, Params};
use fesc_hybrid::boundary::{Encoding, Lanes, Layout, ToCiphertexts};
use fesc_mpc::provider::{Queue, TwoParty};
use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Channel;
use fesc_ot::CotKind;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{FRACTION, to_shares, values};
use crate::random::os_random;
use crate::usage;

/// What one ciphertext takes, of both parties at once.
pub struct Times {
    /// On the clock.
    pub seconds: f64,
    /// Processor time.
    pub cpu_s: f64,
}

/// What was measured.
pub struct Sample {
    /// Shares to ciphertexts, with the extension of two values for each slot; correlations are made before.
    pub up: Times,
    /// Ciphertexts to shares.
    pub down: Times,
}

/// A client's key, and what its server has of it.
struct Keys {
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    pools: [ThreadPool; 2],
}

impl Sample {
    /// Converts random values up and down again, and holds the results to them.
    pub fn measure(params: &Params, set: &Set, ciphertexts: usize, threads: usize) -> Result<Self> {
        let keys = Keys::new(params, threads)?;
        let count = 2 * params.slots() * ciphertexts;
        let values = values(count as u64)?;
        let encoding = Encoding::slots(params.levels(), params.scale());
        let shape = ToCiphertexts::new(params, Layout::compact(params, count)?, values, encoding)?;
        let mut prg = os_random()?;
        let x: Vec<i64> = (0..count).map(|_| (prg.next_u64() as i64) >> (64 - values.bits)).collect();
        let wrapped: Vec<u64> = x.iter().map(|&v| values.ring.from_signed(v)).collect();
        let (mine, theirs) = Shared::split(values.ring, &wrapped, &mut prg);
        let mut ledger = Ledger::new();
        shape.declare(&mut ledger)?;
        let (up, ((), made)) = keys.both(
            &ledger,
            |party| Ok(shape.run_client(party, &keys.secret, &mine, &mut os_random()?)?),
            |party| Ok(shape.run_server(party, keys.public.id(), &theirs)?),
        )?;
        let back = to_shares(params, set, ciphertexts)?;
        let mut ledger = Ledger::new();
        back.declare(&mut ledger);
        let made: Vec<Ciphertext> = made;
        let (down, (a, b)) = keys.both(
            &ledger,
            |party| Ok(back.run_client(party, &keys.secret)?),
            |party| Ok(back.run_server(party, &keys.evaluator, &keys.public, &made, &mut os_random()?)?),
        )?;
        check(&x, &a, &b)?;
        let each = |t: Times| Times { seconds: t.seconds / ciphertexts as f64, cpu_s: t.cpu_s / ciphertexts as f64 };
        Ok(Self { up: each(up), down: each(down) })
    }
}

/// What came back must be what went up, to a thousandth of a unit.
fn check(x: &[i64], a: &Lanes, b: &Lanes) -> Result<()> {
    let unit = f64::from(1u32 << FRACTION);
    let lane = |a: &Shared, b: &Shared, odd: usize| -> f64 {
        let ring = a.ring();
        let sums = a.values().iter().zip(b.values()).map(|(&p, &q)| ring.to_signed(ring.add(p, q)));
        let apart = sums.zip(x.iter().skip(odd).step_by(2)).map(|(got, want)| (got - want).abs());
        apart.max().unwrap_or(i64::MAX) as f64 / unit
    };
    let worst = lane(&a.real, &b.real, 0).max(lane(&a.imaginary, &b.imaginary, 1));
    ensure!(worst < 1e-3, "a value came back {worst:.1e} off; this is a fault of the boundary, please report it");
    Ok(())
}

impl Keys {
    fn new(params: &Params, threads: usize) -> Result<Self> {
        let mut prg = os_random()?;
        let secret = SecretKey::generate(params, &mut prg);
        let public = KeyGenerator::new(&secret).public_key(&mut prg)?;
        let none = EvaluationKeys::new(params, &EvaluationKeyPlan::default(), public.id());
        let evaluator = Evaluator::new(params, none)?;
        let pool = || ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(Self { secret, public, evaluator, pools: [pool()?, pool()?] })
    }

    /// Runs both halves, each on threads of its own, and holds their bytes and rounds to what was declared.
    fn both<A: Send, B: Send>(
        &self,
        ledger: &Ledger,
        client: impl FnOnce(&mut Party) -> Result<A> + Send,
        server: impl FnOnce(&mut Party) -> Result<B> + Send,
    ) -> Result<(Times, (A, B))> {
        let queue = |role: Role, mut channel: Channel| -> Result<Queue> {
            let mut source = TwoParty::setup(role, &mut channel, CotKind::Iknp, os_random()?)?;
            Ok(Queue::prepare(&mut source, &mut channel, ledger.demand())?)
        };
        let (a, b) = Channel::memory_pair();
        let (mine, theirs) = at_once(|| queue(Role::P0, a), || queue(Role::P1, b))?;
        let (a, b) = Channel::memory_pair();
        let mut p0 = Party::new(Role::P0, a, Box::new(mine));
        let mut p1 = Party::new(Role::P1, b, Box::new(theirs));
        let cpu = || usage::cpu_seconds().unwrap_or(f64::NAN);
        let (start, before) = (Instant::now(), cpu());
        let [first, second] = &self.pools;
        let made = at_once(|| first.install(|| client(&mut p0)), || second.install(|| server(&mut p1)))?;
        let times = Times { seconds: start.elapsed().as_secs_f64(), cpu_s: cpu() - before };
        let (sent, cost) = (p0.channel().stats().total, ledger.cost());
        ensure!(
            (sent.sent_bytes, sent.received_bytes) == (cost.p0_to_p1_bytes, cost.p1_to_p0_bytes),
            "{} bytes up and {} down, declared are {} and {}; this is a fault of the declaration, please report it",
            sent.sent_bytes,
            sent.received_bytes,
            cost.p0_to_p1_bytes,
            cost.p1_to_p0_bytes
        );
        Ok((times, made))
    }
}

/// Both at once, the second on a thread of its own.
fn at_once<A: Send, B: Send>(
    first: impl FnOnce() -> Result<A> + Send,
    second: impl FnOnce() -> Result<B> + Send,
) -> Result<(A, B)> {
    std::thread::scope(|scope| {
        let other = scope.spawn(second);
        let mine = first();
        let theirs = other.join().map_err(|_| anyhow!("a party's thread has ended without a result"))?;
        Ok((mine?, theirs?))
    })
}
