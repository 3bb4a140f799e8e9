//! Times: one layer on one segment is measured, and every stage's seconds are multiplied by what the run has
//! more of it.
//!
//! ```text
//! seconds = sum over stages of  measured (bytes declared for the run) / (bytes declared for the sample)
//!         + rounds rtt / 2 + (bytes of the busier direction) / bandwidth
//! ```
//!
//! The sample is the run itself with one layer and at most one segment of 2,048 tokens: a stage's call is
//! then of the size that it has in the run, and the factor is a whole number of calls. Shorter samples would
//! be quicker: a line through runs of 256 and 768 tokens, which this one replaces, was 28 to 37 percent low
//! at Mamba-base (on a busy machine; why was not measured). Both parties are on this machine, as in
//! `bench infer`. The network's part is added as if nothing overlapped, and without what a busy machine adds
//! to each message.

use std::time::Duration;

use anyhow::Result;
use fesc_infer::{Reveal, Schedule, Stage};
use fesc_model::outline::Outline;
use fesc_model::outline::scale::SEGMENT;
use fesc_model::{Config, Shape};
use fesc_net::Profile;

use super::declared::{Declared, Prices};
use super::public_bytes;
use crate::cli::{EstimateArgs, LinkArgs, Provider};
use crate::measured::{StageTime, Task, measure, random_outline};
use crate::progress::Progress;

/// Rows of the table in the sample; the table's size changes the set-up only.
const VOCAB: usize = 512;

/// How long a party of the sample may be silent.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The times of a run.
pub struct Times {
    pub online_s: f64,
    pub offline_s: f64,
    pub setup_s: f64,
    pub offline_rounds: u64,
    /// Tokens of the sample.
    pub tokens: usize,
    /// By stage, the slower party's, without the network.
    stages: Vec<StageTime>,
}

impl Times {
    /// Measures the sample of a model and scales it to what is declared.
    pub fn measure(
        outline: &Outline,
        args: &EstimateArgs,
        declared: &Declared,
        prices: &Prices,
        public: u64,
        tokens: usize,
        progress: &Progress,
    ) -> Result<Self> {
        let tokens = tokens.min(SEGMENT);
        progress.say(format!("measuring one layer on {tokens} tokens"));
        let mut task = Task::new("tiny", Some(1), tokens, args.provider)?;
        task.plan = outline.plan().name();
        task.shape = Config::new(Shape { layers: 1, vocab: VOCAB, ..*outline.shape() })?.to_json("float32")?;
        let link = LinkArgs { net: Profile::NONE, tls: false, threads: args.threads, timeout: TIMEOUT };
        let ran = measure(&link, &task, progress)?;
        let small = random_outline(&task)?;
        let sample = Declared::new(&Schedule::new(&small, tokens, Reveal::Label)?, prices)?;

        let factor = |stage: &str| factor(declared, &sample, stage);
        let scaled =
            |stages: &[StageTime]| -> Vec<StageTime> { stages.iter().map(|s| scale(s, factor(&s.stage))).collect() };
        let parties = ran.parties.each_ref().map(|party| scaled(&party.stages));
        let slower = |f: fn(&StageTime) -> f64| parties.iter().map(|p| p.iter().map(f).sum()).fold(0.0, f64::max);
        let (mut online_s, mut offline_s): (f64, f64) = (slower(|s| s.online_s), slower(|s| s.offline_s));
        let offline_rounds = match args.provider {
            // A question and an answer each.
            Provider::Dealer => 2 * declared.requests,
            Provider::TwoParty => ran.parties[0].offline_rounds * declared.requests / sample.requests.max(1),
        };
        for stage in &declared.stages {
            let busier = stage.online.p0_to_p1_bytes.max(stage.online.p1_to_p0_bytes);
            online_s += network(args.net, busier, stage.online.rounds);
            offline_s += network(args.net, stage.offline.0.max(stage.offline.1), 0);
        }
        offline_s += network(args.net, 0, offline_rounds);
        // The generator is set up once; the rest grows with the public part, whose table is as dear as its
        // hints, byte for byte.
        let grown = public as f64 / public_bytes(&small, None)?.max(1) as f64;
        let once = ran.parties.iter().map(|p| p.setup_s).fold(0.0, f64::max) - prices.setup_s();
        let wire = network(args.net, public + prices.setup_bytes(), 0);
        let setup_s = prices.setup_s() + once.max(0.0) * grown + wire;
        Ok(Self { online_s, offline_s, setup_s, offline_rounds, tokens, stages: scaled(&ran.stages()) })
    }

    /// A stage's.
    pub fn of(&self, stage: Stage) -> Option<&StageTime> {
        self.stages.iter().find(|s| s.stage == stage.name())
    }
}

/// How many times the run has what the sample has of a stage.
fn factor(run: &Declared, sample: &Declared, stage: &str) -> f64 {
    let of = |d: &Declared| d.stages.iter().find(|s| s.name.name() == stage).map_or(0, |s| s.online.total_bytes());
    match of(sample) {
        0 => 1.0,
        bytes => of(run) as f64 / bytes as f64,
    }
}

fn scale(stage: &StageTime, factor: f64) -> StageTime {
    StageTime { online_s: stage.online_s * factor, offline_s: stage.offline_s * factor, ..stage.clone() }
}

/// A network's part: half a round trip a round, and the time on the wire of one direction.
fn network(net: Profile, bytes: u64, rounds: u64) -> f64 {
    net.transmission(bytes).as_secs_f64() + rounds as f64 * net.rtt.as_secs_f64() / 2.0
}

#[cfg(test)]
mod tests {
    use fesc_mpc::Cost;

    use super::super::declared::StageCost;
    use super::*;

    #[test]
    fn a_slow_network_adds_its_latency_and_its_bandwidth() {
        assert_eq!(network(Profile::NONE, 1 << 30, 100), 0.0);
        let slow = Profile::new(8_000_000, Duration::from_millis(100));
        assert!((network(slow, 1_000_000, 10) - (1.0 + 0.5)).abs() < 1e-9);
    }

    #[test]
    fn a_stage_is_scaled_by_its_bytes() {
        let of = |bytes| {
            let online = Cost { p0_to_p1_bytes: bytes, p1_to_p0_bytes: bytes, rounds: 1 };
            Declared {
                stages: vec![StageCost { name: Stage::Scan, online, offline: (0, 0), calls: 1 }],
                requests: 1,
                largest: 0,
            }
        };
        assert_eq!(factor(&of(1200), &of(100), "scan"), 12.0);
        assert_eq!((factor(&of(1), &of(0), "scan"), factor(&of(7), &of(1), "head")), (1.0, 1.0));
        let time = StageTime { stage: "scan".into(), online_s: 2.0, offline_s: 3.0, ..StageTime::default() };
        let more = scale(&time, 12.0);
        assert_eq!((more.online_s, more.offline_s), (24.0, 36.0));
    }
}
