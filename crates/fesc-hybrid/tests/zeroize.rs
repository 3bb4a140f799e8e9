//! A client's shares and parts are gone from memory when it is freed (`fesc_ring::watch` says how that is
//! seen): in the memory of a whole conversion, what is made on the way included.
#![allow(clippy::unwrap_used)]

use fesc_ckks::client::{KeyGenerator, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, Params, ParamsLiteral};
use fesc_hybrid::boundary::{Encoding, Fixed, Lanes, Layout, MaskBound, ToCiphertexts, ToShares, Values};
use fesc_mpc::protocol::Extend;
use fesc_mpc::provider::{Queue, TwoParty};
use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::watch::WatchingAllocator;
use fesc_ring::{LongRing, Prg, Ring};

#[global_allocator]
static HEAP: WatchingAllocator = WatchingAllocator;

/// Values of all slots of two ciphertexts go up and come down again; the client's half of each on this
/// thread, where it is watched.
struct Run {
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    up: ToCiphertexts,
    down: ToShares,
    share: Shared,
    other: Shared,
}

/// Both parties with the correlations of a schedule: the same ones each time.
fn parties(ledger: &Ledger) -> [Party; 2] {
    let make = |role: Role, mut channel: Channel| {
        let prg = Prg::from_seed([role.index() as u8 + 40; 16]);
        let mut source = TwoParty::setup(role, &mut channel, CotKind::Iknp, prg).unwrap();
        Queue::prepare(&mut source, &mut channel, ledger.demand()).unwrap()
    };
    let (a, b) = Channel::memory_pair();
    let (mine, theirs) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| make(Role::P1, b));
        (make(Role::P0, a), peer.join().unwrap())
    });
    let (a, b) = Channel::memory_pair();
    [Party::new(Role::P0, a, Box::new(mine)), Party::new(Role::P1, b, Box::new(theirs))]
}

impl Run {
    fn new() -> Self {
        let literal = ParamsLiteral { log_n: 13, q_bits: vec![40; 4], p_bits: vec![45], log_scale: 30 };
        let params = Params::new(&literal).unwrap();
        let (mut prg, ring) = (Prg::from_seed([1; 16]), Ring::new(48).unwrap());
        let secret = SecretKey::generate(&params, &mut prg);
        let public = KeyGenerator::new(&secret).public_key(&mut prg).unwrap();
        let none = EvaluationKeys::new(&params, &EvaluationKeyPlan::default(), public.id());
        let evaluator = Evaluator::new(&params, none).unwrap();
        let count = 3 * params.slots();
        let values = Values { ring, bits: 16, fraction: 12, inference: count as u64 };
        let encoding = Encoding::slots(3, params.scale());
        let up = ToCiphertexts::new(&params, Layout::compact(&params, count).unwrap(), values, encoding).unwrap();
        let (bound, fixed) = (MaskBound { phase_bits: 36, masked: 1 << 14 }, Fixed { ring, fraction: 12 });
        let down = ToShares::new(&params, 2, params.scale(), bound, fixed).unwrap();
        let (share, other) = Shared::split(ring, &vec![5; count], &mut prg);
        Self { secret, public, evaluator, up, down, share, other }
    }

    fn ciphertexts(&self) -> Vec<Ciphertext> {
        let mut ledger = Ledger::new();
        self.up.declare(&mut ledger).unwrap();
        let [mut mine, mut theirs] = parties(&ledger);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| self.up.run_server(&mut theirs, self.public.id(), &self.other).unwrap());
            let mut prg = Prg::from_seed([3; 16]);
            self.up.run_client(&mut mine, &self.secret, &self.share, &mut prg).unwrap();
            server.join().unwrap()
        })
    }

    fn lanes(&self, made: &[Ciphertext]) -> Lanes {
        let [mut mine, mut theirs] = parties(&Ledger::new());
        let mut prg = Prg::from_seed([4; 16]);
        drop(self.down.run_server(&mut theirs, &self.evaluator, &self.public, made, &mut prg).unwrap());
        self.down.run_client(&mut mine, &self.secret).unwrap()
    }

    /// The client's part of each value.
    fn part(&self) -> Vec<u128> {
        let values = self.up.values();
        let to = LongRing::new(self.up.part_bits()).unwrap();
        let extend = Extend::new(values.ring, values.bits, to, self.up.layout().values()).unwrap();
        let mut ledger = Ledger::new();
        self.up.declare(&mut ledger).unwrap();
        let [mut mine, mut theirs] = parties(&ledger);
        std::thread::scope(|scope| {
            scope.spawn(|| extend.run(&mut theirs, &self.other).map(|_| ()).unwrap());
            extend.run(&mut mine, &self.share).unwrap().to_vec()
        })
    }
}

/// Everything that would run in parallel runs on this thread.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap().install(work)
}

/// Bytes to be looked for.
fn bytes(words: &[u64]) -> &'static [u8] {
    words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>().leak()
}

/// Both forms that shares have on the way: lanes side by side in a slot, and one lane after the other.
#[test]
fn shares_of_a_conversion_leave_no_copy_behind() {
    let run = Run::new();
    let made = run.ciphertexts();
    alone(|| {
        let lanes = run.lanes(&made);
        let (re, im) = (lanes.real.values(), lanes.imaginary.values());
        for needle in [bytes(&re[4100..4103]), bytes(&[re[100], im[100], re[101]]), bytes(&im[..3])] {
            assert_eq!(HEAP.freed_with(needle, || drop(run.lanes(&made))), 0);
        }
        // Control: the same numbers in a vector that grows.
        let grown = HEAP.freed_with(bytes(&re[4100..4103]), || {
            let mut copy = Vec::new();
            re.iter().for_each(|&v| copy.push(v));
            std::hint::black_box(&copy);
        });
        assert!(grown > 0, "{grown}");
    });
}

/// What is encrypted: the client's parts as integers of 128 bits, as they are shared and as they are lifted.
#[test]
fn parts_of_a_conversion_leave_no_copy_behind() {
    let run = Run::new();
    alone(|| {
        let (part, to) = (run.part(), LongRing::new(run.up.part_bits()).unwrap());
        let words = |x: u128, y: u128| bytes(&[x as u64, (x >> 64) as u64, y as u64]);
        // A negative one, which looks different when it is lifted.
        let i = (100..200).find(|&i| to.to_signed(part[i]) < 0 && i % 2 == 0).unwrap();
        let lift = |i: usize| to.to_signed(part[i]) as u128;
        for needle in [words(part[i], part[i + 1]), words(lift(i), lift(i + 1))] {
            assert_eq!(HEAP.freed_with(needle, || drop(run.ciphertexts())), 0);
        }
        let copied = HEAP.freed_with(words(part[i], part[i + 1]), || drop(part.to_vec()));
        assert!(copied > 0, "control: a copy that nobody wipes");
    });
}
