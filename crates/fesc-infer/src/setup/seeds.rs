//! Seeds from the master seed and the weights.

use fesc_model::twin::Twin;
use fesc_ring::derive::Derive;
use fesc_rlwe::{Params, Secrets, Seed};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::server::parts;
use crate::{InferError, Result};

/// The version of what is published from one master seed and one model. Raised with any change of a single
/// byte of it (layout, folding, distributions, order of a stream): two publications under related secrets
/// give those secrets away, and that has happened (SECURITY.md, "What happened"). A state directory of
/// another version is not served from. The test `known_answer_of_a_models_public_part` fails on a change that
/// does not come with another number.
///
/// | version | what changed |
/// |---|---|
/// | 1, 2 | one stream for seed, key and noise of the table; 2 had two different orders of it |
/// | 3 | a stream for each secret, keyed by what it meets ([`fesc_rlwe::Secrets`]) |
pub const SCHEME: u32 = 3;

/// The root of every secret of one model: a hash of the master seed and of all weights.
pub(super) struct Seeds(Zeroizing<[u8; 32]>);

impl Seeds {
    /// For a model under a master seed.
    pub(super) fn new(twin: &Twin, master: &[u8; 32], params: Params) -> Result<Self> {
        let outline = twin.outline()?;
        let mut hash = Sha256::new();
        hash.update(format!("fesc model seeds v{SCHEME}"));
        hash.update(master);
        hash.update((params.degree() as u64).to_le_bytes());
        hash.update(params.ring().bits().to_le_bytes());
        hash.update(outline.digest()?);
        for layer in 0..outline.shape().layers {
            let s = twin.secrets(layer).ok_or(InferError::Misuse { what: "the twin", why: "it has no such layer" })?;
            absorb(&mut hash, &Zeroizing::new(twin.in_proj(layer)?));
            for part in [s.conv_bias, s.step_bias, s.rates, s.thresholds, s.skip] {
                absorb(&mut hash, part);
            }
            absorb(&mut hash, &Zeroizing::new(twin.out_proj(layer)?));
            s.taps.iter().for_each(|taps| absorb(&mut hash, taps));
        }
        if let Some(head) = twin.head_secrets() {
            absorb(&mut hash, head.weights);
            absorb(&mut hash, head.bias);
        }
        let shape = outline.shape();
        hash.update(((shape.vocab * shape.d_model) as u64).to_le_bytes());
        for (_, rows) in parts(twin, shape.vocab) {
            absorb_values(&mut hash, &Zeroizing::new(rows?));
        }
        Ok(Self(Zeroizing::new(hash.finalize().into())))
    }

    fn derive(&self, purpose: &[u8; 16], place: [u32; 2]) -> Zeroizing<[u8; 32]> {
        let derive = Derive::new(b"fesc derived seed v1").bytes(purpose).bytes(&*self.0);
        place.into_iter().fold(derive, |derive, number| derive.bytes(&number.to_le_bytes())).key()
    }

    /// The root of `u` and `e` of a matrix.
    pub(super) fn matrix(&self, layer: u32, matrix: u32) -> Secrets {
        Secrets::new(self.derive(b"hint secrets    ", [layer, matrix]))
    }

    /// The root of the table's key and noise.
    pub(super) fn table(&self) -> Secrets {
        Secrets::new(self.derive(b"embedding       ", [0, 0]))
    }

    /// The public seed of all hints of this model. One-way, so that it tells nothing of the others.
    pub(super) fn public(&self) -> Seed {
        Seed(*self.derive(b"hint, public    ", [0, 0]))
    }

    /// The public seed of the table.
    pub(super) fn public_table(&self) -> Seed {
        Seed(*self.derive(b"table, public   ", [0, 0]))
    }
}

/// Length and values.
fn absorb(hash: &mut Sha256, values: &[i64]) {
    hash.update((values.len() as u64).to_le_bytes());
    absorb_values(hash, values);
}

fn absorb_values(hash: &mut Sha256, values: &[i64]) {
    let mut bytes = Zeroizing::new(Vec::with_capacity(8 * 4096));
    for chunk in values.chunks(4096) {
        bytes.clear();
        chunk.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
        hash.update(&*bytes);
    }
}
