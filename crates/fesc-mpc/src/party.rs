//! One party of a session: its role, its channel, its source of correlations.

use fesc_net::{Channel, Tag};
use fesc_ring::Ring;

use crate::correlation::{Material, Request};
use crate::error::MpcError;
use crate::provider::Correlations;
use crate::share::Shared;

/// Who this is. `P0` is the client (document), `P1` the server (weights).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Role {
    /// The client.
    P0,
    /// The server.
    P1,
}

impl Role {
    /// The peer.
    pub const fn other(self) -> Role {
        match self {
            Role::P0 => Role::P1,
            Role::P1 => Role::P0,
        }
    }

    /// 0 or 1.
    pub const fn index(self) -> usize {
        match self {
            Role::P0 => 0,
            Role::P1 => 1,
        }
    }

    /// `value` at P0, 0 at P1: how a public value enters a sum of shares.
    pub const fn at_p0(self, value: u64) -> u64 {
        match self {
            Role::P0 => value,
            Role::P1 => 0,
        }
    }
}

/// Everything an online protocol needs.
pub struct Party {
    role: Role,
    channel: Channel,
    source: Box<dyn Correlations + Send>,
    /// Shares that were kept for a check of the program, if any are to be.
    witnesses: Option<Vec<Vec<Shared>>>,
}

impl Party {
    /// Joins a role, a channel to the peer and a source of correlations.
    pub fn new(role: Role, channel: Channel, source: Box<dyn Correlations + Send>) -> Self {
        Self { role, channel, source, witnesses: None }
    }

    /// Keeps what is [`witnessed`](Self::witness) from now on: for checks of the program by somebody who has
    /// both sides. Both parties' shares together are the secrets of the run.
    pub fn keep_witnesses(&mut self) {
        self.witnesses = Some(Vec::new());
    }

    /// Shares of something that a check will want to see, in an order that both parties have.
    pub fn witness<'a>(&mut self, shares: impl Iterator<Item = &'a Shared>) {
        if let Some(kept) = &mut self.witnesses {
            kept.push(shares.cloned().collect());
        }
    }

    /// What was kept.
    pub fn take_witnesses(&mut self) -> Vec<Vec<Shared>> {
        self.witnesses.take().unwrap_or_default()
    }

    /// This party's role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The channel to the peer.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Takes one correlation; it can never be obtained again.
    pub(crate) fn take(&mut self, request: Request) -> Result<Material, MpcError> {
        self.source.take(&mut self.channel, &request)
    }

    /// Sends a vector of ring elements and receives the peer's vector of `theirs` elements, in one round.
    pub(crate) fn exchange(&mut self, tag: Tag, ring: Ring, mine: &[u64], theirs: usize) -> Result<Vec<u64>, MpcError> {
        let bytes = self.channel.exchange(tag, ring.pack(mine), ring.packed_len(theirs))?;
        Ok(ring.unpack(&bytes, theirs)?)
    }

    /// Sends packed bits and receives as many.
    pub(crate) fn exchange_words(&mut self, tag: Tag, words: &[u64]) -> Result<Vec<u64>, MpcError> {
        self.exchange(tag, WORDS, words, words.len())
    }
}

/// Packed bits travel as 64-bit words.
pub(crate) const WORDS: Ring = match Ring::new(64) {
    Ok(r) => r,
    Err(_) => unreachable!(),
};
