//! Uploads made ahead, as both parties keep them: for one use.

use std::io;

use fesc_ckks::Ciphertext;
use fesc_mpc::{Ledger, Role};
use fesc_ring::LongRing;
use zeroize::Zeroizing;

use super::ToCiphertexts;
use crate::{HybridError, Result};

/// Writes down that something was used, where that outlives the process.
type Mark = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// What belongs to one shape and is used once.
struct OneUse<T> {
    shape: ToCiphertexts,
    content: T,
    mark: Option<Mark>,
}

impl<T> OneUse<T> {
    /// The content, after it is marked as used.
    fn spend(self, shape: &ToCiphertexts) -> Result<T> {
        if self.shape != *shape {
            return Err(HybridError::OtherUploads);
        }
        if let Some(mark) = self.mark {
            mark().map_err(HybridError::Mark)?;
        }
        Ok(self.content)
    }
}

/// The client's half of uploads made ahead: the random parts. Zeroised when dropped, never copied.
pub struct ClientUploads(OneUse<Zeroizing<Vec<u128>>>);

/// The server's half of uploads made ahead: encryptions of the random parts. Never copied.
pub struct ServerUploads(OneUse<Vec<Ciphertext>>);

impl ClientUploads {
    pub(super) fn new(shape: ToCiphertexts, content: Zeroizing<Vec<u128>>) -> Self {
        Self(OneUse { shape, content, mark: None })
    }

    /// `mark` runs before anything that depends on these is sent; if it fails, nothing is.
    #[must_use]
    pub fn marked_by(mut self, mark: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        self.0.mark = Some(Box::new(mark));
        self
    }

    pub(super) fn spend(self, shape: &ToCiphertexts) -> Result<Zeroizing<Vec<u128>>> {
        self.0.spend(shape)
    }
}

impl ServerUploads {
    pub(super) fn new(shape: ToCiphertexts, content: Vec<Ciphertext>) -> Self {
        Self(OneUse { shape, content, mark: None })
    }

    /// `mark` runs before the client can send what depends on these; if it fails, the client does not.
    #[must_use]
    pub fn marked_by(mut self, mark: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        self.0.mark = Some(Box::new(mark));
        self
    }

    pub(super) fn spend(self, shape: &ToCiphertexts) -> Result<Vec<Ciphertext>> {
        self.0.spend(shape)
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
        ledger.send(Role::P0, self.upload_bytes());
    }

    /// Writes the cost of a run with uploads made ahead.
    ///
    /// # Errors
    /// None for a shape that [`ToCiphertexts::new`] took.
    pub fn declare_ahead(&self, ledger: &mut Ledger) -> Result<()> {
        self.extend.declare(ledger)?;
        ledger.send(Role::P0, self.extend.ring().packed_len(self.layout.values()));
        Ok(())
    }
}
