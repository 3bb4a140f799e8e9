//! What comes from a peer.

use super::*;
use crate::RlweError;

/// Tries every way to damage a message that must be refused.
fn refuses(params: &SlotParams, limbs: usize, good: &[u8], read: impl Fn(&[u8]) -> Result<(), RlweError>) {
    read(good).unwrap();
    for len in [0, 15, 16, good.len() - 1] {
        assert!(matches!(read(&good[..len]), Err(RlweError::Length { .. })), "{len}");
    }
    assert!(matches!(read(&[good, &[0]].concat()), Err(RlweError::Length { .. })));
    let mut at = 16;
    for limb in &params.basis().limbs[..limbs] {
        let (modulus, bits) = (limb.modulus.value(), limb.modulus.bits() as usize);
        // Eight residues fill whole bytes; the last one of the row becomes the prime itself.
        at += params.slots() * bits / 8;
        let mut bad = good.to_vec();
        let last = &mut bad[at - bits..at];
        let mut residues = limb.wire.unpack(last, 8).unwrap();
        residues[7] = modulus;
        last.copy_from_slice(&limb.wire.pack(&residues));
        assert!(matches!(read(&bad), Err(RlweError::Residue { modulus: m, .. }) if m == modulus));
        residues[7] = modulus - 1;
        bad[at - bits..at].copy_from_slice(&limb.wire.pack(&residues));
        read(&bad).unwrap();
    }
    assert_eq!(at, good.len());
}

#[test]
fn damaged_messages_are_refused() {
    let params = SlotParams::standard().unwrap();
    let (holder, public) = KeyHolder::new(params.clone(), &mut prg(40));
    let evaluator = Evaluator::new(params.clone(), &public).unwrap();
    let upload = holder.encrypt(&[1, 2, 3], &mut prg(41)).unwrap();
    let (response, _) = evaluator.respond(evaluator.sum(), &mut prg(42));
    refuses(&params, 8, &public, |bytes| Evaluator::new(params.clone(), bytes).map(|_| ()));
    refuses(&params, 8, &upload, |bytes| evaluator.receive(bytes).map(|_| ()));
    refuses(&params, 5, &response, |bytes| holder.open(bytes).map(|_| ()));
}
