//! Muxes by chosen transfers, and folded SiLU, which is made of them.

use super::*;
use crate::activation::Folded;
use crate::correlation::Transfers;
use crate::protocol::CotMux;

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
