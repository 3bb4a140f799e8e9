//! Exact counts of bytes and rounds, per named phase.

/// Counts of one phase, seen from this party. Bytes include the frame headers, not TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Phase {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Growth of the causal depth: the number of one-way message delays on the longest chain. In the total,
    /// the sum over phases.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// Everything since the channel was opened.
    pub total: Phase,
    /// Per phase.
    pub phases: Vec<(String, Phase)>,
}

impl Stats {
    /// The counts of one phase, zero when it was never entered.
    pub fn phase(&self, name: &str) -> Phase {
        self.phases.iter().find(|(n, _)| n == name).map(|(_, p)| *p).unwrap_or_default()
    }
}

/// Keeps the counts of one channel up to date.
pub(crate) struct Counter {
    pub(crate) stats: Stats,
    current: usize,
}

impl Counter {
    pub(crate) fn new() -> Counter {
        Counter {
            stats: Stats { total: Phase::default(), phases: vec![("main".into(), Phase::default())] },
            current: 0,
        }
    }

    /// Later counts go to this phase.
    pub(crate) fn enter(&mut self, name: &str) {
        self.current = match self.stats.phases.iter().position(|(n, _)| n == name) {
            Some(i) => i,
            None => {
                self.stats.phases.push((name.into(), Phase::default()));
                self.stats.phases.len() - 1
            }
        };
    }

    /// One frame sent, by which the causal depth grew.
    pub(crate) fn sent(&mut self, grown: u32, bytes: u64) {
        self.count(grown, |p| {
            p.sent_bytes += bytes;
            p.sent_frames += 1;
        });
    }

    /// One frame received.
    pub(crate) fn received(&mut self, grown: u32, bytes: u64) {
        self.count(grown, |p| {
            p.received_bytes += bytes;
            p.received_frames += 1;
        });
    }

    fn count(&mut self, grown: u32, update: impl Fn(&mut Phase)) {
        let Stats { total, phases } = &mut self.stats;
        for p in [total].into_iter().chain(phases.get_mut(self.current).map(|(_, p)| p)) {
            update(p);
            p.rounds += u64::from(grown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_the_total() {
        let mut c = Counter::new();
        c.sent(1, 100);
        c.enter("a");
        c.received(0, 10);
        c.sent(1, 20);
        c.enter("main");
        c.received(1, 1);
        let (main, a) = (c.stats.phase("main"), c.stats.phase("a"));
        assert_eq!(main, Phase { sent_bytes: 100, sent_frames: 1, received_bytes: 1, received_frames: 1, rounds: 2 });
        assert_eq!(a, Phase { sent_bytes: 20, sent_frames: 1, received_bytes: 10, received_frames: 1, rounds: 1 });
        let t = c.stats.total;
        assert_eq!((t.sent_bytes, t.received_bytes, t.rounds), (120, 11, 3));
        assert_eq!(t.since(main), a);
        assert_eq!(c.stats.phase("never"), Phase::default());
    }
}
