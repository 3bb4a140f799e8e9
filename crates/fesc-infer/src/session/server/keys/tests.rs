#![allow(clippy::unwrap_used, clippy::panic)]
use std::fs;
use std::path::Path;
use std::time::Duration;

use fesc_hybrid::ckks::server::EvaluationKeyPlan;
use fesc_hybrid::ckks::{Params, ParamsLiteral};

use super::*;
use crate::session::keyring::KeyLimits;

const LIMITS: KeyLimits = KeyLimits { bytes: 1 << 30, client_bytes: 1 << 30, age: Duration::from_secs(3600) };

/// Keys of two small sets.
fn shapes(bits: u32, rotations: &[i64]) -> KeySets<KeyShape> {
    let literal = ParamsLiteral { log_n: 12, q_bits: vec![bits, 20, 20], p_bits: vec![22], log_scale: 20 };
    let plan = EvaluationKeyPlan { rotations: rotations.to_vec(), conjugation: false, relinearisation: true };
    let shape = KeyShape::new(Params::new(&literal).unwrap(), plan);
    KeySets { project: Some(shape.clone()), scan: Some(shape) }
}

fn client() -> Fingerprint {
    Fingerprint::of(b"certificate")
}

fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

fn judge<'a>(ring: &'a Keyring, shapes: &KeySets<KeyShape>, kept: Option<Hex32>) -> SessionKeys<'a> {
    let wish = Wish { shape: Hex32(shapes.digest()), kept, keep: true };
    let judged = SessionKeys::judge(ring, shapes, Some(&wish), Some(client()), ("plan", 128), &mut prg(1)).unwrap();
    judged.unwrap_or_else(|refusal| panic!("{}", refusal.message))
}

fn files(state: &Path) -> usize {
    fs::read_dir(state.join("keys-server")).unwrap().count()
}

/// An upload of keys of `sent` where those of `expected` are to come, in a session that ends well; the line
/// is cut after so many messages.
fn upload(
    ring: &Keyring,
    sent: &KeySets<KeyShape>,
    expected: &KeySets<KeyShape>,
    cut: Option<usize>,
) -> std::result::Result<Hex32, String> {
    let (mut a, mut b) = Channel::memory_pair();
    let session = judge(ring, expected, None);
    std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let (line, mut messages) = (a.hangup().unwrap(), 0);
            let mut told = |_, _| {
                messages += 1;
                if Some(messages) == cut {
                    line.now();
                }
            };
            let (_, name) = sent.send(&mut a, &mut prg(2), &mut told)?;
            a.recv(READY, 0)?;
            a.send(READY, Vec::new())?;
            a.recv(READY, 0)?;
            Ok::<_, crate::InferError>(Hex32(name))
        });
        let served = session.load(expected, &mut b, &mut prg(3), &mut |_, _| ()).and_then(|(mut held, _)| {
            held.begin()?;
            held.end(&mut b)
        });
        drop(b);
        let name = client.join().unwrap();
        served.map_err(|e| e.to_string())?;
        name.map_err(|e| e.to_string())
    })
}

#[test]
fn keys_that_are_wrong_or_cut_off_leave_nothing_behind() {
    let state = tempfile::tempdir().unwrap();
    let ring = Keyring::open(state.path(), LIMITS).unwrap();
    let expected = shapes(21, &[1, 4]);
    let messages = expected.iter().map(|shape| 1 + shape.count()).sum::<usize>();
    for cut in 1..messages {
        assert!(upload(&ring, &expected, &expected, Some(cut)).is_err(), "{cut}");
        assert_eq!(files(state.path()), 0, "{cut}");
    }
    for (what, other) in [("set", shapes(22, &[1, 4])), ("rotations", shapes(21, &[1, 8])), ("fewer", shapes(21, &[1]))]
    {
        let said = upload(&ring, &other, &expected, None).unwrap_err();
        assert!(!said.is_empty() && files(state.path()) == 0, "{what}: {said}");
        assert_ne!(other.digest(), expected.digest(), "{what}: seen in the handshake");
    }
    // Control: the right ones are kept. The same keys a second time are none that an honest client makes.
    upload(&ring, &expected, &expected, None).unwrap();
    let said = upload(&ring, &expected, &expected, None).unwrap_err();
    assert!(said.contains("already") && files(state.path()) == 1, "{said}");
}

#[test]
fn kept_keys_are_read_as_they_came_and_damaged_ones_are_gone() {
    let state = tempfile::tempdir().unwrap();
    let ring = Keyring::open(state.path(), LIMITS).unwrap();
    let shapes = shapes(21, &[1]);
    let name = upload(&ring, &shapes, &shapes, None).unwrap();
    let (_client, mut nobody) = Channel::memory_pair();
    let mut read = |seed| {
        let mut steps = Vec::new();
        let session = judge(&ring, &shapes, Some(name));
        let loaded = session.load(&shapes, &mut nobody, &mut prg(seed), &mut |done, all| steps.push((done, all)));
        loaded.map(|(_, keys)| (keys, steps)).map_err(|e| e.to_string())
    };
    let (keys, steps) = read(4).unwrap();
    assert_eq!(steps.last(), Some(&(shapes.bytes(), shapes.bytes())));
    assert!(keys.project.unwrap().id() != keys.scan.unwrap().id(), "each set has a key of its own");
    // A bit that a disk lost: residues may still be residues.
    let path = state.path().join("keys-server").join(format!("{name}.keys"));
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let said = read(5).err().unwrap();
    assert!(said.contains("keys that are kept") && files(state.path()) == 0, "{said}");
}
