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
    /// The client's and the server's, of the threads that they start with: all of it if that is one each.
    pub sides: [f64; 2],
}

/// What was measured.
pub struct Sample {
    /// Shares to ciphertexts that are kept as they came, with the extension of the values; correlations are
    /// made before.
    pub up: Times,
    /// Expanding one, on one thread.
    pub expand: Times,
    /// Ciphertexts to shares.
    pub down: Times,
}

impl Times {
    /// Both.
    fn and(&self, other: &Self) -> Self {
        let sides = [0, 1].map(|i| self.sides[i] + other.sides[i]);
        Self { seconds: self.seconds + other.seconds, cpu_s: self.cpu_s + other.cpu_s, sides }
    }

    /// Of one of so many.
    fn divided(&self, count: usize) -> Self {
        let part = |s: f64| s / count as f64;
        Self { seconds: part(self.seconds), cpu_s: part(self.cpu_s), sides: self.sides.map(part) }
    }
}

impl Sample {
    /// Shares to ciphertexts that are expanded once, by all threads.
    pub fn up_expanded(&self, threads: u16) -> Times {
        let Times { seconds, cpu_s, sides } = self.expand;
        self.up.and(&Times { seconds: seconds / f64::from(threads), cpu_s, sides })
    }
}

/// How much is converted.
pub struct Size {
    /// The level of the uploads.
    pub level: usize,
    /// Ciphertexts.
    pub ciphertexts: usize,
    /// Distinct values, which all lanes of all slots take in turn.
    pub values: usize,
    /// Threads of each party.
    pub threads: usize,
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
    pub fn measure(params: &Params, set: &Set, size: &Size) -> Result<Self> {
        let Size { level, ciphertexts, values: count, threads } = *size;
        let keys = Keys::new(params, threads)?;
        let values = values(count as u64)?;
        let encoding = Encoding::slots(level, params.scale());
        let slots = params.slots();
        let place = move |c: usize, s: usize| [0, 1].map(|lane| Some((2 * (c * slots + s) + lane) % count));
        let layout = Layout::new(params, count, ciphertexts, place)?;
        let shape = ToCiphertexts::new(params, layout, values, encoding)?;
        let mut prg = os_random()?;
        let x: Vec<i64> = (0..count).map(|_| (prg.next_u64() as i64) >> (64 - values.bits)).collect();
        let wrapped: Vec<u64> = x.iter().map(|&v| values.ring.from_signed(v)).collect();
        let (mine, theirs) = Shared::split(values.ring, &wrapped, &mut prg);
        let mut ledger = Ledger::new();
        shape.declare(&mut ledger)?;
        let (up, ((), held)) = keys.both(
            &ledger,
            |party| Ok(shape.run_client(party, &keys.secret, &mine, &mut os_random()?)?),
            |party| Ok(shape.hold_server(party, keys.public.id(), &theirs)?),
        )?;
        let (made, mut expand) = timed(|| (0..ciphertexts).map(|i| held.get(i)).collect::<Result<Vec<_>, _>>());
        expand.sides = [0.0, expand.cpu_s];
        let made: Vec<Ciphertext> = made?;
        let back = to_shares(params, set, ciphertexts)?;
        let mut ledger = Ledger::new();
        back.declare(&mut ledger);
        let (down, (a, b)) = keys.both(
            &ledger,
            |party| Ok(back.run_client(party, &keys.secret)?),
            |party| Ok(back.run_server(party, &keys.evaluator, &keys.public, &made, &mut os_random()?)?),
        )?;
        check(&x, &a, &b)?;
        let [up, expand, down] = [up, expand, down].map(|t| t.divided(ciphertexts));
        Ok(Self { up, expand, down })
    }
}

/// What something takes.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Times) {
    let cpu = || usage::cpu_seconds().unwrap_or(f64::NAN);
    let (start, before) = (Instant::now(), cpu());
    let made = work();
    (made, Times { seconds: start.elapsed().as_secs_f64(), cpu_s: cpu() - before, sides: [f64::NAN; 2] })
}

/// The processor time of this thread.
fn clocked<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = usage::thread_cpu_seconds();
    (work(), usage::thread_cpu_seconds() - before)
}

/// What came back must be what went up, to a thousandth of a unit.
fn check(x: &[i64], a: &Lanes, b: &Lanes) -> Result<()> {
    let unit = f64::from(1u32 << FRACTION);
    let lane = |a: &Shared, b: &Shared, odd: usize| -> f64 {
        let ring = a.ring();
        let sums = a.values().iter().zip(b.values()).map(|(&p, &q)| ring.to_signed(ring.add(p, q)));
        let apart = sums.enumerate().map(|(i, got)| (got - x[(2 * i + odd) % x.len()]).abs());
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
        let [first, second] = &self.pools;
        let (made, times) = timed(|| {
            at_once(
                || Ok(first.install(|| clocked(|| client(&mut p0)))),
                || Ok(second.install(|| clocked(|| server(&mut p1)))),
            )
        });
        let ((a, mine), (b, theirs)) = made?;
        let (made, times) = ((a?, b?), Times { sides: [mine, theirs], ..times });
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
