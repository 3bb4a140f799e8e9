//! Time by stage: what the protocol took, and what it waited for correlations; and what the server computed
//! under encryption.

use std::time::Instant;

use fesc_hybrid::backend::Tally;
use fesc_infer::session::source::Clock;
use fesc_infer::{Doing, Schedule, Stage, Watch};
use serde::{Deserialize, Serialize};

use super::encrypted::{Encrypted, works};
use crate::parties::child::tell;
use crate::parties::wire::Event;

/// Everything of one stage in a run, all layers and segments together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Its name.
    pub stage: String,
    /// Seconds of the protocol.
    pub online_s: f64,
    /// Seconds of making correlations, and the client's blocks of the linear layers.
    pub offline_s: f64,
    /// Both directions, as declared.
    pub online_bytes: u64,
    /// Rounds, as declared.
    pub rounds: u64,
    /// What the server computes under encryption, if anything, as declared.
    pub encrypted: Option<Encrypted>,
}

/// The entry of a stage, made if needed.
pub fn entry<'a>(all: &'a mut Vec<StageTime>, stage: &str) -> &'a mut StageTime {
    let at = all.iter().position(|s| s.stage == stage).unwrap_or_else(|| {
        all.push(StageTime { stage: stage.into(), ..StageTime::default() });
        all.len() - 1
    });
    &mut all[at]
}

/// What a schedule declares, by stage.
pub fn declared(schedule: &Schedule) -> fesc_infer::Result<Vec<StageTime>> {
    let mut all = Vec::new();
    for cost in schedule.costs()? {
        let stage = entry(&mut all, cost.stage.name());
        stage.online_bytes += cost.online.total_bytes();
        stage.rounds += cost.online.rounds;
    }
    for (stage, works) in works(schedule)? {
        entry(&mut all, stage.name()).encrypted = Some(Encrypted::new(&works));
    }
    Ok(all)
}

/// Takes the time of each stage as the run goes from one to the next.
pub struct Stopwatch<'a> {
    clock: Clock,
    /// What this party has computed under encryption so far.
    counted: &'a dyn Fn() -> Tally,
    all: Vec<StageTime>,
    tallies: Vec<(Stage, Tally)>,
    now: Option<(Stage, Instant, f64, Tally)>,
    /// Stages begun, and of how many; told to whoever waits, if this party is to.
    steps: Option<(u64, u64)>,
}

impl<'a> Stopwatch<'a> {
    /// `clock` is that of the party's source; with `total` stages, it tells how many of them have begun.
    pub fn new(clock: Clock, counted: &'a dyn Fn() -> Tally, total: Option<u64>) -> Self {
        let steps = total.map(|t| (0, t));
        Self { clock, counted, all: Vec::new(), tallies: Vec::new(), now: None, steps }
    }

    fn lap(&mut self) {
        let waited = self.clock.seconds();
        if let Some((name, since, before, done)) = self.now.take() {
            let stage = entry(&mut self.all, name.name());
            stage.offline_s += waited - before;
            stage.online_s += since.elapsed().as_secs_f64() - (waited - before);
            let done = (self.counted)().since(&done);
            match self.tallies.iter_mut().find(|(stage, _)| *stage == name) {
                Some((_, sum)) => sum.add(&done),
                None => self.tallies.push((name, done)),
            }
        }
    }

    /// The times of all stages, after the last one, and what was computed under encryption in each.
    pub fn finish(&mut self) -> (Vec<StageTime>, Vec<(Stage, Tally)>) {
        self.lap();
        (std::mem::take(&mut self.all), std::mem::take(&mut self.tallies))
    }
}

impl Watch for Stopwatch<'_> {
    fn doing(&mut self, doing: Doing) {
        self.lap();
        // What comes after the last stage is no stage's time.
        let Doing::Stage(stage, layer, segment) = doing else { return };
        tell(&Event::Phase(match layer {
            Some(layer) => format!("layer {}, segment {}: {stage}", layer + 1, segment + 1),
            None => stage.name().into(),
        }));
        if let Some((done, total)) = &mut self.steps {
            tell(&Event::Steps { done: *done, total: *total });
            *done += 1;
        }
        self.now = Some((stage, Instant::now(), self.clock.seconds(), (self.counted)()));
    }
}

/// Two parties' times of the same stages: the slower one's.
pub fn join(a: &[StageTime], b: &[StageTime]) -> Vec<StageTime> {
    let mut all = a.to_vec();
    for other in b {
        let stage = entry(&mut all, &other.stage);
        stage.online_s = stage.online_s.max(other.online_s);
        stage.offline_s = stage.offline_s.max(other.offline_s);
        stage.online_bytes = stage.online_bytes.max(other.online_bytes);
        stage.rounds = stage.rounds.max(other.rounds);
        stage.encrypted = stage.encrypted.take().or_else(|| other.encrypted.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_party_counts() {
        let one = |stage: &str, online_s| StageTime { stage: stage.into(), online_s, ..StageTime::default() };
        let joined = join(&[one("a", 1.0), one("b", 2.0)], &[one("b", 3.0), one("c", 4.0)]);
        let times: Vec<(&str, f64)> = joined.iter().map(|s| (s.stage.as_str(), s.online_s)).collect();
        assert_eq!(times, [("a", 1.0), ("b", 3.0), ("c", 4.0)]);
    }
}
