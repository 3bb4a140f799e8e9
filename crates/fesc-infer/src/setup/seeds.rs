//! Seeds from the master seed and the weights.

use fesc_model::twin::Twin;
use fesc_ring::Prg;
use fesc_rlwe::{Params, Seed};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::server::parts;
use crate::{InferError, Result};

/// The root of every secret of one model: a hash of the master seed and of all weights.
pub(super) struct Seeds(Zeroizing<[u8; 32]>);

impl Seeds {
    /// The version in the prefix must change with whatever changes what is published from the same weights (layout, folding,
    /// distributions): two publications under the same secrets give their difference away.
    pub(super) fn new(twin: &Twin, master: &[u8; 32], params: Params) -> Result<Self> {
        let outline = twin.outline()?;
        let mut hash = Sha256::new();
        hash.update(b"fesc model seeds v2");
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
        let mut hash = Sha256::new();
        hash.update(b"fesc derived seed v1");
        hash.update(purpose);
        hash.update(*self.0);
        place.into_iter().for_each(|number| hash.update(number.to_le_bytes()));
        Zeroizing::new(hash.finalize().into())
    }

    fn stream(&self, purpose: &[u8; 16], place: [u32; 2]) -> Prg {
        let seed = self.derive(purpose, place);
        let mut key = Zeroizing::new([0; 16]);
        key.copy_from_slice(&seed[..16]);
        Prg::from_seed(*key)
    }

    /// Where `u` and `e` of a matrix come from.
    pub(super) fn matrix(&self, layer: u32, matrix: u32) -> Prg {
        self.stream(b"hint secrets    ", [layer, matrix])
    }

    /// Where the table's key, seed and noise come from.
    pub(super) fn table(&self) -> Prg {
        self.stream(b"embedding       ", [0, 0])
    }

    /// The public seed of all hints of this model. One-way, so that it tells nothing of the others.
    pub(super) fn public(&self) -> Seed {
        Seed(*self.derive(b"hint, public    ", [0, 0]))
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
