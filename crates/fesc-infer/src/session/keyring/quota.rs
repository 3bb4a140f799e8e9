//! How much a server keeps for its clients, and for how long.
//!
//! Keys belong to the certificate that its client showed. Their size is known before they are made, and the
//! room is reserved before the first byte is taken, so that clients together do not pass the limit. Keys that
//! are too old go at the start, and whenever a client asks for keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fesc_mpc::Role;

use super::file::Note;
use super::shelf::{Claimed, Entry, Shelf};
use super::terms::{Kept, Listing, Order};
use crate::session::error::Result;
use crate::session::hex::Hex32;

/// Files, notes and names of one client's keys.
const BESIDES: u64 = 4096;

/// Keys that one client may have here, however small: what one answer lists.
pub const MOST_KEYS: usize = 64;

/// Limits of what a server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// Bytes of all clients together.
    pub bytes: u64,
    /// Bytes of one client.
    pub client_bytes: u64,
    /// How long keys serve.
    pub age: Duration,
}

/// The longest that a server may keep keys, and that a client keeps its secret ones whatever a server says.
pub const MOST_DAYS: u32 = 90;

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Over {
    /// The client has so many keys of so many bytes here, or on their way.
    Own { keys: usize, bytes: u64 },
    /// All clients together have too much.
    All,
}

/// Keys and their bytes, by client.
type Reserved = Mutex<BTreeMap<String, (usize, u64)>>;

/// Room for keys that are on their way; given back when dropped.
pub(in crate::session) struct Room {
    reserved: Arc<Reserved>,
    client: String,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((count, bytes)) = lock(&self.reserved).get_mut(&self.client) {
            *count -= 1;
            *bytes -= self.bytes;
        }
    }
}

// Nothing that can panic runs under the lock, so a poisoned amount is a valid one.
fn lock(reserved: &Reserved) -> MutexGuard<'_, BTreeMap<String, (usize, u64)>> {
    reserved.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys that a server keeps.
pub(in crate::session) struct Keyring {
    shelf: Shelf,
    limits: KeyLimits,
    reserved: Arc<Reserved>,
}

impl Keyring {
    /// Of a state directory. Keys that are too old are deleted.
    pub fn open(state: &Path, limits: KeyLimits) -> Result<Self> {
        let shelf = Shelf::open(state, Role::P1)?;
        shelf.expire(limits.age)?;
        Ok(Self { shelf, limits, reserved: Arc::default() })
    }

    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    pub fn limits(&self) -> &KeyLimits {
        &self.limits
    }

    /// A client's own keys of this name and shape, if they are here and young enough. Those of another client
    /// are not here.
    pub fn claim(&self, name: Hex32, client: &str, shape: Hex32) -> Result<Claimed<'_>> {
        self.shelf.expire(self.limits.age)?;
        // Whose they are comes first: a stranger does not learn that somebody uses them.
        let its_own = |e: &Entry| e.name == name && is_of(&e.note, client) && e.note.shape == shape;
        if !self.shelf.list()?.iter().any(its_own) {
            return Ok(Claimed::Absent);
        }
        self.shelf.claim(name)
    }

    /// Room for keys of so many bytes of this client, besides those that are here and on their way.
    pub fn reserve(&self, client: &str, bytes: u64) -> Result<std::result::Result<Room, Over>> {
        self.shelf.expire(self.limits.age)?;
        // Held while files are counted, so that two sessions cannot both get the last room.
        let mut reserved = lock(&self.reserved);
        let (mut own, mut all, mut count) = (0u64, 0u64, 0);
        for Entry { note, .. } in self.shelf.list()? {
            let bytes = note.bytes.saturating_add(BESIDES);
            all = all.saturating_add(bytes);
            if is_of(&note, client) {
                (own, count) = (own.saturating_add(bytes), count + 1);
            }
        }
        for (of, (keys, bytes)) in reserved.iter() {
            all = all.saturating_add(*bytes);
            if of == client {
                (own, count) = (own.saturating_add(*bytes), count + keys);
            }
        }
        let bytes = bytes.saturating_add(BESIDES);
        if own.saturating_add(bytes) > self.limits.client_bytes || count >= MOST_KEYS {
            return Ok(Err(Over::Own { keys: count, bytes: own }));
        }
        if all.saturating_add(bytes) > self.limits.bytes {
            return Ok(Err(Over::All));
        }
        let held = reserved.entry(client.into()).or_default();
        *held = (held.0 + 1, held.1 + bytes);
        Ok(Ok(Room { reserved: Arc::clone(&self.reserved), client: client.into(), bytes }))
    }

    /// Does what a client orders with its own keys; what it has here then.
    pub fn obey(&self, order: &Order, client: &str) -> Result<Listing> {
        self.shelf.expire(self.limits.age)?;
        let mut listing = Listing::default();
        for entry in self.shelf.list()?.into_iter().filter(|e| is_of(&e.note, client)) {
            if order.deletes(entry.name) && self.shelf.delete(entry.name)? {
                listing.deleted.push(entry.name);
            } else {
                listing.kept.push(Kept::new(&entry, self.limits.age));
            }
        }
        Ok(listing)
    }
}

fn is_of(note: &Note, client: &str) -> bool {
    note.client.as_deref() == Some(client)
}

#[cfg(test)]
mod tests;
