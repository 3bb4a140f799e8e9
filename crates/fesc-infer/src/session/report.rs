//! What a session cost, by phase, and what it is doing.

use fesc_mpc::Role;
use fesc_net::{Phase, Stats};
use serde::Serialize;

use super::phase;
use super::source::ahead::Generated;

/// Time and traffic of one phase, seen from this side.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct PhaseCost {
    /// Wall time.
    pub seconds: f64,
    /// Bytes sent, with frame headers.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// One-way message delays on the longest chain.
    pub rounds: u64,
}

impl PhaseCost {
    fn add(&mut self, phase: Phase) {
        self.sent_bytes += phase.sent_bytes;
        self.received_bytes += phase.received_bytes;
        self.rounds += phase.rounds;
    }

    /// Both directions.
    pub fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }
}

/// What a whole session cost.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Report {
    /// Handshake, download of the public part, base transfers and keys.
    pub setup: PhaseCost,
    /// Making correlations, and the client's blocks of the linear layers. Where a thread makes them, its
    /// time, which runs beside that of the online phase.
    pub offline: PhaseCost,
    /// The protocol on the document, without waiting for correlations.
    pub online: PhaseCost,
    /// How long the protocol waited for correlations.
    pub waited_s: f64,
    /// From the first byte to the last.
    pub total_s: f64,
}

impl Report {
    /// Of all phases, both directions.
    pub fn bytes(&self) -> u64 {
        self.setup.bytes() + self.offline.bytes() + self.online.bytes()
    }

    /// From the counts of the session's channel, and of the generator's if it has one.
    pub(super) fn new(stats: &Stats, generated: Option<&Generated>, times: Times) -> Self {
        let mut report = Report { waited_s: times.waited, total_s: times.total, ..Report::default() };
        for stats in [Some(stats), generated.map(|g| &g.stats)].into_iter().flatten() {
            for name in ["hello", "main", phase::SETUP] {
                report.setup.add(stats.phase(name));
            }
            report.offline.add(stats.phase(phase::OFFLINE));
            report.online.add(stats.phase(phase::ONLINE));
        }
        report.setup.seconds = times.setup + generated.map_or(0.0, |g| g.setup_seconds);
        report.offline.seconds = generated.map_or(times.waited, |g| g.seconds) + times.blocks;
        // Blocks that were made on the way are no part of the protocol; a thread's are made beside it.
        report.online.seconds = times.run - times.waited - if times.ahead { 0.0 } else { times.blocks };
        report
    }
}

/// Wall times of one side.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    /// Until the run began.
    pub setup: f64,
    /// The run.
    pub run: f64,
    /// Waiting for correlations, in the run.
    pub waited: f64,
    /// Preparing blocks of the linear layers: client only.
    pub blocks: f64,
    /// A thread prepared them.
    pub ahead: bool,
    /// All of it.
    pub total: f64,
}

/// The word for a role.
pub fn side(role: Role) -> &'static str {
    match role {
        Role::P0 => "client",
        Role::P1 => "server",
    }
}
