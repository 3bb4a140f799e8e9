//! Exact counts of bytes and rounds, per named phase.

/// Counts of one phase, seen from this party. Bytes include the frame headers, not TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Phase {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Growth of the causal depth: the number of one-way message delays on the longest chain.
    pub rounds: u64,
}

impl Phase {
    /// The counts since an earlier snapshot of the same channel.
    pub fn since(self, earlier: Phase) -> Phase {
        Phase {
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            received_bytes: self.received_bytes - earlier.received_bytes,
            sent_frames: self.sent_frames - earlier.sent_frames,
            received_frames: self.received_frames - earlier.received_frames,
            rounds: self.rounds - earlier.rounds,
        }
    }
}

/// Counts of a channel: the total, and each named phase in order of first use.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Stats {
    /// Everything since the channel was opened.
    pub total: Phase,
    /// Per phase.
    pub phases: Vec<(String, Phase)>,
}
