//! Times: one layer on one segment is measured on shares, and every stage's seconds are multiplied by what
//! the run has more of it; stages under encryption are counts times costs ([`super::circuits`]).
//!
//! ```text
//! seconds = sum over stages on shares of  measured (bytes of the run) / (bytes of the sample)
//!         + sum over stages under CKKS of  counts times costs + (bytes beside ciphertexts) rate
//!         + rounds rtt / 2 + (bytes of the busier direction) / bandwidth
//! ```
//!
//! The sample is the run itself with one layer and at most one segment of 2,048 tokens: a stage's call is
//! then of the size that it has in the run, and the factor is a whole number of calls. Its plan is that of
//! the run with projections and scan on shares. Shorter samples would be quicker: a line through runs of 256
//! and 768 tokens, which this one replaces, was 28 to 37 percent low at Mamba-base (on a busy machine; why
//! was not measured). What a stage under CKKS does on shares beside it (exps, clamps, products) has the rate
//! of the sample's stages, seconds a byte. Both parties are on this machine, as in `bench infer`. The
//! network's part is added as if nothing overlapped, and without what a busy machine adds to each message.

use std::time::Duration;

use anyhow::Result;
use fesc_infer::{Reveal, Schedule, Stage, kernels};
use fesc_model::outline::Outline;
use fesc_model::outline::scale::SEGMENT;
use fesc_model::plan::{ExpForm, Projection, Scan};
use fesc_model::{Config, Plan, Shape};
use fesc_net::Profile;

use super::circuits::Machine;
use super::declared::{Declared, Prices};
use super::public_bytes;
use crate::cli::{EstimateArgs, LinkArgs, Provider};
use crate::measured::{Ran, StageTime, Task, measure, random_outline};
use crate::progress::Progress;

/// Rows of the table in the sample; the table's size changes the set-up only.
const VOCAB: usize = 512;

/// How long a party of the sample may be silent.
const TIMEOUT: Duration = Duration::from_secs(600);

/// One layer on one segment, on shares.
pub struct Sample {
    plan: String,
    tokens: usize,
    ran: Ran,
    declared: Declared,
    public: u64,
}

impl Sample {
    /// The plan that is measured for another: projections and scan on shares. Ours where that is none that
    /// two parties can run.
    pub fn plan(plan: &Plan) -> Plan {
        let mut on_shares = Plan { projection: Projection::Rlwe, scan: Scan::Dual, ..*plan };
        // The dual form on shares takes exps of sums, which MMExp is not for.
        if matches!(plan.exp, ExpForm::Minimax(_)) {
            on_shares.exp = ExpForm::Power;
        }
        if kernels::supported(&on_shares).is_ok() { on_shares } else { Plan::FAST }
    }

    /// Measures the sample of a run.
    pub fn measure(
        outline: &Outline,
        args: &EstimateArgs,
        prices: &Prices,
        tokens: usize,
        progress: &Progress,
    ) -> Result<Self> {
        let tokens = tokens.min(SEGMENT);
        progress.say(format!("measuring one layer on {tokens} tokens"));
        let mut task = Task::new("tiny", Some(1), tokens, args.provider)?;
        task.plan = Self::plan(outline.plan()).name();
        task.shape = Config::new(Shape { layers: 1, vocab: VOCAB, ..*outline.shape() })?.to_json("float32")?;
        let link = LinkArgs { net: Profile::NONE, tls: false, threads: args.threads, timeout: TIMEOUT };
        let ran = measure(&link, &task, progress)?;
        let small = random_outline(&task)?;
        let declared = Declared::new(&Schedule::new(&small, tokens, Reveal::Label)?, prices)?;
        Ok(Self { plan: task.plan, tokens, ran, declared, public: public_bytes(&small, None)? })
    }

    /// Whether it serves for runs of a plan too.
    pub fn serves(&self, plan: &Plan) -> bool {
        self.plan == Self::plan(plan).name()
    }

    /// Seconds a byte of stages on shares but for those with matrices: online, and making correlations.
    fn rates(&self) -> [f64; 2] {
        let matrices = [Stage::Embedding, Stage::InProj, Stage::OutProj];
        let (mut seconds, mut bytes) = ([0.0; 2], [0; 2]);
        for stage in self.declared.stages.iter().filter(|s| !matrices.contains(&s.name)) {
            let took = self.ran.stages().into_iter().find(|s| s.stage == stage.name.name()).unwrap_or_default();
            seconds = [seconds[0] + took.online_s, seconds[1] + took.offline_s];
            bytes = [bytes[0] + stage.online.total_bytes(), bytes[1] + stage.offline.0 + stage.offline.1];
        }
        [0, 1].map(|i| seconds[i] / bytes[i].max(1) as f64)
    }
}

/// The times of a run.
pub struct Times {
    pub online_s: f64,
    pub offline_s: f64,
    pub setup_s: f64,
    pub keys_s: f64,
    pub offline_rounds: u64,
    /// Tokens of the sample.
    pub tokens: usize,
    /// By stage, the slower party's, without the network.
    stages: Vec<StageTime>,
}

impl Times {
    /// A sample scaled to what is declared, and circuits by their counts.
    pub fn new(
        args: &EstimateArgs,
        declared: &Declared,
        prices: &Prices,
        public: u64,
        sample: &Sample,
        machine: &Machine,
    ) -> Result<Self> {
        let Sample { ran, declared: small, .. } = sample;
        let circuits = encrypted(declared, sample, machine)?;
        let scaled = |stages: &[StageTime]| -> Vec<StageTime> {
            let scaled = stages.iter().map(|s| {
                let own = circuits.iter().find(|c| c.stage == s.stage);
                own.cloned().unwrap_or_else(|| scale(s, factor(declared, small, &s.stage)))
            });
            scaled.collect()
        };
        let parties = ran.parties.each_ref().map(|party| scaled(&party.stages));
        let slower = |f: fn(&StageTime) -> f64| parties.iter().map(|p| p.iter().map(f).sum()).fold(0.0, f64::max);
        let (mut online_s, mut offline_s): (f64, f64) = (slower(|s| s.online_s), slower(|s| s.offline_s));
        let offline_rounds = match args.provider {
            // A question and an answer each.
            Provider::Dealer => 2 * declared.requests,
            Provider::TwoParty => ran.parties[0].offline_rounds * declared.requests / small.requests.max(1),
        };
        for stage in &declared.stages {
            let busier = stage.online.p0_to_p1_bytes.max(stage.online.p1_to_p0_bytes);
            online_s += network(args.net, busier, stage.online.rounds);
            offline_s += network(args.net, stage.offline.0.max(stage.offline.1), 0);
        }
        offline_s += network(args.net, 0, offline_rounds);
        // The generator is set up once; the rest grows with the public part, whose table is as dear as its
        // hints, byte for byte.
        let grown = public as f64 / sample.public.max(1) as f64;
        let once = ran.parties.iter().map(|p| p.setup_s).fold(0.0, f64::max) - prices.setup_s();
        let wire = network(args.net, public + prices.setup_bytes(), 0);
        let setup_s = prices.setup_s() + once.max(0.0) * grown + wire;
        let made: f64 = declared.keys.iter().map(|keys| machine.keys_s(keys)).sum();
        let buffers = fesc_infer::memory::buffers(declared.works.iter().flat_map(|(_, works)| works));
        let keys_s = made + machine.touch_s(buffers) + network(args.net, declared.keys.bytes(), 0);
        let stages = scaled(&ran.stages());
        Ok(Self { online_s, offline_s, setup_s, keys_s, offline_rounds, tokens: sample.tokens, stages })
    }

    /// A stage's.
    pub fn of(&self, stage: Stage) -> Option<&StageTime> {
        self.stages.iter().find(|s| s.stage == stage.name())
    }
}

/// The stages under encryption.
fn encrypted(declared: &Declared, sample: &Sample, machine: &Machine) -> Result<Vec<StageTime>> {
    let [online, offline] = sample.rates();
    let mut found = Vec::new();
    for (name, circuits) in machine.seconds(&declared.works)? {
        let Some(stage) = declared.stages.iter().find(|s| s.name == name) else { continue };
        let works = declared.works(name);
        let ciphertexts: u64 = works.iter().map(|w| w.upload_bytes() + w.result_bytes()).sum();
        let rest = stage.online.total_bytes().saturating_sub(ciphertexts);
        found.push(StageTime {
            stage: name.name().into(),
            online_s: circuits + rest as f64 * online,
            offline_s: (stage.offline.0 + stage.offline.1) as f64 * offline,
            ..StageTime::default()
        });
    }
    Ok(found)
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
    use fesc_infer::KeySets;
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
                works: Vec::new(),
                keys: KeySets::default(),
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
