//! Watches a run: tells stages to whoever listens, and keeps shares for a check of the program: those of the
//! residual stream, and those that entered and left every circuit under encryption.

use fesc_hybrid::verify::Witness;
use fesc_mpc::{Party, Shared};
use fesc_net::message::MessagePhase::Verify;
use fesc_net::message::ways::DOWN;
use fesc_net::message::{Cover, Message, Sessions};
use fesc_net::{Channel, Tag};

use super::error::Result;
use super::phase;
use crate::InferError;
use crate::watch::{Doing, Watch};

/// A share of hidden values, given away for a check.
const SHARE: Tag = Tag(0x0686);

/// What this file sends.
pub(super) const MESSAGES: &[Message] = &[Message {
    tag: SHARE.0,
    name: "shares for --verify",
    ways: DOWN,
    sessions: Sessions::Verify,
    formula: "6 n; the stream of each layer and of the end, all that enters and leaves circuits under CKKS",
    cover: Cover::GivenAway,
    mask: "none: the server runs with --insecure-verify, for an operator who has both sides",
    tests: &["a_server_refuses_what_it_does_not_offer"],
    ..Message::masked("fesc-infer", &[Verify])
}];

/// A layer, and the residual stream that enters it.
pub type Stream = (usize, Vec<i64>);

/// What both parties' shares say of a run, for a check of the program.
pub struct Seen {
    /// The residual stream that enters each layer, and that leaves the last.
    pub streams: Vec<Stream>,
    /// What entered and left each circuit under encryption, in order.
    pub circuits: Vec<Witness>,
}

/// A watch that tells and, when asked, keeps.
pub struct Recorder<'a> {
    watch: &'a mut dyn Watch,
    kept: Option<Vec<(usize, Shared)>>,
    blocks: f64,
}

impl<'a> Recorder<'a> {
    /// For a run of `party`; `keep`: keep shares.
    pub fn new(party: &mut Party, watch: &'a mut dyn Watch, keep: bool) -> Self {
        if keep {
            party.keep_witnesses();
        }
        Self { watch, kept: keep.then(Vec::new), blocks: 0.0 }
    }

    /// Seconds that the client spent on blocks of the linear layers.
    pub fn blocks(&self) -> f64 {
        self.blocks
    }

    /// Gives this side's shares away. A server must have been started for that.
    ///
    /// # Errors
    /// If the channel fails.
    pub fn give_away(self, party: &mut Party) -> Result<()> {
        let circuits = party.take_witnesses();
        let channel = party.channel();
        channel.phase(phase::VERIFY);
        let streams = self.kept.iter().flatten().map(|(_, share)| share);
        for share in streams.chain(circuits.iter().flatten()) {
            channel.send(SHARE, share.ring().pack(share.values()))?;
        }
        Ok(())
    }

    /// Takes the other side's and joins them with its own.
    ///
    /// # Errors
    /// If the channel fails.
    pub fn join(self, party: &mut Party) -> Result<Option<Seen>> {
        let Some(kept) = self.kept else { return Ok(None) };
        self.watch.doing(Doing::Verifying);
        let witnesses = party.take_witnesses();
        let channel = party.channel();
        channel.phase(phase::VERIFY);
        let mut streams = Vec::with_capacity(kept.len());
        for (layer, mine) in &kept {
            let (ring, sums) = (mine.ring(), mine.join(&theirs(channel, mine)?).map_err(InferError::from)?);
            streams.push((*layer, sums.into_iter().map(|v| ring.to_signed(v)).collect()));
        }
        let mut circuits = Vec::with_capacity(witnesses.len());
        for mine in &witnesses {
            let other = mine.iter().map(|share| theirs(channel, share)).collect::<Result<Vec<_>>>()?;
            circuits.push(Witness::join(mine, &other).map_err(InferError::from)?);
        }
        Ok(Some(Seen { streams, circuits }))
    }
}

/// The other side's share of the same.
fn theirs(channel: &mut Channel, mine: &Shared) -> Result<Shared> {
    let ring = mine.ring();
    let bytes = channel.recv(SHARE, ring.packed_len(mine.len()))?;
    Ok(Shared::new(ring, ring.unpack(&bytes, mine.len()).map_err(fesc_mpc::MpcError::from)?))
}

impl Watch for Recorder<'_> {
    fn doing(&mut self, doing: Doing) {
        self.watch.doing(doing);
    }

    fn offline(&mut self, seconds: f64) {
        self.blocks = seconds;
    }

    fn stream(&mut self, layer: usize, share: &Shared) {
        if let Some(kept) = &mut self.kept {
            kept.push((layer, Shared::new(share.ring(), share.values().to_vec())));
        }
    }
}
