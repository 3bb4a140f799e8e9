//! Muxes by chosen transfers, and folded SiLU, which is made of them.

use fesc_ring::Prg;

use super::*;
use crate::activation::Folded;
use crate::correlation::{Material, Transfers};
use crate::protocol::CotMux;
use crate::provider::{Correlations, TwoParty};

/// Each message under its own mask: bits under choices, values under offsets.
#[test]
fn mux_by_transfers() {
    let r = ring(24);
    for terms in [1, 2] {
        let mux = CotMux::new(r, N, terms).unwrap();
        let run = |p: &mut Party, s: u64| {
            let (bits, values) = (constant_bits(s), constant(r, s));
            mux.run(p, &vec![&bits; terms], &vec![&values; terms]).map(drop)
        };
        check("mux by transfers", &run, [0x34_5679, 0]);
    }
}

/// What the first comparison gives is uniform by itself, and so is all that follows: masks of later messages
/// are removed where shares are fixed, in `mux_by_transfers`, `compare` and `truncate_and_extend`.
#[test]
fn folded_silu() {
    let act = Folded::new(fesc_approx::Folded::new(12).unwrap()).into_ring(ring(48));
    let first = |r: &Request| matches!(r, Request::Leaves(l) if l.planes == 1 || l.planes == 2 && l.count > N);
    let run = |p: &mut Party, s: u64| act.run(p, &constant(act.ring(), s)).map(drop);
    check_controls("folded SiLU", &run, [0x1_8000, 0xff_0000], &first);
}

/// The sender's pad is on no wire: it makes what the receiver gets for its random choice say nothing of the
/// offset. Without it a receiver that chose 1 has the offset, and with it the selected value.
#[test]
fn without_the_pad_the_share_is_the_value() {
    let r = ring(24);
    for victim in [Role::P0, Role::P1] {
        let share = |removed: bool| {
            let blank = Arc::new(move |_: usize, role: Role, field: usize| {
                if role == victim { removed && field == Transfers::PADS } else { field != Transfers::CHOICES }
            });
            let (c0, c1) = Channel::memory_pair();
            let run = |role: Role, channel: Channel, blank| {
                let mut party = Party::new(role, channel, Box::new(Seeded::without(role, 3, blank)));
                let (bits, value) = if role == victim { (0, 0x12_3456) } else { (1, 0) };
                let mux = CotMux::new(r, N, 1).unwrap();
                mux.run(&mut party, &[&constant_bits(bits)], &[&constant(r, value)]).unwrap()
            };
            let other = blank.clone();
            let ends = std::thread::scope(|s| {
                let peer = s.spawn(|| run(Role::P1, c1, other));
                [run(Role::P0, c0, blank), peer.join().unwrap()]
            });
            ends[victim.other().index()].values().to_vec()
        };
        let [kept, removed] = [share(false), share(true)];
        assert!(deviation(&r.pack(&kept)) < LIMIT);
        // The adversary's own shares and masks are zero, so what it holds is all there is.
        let bare = |share: &[u64]| share.iter().filter(|&&v| v == 0x12_3456).count();
        assert!(bare(&kept) < 3 && bare(&removed).abs_diff(N / 2) < N / 32, "{victim:?}");
    }
}

/// One correlation for two muxes: whether the peer's two bits are equal, and the difference of its two
/// values, are there to read.
#[test]
fn a_transfer_for_two_muxes_shows_their_difference() {
    let r = ring(24);
    let mux = CotMux::new(r, N, 1).unwrap();
    for (bits, equal) in [([1, 0], false), ([1, 1], true)] {
        let run = |seeds: [u8; 2]| {
            let secrets = [(bits[0], 0x12_1222), (bits[1], 0x12_1233u64)];
            let views = [0, 1].map(|i| {
                let (bit, value) = secrets[i];
                let protocol = |p: &mut Party, s: u64| {
                    let (bit, value) = if s == 1 { (bit, value) } else { (0, 0) };
                    mux.run(p, &[&constant_bits(bit)], &[&constant(r, value)]).map(drop)
                };
                observe(&protocol, Role::P0, 1, seeds[i], &[], None).0[1].clone()
            });
            let flips: Vec<u8> = views[0][0].iter().zip(&views[1][0]).map(|(a, b)| a ^ b).collect();
            let values = views.map(|v| r.unpack(&v[1], N).unwrap());
            let difference: Vec<u64> = values[0].iter().zip(&values[1]).map(|(&a, &b)| r.sub(b, a)).collect();
            (flips, difference)
        };
        let (flips, difference) = run([1, 2]);
        assert!(deviation(&flips) < LIMIT && deviation(&r.pack(&difference)) < LIMIT);
        let (flips, difference) = run([1, 1]);
        assert!(flips.iter().all(|&b| (b == 0) == equal), "the bits are compared");
        assert!(!equal || difference.iter().all(|&d| d == r.neg(0x11)), "the values are compared");
    }
}

/// One bit selects two values: each use has its own choice, so the two messages have no relation. Control:
/// without the choices the same bits are there twice.
#[test]
fn a_bit_used_twice_is_masked_anew() {
    let r = ring(24);
    let mux = CotMux::new(r, N, 2).unwrap();
    let secret: Vec<u64> = (0..N as u64 / 64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let protocol = |p: &mut Party, s: u64| {
        let bits = SharedBits::new(N, secret.iter().map(|w| w * s).collect()).unwrap();
        mux.run(p, &[&bits, &bits], &[&constant(r, 3 * s), &constant(r, 5 * s)]).map(drop)
    };
    for victim in [Role::P0, Role::P1] {
        let halves = |removed| {
            let (view, _) = observe(&protocol, victim, 1, 1, &[], removed);
            let flips = &view[victim.other().index()][0];
            let (first, second) = flips.split_at(flips.len() / 2);
            first.iter().zip(second).map(|(a, b)| a ^ b).collect::<Vec<u8>>()
        };
        assert!(deviation(&halves(None)) < LIMIT);
        assert!(halves(Some((0, Transfers::CHOICES))).iter().all(|&b| b == 0));
    }
}

/// A source that shows what it gave.
struct Shown(TwoParty, Arc<Mutex<Vec<Vec<u64>>>>);

impl Correlations for Shown {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        let half = self.0.take(channel, request)?;
        *self.1.lock().unwrap() = (0..4).map(|f| half.ring(f).to_vec()).collect();
        Ok(half)
    }
}

/// Bits of `words`, least significant first.
fn spread(words: &[u64], n: usize) -> Vec<u64> {
    (0..n).map(|i| words[i / 64] >> (i % 64) & 1).collect()
}

/// With the correlations that two parties really make: no bit of what a party can put together from its view
/// (what it received, its half, their sums and differences) goes with a bit of the other's share or of the
/// other's value. Control: whoever had the offset would read the value's.
#[test]
fn nothing_that_a_party_can_compute_goes_with_the_others_shares() {
    let (n, r) = (1 << 15, ring(24));
    let secret = |seed: u8| {
        let mut prg = Prg::from_seed([seed; 16]);
        // Values of ten bits: most of what could leak is public already.
        let values = prg.ring_vec(ring(10), n);
        let mut bits = vec![0; n / 64];
        prg.fill_u64(&mut bits);
        (bits, values)
    };
    let (c0, c1) = Channel::memory_pair();
    let (log, halves) = (Arc::new(Mutex::new(Vec::new())), [(); 2].map(|()| Arc::default()));
    let run = |role: Role, mut channel: Channel| {
        let prg = Prg::from_seed([role.index() as u8 + 40; 16]);
        let source = TwoParty::setup(role, &mut channel, fesc_ot::CotKind::Iknp, prg).unwrap();
        if role == Role::P1 {
            let log = log.clone();
            channel.set_tap(Box::new(move |_, payload| log.lock().unwrap().push(payload.clone())));
        }
        let shown = Shown(source, Arc::clone(&halves[role.index()]));
        let mut party = Party::new(role, channel, Box::new(shown));
        let (bits, values) = secret(role.index() as u8);
        let (bits, values) = (SharedBits::new(n, bits).unwrap(), Shared::new(r, values));
        CotMux::new(r, n, 1).unwrap().run(&mut party, &[&bits], &[&values]).unwrap().values().to_vec()
    };
    let (_, share) = std::thread::scope(|s| {
        let peer = s.spawn(|| run(Role::P1, c1));
        (run(Role::P0, c0), peer.join().unwrap())
    });
    let log = log.lock().unwrap();
    let [flips, wire] = [&log[log.len() - 2], &log[log.len() - 1]];
    let [flips, wire] = [crate::party::WORDS.unpack(flips, n / 64).unwrap(), r.unpack(wire, n).unwrap()];
    let [theirs, mine] = halves.map(|half| half.lock().unwrap().clone());
    let (bits, values) = secret(0);
    let [bits, flips] = [&bits, &flips].map(|words| spread(words, n));
    let [choices, own] = [&mine[Transfers::CHOICES], &secret(1).0].map(|words| spread(words, n));
    // The largest deviation of a bit of `seen` from having nothing to do with a bit of the secrets.
    let worst = |seen: &[u64]| {
        let mut worst: f64 = 0.0;
        for at in 0..24 {
            for hidden in 0..11 {
                let bit = |i: usize| if hidden == 10 { bits[i] } else { values[i] >> hidden & 1 };
                let equal = (0..n).filter(|&i| seen[i] >> at & 1 == bit(i)).count();
                worst = worst.max((equal as f64 - n as f64 / 2.0).abs() / (n as f64 / 4.0).sqrt());
            }
        }
        worst
    };
    let of = |f: &dyn Fn(usize) -> u64| (0..n).map(|i| f(i) & r.mask()).collect::<Vec<u64>>();
    let (pads, offsets, chosen) = (&mine[Transfers::PADS], &mine[Transfers::OFFSETS], &mine[Transfers::CHOSEN]);
    let views = [
        of(&|i| wire[i]),
        of(&|i| wire[i].wrapping_sub(chosen[i])),
        of(&|i| wire[i].wrapping_add(chosen[i])),
        of(&|i| wire[i] ^ (choices[i] ^ own[i]).wrapping_neg()),
        of(&|i| wire[i] ^ flips[i].wrapping_neg()),
        of(&|i| wire[i].wrapping_add(offsets[i])),
        of(&|i| chosen[i]),
        of(&|i| share[i]),
        of(&|i| share[i].wrapping_add(pads[i])),
        of(&|i| flips[i].wrapping_neg()),
        of(&|i| (flips[i] ^ choices[i]).wrapping_neg()),
        of(&|i| (flips[i] ^ wire[i]).wrapping_add(pads[i])),
    ];
    for (number, view) in views.iter().enumerate() {
        // 264 pairs of bits each.
        let w = worst(view);
        assert!(w < LIMIT, "combination {number}: {w}");
    }
    // d is the receiver's choice under its bit, which it knows.
    let d = |i: usize| choices[i] ^ own[i];
    let bare = of(&|i| {
        let offset = theirs[Transfers::OFFSETS][i];
        wire[i].wrapping_add(if d(i) == 0 { offset } else { offset.wrapping_neg() })
    });
    assert!(worst(&bare) > 3.0 * LIMIT);
}
