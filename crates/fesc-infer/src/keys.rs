//! The CKKS keys of a plan: one set of parameters for the projections, one for the scan, each where the plan
//! has kernels under encryption.
//!
//! They are made for one client and plan, sent before the first document, and serve any number of them.

use fesc_hybrid::keys::{ClientKeys, KeyShape, Keys, ServerKeys};
use fesc_mpc::Ledger;
use fesc_net::Channel;
use fesc_ring::Prg;

use crate::Result;
use crate::stage::Side;

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

    /// The same of each.
    fn map<U>(&self, mut make: impl FnMut(&T) -> Result<U>) -> Result<KeySets<U>> {
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

    /// Bytes in the server's memory.
    pub fn memory(&self) -> u64 {
        self.iter().map(KeyShape::memory).sum()
    }

    /// Writes the cost: once for a client and plan.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.iter().for_each(|shape| shape.declare(ledger));
    }

    /// The client makes fresh keys and sends them. `prg` must be seeded by the operating system.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn send(&self, channel: &mut Channel, prg: &mut Prg, progress: Progress<'_>) -> Result<KeySets<ClientKeys>> {
        let (mut before, total) = (0, self.bytes());
        self.map(|shape| {
            let mut keys = ClientKeys::generate(shape.clone(), prg);
            keys.send(channel, &mut |done, _| progress(before + done, total))?;
            before += shape.bytes();
            Ok(keys)
        })
    }

    /// The server takes them.
    ///
    /// # Errors
    /// Keys of another plan, and those of the channel.
    pub fn receive(&self, channel: &mut Channel, prg: &mut Prg, progress: Progress<'_>) -> Result<KeySets<ServerKeys>> {
        let (mut before, total, threads) = (0, self.bytes(), rayon::current_num_threads());
        self.map(|shape| {
            let step = &mut |done, _| progress(before + done, total);
            let keys = ServerKeys::receive(shape, channel, threads, prg.fork(), step)?;
            before += shape.bytes();
            Ok(keys)
        })
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
