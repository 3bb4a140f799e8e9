//! The session id of one OT instance, and the public keys derived from it.

use sha2::{Digest, Sha256};

/// Bytes of each party's nonce.
pub(crate) const NONCE_BYTES: usize = 16;

/// A public name of this instance: both nonces and the first curve point hashed. Two instances never share
/// one, because each party draws its own nonce.
pub(crate) struct Session([u8; 32]);

impl Session {
    pub(crate) fn new(kind: u8, receiver_nonce: &[u8], sender_nonce: &[u8], point: &[u8; 32]) -> Self {
        let mut h = Sha256::new();
        h.update(b"fesc-ot/v1/session");
        h.update([kind]);
        h.update(receiver_nonce);
        h.update(sender_nonce);
        h.update(point);
        Session(h.finalize().into())
    }

    /// A hash in the domain `label`, bound to this session.
    pub(crate) fn hash(&self, label: &[u8], parts: &[&[u8]]) -> u128 {
        let mut h = Sha256::new();
        h.update(b"fesc-ot/v1/");
        h.update([label.len() as u8]);
        h.update(label);
        h.update(self.0);
        for p in parts {
            h.update(p);
        }
        let digest: [u8; 32] = h.finalize().into();
        digest.iter().take(16).rev().fold(0, |a, &b| a << 8 | u128::from(b))
    }
}
