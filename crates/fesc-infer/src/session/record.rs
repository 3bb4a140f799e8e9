//! Watches a run: tells stages to whoever listens, and keeps shares of the residual stream for a check of the
//! program.

use fesc_mpc::Shared;
use fesc_net::Channel;

use super::error::Result;
use super::{phase, tag};
use crate::watch::{Doing, Watch};

/// A layer, and the residual stream that enters it.
pub type Stream = (usize, Vec<i64>);

/// A watch that tells and, when asked, keeps.
pub struct Recorder<'a> {
    watch: &'a mut dyn Watch,
    kept: Option<Vec<(usize, Shared)>>,
    blocks: f64,
}

impl<'a> Recorder<'a> {
    /// `keep`: keep the shares of the residual stream.
    pub fn new(watch: &'a mut dyn Watch, keep: bool) -> Self {
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
    pub fn give_away(self, channel: &mut Channel) -> Result<()> {
        channel.phase(phase::VERIFY);
        for (_, share) in self.kept.iter().flatten() {
            channel.send(tag::SHARE, share.ring().pack(share.values()))?;
        }
        Ok(())
    }

    /// Takes the other side's and joins them with its own: layer, and the residual stream that enters it.
    ///
    /// # Errors
    /// If the channel fails.
    pub fn join(self, channel: &mut Channel) -> Result<Option<Vec<Stream>>> {
        let Some(kept) = self.kept else { return Ok(None) };
        self.watch.doing(Doing::Verifying);
        channel.phase(phase::VERIFY);
        let joined = kept.into_iter().map(|(layer, mine)| {
            let ring = mine.ring();
            let bytes = channel.recv(tag::SHARE, ring.packed_len(mine.len()))?;
            let theirs = ring.unpack(&bytes, mine.len()).map_err(fesc_mpc::MpcError::from)?;
            let sums = mine.values().iter().zip(&theirs).map(|(&a, &b)| ring.to_signed(ring.add(a, b)));
            Ok((layer, sums.collect()))
        });
        joined.collect::<Result<_>>().map(Some)
    }
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
