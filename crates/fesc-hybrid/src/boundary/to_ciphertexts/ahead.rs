//! Uploads made ahead, as both parties keep them: for one use, and in pairs.
//!
//! The two halves carry one name, which the client draws and sends before the uploads and again with the
//! differences. Halves of two pairs would decrypt to `x + r - r'`, as wide as the parts: a phase some 2^40
//! times above its bound, which the next mask does not cover. So the server refuses them before it computes.

use std::io;

use fesc_ckks::Kept;
use fesc_mpc::{Ledger, Role};
use fesc_ring::LongRing;
use zeroize::Zeroizing;

use super::ToCiphertexts;
use crate::{HybridError, Result};

/// Writes down that something was used, where that outlives the process.
type Mark = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Says which two halves belong together. Public.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name([u8; Self::BYTES]);

impl Name {
    /// On the wire.
    pub(super) const BYTES: usize = 16;

    pub(super) fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The first bytes of a message; zeros where there are none.
    pub(super) fn read(message: &[u8]) -> Self {
        let mut name = [0; Self::BYTES];
        name.iter_mut().zip(message).for_each(|(n, &b)| *n = b);
        Self(name)
    }

    pub(super) fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// One party's half of uploads made ahead, which belongs to one shape and is used once. Never copied.
pub struct Uploads<T> {
    shape: ToCiphertexts,
    name: Name,
    content: T,
    mark: Option<Mark>,
}

/// The client's half: the random parts. Zeroised when dropped.
pub type ClientUploads = Uploads<Zeroizing<Vec<u128>>>;

/// The server's half: encryptions of the random parts.
pub type ServerUploads = Uploads<Vec<Kept>>;

impl<T> Uploads<T> {
    pub(super) fn new(shape: ToCiphertexts, name: Name, content: T) -> Self {
        Self { shape, name, content, mark: None }
    }

    /// `mark` runs before anything that depends on these is sent, at the server before the client can send
    /// it; if it fails, nothing is.
    #[must_use]
    pub fn marked_by(mut self, mark: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        self.mark = Some(Box::new(mark));
        self
    }

    /// A half that belongs to any other: what tests mix up.
    #[cfg(test)]
    pub(in crate::boundary) fn renamed(mut self) -> Self {
        self.name = Name::new([0; Name::BYTES]);
        self
    }

    /// Name and content, after they are marked as used.
    pub(super) fn spend(self, shape: &ToCiphertexts) -> Result<(Name, T)> {
        if self.shape != *shape {
            return Err(HybridError::OtherUploads);
        }
        if let Some(mark) = self.mark {
            mark().map_err(HybridError::Mark)?;
        }
        Ok((self.name, self.content))
    }
}

/// `part - random` modulo `2^k`: uniform, whatever the part is.
pub(in crate::boundary) fn differences(ring: LongRing, part: &[u128], random: &[u128]) -> Vec<u128> {
    part.iter().zip(random).map(|(&x, &r)| ring.sub(x, r)).collect()
}

/// What must not be sent: the difference of the integers, which shows the high bits of the part.
#[cfg(test)]
pub(in crate::boundary) fn integer_differences(ring: LongRing, part: &[u128], random: &[u128]) -> Vec<i128> {
    part.iter().zip(random).map(|(&x, &r)| ring.to_signed(x) - ring.to_signed(r)).collect()
}

impl ToCiphertexts {
    /// Writes the cost of making uploads ahead.
    pub fn declare_preparation(&self, ledger: &mut Ledger) {
        ledger.send(Role::P0, Name::BYTES);
        self.declare_uploads(ledger);
    }

    /// Payload of the differences.
    pub(super) fn delta_bytes(&self) -> usize {
        Name::BYTES + self.extend.ring().packed_len(self.layout.values())
    }

    /// Writes the cost of a run with uploads made ahead.
    ///
    /// # Errors
    /// None for a shape that [`ToCiphertexts::new`] took.
    pub fn declare_ahead(&self, ledger: &mut Ledger) -> Result<()> {
        self.extend.declare(ledger)?;
        ledger.send(Role::P0, self.delta_bytes());
        Ok(())
    }
}
