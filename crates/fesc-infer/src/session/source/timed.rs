//! A source that counts what it costs: time and bytes of generation, apart from those of the protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fesc_mpc::correlation::Material;
use fesc_mpc::provider::Correlations;
use fesc_mpc::{MpcError, Request};
use fesc_net::Channel;

use crate::session::phase;

/// Nanoseconds that an online party spent in its source, readable while the party runs.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Adds the time of something that belongs to no stage of the protocol.
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 * 1e-9
    }
}

/// Whatever the source sends on the party's own channel is counted as offline, and its time is taken.
pub struct Timed {
    inner: Box<dyn Correlations + Send>,
    clock: Clock,
}

impl Timed {
    /// A counted source, and its clock.
    pub fn new(inner: Box<dyn Correlations + Send>) -> (Self, Clock) {
        let clock = Clock::default();
        (Self { inner, clock: clock.clone() }, clock)
    }
}

impl Correlations for Timed {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        let start = Instant::now();
        channel.begin(phase::OFFLINE);
        let taken = self.inner.take(channel, request);
        channel.begin(phase::ONLINE);
        self.clock.add(start.elapsed());
        taken
    }
}
