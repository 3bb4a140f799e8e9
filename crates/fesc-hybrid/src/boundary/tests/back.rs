//! Shares to ciphertexts, directly and with uploads made ahead.

use fesc_ckks::client::{Decryptor, KeyGenerator};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator};
use fesc_ckks::{Ciphertext, Encoder, sets};
use fesc_mpc::{Ledger, Shared};
use fesc_ring::{Prg, Ring};
use num_complex::Complex64;

use super::{Keys, Outcome, both, keys, keys_of, ring};
use crate::HybridError;
use crate::backend::{Backend, Ckks, Plain};
use crate::boundary::{ClientUploads, Encoding, Layout, ServerUploads, ToCiphertexts, Values};
use crate::expand::Parts;

pub(super) fn values(bits: u32, inference: u64) -> Values {
    Values { ring: ring(48), bits, fraction: 12, inference }
}

pub(super) const ENCODING: Encoding = Encoding::slots(3, (1u64 << 30) as f64);

/// Values with both ends of the range among them.
pub(super) fn corners(count: usize, bits: u32, prg: &mut Prg) -> Vec<i64> {
    let (low, high) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
    let pick = |i: usize, r: u64| [low, high, 0, -1, 1, (r as i64) >> (64 - bits)][i % 6];
    (0..count).map(|i| pick(i, prg.next_u64())).collect()
}

fn split(ring: Ring, values: &[i64], prg: &mut Prg) -> (Shared, Shared) {
    Shared::split(ring, &values.iter().map(|&v| ring.from_signed(v)).collect::<Vec<_>>(), prg)
}

pub(super) fn direct(keys: &Keys, shape: &ToCiphertexts, x: &[i64]) -> Outcome<(), Vec<Ciphertext>> {
    let (a, b) = split(shape.values().ring, x, &mut Prg::from_seed([5; 16]));
    let mut prg = Prg::from_seed([6; 16]);
    let outcome = both(
        |ledger| shape.declare(ledger).unwrap(),
        |party| shape.run_client(party, &keys.secret, &a, &mut prg).unwrap(),
        |party| shape.run_server(party, keys.public.id(), &b).unwrap(),
    );
    outcome.assert_declared(|ledger| shape.declare(ledger).unwrap());
    outcome
}

/// Uploads of both parties, made over a channel of their own.
pub(super) fn prepare(keys: &Keys, shape: &ToCiphertexts, seed: u8) -> (ClientUploads, ServerUploads) {
    let mut prg = Prg::from_seed([seed; 16]);
    let declare = |ledger: &mut Ledger| shape.declare_preparation(ledger);
    let made = both(
        declare,
        |party| shape.prepare_client(party.channel(), &keys.secret, &mut prg).unwrap(),
        |party| shape.prepare_server(party.channel(), keys.public.id()).unwrap(),
    );
    made.assert_declared(declare);
    (made.client, made.server)
}

pub(super) fn ahead(keys: &Keys, shape: &ToCiphertexts, x: &[i64], seed: u8) -> Outcome<(), Vec<Ciphertext>> {
    let (mine, theirs) = prepare(keys, shape, seed);
    let (a, b) = split(shape.values().ring, x, &mut Prg::from_seed([5; 16]));
    let outcome = both(
        |ledger| shape.declare_ahead(ledger).unwrap(),
        |party| shape.run_client_ahead(party, &a, mine).unwrap(),
        |party| shape.run_server_ahead(party, &b, theirs).unwrap(),
    );
    outcome.assert_declared(|ledger| shape.declare_ahead(ledger).unwrap());
    outcome
}

/// The largest difference between what ciphertexts hold and what the layout says.
pub(super) fn error(keys: &Keys, shape: &ToCiphertexts, results: &[Ciphertext], x: &[i64]) -> f64 {
    assert_eq!(results.len(), shape.layout().ciphertexts());
    let unit = f64::from(shape.values().fraction).exp2();
    let lane = |v: Option<usize>| v.map_or(0.0, |v| x[v] as f64 / unit);
    let mut worst = 0f64;
    for (i, c) in results.iter().enumerate() {
        assert_eq!((c.level(), c.scale()), (shape.encoding(0).level, shape.encoding(0).scale));
        for (j, z) in keys.decrypt(c).into_iter().enumerate() {
            let [re, im] = shape.layout().at(i, j).map(lane);
            let apart = z - Complex64::new(re, im);
            worst = worst.max(apart.re.abs()).max(apart.im.abs());
        }
    }
    worst
}

#[test]
fn every_layout_and_count_arrives_within_the_stated_error_directly_and_ahead() {
    let keys = keys();
    let p = &keys.params;
    let mut prg = Prg::from_seed([9; 16]);
    let layouts = [
        Layout::compact(p, 0),
        Layout::compact(p, 1),
        Layout::compact(p, 8195),
        Layout::paired(p, 77),
        Layout::real(p, 4097),
        Layout::repeated(p, 13, 300),
        Layout::runs(p, 130, 64),
        Layout::new(p, 3, 2, |c, s| [(s % 5 == c).then_some(2), (s == 7).then_some(c)]),
    ];
    for layout in layouts.map(Result::unwrap) {
        let count = layout.values();
        let shape = ToCiphertexts::new(p, layout, values(16, 1 << 14), ENCODING).unwrap();
        assert_eq!(shape.part_bits(), 16 + 42 + 14);
        let x = corners(count, 16, &mut prg);
        let stated = shape.report().unwrap().log_error.exp2();
        for outcome in [direct(&keys, &shape, &x), ahead(&keys, &shape, &x, 8)] {
            let got = error(&keys, &shape, &outcome.server, &x);
            assert!(got <= stated, "{count} values: {got:e} and stated {stated:e}");
        }
    }
}

/// Parts that went up in one ciphertext come apart as vectors of their own, within the error that is stated.
#[test]
fn packed_parts_arrive_and_come_apart() {
    let Keys { params, secret, public, .. } = keys();
    let (parts, run) = (16, params.slots() / 16);
    let rotations = (1..=4).map(|k| (params.slots() >> k) as i64).collect();
    let plan = EvaluationKeyPlan { rotations, ..EvaluationKeyPlan::default() };
    let mut made = EvaluationKeys::new(&params, &plan, public.id());
    for key in KeyGenerator::new(&secret).keys(&plan, &mut Prg::from_seed([3; 16])) {
        made.insert(key.unwrap()).unwrap();
    }
    let evaluator = Evaluator::new(&params, made).unwrap();
    let keys = Keys { params: params.clone(), secret, public, evaluator };
    // The last part has nothing.
    let layout = Layout::new(&params, 2 * 15 * run, 1, |_, s| {
        [(s < 15 * run).then_some(2 * s), (s < 15 * run).then_some(2 * s + 1)]
    });
    let encoding = Encoding { parts, ..ENCODING };
    let shape = ToCiphertexts::new(&params, layout.unwrap(), values(16, 1 << 14), encoding).unwrap();
    let x = corners(2 * 15 * run, 16, &mut Prg::from_seed([9; 16]));
    let stated = shape.report().unwrap().log_error.exp2();
    let (direct, ahead) = (direct(&keys, &shape, &x), ahead(&keys, &shape, &x, 8));
    let backend = Ckks::new(keys.evaluator, 1).unwrap();
    // What encryption and key switches add, by formula.
    let plain = Plain::of(&params);
    let fresh = plain.fresh_parts(&[], ENCODING.level, parts).unwrap();
    let noise = Parts::new(&plain, parts).unwrap().get(0, || Ok(fresh.clone())).unwrap().deviation();
    // The formula has the canonical scale.
    let noise = noise * plain.chain().scale(ENCODING.level) / ENCODING.scale;
    for outcome in [direct, ahead] {
        let tree = Parts::new(&backend, parts).unwrap();
        for part in 0..parts {
            let c = tree.get(part, || Ok(outcome.server[0].clone())).unwrap();
            assert_eq!((c.level(), c.scale()), (ENCODING.level, ENCODING.scale));
            let plain = Decryptor::new(&keys.secret).decrypt(&c).unwrap();
            for (j, z) in Encoder::new(&params).decode(&plain).unwrap().into_iter().enumerate() {
                let at = |lane: usize| x.get(2 * (part * run + j % run) + lane).map_or(0.0, |&v| v as f64 / 4096.0);
                let apart = z - Complex64::new(at(0), at(1));
                let worst = apart.re.abs().max(apart.im.abs());
                assert!(worst < stated + 7.0 * noise, "part {part}, slot {j}: {apart}, {stated:e}, {noise:e}");
            }
        }
    }
}

#[test]
fn values_of_24_bits_arrive_in_a_set_of_the_papers_projections() {
    let keys = keys_of(&sets::IN_PROJ.literal());
    let wide = Values { ring: ring(64), bits: 24, fraction: 16, inference: 1 << 26 };
    let encoding = Encoding::slots(4, keys.params.scale());
    let layout = Layout::compact(&keys.params, 1001).unwrap();
    let shape = ToCiphertexts::new(&keys.params, layout, wide, encoding).unwrap();
    assert_eq!(shape.part_bits(), 92);
    let x = corners(1001, 24, &mut Prg::from_seed([10; 16]));
    let report = shape.report().unwrap();
    assert_eq!((report.log_failure, report.log_failures), (-67.0, -41.0));
    let got = error(&keys, &shape, &direct(&keys, &shape, &x).server, &x);
    assert!(got <= report.log_error.exp2(), "{got:e}\n{report}");
}

#[test]
fn layouts_say_their_bytes_and_refuse_values_that_are_not_there() {
    let keys = keys();
    let p = &keys.params;
    for (layout, values, ciphertexts) in [
        (Layout::compact(p, 8192), 8192, 1),
        (Layout::compact(p, 8193), 8193, 2),
        (Layout::paired(p, 4096), 8192, 1),
        (Layout::real(p, 8192), 8192, 2),
        (Layout::repeated(p, 64, 128), 64, 2),
        (Layout::runs(p, 64, 64), 64, 1),
        (Layout::repeated(p, 0, 9), 0, 0),
    ] {
        let layout = layout.unwrap();
        assert_eq!((layout.values(), layout.ciphertexts()), (values, ciphertexts));
        assert_eq!(layout.slots(), 4096);
    }
    assert_eq!(Layout::paired(p, 5).unwrap().at(0, 4), [Some(4), Some(9)]);
    assert_eq!(Layout::compact(p, 5).unwrap().at(0, 2), [Some(4), None]);
    assert_eq!(Layout::runs(p, 5, 3).unwrap().at(0, 5), [Some(1), None]);
    assert_eq!(Layout::repeated(p, 5, 3).unwrap().at(0, 6), [Some(1), None]);
    let e = Layout::new(p, 2, 1, |_, s| [None, (s == 3).then_some(2)]).err().unwrap();
    assert!(matches!(e, HybridError::Layout { lane: 1, slot: 3, ciphertext: 0, value: 2, values: 2 }), "{e}");
}

/// With no margin the lifts of two parts do not add up for some values, and what is in a slot is far off.
#[test]
fn parts_without_margin_wrap_and_the_error_is_noticed() {
    let keys = keys();
    let layout = Layout::compact(&keys.params, 512).unwrap();
    let x = corners(512, 16, &mut Prg::from_seed([11; 16]));
    let wrong = |k: u32| {
        let shape =
            ToCiphertexts::with_parts(&keys.params, layout.clone(), values(16, 512), vec![ENCODING], k).unwrap();
        error(&keys, &shape, &direct(&keys, &shape, &x).server, &x)
    };
    // A wrap is 2^(k - f) in a slot; of 512 values, a third of them at the ends, 1 in 8 wraps at k = 18.
    assert!(wrong(18) > 60.0, "no margin: noticed");
    assert!(wrong(16 + 42 + 9) < 1e-3, "the stated margin");
}

/// Whatever is shared, what arrives is bounded: the bound on a phase may start from it.
#[test]
fn values_out_of_range_stay_below_what_is_carried() {
    let keys = keys();
    let layout = Layout::compact(&keys.params, 600).unwrap();
    let shape = ToCiphertexts::new(&keys.params, layout, values(16, 600), ENCODING).unwrap();
    let mut prg = Prg::from_seed([12; 16]);
    let wild: Vec<i64> = (0..600).map(|_| prg.next_u64() as i64 >> 17).collect();
    let results = direct(&keys, &shape, &wild).server;
    let most = shape.largest();
    assert_eq!(most, 3.0 * 32768.0 / 4096.0);
    let found = keys.decrypt(&results[0]).iter().fold(0f64, |m, z| m.max(z.re.abs()).max(z.im.abs()));
    assert!(found <= most + 1e-3 && found > most / 3.0, "{found} of {most}");
}

#[test]
fn uploads_made_ahead_are_marked_before_anything_is_sent() {
    let keys = keys();
    let shape = |count| {
        let layout = Layout::compact(&keys.params, count).unwrap();
        ToCiphertexts::new(&keys.params, layout, values(16, 64), ENCODING).unwrap()
    };
    let (one, other) = (shape(3), shape(4));
    let (a, b) = split(ring(48), &[1, 2, 3], &mut Prg::from_seed([5; 16]));
    let full = || Err(std::io::Error::other("the disk is full"));
    let (mine, theirs) = prepare(&keys, &one, 3);
    let outcome = both(
        |ledger| one.declare_ahead(ledger).unwrap(),
        |party| one.run_client_ahead(party, &a, mine.marked_by(full)).unwrap_err(),
        |party| one.run_server_ahead(party, &b, theirs.marked_by(full)).map(|_| ()).unwrap_err(),
    );
    assert!(matches!((outcome.client, outcome.server), (HybridError::Mark(_), HybridError::Mark(_))));
    assert_eq!(outcome.cost, Ledger::new().cost(), "not a byte");
    // Those of another shape are refused.
    let (mine, theirs) = prepare(&keys, &other, 3);
    let outcome = both(
        |ledger| one.declare_ahead(ledger).unwrap(),
        |party| one.run_client_ahead(party, &a, mine).unwrap_err(),
        |party| one.run_server_ahead(party, &b, theirs).map(|_| ()).unwrap_err(),
    );
    assert!(matches!((outcome.client, outcome.server), (HybridError::OtherUploads, HybridError::OtherUploads)));
}

#[test]
fn shapes_without_room_are_refused() {
    let keys = keys();
    let layout = || Layout::compact(&keys.params, 5).unwrap();
    let make = |values, encoding| ToCiphertexts::new(&keys.params, layout(), values, encoding).map(|_| ()).unwrap_err();
    let e = make(values(47, 1 << 37), ENCODING);
    assert!(matches!(e, HybridError::Width { need: 126, max: 125, .. }), "{e}");
    // 71 bits, 12 of them fractional, at scale 2^30: 88.5 bits, and level 1 has 79.
    let e = make(values(16, 1 << 13), Encoding { level: 1, ..ENCODING });
    assert!(matches!(e, HybridError::Room { bits: 71, level: 1, .. }), "{e}");
}
