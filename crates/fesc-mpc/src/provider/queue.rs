//! Correlations made ahead and kept in memory, for one session of one process.
//!
//! [`Queue::prepare`] asks any source for a whole demand before the inputs are known; online, the queue hands
//! the halves out in the same order. Each is moved out, so it cannot be obtained again.

use std::collections::VecDeque;

use fesc_net::Channel;

use super::Correlations;
use crate::correlation::{Material, Request};
use crate::error::MpcError;

/// Prepared correlations, first in, first out.
#[derive(Default)]
pub struct Queue {
    ready: VecDeque<(Request, Material)>,
    taken: u64,
}

impl Queue {
    /// Makes every correlation of `demand` with `source`.
    pub fn prepare(source: &mut dyn Correlations, channel: &mut Channel, demand: &[Request]) -> Result<Self, MpcError> {
        let made = demand.iter().map(|r| Ok((r.clone(), source.take(channel, r)?)));
        Ok(Self { ready: made.collect::<Result<_, MpcError>>()?, taken: 0 })
    }

    /// Unused correlations left.
    pub fn left(&self) -> usize {
        self.ready.len()
    }
}

impl Correlations for Queue {
    fn take(&mut self, _channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        let (found, half) = self.ready.pop_front().ok_or(MpcError::Exhausted { prepared: self.taken })?;
        let index = self.taken;
        self.taken += 1;
        if found != *request {
            let (found, wanted) = (found.to_string(), request.to_string());
            return Err(MpcError::WrongCorrelation { index, found, wanted });
        }
        Ok(half)
    }
}
