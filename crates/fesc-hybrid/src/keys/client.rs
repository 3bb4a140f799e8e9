//! The client's half: make keys, send them one by one.

use fesc_ckks::client::{KeyGenerator, SecretKey};
use fesc_ckks::server::KeyId;
use fesc_ckks::wire;
use fesc_net::{Channel, HEADER_BYTES, Tag};
use fesc_ring::Prg;
use zeroize::Zeroizing;

use super::{KeyShape, Progress};
use crate::boundary::tag;
use crate::{HybridError, Result};

/// A client's secret key of one set, and the randomness of its encryptions. No `Debug`, no `Clone`.
pub struct ClientKeys {
    shape: KeyShape,
    pub(crate) secret: SecretKey,
    pub(crate) prg: Prg,
}

impl ClientKeys {
    /// A fresh secret key. `prg` must be seeded by the operating system.
    pub fn generate(shape: KeyShape, prg: &mut Prg) -> Self {
        let secret = SecretKey::generate(shape.params(), prg);
        Self { shape, secret, prg: prg.fork() }
    }

    /// Bytes of [`ClientKeys::keep`].
    pub fn kept_bytes(shape: &KeyShape) -> usize {
        SecretKey::kept_bytes(shape.params())
    }

    /// The secret key as bytes for its owner's own file.
    pub fn keep(&self) -> Zeroizing<Vec<u8>> {
        self.secret.keep()
    }

    /// The secret key of such bytes, whose evaluation keys the server has. The randomness of encryptions is
    /// new: `prg` must be seeded by the operating system.
    ///
    /// # Errors
    /// Bytes that are no secret key of this set.
    pub fn restore(shape: KeyShape, bytes: &[u8], prg: &mut Prg) -> Result<Self> {
        let secret = SecretKey::restore(shape.params(), bytes)?;
        Ok(Self { shape, secret, prg: prg.fork() })
    }

    /// Which keys.
    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    /// Makes and sends the public key and all evaluation keys; returns the id of the public key.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn send(&mut self, channel: &mut Channel, progress: Progress<'_>) -> Result<KeyId> {
        let Self { shape, secret, prg } = self;
        let (params, total) = (shape.params(), shape.bytes());
        let generator = KeyGenerator::new(secret);
        let mut sent = 0;
        let mut send = |tag: Tag, bytes: Vec<u8>| -> Result<()> {
            sent += (bytes.len() + HEADER_BYTES) as u64;
            channel.send(tag, bytes)?;
            progress(sent, total);
            Ok(())
        };
        let mut public = Vec::with_capacity(wire::public_key_bytes(params));
        let key = generator.public_key(prg)?;
        key.write(&mut public).map_err(HybridError::Write)?;
        send(tag::PUBLIC_KEY, public)?;
        for made in generator.keys(shape.plan(), prg) {
            let mut bytes = Vec::with_capacity(wire::switching_key_bytes(params));
            made?.write(&mut bytes).map_err(HybridError::Write)?;
            send(tag::EVALUATION_KEY, bytes)?;
        }
        Ok(key.id())
    }
}
