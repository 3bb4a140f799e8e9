//! COTs that are made and not yet used, and the source that makes more.

use fesc_net::Channel;
use zeroize::Zeroize;

use crate::{OtCost, OtError};

/// Makes COTs, one message at a time.
pub(crate) trait CotSource {
    /// Appends the COTs of the next message; `missing` is what is still needed.
    fn refill(&mut self, ch: &mut Channel, missing: usize, out: &mut Vec<u128>) -> Result<(), OtError>;
    /// No refill for `missing` appends more.
    fn most(&self, missing: usize) -> usize;
    /// The exact cost of `missing` COTs by repeated [`refill`](Self::refill).
    fn cost(&self, missing: usize) -> OtCost;
    /// Whether to use several threads.
    fn set_parallel(&mut self, on: bool);
}

/// A source with a first-in first-out buffer of secret blocks.
pub(crate) struct Stock<S> {
    source: S,
    blocks: Vec<u128>,
    used: usize,
}

impl<S: CotSource> Stock<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, blocks: Vec::new(), used: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() - self.used
    }

    pub(crate) fn set_parallel(&mut self, on: bool) {
        self.source.set_parallel(on);
    }

    pub(crate) fn cost(&self, m: usize) -> OtCost {
        self.source.cost(m.saturating_sub(self.len()))
    }

    /// Refills until `at_least` blocks are here. `wanted >= at_least` is what the whole call still needs: it
    /// sizes the messages, so that taking piece by piece costs exactly what [`cost`](Self::cost) says.
    pub(crate) fn ensure(&mut self, ch: &mut Channel, at_least: usize, wanted: usize) -> Result<(), OtError> {
        while self.len() < at_least {
            let left = self.len();
            self.blocks.copy_within(self.used.., 0);
            self.blocks.truncate(left);
            self.used = 0;
            self.source.refill(ch, wanted.max(at_least) - left, &mut self.blocks)?;
        }
        Ok(())
    }

    /// Takes up to `count` blocks; each is given once.
    pub(crate) fn take(&mut self, count: usize) -> &[u128] {
        let from = self.used;
        self.used += count.min(self.len());
        self.blocks.get(from..self.used).unwrap_or_default()
    }

    /// Takes exactly `count` blocks.
    pub(crate) fn take_all(&mut self, ch: &mut Channel, count: usize) -> Result<Vec<u128>, OtError> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            let missing = count - out.len();
            // What is used whole goes where it is wanted, not through the buffer.
            if self.len() == 0 && self.source.most(missing) <= missing {
                self.source.refill(ch, missing, &mut out)?;
                continue;
            }
            self.ensure(ch, 1, missing)?;
            out.extend_from_slice(self.take(missing));
        }
        Ok(out)
    }
}

impl<S> Drop for Stock<S> {
    fn drop(&mut self) {
        self.blocks.zeroize();
    }
}
