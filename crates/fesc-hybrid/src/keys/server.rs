//! The server's half: take the keys of a plan and no others, from a client or from where it kept them.

use std::sync::{Mutex, PoisonError};

use fesc_ckks::server::{EvaluationKeys, Evaluator, KeyId, PublicKey};
use fesc_ckks::wire;
use fesc_net::{Channel, HEADER_BYTES, Tag};
use fesc_ring::Prg;

use super::{KeyShape, Progress};
use crate::Result;
use crate::backend::Ckks;
use crate::boundary::tag;

/// A client's keys, ready to compute with. No `Debug`.
pub struct ServerKeys {
    pub(crate) backend: Ckks,
    pub(crate) public: PublicKey,
    prg: Mutex<Prg>,
}

impl ServerKeys {
    /// Receives what [`ClientKeys::send`](super::ClientKeys::send) sends; circuits will run on so many
    /// threads. `prg` makes masks and must be seeded by the operating system.
    ///
    /// # Errors
    /// A key of another set or plan, and those of the channel.
    pub fn receive(
        shape: &KeyShape,
        channel: &mut Channel,
        threads: usize,
        prg: Prg,
        progress: Progress<'_>,
    ) -> Result<Self> {
        Self::take(shape, &mut |tag, size| Ok(channel.recv(tag, size)?), threads, prg, progress)
    }

    /// The same from anywhere: `next` gives the payload of the next message, whose tag and exact length are
    /// known. All of them are checked in the same way, wherever they come from.
    ///
    /// # Errors
    /// A key of another set or plan, and those of `next`.
    pub fn take(
        shape: &KeyShape,
        next: &mut dyn FnMut(Tag, usize) -> Result<Vec<u8>>,
        threads: usize,
        prg: Prg,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let (params, total) = (shape.params(), shape.bytes());
        let mut received = 0;
        let mut step = |bytes: usize| {
            received += (bytes + HEADER_BYTES) as u64;
            progress(received, total);
        };
        let size = wire::public_key_bytes(params);
        let public = PublicKey::read(params, &next(tag::PUBLIC_KEY, size)?)?;
        step(size);
        let mut keys = EvaluationKeys::new(params, shape.plan(), public.id());
        let size = wire::switching_key_bytes(params);
        for _ in 0..shape.count() {
            keys.receive(&mut &next(tag::EVALUATION_KEY, size)?[..])?;
            step(size);
        }
        let backend = Ckks::new(Evaluator::new(params, keys)?, threads)?;
        Ok(Self { backend, public, prg: Mutex::new(prg) })
    }

    /// The id of the client's public key.
    pub fn id(&self) -> KeyId {
        self.public.id()
    }

    /// Computes with them.
    pub fn backend(&self) -> &Ckks {
        &self.backend
    }

    /// A generator of its own for one conversion.
    pub(crate) fn fork(&self) -> Prg {
        self.prg.lock().unwrap_or_else(PoisonError::into_inner).fork()
    }
}
