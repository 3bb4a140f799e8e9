//! The CKKS keys of a plan: one set of parameters for the projections, one for the scan, each where the plan
//! has kernels under encryption.
//!
//! They are made for one client and plan, sent before the first document, and serve any number of them:
//! between two sessions each party keeps its half (`session/keyring`). A shape has a digest, of the sets and
//! of the rotations; keys have a name, of their shape and their public keys, so that both parties know it
//! without a word.

use fesc_hybrid::ckks::server::{KeyId, KeyPurpose};
use fesc_hybrid::keys::{ClientKeys, KeyShape, Keys, ServerKeys};
use fesc_mpc::Ledger;
use fesc_net::{Channel, Tag};
use fesc_ring::Prg;
use sha2::{Digest, Sha256};

use crate::Result;
use crate::stage::Side;

/// The name of a client's keys: a hash of their shape and of the ids of their public keys.
pub type KeyName = [u8; 32];

/// Gives the payload of the next message of an upload.
pub type Next<'a> = &'a mut dyn FnMut(Tag, usize) -> fesc_hybrid::Result<Vec<u8>>;

/// Something for each set that a plan needs.
pub struct KeySets<T> {
    /// Of the projections.
    pub project: Option<T>,
    /// Of the scan.
    pub scan: Option<T>,
}

impl<T> Default for KeySets<T> {
    fn default() -> Self {
        Self { project: None, scan: None }
    }
}

/// Told how many bytes of how many have gone.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

impl<T> KeySets<T> {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.project.iter().chain(&self.scan)
    }

    /// Whether a plan needs none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All of them with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &T)> {
        let named = |name, set: &'_ Option<T>| set.is_some().then_some(name);
        [named("project", &self.project), named("scan", &self.scan)].into_iter().flatten().zip(self.iter())
    }

    /// The same of each.
    pub(crate) fn map<U>(&self, mut make: impl FnMut(&T) -> Result<U>) -> Result<KeySets<U>> {
        Ok(KeySets {
            project: self.project.as_ref().map(&mut make).transpose()?,
            scan: self.scan.as_ref().map(make).transpose()?,
        })
    }
}

impl KeySets<KeyShape> {
    /// Bytes that travel.
    pub fn bytes(&self) -> u64 {
        self.iter().map(KeyShape::bytes).sum()
    }

    /// Bytes of all payloads: what a server keeps.
    pub fn payload(&self) -> u64 {
        self.iter().map(KeyShape::payload).sum()
    }

    /// Bytes in the server's memory.
    pub fn memory(&self) -> u64 {
        self.iter().map(KeyShape::memory).sum()
    }

    /// A digest of the sets and of which keys of each: keys of one digest serve every plan and length that
    /// has the same. Keys for more rotations would serve too, and have another digest.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(b"fesc key shapes 1\0");
        for (name, shape) in self.named() {
            let purposes = shape.plan().purposes(shape.params());
            hash.update([&(name.len() as u64).to_le_bytes()[..], name.as_bytes(), shape.params().digest()].concat());
            hash.update((purposes.len() as u64).to_le_bytes());
            for purpose in purposes {
                let element = match purpose {
                    KeyPurpose::Relinearisation => 0,
                    KeyPurpose::Galois(element) => element,
                };
                hash.update(element.to_le_bytes());
            }
        }
        hash.finalize().into()
    }

    fn name(&self, ids: impl Iterator<Item = KeyId>) -> KeyName {
        let mut hash = Sha256::new_with_prefix(b"fesc keys 1\0");
        hash.update(self.digest());
        ids.for_each(|id| hash.update(id.bytes()));
        hash.finalize().into()
    }

    /// Writes the cost: once for a client and plan.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.iter().for_each(|shape| shape.declare(ledger));
    }

    /// The client makes fresh keys and sends them; their name too. `prg` must be seeded by the operating
    /// system.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn send(
        &self,
        channel: &mut Channel,
        prg: &mut Prg,
        progress: Progress<'_>,
    ) -> Result<(KeySets<ClientKeys>, KeyName)> {
        let (mut before, total, mut ids) = (0, self.bytes(), Vec::new());
        let keys = self.map(|shape| {
            let mut keys = ClientKeys::generate(shape.clone(), prg);
            ids.push(keys.send(channel, &mut |done, _| progress(before + done, total))?);
            before += shape.bytes();
            Ok(keys)
        })?;
        Ok((keys, self.name(ids.into_iter())))
    }

    /// The server takes them.
    ///
    /// # Errors
    /// Keys of another plan, and those of the channel.
    pub fn receive(&self, channel: &mut Channel, prg: &mut Prg, progress: Progress<'_>) -> Result<KeySets<ServerKeys>> {
        Ok(self.take(&mut |tag, size| Ok(channel.recv(tag, size)?), prg, progress)?.0)
    }

    /// The same from anywhere, and their name.
    ///
    /// # Errors
    /// Keys of another plan, and those of `next`.
    pub fn take(
        &self,
        next: Next<'_>,
        prg: &mut Prg,
        progress: Progress<'_>,
    ) -> Result<(KeySets<ServerKeys>, KeyName)> {
        let (mut before, total, threads) = (0, self.bytes(), rayon::current_num_threads());
        let keys = self.map(|shape| {
            let step = &mut |done, _| progress(before + done, total);
            let keys = ServerKeys::take(shape, next, threads, prg.fork(), step)?;
            before += shape.bytes();
            Ok(keys)
        })?;
        let name = self.name(keys.iter().map(ServerKeys::id));
        Ok((keys, name))
    }
}

/// What a party has of the keys of one set, if there are any.
pub(crate) fn of<'k>(
    sets: Side<&'k mut KeySets<ClientKeys>, &'k KeySets<ServerKeys>>,
    client: impl FnOnce(&'k mut KeySets<ClientKeys>) -> &'k mut Option<ClientKeys>,
    server: impl FnOnce(&'k KeySets<ServerKeys>) -> &'k Option<ServerKeys>,
) -> Option<Keys<'k>> {
    match sets {
        Side::Client(sets) => client(sets).as_mut().map(Keys::Client),
        Side::Server(sets) => server(sets).as_ref().map(Keys::Server),
    }
}
