//! Bodies of the fuzz targets (see `fesc_net::fuzzing` for the pattern): functions of bytes that must not
//! panic.

use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::{Prg, Ring};
use sha2::{Digest, Sha256};

use crate::activation::{Activation, Piecewise};
use crate::correlation::{Bundle, DaBits, Leaves, Select};
use crate::provider::{Budget, Correlations, Dealer, TwoParty, parse_half, serve_dealer};
use crate::{MpcError, Party, Request, Role, Shared};

/// A request: what is accepted has a bounded size and encodes to the same bytes.
///
/// # Panics
/// When the decoder accepts something else.
pub fn request(data: &[u8]) {
    if let Ok(request) = Request::decode(data) {
        assert_eq!(request.encode(), data);
        for role in [Role::P0, Role::P1] {
            let bytes = crate::correlation::packed_len(&request.layout(role), |_| true);
            assert!(bytes <= crate::correlation::MAX_HALF_BYTES);
        }
    }
}

/// A stored half: whatever the file holds, reading it gives a half, an error, or "damaged". The checksum is
/// made to fit, so that mutations get past it.
pub fn stored_half(data: &[u8]) {
    let Ok(ring) = Ring::new(48) else { return };
    let body = data.len().saturating_sub(32);
    let mut data = data.get(..body).unwrap_or_default().to_vec();
    let digest = Sha256::digest(&data);
    data.extend_from_slice(&digest);
    for request in [Request::DaBits(DaBits { ring, words: 1 }), Request::Bundle(Bundle::squares(ring, 3))] {
        let _ = parse_half(&data, &[9; 32], 0, &request, Role::P0);
    }
}

/// Every message that one party receives, spoilt by `data`: the first byte chooses party and protocol, the
/// others are XORed over the payloads as they come. Both parties must end, with a result or an error.
pub fn messages(data: &[u8]) {
    let Some((&choice, noise)) = data.split_first() else { return };
    let (mut c0, mut c1) = Channel::memory_pair();
    let noise = noise.to_vec();
    let mut at = 0;
    let spoil = Box::new(move |_, payload: &mut Vec<u8>| {
        for b in payload.iter_mut() {
            *b ^= noise.get(at).copied().unwrap_or(0);
            at += 1;
        }
    });
    if choice & 1 == 0 {
        c0.set_tap(spoil)
    } else {
        c1.set_tap(spoil)
    }
    let run = match choice >> 1 & 3 {
        0 => |role, channel| generate(role, channel, CotKind::Iknp),
        1 => activate,
        _ => |role, channel| generate(role, channel, CotKind::Silent),
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, c1));
        let _ = run(Role::P0, c0);
        // A panic of the peer is a finding too.
        if let Err(panic) = peer.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Base OT, IKNP or silent OT, and every kind of correction.
fn generate(role: Role, mut channel: Channel, kind: CotKind) -> Result<(), MpcError> {
    let ring = Ring::new(20)?;
    let mut source = TwoParty::setup(role, &mut channel, kind, Prg::from_seed([role.index() as u8; 16]))?;
    let requests = [
        Request::Leaves(Leaves { sender: Role::P0, count: 3, planes: 4 }),
        Request::DaBits(DaBits { ring, words: 1 }),
        Request::Select(Select { ring, count: 2, thresholds: 2, degree: 2 }),
        Request::Bundle(Bundle::matmul(ring, 1, 2, 2, 3)),
    ];
    requests.iter().try_for_each(|r| source.take(&mut channel, r).map(drop))
}

/// An activation online, with a dealer of its own for each party (the halves need not fit: the peer is
/// hostile).
fn activate(role: Role, channel: Channel) -> Result<(), MpcError> {
    let Ok(table) = fesc_approx::silu::preset() else { return Ok(()) };
    let (mine, dealer_end) = Channel::memory_pair();
    let (other, other_end) = Channel::memory_pair();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (a, b) = if role == Role::P0 { (dealer_end, other_end) } else { (other_end, dealer_end) };
            serve_dealer(a, b, &mut Prg::from_seed([3; 16]), &Budget::unlimited())
        });
        let act = Piecewise::new(table);
        let mut ledger = crate::Ledger::new();
        act.declare(70, &mut ledger)?;
        let demand = ledger.demand().to_vec();
        scope.spawn(move || {
            let (mut unused, _peer) = Channel::memory_pair();
            let mut second = Dealer::new(role.other(), other);
            demand.iter().try_for_each(|r| second.take(&mut unused, r).map(drop))
        });
        let mut party = Party::new(role, channel, Box::new(Dealer::new(role, mine)));
        act.run(&mut party, &Shared::new(table.ring(), vec![77; 70])).map(drop)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::provider::{Seeded, SessionId, Store};
    use crate::testing::sample_requests;

    fn corpus(target: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
    }

    #[test]
    fn corpora_replay() {
        type Body = fn(&[u8]);
        let bodies: [Body; 3] = [request, stored_half, messages];
        let targets = [("mpc_request", 5_000), ("mpc_stored_half", 2_000), ("mpc_messages", 25)];
        for ((target, mutations), body) in targets.into_iter().zip(bodies) {
            let runs = fesc_net::fuzzing::replay(&corpus(target), mutations, body).unwrap();
            assert!(runs > 2 * mutations, "the corpus of {target} has gone");
        }
    }

    /// The inputs that must be accepted are, so the targets do not replay refusals only. With
    /// `FESC_WRITE_CORPUS` set this test writes the corpora anew.
    #[test]
    fn corpora_hold_accepted_inputs() {
        let write = std::env::var_os("FESC_WRITE_CORPUS").is_some();
        for (i, r) in sample_requests().iter().enumerate() {
            let path = corpus("mpc_request").join(format!("kind_{i:02}"));
            if write {
                std::fs::create_dir_all(corpus("mpc_request")).unwrap();
                std::fs::write(&path, r.encode()).unwrap();
            }
            assert_eq!(Request::decode(&std::fs::read(path).unwrap()).unwrap(), *r);
        }
        let session: SessionId = [9; 32];
        let r = Request::DaBits(DaBits { ring: Ring::new(48).unwrap(), words: 1 });
        let path = corpus("mpc_stored_half").join("dabits");
        if write {
            let dir = tempfile::tempdir().unwrap();
            let (mut channel, _peer) = Channel::memory_pair();
            let mut store = Store::create(&dir.path().join("s"), session, Role::P0).unwrap();
            store.append(&r, &Seeded::new(Role::P0, 1).take(&mut channel, &r).unwrap()).unwrap();
            std::fs::create_dir_all(corpus("mpc_stored_half")).unwrap();
            let bytes = std::fs::read(dir.path().join("s/00000000.half")).unwrap();
            std::fs::write(corpus("mpc_stored_half").join("cut"), &bytes[..100]).unwrap();
            std::fs::write(&path, bytes).unwrap();
            std::fs::create_dir_all(corpus("mpc_messages")).unwrap();
            for choice in 0..6u8 {
                std::fs::write(corpus("mpc_messages").join(format!("honest_{choice}")), [choice]).unwrap();
                let noise: Vec<u8> = std::iter::once(choice).chain((0..600u32).map(|i| (i * 7) as u8)).collect();
                std::fs::write(corpus("mpc_messages").join(format!("noise_{choice}")), noise).unwrap();
            }
        }
        assert!(parse_half(&std::fs::read(path).unwrap(), &session, 0, &r, Role::P0).unwrap().is_ok());
    }
}
