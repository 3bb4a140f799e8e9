//! What a segment costs, that the size of a chunk is chosen well, and what is refused.

use fesc_model::outline::scale::{CHUNK, RING, SEGMENT};
use fesc_mpc::provider::Queue;
use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Channel;

use super::support::{Layer, layer};
use crate::{Carry, Dual, Packet, Scan, ScanError, cost_by_chunk};

/// The paper's base shape.
fn base() -> Layer {
    layer(1, 24, 64, 128)
}

/// At base shape and 2,048 tokens the model's chunk is within 10 percent of the cheapest, online and offline.
#[test]
fn the_chunk_is_well_chosen() {
    let base = base();
    let costs = cost_by_chunk(&base.shape, &base.forms, 2048).unwrap();
    for c in &costs {
        let (bytes, rounds) = (c.online.total_bytes(), c.online.rounds);
        println!("chunks of {}: {bytes} bytes, {rounds} rounds, {} dealt", c.chunk, c.dealt_bytes);
    }
    let ours = costs.iter().find(|c| c.chunk == CHUNK).unwrap();
    for c in &costs {
        assert!(ours.online.total_bytes() as f64 <= 1.1 * c.online.total_bytes() as f64, "{costs:?}");
        assert!(ours.dealt_bytes as f64 <= 1.1 * c.dealt_bytes as f64, "{costs:?}");
    }
}

/// The figures of the crate's report: one segment of the base shape by step.
#[test]
fn one_segment_of_the_base_shape() {
    let base = base();
    let steps = Dual::new(&base.shape, &base.forms, 2048, false, false).unwrap().steps().unwrap();
    for (name, cost) in &steps {
        println!("{name}: {} bytes, {} rounds", cost.total_bytes(), cost.rounds);
    }
    let bytes: u64 = steps.iter().map(|(_, cost)| cost.total_bytes()).sum();
    assert!((300_000_000..320_000_000).contains(&bytes), "{bytes}");
}

/// Rounds do not grow with tokens, bytes grow in proportion; one chunk has no states.
#[test]
fn cost_by_length() {
    let base = base();
    let cost = |tokens, carry_in, carry_out| {
        let mut ledger = Ledger::new();
        Dual::new(&base.shape, &base.forms, tokens, carry_in, carry_out).unwrap().declare(&mut ledger).unwrap();
        ledger.cost()
    };
    let (one, four, whole) = (cost(128, false, false), cost(512, false, false), cost(2048, false, false));
    assert!(one.rounds < four.rounds && four.rounds == whole.rounds, "{one:?} {four:?} {whole:?}");
    let per_token = |bytes: u64, tokens: u64| bytes as f64 / tokens as f64;
    let growth = per_token(whole.total_bytes(), 2048) / per_token(four.total_bytes(), 512);
    assert!((1.0..1.25).contains(&growth), "{growth}");
    let middle = cost(2048, true, true);
    assert!(middle.total_bytes() as f64 / (whole.total_bytes() as f64) < 1.06, "{middle:?} {whole:?}");
}

#[test]
fn refusals() {
    let layer = layer(1, 1, 2, 2);
    let make = |tokens| Dual::new(&layer.shape, &layer.forms, tokens, false, false);
    assert!(matches!(make(0).unwrap_err(), ScanError::Tokens { tokens: 0, most: SEGMENT }));
    assert!(matches!(make(SEGMENT + 1).unwrap_err(), ScanError::Tokens { .. }));
    let mut shape = layer.shape;
    shape.groups = 2;
    assert!(matches!(Dual::new(&shape, &layer.forms, 1, false, false).unwrap_err(), ScanError::Shape { .. }));
    let mut forms = layer.forms.clone();
    forms.scales.exp -= 1;
    assert!(matches!(Dual::new(&layer.shape, &forms, 1, false, false).unwrap_err(), ScanError::Size { .. }));
    forms.scales.mixed = 0;
    forms.scales.x = 0;
    assert!(matches!(Dual::new(&layer.shape, &forms, 1, false, false).unwrap_err(), ScanError::Scale { .. }));
}

/// What does not fit is refused before a byte is sent or a correlation is taken.
#[test]
fn wrong_inputs_are_refused() {
    let layer = layer(1, 1, 2, 2);
    let zeros = |len| Shared::new(RING, vec![0; len]);
    let packet = || Packet { x: zeros(6), b: zeros(6), c: zeros(6), delta: zeros(3), z: zeros(3) };
    let kernel = |carry_in| Dual::new(&layer.shape, &layer.forms, 3, carry_in, false).unwrap();
    let carry = Carry { state: zeros(4) };
    let run = |role, kernel: Dual, packet: Packet, skip: Option<&[i64]>, carry: Option<&Carry>| {
        let (channel, _peer) = Channel::memory_pair();
        let mut party = Party::new(role, channel, Box::new(Queue::default()));
        let error = kernel.run(&mut party, None, &packet, skip, carry).err().unwrap();
        assert_eq!(party.channel().stats().total.sent_bytes, 0);
        error
    };
    let skip = [1i64];
    let text = |e: ScanError| e.to_string();
    let skipless = text(run(Role::P1, kernel(false), packet(), None, None));
    assert!(skipless.contains("the skip D was not given"), "{skipless}");
    assert!(text(run(Role::P0, kernel(false), packet(), Some(&skip), None)).contains("the skip D was given"));
    assert!(matches!(
        run(Role::P1, kernel(false), packet(), Some(&[1, 2]), None),
        ScanError::Size { expected: 1, got: 2, .. }
    ));
    assert!(text(run(Role::P0, kernel(true), packet(), None, None)).contains("a carry was not given"));
    assert!(text(run(Role::P0, kernel(false), packet(), None, Some(&carry))).contains("a carry was given"));
    let short = Carry { state: zeros(3) };
    assert!(matches!(run(Role::P0, kernel(true), packet(), None, Some(&short)), ScanError::Size { expected: 4, .. }));
    for (i, expected) in [6, 6, 6, 3, 3].into_iter().enumerate() {
        let mut wrong = packet();
        let all = [&mut wrong.x, &mut wrong.b, &mut wrong.c, &mut wrong.delta, &mut wrong.z];
        *all.into_iter().nth(i).unwrap() = zeros(expected + 1);
        let error = run(Role::P0, kernel(false), wrong, None, None);
        assert!(matches!(error, ScanError::Size { expected: e, got, .. } if e == expected && got == e + 1), "{error}");
    }
    let narrow = Packet { z: Shared::new(fesc_ring::Ring::new(47).unwrap(), vec![0; 3]), ..packet() };
    assert!(matches!(run(Role::P0, kernel(false), narrow, None, None), ScanError::Size { expected: 48, got: 47, .. }));
}
