//! The digest of an outline: two parties that have the same run the same protocol.

use fesc_approx::transcript::Transcript;
use sha2::{Digest, Sha256};

use super::{Outline, scale};
use crate::Result;

const DOMAIN: &[u8] = b"fesc outline 1";

impl Outline {
    /// SHA-256 over the constants of the plan, the canonical JSON, and all integer tables that follow from
    /// it.
    pub fn digest(&self) -> Result<[u8; 32]> {
        let mut hash = Sha256::new();
        // Every part with its length in front, so that no two outlines give the same bytes.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        part(DOMAIN);
        part(&bytes(&scale::WORDS));
        if self.plan.scans_encrypted() {
            part(&bytes(&[scale::PUSHED.into()]));
        }
        part(self.to_json().as_bytes());
        for i in 0..self.layers.len() {
            part(&bytes(&self.layer(i)?.words()));
        }
        let last = self.last()?;
        part(&bytes(&last.widths()));
        part(&bytes(&last.rsqrt.words()));
        Ok(hash.finalize().into())
    }
}
