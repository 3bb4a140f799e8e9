//! The client's half: make keys, send them one by one.

use fesc_ckks::client::{KeyGenerator, SecretKey};
use fesc_ckks::wire;
use fesc_net::{Channel, HEADER_BYTES, Tag};
use fesc_ring::Prg;

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

    /// Which keys.
    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    /// Makes and sends the public key and all evaluation keys.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn send(&mut self, channel: &mut Channel, progress: Progress<'_>) -> Result<()> {
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
        generator.public_key(prg)?.write(&mut public).map_err(HybridError::Write)?;
        send(tag::PUBLIC_KEY, public)?;
        for key in generator.keys(shape.plan(), prg) {
            let mut bytes = Vec::with_capacity(wire::switching_key_bytes(params));
            key?.write(&mut bytes).map_err(HybridError::Write)?;
            send(tag::EVALUATION_KEY, bytes)?;
        }
        Ok(())
    }
}
