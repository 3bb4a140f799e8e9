#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use fesc_ckks::server::EvaluationKeyPlan;
use fesc_ckks::{Params, ParamsLiteral};
use fesc_mpc::Ledger;
use fesc_net::Channel;
use fesc_ring::Prg;

use super::{ClientKeys, KeyShape, ServerKeys};

fn shape(bits: u32, rotations: &[i64]) -> KeyShape {
    let literal = ParamsLiteral { log_n: 13, q_bits: vec![bits; 3], p_bits: vec![45], log_scale: 30 };
    let plan = EvaluationKeyPlan { rotations: rotations.to_vec(), conjugation: true, relinearisation: true };
    KeyShape::new(Params::new(&literal).unwrap(), plan)
}

/// Sends the keys of one shape to a server that expects another.
fn transfer(sent: KeyShape, expected: &KeyShape) -> (crate::Result<ServerKeys>, u64, Vec<u64>) {
    let (mut a, mut b) = Channel::memory_pair();
    let mut steps = Vec::new();
    let received = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut keys = ClientKeys::generate(sent, &mut Prg::from_seed([1; 16]));
            // The server may hang up before the last key.
            let _ = keys.send(&mut a, &mut |_, _| ());
        });
        ServerKeys::receive(expected, &mut b, 1, Prg::from_seed([2; 16]), &mut |done, _| steps.push(done))
    });
    let bytes = b.stats().total.received_bytes;
    (received, bytes, steps)
}

#[test]
fn keys_arrive_and_their_bytes_are_those_declared() {
    let shape = shape(40, &[1, 4, -4]);
    let (keys, bytes, steps) = transfer(shape.clone(), &shape);
    assert!(keys.is_ok());
    let mut ledger = Ledger::new();
    shape.declare(&mut ledger);
    assert_eq!((shape.count(), bytes), (5, ledger.setup_bytes()));
    assert_eq!((steps.len(), steps.last()), (6, Some(&shape.bytes())));
}

/// Keys of another set, fewer or other rotations: refused, whatever is left on the channel.
#[test]
fn keys_of_another_plan_are_refused() {
    let expected = shape(40, &[1, 4]);
    let refused = |sent| transfer(sent, &expected).0.map(|_| ()).unwrap_err().to_string();
    let other = refused(shape(40, &[1, 8]));
    assert!(other.contains("plan"), "{other}");
    let set = refused(shape(42, &[1, 4]));
    assert!(set.contains("length") || set.contains("bytes") || set.contains("parameters"), "{set}");
    assert!(!refused(shape(40, &[1])).is_empty());
}
