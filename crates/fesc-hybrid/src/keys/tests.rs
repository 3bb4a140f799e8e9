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

/// The payloads of an upload and the secret key's bytes, taken up again: a value comes through the old
/// evaluation keys as it went in, and the keys of two uploads have two ids.
#[test]
fn both_halves_are_taken_up_again() {
    let shape = shape(40, &[1]);
    let (mut a, mut b) = Channel::memory_pair();
    let mut client = ClientKeys::generate(shape.clone(), &mut Prg::from_seed([1; 16]));
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let (first, id) = std::thread::scope(|scope| {
        let sent = scope.spawn(|| client.send(&mut a, &mut |_, _| ()).unwrap());
        let mut next = |tag, size| {
            kept.push(b.recv(tag, size)?);
            Ok(kept[kept.len() - 1].clone())
        };
        let taken = ServerKeys::take(&shape, &mut next, 1, Prg::from_seed([2; 16]), &mut |_, _| ()).unwrap();
        (taken, sent.join().unwrap())
    });
    assert_eq!(kept.iter().map(|k| k.len() as u64).sum::<u64>(), shape.payload());
    let from = |payloads: Vec<Vec<u8>>| {
        let mut payloads = payloads.into_iter();
        let mut next = |_, _| payloads.next().ok_or(crate::HybridError::Kept(std::io::ErrorKind::UnexpectedEof.into()));
        ServerKeys::take(&shape, &mut next, 1, Prg::from_seed([3; 16]), &mut |_, _| ())
    };
    let again = from(kept.clone()).unwrap();
    assert!(first.id() == id && again.id() == id);
    let mut cut = kept.clone();
    cut.pop();
    assert!(matches!(from(cut), Err(crate::HybridError::Kept(_))));
    let mut other = kept;
    other.swap(1, 2);
    other[1].truncate(100);
    assert!(from(other).is_err());

    let restored = ClientKeys::restore(shape.clone(), &client.keep(), &mut Prg::from_seed([4; 16])).unwrap();
    assert_eq!(client.keep().len(), ClientKeys::kept_bytes(&shape));
    let (params, mut prg) = (shape.params(), Prg::from_seed([5; 16]));
    let encoder = fesc_ckks::Encoder::new(params);
    let plain = encoder.encode_real(&[1.0, 2.0, 3.0], 1, params.scale()).unwrap();
    let upload = fesc_ckks::client::SecretEncryptor::new(&restored.secret).encrypt(&plain, &mut prg).unwrap();
    let rotated = again.backend.evaluator().rotate(&upload.expand(again.id()), 1).unwrap();
    let decrypted = fesc_ckks::client::Decryptor::new(&client.secret).decrypt(&rotated).unwrap();
    let values = encoder.decode(&decrypted).unwrap();
    assert!((values[0].re - 2.0).abs() < 1e-3 && (values[1].re - 3.0).abs() < 1e-3, "{:?}", &values[..2]);
}
