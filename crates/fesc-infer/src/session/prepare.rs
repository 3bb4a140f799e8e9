//! Making correlations for later sessions, on both sides at once: one store a session, the client's with its
//! blocks of the linear layers.

use std::time::Instant;

use fesc_mpc::Role;
use fesc_mpc::provider::Correlations;
use fesc_net::message::MessagePhase::Offline;
use fesc_net::message::{Message, Sessions, Size};
use fesc_net::{Channel, Tag};
use fesc_ring::Prg;

use super::error::{Result, SessionError};
use super::handshake::{Batch, prepared_id};
use super::hex::Hex32;
use super::source;
use super::source::stores::{Note, Reservation, StoreDirectory};
use super::{PUBLIC, phase};
use crate::blocks::disk::BlockWriter;
use crate::schedule::Schedule;
use crate::setup::ClientSetup;
use crate::watch::{Doing, Watch};

/// A store is whole on this side.
const STORED: Tag = Tag(0x0685);
/// A store is on this side's store directory.
const KEPT: Tag = Tag(0x0687);

/// What this file sends.
pub(super) const MESSAGES: &[Message] = &[
    Message {
        tag: STORED.0,
        name: "a store is whole",
        phases: &[Offline],
        sessions: Sessions::Prepared,
        size: Size::Exact(32),
        formula: "32",
        mask: "public: the store's id, a hash of model id, bucket and nonces",
        tests: &["prepared_sessions_have_names_of_their_own"],
        ..PUBLIC
    },
    Message {
        tag: KEPT.0,
        name: "a store is kept",
        phases: &[Offline],
        sessions: Sessions::Prepared,
        size: Size::Exact(0),
        formula: "0",
        mask: "empty",
        ..PUBLIC
    },
];

/// Correlations that are made between two blocks of the linear layers, when both are prepared: one block for
/// every 8, so that the server never waits for all blocks at the end.
const CORRELATIONS_PER_BLOCK: usize = 8;

/// Either side's part of preparing.
pub(super) struct Preparation<'a> {
    pub role: Role,
    pub schedule: &'a Schedule,
    pub batch: &'a Batch,
    /// The client's, then the server's.
    pub nonces: [Hex32; 2],
    pub note: &'a Note,
    /// The room that the stores take, where somebody counts.
    pub room: Option<Reservation>,
    /// The client's, with which it makes its blocks of the linear layers.
    pub setup: Option<&'a ClientSetup>,
}

impl Preparation<'_> {
    /// Makes all stores; returns their names and the seconds after the set-up.
    pub fn run(
        mut self,
        channel: &mut Channel,
        stores: &StoreDirectory,
        prg: &mut Prg,
        watch: &mut dyn Watch,
    ) -> Result<(Vec<Hex32>, f64)> {
        let mut maker = source::two_party(self.role, channel, prg)?;
        channel.phase(phase::OFFLINE);
        let start = Instant::now();
        let mut made = Vec::new();
        for index in 0..self.batch.count {
            watch.doing(Doing::Preparing(index + 1, self.batch.count));
            let id = prepared_id(self.batch, self.nonces, index);
            let mut draft = stores.draft(id, self.role, self.note)?;
            let mut keeper =
                self.setup.map(|setup| (BlockWriter::new(draft.path(), id.0, setup), self.schedule.blocks()));
            for (number, request) in self.schedule.demand().enumerate() {
                let request = request?;
                let half = maker.take(channel, &request)?;
                draft.store.append(&request, &half)?;
                // Now and then a block: all of them at the end would keep the server waiting.
                if let Some((keeper, pads)) = keeper.as_mut().filter(|_| number.is_multiple_of(CORRELATIONS_PER_BLOCK))
                    && let Some(pad) = pads.next()
                {
                    keeper.keep(&pad?, prg)?;
                }
            }
            if let Some((mut keeper, mut pads)) = keeper {
                pads.try_for_each(|pad| keeper.keep(&pad?, prg))?;
            }
            stored(channel, id)?;
            // The client first: if one of the two dies here, a half is left at the client, which deletes it
            // when the server does not know it. A half at the server would take its room for ever. And the
            // client hears when the server has it: a session that asks for it too early would be refused, and
            // the client would delete a good store.
            match self.role {
                Role::P0 => {
                    draft.commit()?;
                    channel.send(KEPT, Vec::new())?;
                    channel.recv(KEPT, 0)?;
                }
                Role::P1 => {
                    channel.recv(KEPT, 0)?;
                    draft.commit()?;
                    channel.send(KEPT, Vec::new())?;
                }
            }
            self.room.iter_mut().for_each(Reservation::kept);
            made.push(id);
        }
        Ok((made, start.elapsed().as_secs_f64()))
    }
}

/// Tells the peer that this side has a whole store, and hears the same.
fn stored(channel: &mut Channel, id: Hex32) -> Result<()> {
    let theirs = channel.exchange(STORED, id.0.to_vec(), 32)?;
    if theirs != id.0 {
        let theirs = theirs.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return Err(SessionError::Mismatch { what: "the store's session", ours: id.to_string(), theirs });
    }
    Ok(())
}
