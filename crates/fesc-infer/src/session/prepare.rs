//! Making correlations for later sessions, on both sides at once: one store a session, the client's with its
//! blocks of the linear layers.

use std::time::Instant;

use fesc_mpc::Role;
use fesc_mpc::provider::Correlations;
use fesc_net::Channel;
use fesc_ring::Prg;

use super::error::Result;
use super::handshake::{Batch, prepared_id};
use super::hex::Hex32;
use super::source;
use super::source::stores::{Note, Reservation, StoreDirectory};
use super::{phase, stored, tag};
use crate::blocks::disk::BlockWriter;
use crate::schedule::Schedule;
use crate::setup::ClientSetup;
use crate::watch::{Doing, Watch};

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
                    channel.send(tag::KEPT, Vec::new())?;
                    channel.recv(tag::KEPT, 0)?;
                }
                Role::P1 => {
                    channel.recv(tag::KEPT, 0)?;
                    draft.commit()?;
                    channel.send(tag::KEPT, Vec::new())?;
                }
            }
            self.room.iter_mut().for_each(Reservation::kept);
            made.push(id);
        }
        Ok((made, start.elapsed().as_secs_f64()))
    }
}
