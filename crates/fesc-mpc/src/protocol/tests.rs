//! Every primitive against its plaintext twin, for all shapes and corners, with declared equal to counted
//! cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_ring::{Prg, Ring};

use super::*;
use crate::correlation::Bundle;
use crate::testing::{both, graph, naive_product, on_shares, ring};
use crate::{Role, Shared, SharedBits};

const SIZES: [usize; 6] = [0, 1, 2, 63, 64, 129];

fn random(r: Ring, n: usize, seed: u8) -> Vec<u64> {
    Prg::from_seed([seed; 16]).ring_vec(r, n)
}

#[test]
fn open_to_both_and_to_one() {
    for n in SIZES {
        for to in [None, Some(Role::P0), Some(Role::P1)] {
            let r = ring(37);
            let secret = random(r, n, 1);
            let (a, b) = Shared::split(r, &secret, &mut Prg::from_seed([2; 16]));
            let step = Open { ring: r, count: n, to };
            let got = both(|p| step.run(p, if p.role() == Role::P0 { &a } else { &b }));
            got.assert_declared(|l| step.declare(l));
            for role in [Role::P0, Role::P1] {
                let expected = (to.is_none() || to == Some(role)).then(|| secret.clone());
                assert_eq!(got.out[role.index()], expected, "{to:?} {role:?} {n}");
            }
        }
    }
}

#[test]
fn products_of_every_kind_and_shape() {
    for bits in [1, 2, 16, 48, 52, 64] {
        let r = ring(bits);
        for sizes in [[2, 0, 2, 3], [0, 2, 3, 2], [1, 1, 1, 1], [2, 3, 0, 2], [1, 3, 2, 0], [2, 5, 3, 4], [3, 7, 4, 1]]
        {
            let bundle = graph(r, sizes);
            let masks = bundle.masks.len();
            let data: Vec<Vec<u64>> = (0..masks).map(|i| random(r, bundle.mask_len(i), 20 + i as u8)).collect();
            let step = Bilinear { bundle: bundle.clone() };
            let mut prg = Prg::from_seed([11; 16]);
            let (mine, theirs): (Vec<_>, Vec<_>) = data.iter().map(|d| Shared::split(r, d, &mut prg)).unzip();
            let outcome = both(|party| {
                let shares = if party.role() == Role::P0 { &mine } else { &theirs };
                step.run(party, &shares.iter().collect::<Vec<_>>())
            });
            outcome.assert_declared(|l| step.declare(l));
            for (p, product) in bundle.products.iter().enumerate() {
                let got = outcome.out[0][p].join(&outcome.out[1][p]).unwrap();
                let expected = naive_product(&bundle, product, &data[product.left], &data[product.right]);
                assert_eq!(got, expected, "{bits} bits, sizes {sizes:?}, product {p}");
            }
        }
    }
}

#[test]
fn a_mask_serves_one_tensor_and_a_product_is_given_out_once() {
    let bundle = Bundle::squares(ring(48), 3);
    let outcome = both(|party| {
        let x = Shared::new(ring(48), vec![1, 2, 3]);
        let mut opened = Opened::start(party, &bundle)?;
        assert!(opened.product(0).is_err(), "not open yet");
        opened.open(party, &[(0, &x)])?;
        assert!(opened.open(party, &[(0, &x)]).is_err(), "opened twice");
        opened.product(0)?;
        Ok(opened.product(0).is_err())
    });
    assert_eq!(outcome.out, [true, true]);
}

#[test]
fn a_mask_is_spent_by_the_attempt_to_use_it() {
    // Two tensors in one call.
    let bundle = Bundle::squares(ring(48), 3);
    let outcome = both(|party| {
        let [x, y] = [1, 7].map(|v| Shared::new(ring(48), vec![v; 3]));
        Ok(Opened::start(party, &bundle)?.open(party, &[(0, &x), (0, &y)]).is_err())
    });
    assert_eq!(outcome.out, [true, true]);
    // A reply with padding bits set is refused after our message has left: the mask must not serve again.
    let (c0, mut c1) = fesc_net::Channel::memory_pair();
    let mut party = crate::Party::new(Role::P0, c0, Box::new(crate::provider::Seeded::new(Role::P0, 7)));
    c1.send(tag::MASKED, vec![0xff, 0xff]).unwrap();
    c1.send(tag::MASKED, vec![0, 0]).unwrap();
    let mut opened = Opened::start(&mut party, &Bundle::squares(ring(3), 3)).unwrap();
    for values in [vec![1, 2, 3], vec![4, 5, 6]] {
        assert!(opened.open(&mut party, &[(0, &Shared::new(ring(3), values))]).is_err());
    }
}

/// All values of a 10-bit ring, for sharings that reach every carry, at both ends of the range.
#[test]
fn conversions_are_exhaustive_on_a_small_ring() {
    let from = ring(10);
    for (to_bits, shift) in [(10, 3), (10, 0), (7, 3), (4, 3), (14, 0), (12, 3), (10, 8), (1, 0), (64, 2)] {
        let to = ring(to_bits);
        let local = to_bits <= 10 - shift;
        let (low, high) = if local { (-512i64, 512) } else { (-256, 256 - if shift > 0 { 1 << shift } else { 0 }) };
        let values: Vec<u64> = (low..high).flat_map(|v| [from.from_signed(v); 4]).collect();
        let step = Convert::new(from, to, shift, values.len()).unwrap();
        let (got, outcome) = on_shares(&[(from, &values)], |party, x| step.run(party, &x[0]));
        outcome.assert_declared(|l| step.declare(l));
        let mut both_seen = [false; 2];
        for (&x, &y) in values.iter().zip(&got) {
            let x = from.to_signed(x);
            let expected = [false, true].map(|carry| match (shift, carry) {
                (0, _) => x,
                (_, false) => (x + 1) >> shift,
                (_, true) => (x >> shift) + 1,
            });
            let class = expected.map(|e| to.from_signed(e));
            assert!(class.contains(&y), "{x} >> {shift} into {to_bits} bits gave {y}, allowed {class:?}");
            if class[0] != class[1] {
                both_seen[usize::from(y == class[1])] = true;
            }
        }
        assert!(shift == 0 || to_bits == 1 || both_seen == [true, true], "a rounding never seen: {to_bits} {shift}");
    }
}

#[test]
fn truncation_is_unbiased_at_full_width() {
    let (r, n) = (ring(48), 1 << 14);
    // Delta = 0.001 .. 0.1 at 38 bits, cut to 16: a bias of one ulp would be 1.5 % of the least Delta.
    let values: Vec<u64> = random(ring(32), n, 5).iter().map(|v| 275_000_000 + v * 6).collect();
    let step = Convert::truncate(r, 22, n).unwrap();
    let (got, _) = on_shares(&[(r, &values)], |party, x| step.run(party, &x[0]));
    let error: f64 = values.iter().zip(&got).map(|(&x, &y)| y as f64 - x as f64 / 4194304.0).sum::<f64>() / n as f64;
    // The standard deviation of one error is at most 0.5 ulp.
    assert!(error.abs() < 5.0 * 0.5 / (n as f64).sqrt(), "bias {error} ulp");
}

#[test]
fn rescaling_is_the_twins_rounding() {
    for (from, into, frac, to) in [(48, 48, 30, 16), (48, 34, 30, 16), (34, 48, 16, 20), (48, 48, 9, 9), (48, 48, 3, 8)]
    {
        let (from, into) = (ring(from), ring(into));
        let values: Vec<u64> = (-40i64..40).map(|v| from.from_signed(v * 12_345_679 % (1 << 30))).collect();
        let step = Rescale::new(from, frac, to, values.len()).into_ring(into);
        let (got, outcome) = on_shares(&[(from, &values)], |party, x| step.run(party, x[0].clone()));
        outcome.assert_declared(|l| step.declare(l).unwrap());
        for (x, y) in values.iter().map(|&x| from.to_signed(x)).zip(got) {
            let exact = x as f64 * 2f64.powi(to as i32 - frac as i32);
            let may = [exact.floor(), exact.ceil()];
            assert!(may.contains(&(into.to_signed(y) as f64)), "{x} from {frac} to {to}: {y}");
        }
    }
    // No elements: no message, no correlation, the ring that was asked for.
    let step = Rescale::new(ring(48), 30, 16, 0).into_ring(ring(34));
    let (_, outcome) = on_shares(&[(ring(48), &[])], |party, x| step.run(party, x[0].clone()));
    outcome.assert_declared(|l| step.declare(l).unwrap());
    assert_eq!((outcome.cost, outcome.out[0].ring()), (crate::Ledger::new().cost(), ring(34)));
}

#[test]
fn full_range_of_truncation_at_48_bits() {
    let r = ring(48);
    let top = (1i64 << 46) - (1 << 16) - 1;
    let values: Vec<u64> = [0, 1, -1, top, -top, 1 << 45, -(1 << 45)].map(|v| r.from_signed(v)).repeat(50);
    let step = Convert::truncate(r, 16, values.len()).unwrap();
    let (got, _) = on_shares(&[(r, &values)], |party, x| step.run(party, &x[0]));
    for (&x, &y) in values.iter().zip(&got) {
        let (x, y) = (r.to_signed(x), r.to_signed(y));
        assert!((y as f64 - x as f64 / 65536.0).abs() <= 1.0, "{x} -> {y}");
    }
}

#[test]
fn comparison_is_exhaustive_on_a_small_ring() {
    for bits in [2, 3, 4, 7, 8] {
        let r = ring(bits);
        let half = 1i64 << (bits - 1);
        for taus in [vec![0], vec![-1, 0, 1], vec![-half / 2, half / 4]] {
            let bound = taus.iter().map(|t: &i64| t.abs()).max().unwrap();
            let values: Vec<u64> = (-half + bound..half - bound).flat_map(|v| [r.from_signed(v); 3]).collect();
            let tau: Vec<u64> = taus.iter().map(|&t| r.from_signed(t)).collect();
            for sender in [Sender::Split, Sender::Only(Role::P0), Sender::Only(Role::P1)] {
                check_compare(r, &values, &tau, sender);
            }
        }
    }
}

#[test]
fn comparison_at_every_width_and_size() {
    for (bits, n) in [(13, 1), (13, 0), (13, 200), (21, 65), (33, 64), (44, 70), (48, 128), (64, 66)] {
        let r = ring(bits);
        let mut values = random(r, n, 9);
        // Keep clear of the end of the range, then add the corners that remain right.
        values.iter_mut().for_each(|v| *v = r.from_signed(r.to_signed(*v) / 2));
        let edge = (1i64 << (bits - 2)) - 1;
        for (v, c) in values.iter_mut().zip([0, 1, -1, edge, -edge]) {
            *v = r.from_signed(c);
        }
        let tau: Vec<u64> = [-edge / 3, -1, 0, 1, edge / 5].map(|t| r.from_signed(t)).to_vec();
        check_compare(r, &values, &tau, Sender::Split);
        check_compare(r, &values, &tau[2..3], Sender::Only(Role::P1));
    }
}

fn check_compare(r: Ring, values: &[u64], tau: &[u64], sender: Sender) {
    let step = Compare::new(r, values.len(), tau.len(), sender).unwrap();
    let (a, b) = Shared::split(r, values, &mut Prg::from_seed([3; 16]));
    let got = both(|party| {
        let role = party.role();
        let hidden = matches!(sender, Sender::Only(s) if s != role);
        let thresholds = if hidden { Thresholds::Peer } else { Thresholds::Same(tau) };
        step.run(party, if role == Role::P0 { &a } else { &b }, thresholds)
    });
    got.assert_declared(|l| step.declare(l));
    for (k, &t) in tau.iter().enumerate() {
        let bits = got.out[0][k].join(&got.out[1][k]).unwrap();
        for (i, &v) in values.iter().enumerate() {
            let expected = r.to_signed(v) >= r.to_signed(t);
            assert_eq!(bits[i], expected, "{} bits: {} >= {}", r.bits(), r.to_signed(v), r.to_signed(t));
        }
    }
}

#[test]
fn thresholds_per_element_are_the_senders_secret() {
    let (r, n) = (ring(20), 100);
    let values: Vec<u64> = random(ring(18), n, 31);
    let tau = random(ring(18), 2 * n, 32);
    let step = Compare::new(r, n, 2, Sender::Only(Role::P1)).unwrap();
    let (a, b) = Shared::split(r, &values, &mut Prg::from_seed([3; 16]));
    let got = both(|party| match party.role() {
        Role::P0 => step.run(party, &a, Thresholds::Peer),
        Role::P1 => step.run(party, &b, Thresholds::Each(&tau)),
    });
    for k in 0..2 {
        let bits = got.out[0][k].join(&got.out[1][k]).unwrap();
        (0..n).for_each(|i| assert_eq!(bits[i], values[i] >= tau[2 * i + k]));
    }
}

#[test]
fn our_thirteen_bit_form_is_under_fifty_bytes_and_a_44_bit_comparison_under_ninety() {
    let mut ledger = crate::Ledger::new();
    Compare::new(ring(13), 1 << 20, 5, Sender::Split).unwrap().declare(&mut ledger);
    let five = ledger.cost().total_bytes() as f64 / f64::from(1 << 20);
    assert!(five < 42.0, "{five} bytes for five thresholds at 13 bits");
    let mut ledger = crate::Ledger::new();
    Compare::new(ring(44), 1 << 20, 1, Sender::Split).unwrap().declare(&mut ledger);
    let one = ledger.cost().total_bytes() as f64 / f64::from(1 << 20);
    assert!(one < 45.0, "{one} bytes for one comparison at 44 bits");
}

#[test]
fn mux_by_transfers() {
    for n in SIZES {
        for (bits, terms) in [(1, 1), (23, 1), (24, 2), (48, 3), (64, 5)] {
            let r = ring(bits);
            let values: Vec<Vec<u64>> = (0..terms).map(|k| random(r, n, 40 + k as u8)).collect();
            let chosen: Vec<Vec<bool>> =
                (0..terms).map(|k| random(ring(1), n, 50 + k as u8).iter().map(|&b| b == 1).collect()).collect();
            let mut prg = Prg::from_seed([12; 16]);
            let (v0, v1): (Vec<_>, Vec<_>) = values.iter().map(|v| Shared::split(r, v, &mut prg)).unzip();
            let (b0, b1): (Vec<_>, Vec<_>) = chosen.iter().map(|b| SharedBits::split(b, &mut prg)).unzip();
            let step = CotMux::new(r, n, terms).unwrap();
            let outcome = both(|p| {
                let (b, v) = if p.role() == Role::P0 { (&b0, &v0) } else { (&b1, &v1) };
                step.run(p, &b.iter().collect::<Vec<_>>(), &v.iter().collect::<Vec<_>>())
            });
            outcome.assert_declared(|l| step.declare(l));
            assert_eq!(outcome.cost.rounds, 2);
            let want: Vec<u64> = (0..n)
                .map(|i| (0..terms).filter(|&k| chosen[k][i]).fold(0, |sum, k| r.add(sum, values[k][i])))
                .collect();
            assert_eq!(outcome.out[0].join(&outcome.out[1]).unwrap(), want, "{bits} bits, {terms} terms");
        }
    }
    let (bits, value) = (SharedBits::new(2, vec![0]).unwrap(), Shared::new(ring(8), vec![0; 2]));
    let refused = both(|p| {
        let step = |n, terms| CotMux::new(ring(8), n, terms).unwrap();
        Ok([
            step(2, 2).run(p, &[&bits], &[&value]).is_err(),
            step(3, 1).run(p, &[&bits], &[&value]).is_err(),
            CotMux::new(ring(9), 2, 1).unwrap().run(p, &[&bits], &[&value]).is_err(),
        ])
    });
    assert_eq!(refused.out, [[true; 3]; 2]);
    assert!(CotMux::new(ring(8), 1, 0).is_err() && CotMux::new(ring(8), 1, 65).is_err());
}

#[test]
fn mux_and_bits_to_arithmetic() {
    for n in SIZES {
        for bits in [1, 8, 48, 64] {
            let r = ring(bits);
            let values = random(r, n, 40);
            let choice: Vec<bool> = random(ring(1), n, 41).iter().map(|&b| b == 1).collect();
            let (b0, b1) = SharedBits::split(&choice, &mut Prg::from_seed([5; 16]));
            let pick = |role| if role == Role::P0 { &b0 } else { &b1 };
            let mux = Mux { ring: r, count: n };
            let (got, outcome) = on_shares(&[(r, &values)], |p, x| mux.run(p, pick(p.role()), &x[0]));
            outcome.assert_declared(|l| mux.declare(l));
            assert_eq!(got, values.iter().zip(&choice).map(|(&v, &b)| if b { v } else { 0 }).collect::<Vec<_>>());
            let step = BitToArithmetic { ring: r, count: n };
            let (got, outcome) = on_shares(&[], |p, _| step.run(p, pick(p.role())));
            outcome.assert_declared(|l| step.declare(l));
            assert_eq!(got, choice.iter().map(|&b| u64::from(b)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn arg_max_of_rows() {
    let r = ring(48);
    for (rows, columns) in [(0, 3), (1, 1), (1, 2), (1, 13), (5, 7), (3, 64)] {
        let values: Vec<u64> =
            random(ring(30), rows * columns, 50).iter().map(|&v| r.from_signed(v as i64 - (1 << 29))).collect();
        let step = ArgMax { ring: r, rows, columns };
        let (got, outcome) = on_shares(&[(r, &values)], |p, x| step.run(p, &x[0]));
        outcome.assert_declared(|l| step.declare(l).unwrap());
        for (row, &index) in values.chunks(columns).zip(&got) {
            let best = (0..columns).rev().max_by_key(|&i| r.to_signed(row[i])).unwrap();
            assert_eq!(index as usize, best);
        }
        assert_eq!(got.len(), rows);
    }
    // Ties, in every place of the tournament: the first wins. And the widest lead there is.
    let ties: Vec<u64> = (0..1u64 << 5).flat_map(|mask| (0..5).map(move |i| mask >> i & 1)).collect();
    let edge = [r.from_signed(-(1 << 46)), (1 << 46) - 1, r.from_signed(-(1 << 46)), 0, 0];
    let values = [&ties[..], &edge].concat();
    let (got, _) = on_shares(&[(r, &values)], |p, x| ArgMax { ring: r, rows: 33, columns: 5 }.run(p, &x[0]));
    for (row, &index) in values.chunks(5).zip(&got) {
        assert_eq!(index as usize, (0..5).rev().max_by_key(|&i| r.to_signed(row[i])).unwrap(), "{row:?}");
    }
}

#[test]
fn rounds_do_not_grow_with_the_number_of_elements() {
    let rounds = |n: usize| {
        let mut l = crate::Ledger::new();
        Compare::new(ring(13), n, 5, Sender::Split).unwrap().declare(&mut l);
        Convert::truncate(ring(48), 16, n).unwrap().declare(&mut l);
        Mux { ring: ring(48), count: n }.declare(&mut l);
        l.cost().rounds
    };
    assert_eq!(rounds(1), rounds(1 << 20));
    assert_eq!(rounds(1), 6);
}

#[test]
fn wrong_sizes_and_rings_are_errors() {
    let outcome = both(|p| {
        let x = Shared::new(ring(48), vec![1, 2]);
        assert!(Open { ring: ring(48), count: 3, to: None }.run(p, &x).is_err());
        assert!(Open { ring: ring(47), count: 2, to: None }.run(p, &x).is_err());
        assert!(Convert::truncate(ring(48), 16, 3)?.run(p, &x).is_err());
        assert!(Compare::new(ring(48), 3, 1, Sender::Split)?.run(p, &x, Thresholds::Same(&[0])).is_err());
        assert!(Compare::new(ring(48), 2, 2, Sender::Split)?.run(p, &x, Thresholds::Same(&[0])).is_err());
        Ok(())
    });
    assert_eq!(outcome.cost.total_bytes(), 0, "refused before the first byte");
    assert!(Convert::truncate(ring(48), 47, 1).is_err());
    assert!(Convert::reduce(ring(48), 33, 16, 1).is_err());
    assert!(Compare::new(ring(1), 1, 1, Sender::Split).is_err());
    let mut ledger = crate::Ledger::new();
    for (bits, rows, columns) in [(4, 1, 20), (48, 1, 0), (48, 1 << 62, 8)] {
        assert!(ArgMax { ring: ring(bits), rows, columns }.declare(&mut ledger).is_err(), "{rows} x {columns}");
    }
}
