//! What a client has kept at a server: to see it, and to delete it. No model and no document is needed.

use std::path::Path;

use fesc_mpc::Role;

use super::{Met, meet};
use crate::session::dial::Dial;
use crate::session::error::Result;
use crate::session::handshake::{Reply, Step};
use crate::session::hex::Hex32;
use crate::session::keyring::{Listing, Order, Shelf};
use crate::session::randomness::Randomness;

/// A client's keys at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MyKeys {
    /// What the server has, and what it has deleted.
    pub listing: Listing,
    /// Names of those whose secret half is on this side. Others serve nobody.
    pub here: Vec<Hex32>,
}

/// Gives an order to a server, and does the same with the secret halves in this side's state directory.
///
/// # Errors
/// If the server refuses, or a side's disk fails.
pub fn order(dial: &Dial, state: &Path, order: &Order, fresh: &Randomness) -> Result<MyKeys> {
    let Met { mut channel, mut talk, .. } = meet(dial, fresh)?;
    talk.tell(&mut channel, "step", &Step::Keys(order.clone()))?;
    let listing = talk.hear::<Reply<Listing>>(&mut channel, "answer")?.granted()?.cleaned();
    let shelf = Shelf::open(state, Role::P0)?;
    let (server, client) = (dial.identity(), dial.shown());
    let mut here = Vec::new();
    for entry in shelf.list()?.into_iter().filter(|e| e.note.server == server && e.note.client == client) {
        if !(order.deletes(entry.name) && shelf.delete(entry.name)?) {
            here.push(entry.name);
        }
    }
    Ok(MyKeys { listing, here })
}
