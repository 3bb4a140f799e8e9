//! Both parties in one test: threads over a memory channel, seeded correlations, counted costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_net::Channel;
use fesc_ring::{LongRing, Prg, Ring};

use crate::correlation::{
    BitProducts, BitTriples, Bundle, DaBits, Leaves, LongBitProducts, Product, Select, Tensor, Transfers,
};
use crate::provider::{Correlations, Seeded};
use crate::{Cost, Ledger, MpcError, Party, Request, Role, Shared};

pub(crate) fn ring(bits: u32) -> Ring {
    Ring::new(bits).unwrap()
}

/// One of each kind, with awkward sizes.
pub(crate) fn sample_requests() -> Vec<Request> {
    let r = ring(48);
    let graph = graph(ring(37), [2, 3, 4, 5]);
    vec![
        Request::Bundle(Bundle::squares(r, 7)),
        Request::Bundle(Bundle::triples(ring(64), 5)),
        Request::Bundle(Bundle::scalar_vector(r, 3, 4)),
        Request::Bundle(Bundle::sums_of_squares(r, 2, 9)),
        Request::Bundle(Bundle::matmul(r, 2, 3, 4, 5)),
        Request::Bundle(graph),
        Request::Select(Select { ring: r, count: 67, thresholds: 5, degree: 1 }),
        Request::Select(Select { ring: ring(64), count: 3, thresholds: 2, degree: 2 }),
        Request::BitTriples(BitTriples { words: 3, width: 1 }),
        Request::BitTriples(BitTriples { words: 2, width: 2 }),
        Request::BitProducts(BitProducts { ring: ring(16), words: 2 }),
        Request::DaBits(DaBits { ring: r, words: 1 }),
        Request::Leaves(Leaves { sender: Role::P0, count: 70, planes: 10 }),
        Request::Leaves(Leaves { sender: Role::P1, count: 64, planes: 5 }),
        Request::LongBitProducts(LongBitProducts { ring: LongRing::new(75).unwrap(), words: 3 }),
        Request::Transfers(Transfers { ring: ring(24), words: 3 }),
    ]
}

/// One product of every class over axes of sizes `k, q, c, p`, operands in awkward orders. `q` is the side of
/// the triangles.
pub(crate) fn graph(ring: Ring, [k, q, c, p]: [usize; 4]) -> Bundle {
    // Axes: 0 = k, 1 = i and 2 = j (both q), 3 = c, 4 = p, 5 = an axis of one place.
    let full = Tensor::new;
    let masks = vec![
        full(&[0, 1, 3]),
        full(&[3, 0, 4]),
        full(&[0, 1]),
        full(&[0, 1, 3]),
        Tensor::lower(&[0, 1, 2]),
        Tensor::lower(&[4, 0, 1, 2]),
        full(&[2, 4, 0]),
        full(&[4]),
        full(&[0, 2, 5, 3]),
    ];
    let product = Product::new;
    let products = vec![
        product(0, 1, full(&[0, 1, 4])).rounded(),
        product(1, 0, full(&[4, 1, 0])),
        product(2, 0, full(&[0, 1, 3])),
        product(0, 3, full(&[0, 1, 3])),
        product(0, 3, full(&[3, 1, 0])),
        product(3, 3, full(&[0, 1])),
        product(3, 3, full(&[1])),
        product(0, 0, full(&[])),
        product(2, 7, full(&[0, 1, 4])),
        product(7, 2, full(&[1, 4, 0])),
        product(4, 5, Tensor::lower(&[0, 4, 1, 2])),
        product(4, 4, Tensor::lower(&[0, 1, 2])),
        product(5, 4, full(&[4, 0])),
        product(7, 4, Tensor::lower(&[4, 0, 1, 2])),
        product(4, 6, full(&[0, 1, 4])),
        product(6, 4, full(&[1, 4, 0])),
        product(4, 2, full(&[0, 2])),
        product(8, 0, full(&[0, 1, 2])),
        product(5, 6, full(&[1])),
    ];
    Bundle { ring, sizes: vec![k, q, q, c, p, 1], masks, products }
}

/// An index-by-index twin of an einsum, written apart from the product's own code.
pub(crate) fn naive_product(bundle: &Bundle, product: &Product, left: &[u64], right: &[u64]) -> Vec<u64> {
    let tensors = [&bundle.masks[product.left], &bundle.masks[product.right], &product.out];
    let used: Vec<u8> = (0..bundle.sizes.len() as u8).filter(|a| tensors.iter().any(|t| t.axes.contains(a))).collect();
    let place = |t: &Tensor, at: &[usize]| -> Option<usize> {
        let whole = t.axes.len() - if t.lower { 2 } else { 0 };
        let mut flat = t.axes[..whole].iter().fold(0, |acc, &a| acc * bundle.sizes[a as usize] + at[a as usize]);
        if let [.., i, j] = t.axes[..]
            && t.lower
        {
            let (q, i, j) = (bundle.sizes[i as usize], at[i as usize], at[j as usize]);
            flat = flat * (q * (q + 1) / 2) + i * (i + 1) / 2 + (j <= i).then_some(j)?;
        }
        Some(flat)
    };
    let mut out = vec![0u64; product.out.len(&bundle.sizes)];
    let count: usize = used.iter().map(|&a| bundle.sizes[a as usize]).product();
    for mut n in 0..count {
        let mut at = vec![0; bundle.sizes.len()];
        for &a in &used {
            at[a as usize] = n % bundle.sizes[a as usize];
            n /= bundle.sizes[a as usize];
        }
        if let [Some(l), Some(r), Some(o)] = tensors.map(|t| place(t, &at)) {
            out[o] = bundle.ring.add(out[o], bundle.ring.mul(left[l], right[r]));
        }
    }
    out
}

/// What a run of both parties gave.
pub(crate) struct Outcome<T> {
    pub out: [T; 2],
    pub cost: Cost,
    pub demand: Vec<Request>,
}

impl<T> Outcome<T> {
    /// Declared bytes, rounds and correlations must be the counted ones.
    pub(crate) fn assert_declared(&self, declare: impl FnOnce(&mut Ledger)) {
        let mut ledger = Ledger::new();
        declare(&mut ledger);
        assert_eq!(ledger.cost(), self.cost, "declared (left) and counted (right) cost");
        assert_eq!(ledger.demand(), self.demand, "declared and used correlations");
    }
}

/// The counted cost of a finished run; both ends must agree.
pub(crate) fn counted(c0: &Channel, c1: &Channel) -> Cost {
    let (s0, s1) = (c0.stats().total, c1.stats().total);
    assert_eq!((s0.sent_bytes, s0.received_bytes), (s1.received_bytes, s1.sent_bytes));
    assert_eq!(s0.rounds, s1.rounds, "both ends see the same depth");
    Cost { p0_to_p1_bytes: s0.sent_bytes, p1_to_p0_bytes: s1.sent_bytes, rounds: s0.rounds }
}

/// Runs `f` as both parties with seeded correlations.
pub(crate) fn both<T: Send>(f: impl Fn(&mut Party) -> Result<T, MpcError> + Sync) -> Outcome<T> {
    let sources = [Role::P0, Role::P1].map(|r| Seeded::new(r, 7));
    let taken = sources[0].taken.clone();
    let (c0, c1) = Channel::memory_pair();
    let [s0, s1] = sources;
    let mut p0 = Party::new(Role::P0, c0, Box::new(s0));
    let mut p1 = Party::new(Role::P1, c1, Box::new(s1));
    let out = std::thread::scope(|scope| {
        let peer = scope.spawn(|| f(&mut p1).unwrap());
        let first = f(&mut p0).unwrap();
        [first, peer.join().unwrap()]
    });
    let cost = counted(p0.channel(), p1.channel());
    let demand = taken.lock().unwrap().clone();
    Outcome { out, cost, demand }
}

/// Runs `f` as both parties on shares of `inputs` and joins the shared result.
pub(crate) fn on_shares(
    inputs: &[(Ring, &[u64])],
    f: impl Fn(&mut Party, &[Shared]) -> Result<Shared, MpcError> + Sync,
) -> (Vec<u64>, Outcome<Shared>) {
    let mut prg = Prg::from_seed([11; 16]);
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for &(r, secret) in inputs {
        let (a, b) = Shared::split(r, secret, &mut prg);
        mine.push(a);
        theirs.push(b);
    }
    let outcome = both(|party| match party.role() {
        Role::P0 => f(party, &mine),
        Role::P1 => f(party, &theirs),
    });
    (outcome.out[0].join(&outcome.out[1]).unwrap(), outcome)
}

/// Takes every request from two providers over a fresh channel and checks each pair of halves against the
/// ideal functionality: recomputing the determined fields from the free ones must change nothing.
pub(crate) fn check_provider(
    requests: &[Request],
    make: impl Fn(Role, &mut Channel) -> Box<dyn Correlations + Send> + Sync,
) {
    let (mut c0, mut c1) = Channel::memory_pair();
    let run = |role: Role, channel: &mut Channel| {
        let mut source = make(role, channel);
        requests.iter().map(|r| source.take(channel, r).unwrap()).collect::<Vec<_>>()
    };
    let (halves0, halves1) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, &mut c1));
        (run(Role::P0, &mut c0), peer.join().unwrap())
    });
    for ((request, mut m0), mut m1) in requests.iter().zip(halves0).zip(halves1) {
        let write = |m: &crate::correlation::Material, role| m.write(&request.layout(role), |s| !s.free);
        let before = (write(&m0, Role::P0), write(&m1, Role::P1));
        request.complete(&mut m0, &mut m1).unwrap();
        assert!(before == (write(&m0, Role::P0), write(&m1, Role::P1)), "{request}: halves do not fit together");
    }
}
