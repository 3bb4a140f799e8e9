//! One party of a measured inference: public part, set-up, the run, the check.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fesc_hybrid::backend::{Backend, Tally};
use fesc_hybrid::keys::{ClientKeys, ServerKeys};
use fesc_infer::session::cache::Cache;
use fesc_infer::session::download::Upload;
use fesc_infer::session::public::{Hosted, Known};
use fesc_infer::session::source::{self, Clock, Timed};
use fesc_infer::session::{Hex32, Recorder, Seen, phase};
use fesc_infer::{
    Ahead, BlockId, BlockSource, FreshBlocks, KeySets, Schedule, ServerSetup, Stage, run_client_with, run_server_with,
};
use fesc_model::outline::Outline;
use fesc_mpc::provider::{Correlations, Dealer};
use fesc_mpc::{Party, Role};
use fesc_net::{Channel, Stats};
use fesc_ring::Prg;
use fesc_rlwe::linear::Prepared;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encrypted::{tally, works};
use super::errors::Errors;
use super::stages::{StageTime, Stopwatch, declared, entry};
use super::{Task, model};
use crate::parties::child::tell;
use crate::parties::wire::{Event, Seat};
use crate::parties::{barrier, tag};
use crate::random::os_random;
use crate::usage;

/// The phase of the keys in a channel's counts.
const KEYS: &str = "keys";
/// And that of what a session says in its handshake.
const TERMS: &str = "terms";

/// What one party measured. Bytes are those it sent to the peer, and exchanged with a dealer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    pub setup_s: f64,
    pub setup_bytes: u64,
    /// Of making, sending and taking the client's CKKS keys.
    pub keys_s: f64,
    /// Sent or received.
    pub key_bytes: u64,
    pub offline_s: f64,
    pub offline_bytes: u64,
    pub offline_rounds: u64,
    pub online_s: f64,
    /// Processor time of the whole run, correlations and blocks included.
    pub cpu_s: Option<f64>,
    pub online_bytes: u64,
    pub rounds: u64,
    /// Both directions.
    pub declared_online_bytes: u64,
    pub peak_rss_bytes: Option<u64>,
    pub stages: Vec<StageTime>,
    /// Of the server, which has the twin.
    pub errors: Option<Errors>,
}

/// What a party has of the model.
enum Half {
    Client(Box<Known>),
    Server(Box<Hosted>),
}

impl Half {
    /// The model's public part goes from one party to the other.
    fn new(seat: Seat, channel: &mut Channel, task: &Task) -> Result<(Role, Self)> {
        Ok(match seat {
            Seat::P0 => (Role::P0, Self::Client(Box::new(download(channel)?))),
            Seat::P1 => (Role::P1, Self::Server(Box::new(upload(channel, task)?))),
            Seat::Dealer => bail!("the dealer computes nothing"),
        })
    }

    fn outline(&self) -> &Outline {
        match self {
            Self::Client(known) => &known.outline,
            Self::Server(hosted) => &hosted.outline,
        }
    }
}

/// Runs a task.
pub fn run(seat: Seat, mut channel: Channel, dealer: Option<Channel>, task: &Task) -> Result<Value> {
    tell(&Event::Phase("set-up".into()));
    channel.phase(phase::SETUP);
    let start = Instant::now();
    let (role, half) = Half::new(seat, &mut channel, task)?;
    let outline = half.outline();
    let schedule = Schedule::new(outline, task.length, task.reveal)?;
    let mut prg = os_random()?;
    let correlations: Box<dyn Correlations + Send> = match dealer {
        Some(dealer) => Box::new(Dealer::new(role, dealer)),
        None => Box::new(source::two_party(role, &mut channel, &mut prg)?),
    };
    let setup_s = start.elapsed().as_secs_f64();
    tell(&Event::Phase("keys".into()));
    // One waits for the other before the clock starts.
    barrier(&mut channel)?;
    let start = Instant::now();
    let (mut mine, theirs) = exchange_keys(role, &schedule, &mut channel, &mut prg)?;
    let keys_s = start.elapsed().as_secs_f64();
    barrier(&mut channel)?;

    tell(&Event::Phase("inference".into()));
    channel.begin(phase::ONLINE);
    let (timed, clock) = Timed::new(correlations);
    let mut party = Party::new(role, channel, Box::new(timed));
    // One party tells how far it is; the other is as far.
    let stages = (role == Role::P0).then(|| schedule.costs().map(|costs| costs.len() as u64)).transpose()?;
    let counted = || theirs.iter().map(|keys| keys.backend().operations().tally()).fold(Tally::default(), joined);
    let mut watch = Stopwatch::new(clock.clone(), &counted, stages);
    let mut record = Recorder::new(&mut party, &mut watch, task.check);
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    match &half {
        Half::Client(known) => {
            let ids = model::document(task)?;
            let mut pads = Counted { inner: FreshBlocks::new(&known.setup, prg.fork()), clock: clock.clone() };
            let (schedule, setup) = (&schedule, &known.setup);
            let ahead = Ahead { blocks: &mut pads, keys: &mut mine };
            let answer = run_client_with(&mut party, schedule, setup, &ids, &mut prg, ahead, &mut record)?;
            ensure!(answer.class() < outline.classes(), "an answer that is no class");
        }
        Half::Server(hosted) => run_server_with(&mut party, &schedule, &hosted.setup, &theirs, &mut record)?,
    }
    let (run_s, offline_s) = (start.elapsed().as_secs_f64(), clock.seconds());
    let cpu_s = usage::cpu_seconds().zip(cpu).map(|(after, before)| after - before);
    let stats = party.channel().stats().clone();
    // The check has the whole model in memory; it is no part of what is measured.
    let peak_rss_bytes = usage::peak_rss_bytes();
    let seen = match &half {
        Half::Client(_) => record.give_away(&mut party).map(|()| None)?,
        Half::Server(_) => record.join(&mut party)?,
    };
    let (mut stages, tallies) = watch.finish();
    let declared_online_bytes = check_declared(&stats, &schedule, &mut stages)?;
    let key_bytes = check_keys(&stats, &schedule)?;
    if role == Role::P1 {
        check_work(&schedule, &tallies)?;
    }

    let errors = seen.map(|seen| checked(&schedule, task, &seen)).transpose()?;
    let (online, offline) = (stats.phase(phase::ONLINE), stats.phase(phase::OFFLINE));
    let dealt = dealt_bytes(&schedule, role, task)?;
    Ok(serde_json::to_value(Measured {
        setup_s,
        setup_bytes: stats.phase(phase::SETUP).sent_bytes,
        keys_s,
        key_bytes,
        offline_s,
        offline_bytes: offline.sent_bytes + dealt,
        offline_rounds: offline.rounds,
        online_s: run_s - offline_s,
        cpu_s,
        online_bytes: online.sent_bytes,
        rounds: online.rounds,
        declared_online_bytes,
        peak_rss_bytes,
        stages,
        errors,
    })?)
}

/// What was hidden against the twin.
fn checked(schedule: &Schedule, task: &Task, seen: &Seen) -> Result<Errors> {
    tell(&Event::Phase("check".into()));
    Errors::new(schedule, &model::twin(task)?, seen, &model::document(task)?)
}

/// The client's CKKS keys, where the plan has kernels under encryption: what each party has of them. They
/// have a phase of their own in the channel's counts.
fn exchange_keys(
    role: Role,
    schedule: &Schedule,
    channel: &mut Channel,
    prg: &mut Prg,
) -> Result<(KeySets<ClientKeys>, KeySets<ServerKeys>)> {
    let (mut mine, mut theirs) = (KeySets::default(), KeySets::default());
    channel.phase(KEYS);
    match role {
        Role::P0 => mine = schedule.keys().send(channel, prg, &mut |_, _| ())?.0,
        Role::P1 => {
            theirs = schedule.keys().receive(channel, prg, &mut |_, _| ())?;
            schedule.reserve_buffers()?;
        }
    }
    channel.phase(phase::SETUP);
    Ok((mine, theirs))
}

fn joined(mut sum: Tally, more: Tally) -> Tally {
    sum.add(&more);
    sum
}

/// Declared and counted bytes of the keys must be equal, at both parties.
fn check_keys(stats: &Stats, schedule: &Schedule) -> Result<u64> {
    let (keys, declared) = (stats.phase(KEYS), schedule.keys().bytes());
    let counted = keys.sent_bytes + keys.received_bytes;
    ensure!(
        counted == declared,
        "keys: declared {declared} bytes, counted {counted}; this is a fault of their declaration, please report it"
    );
    Ok(counted)
}

/// What the server computed under encryption must be what was declared, operation by operation and level by
/// level.
fn check_work(schedule: &Schedule, done: &[(Stage, Tally)]) -> Result<()> {
    let works = works(schedule)?;
    for (stage, counted) in done {
        let declared = works.iter().find(|(s, _)| s == stage).map_or_else(Tally::default, |(_, w)| tally(w));
        ensure!(
            *counted == declared,
            "{stage} under encryption: declared {declared:?}, done {counted:?}; this is a fault of its count, please report it"
        );
    }
    Ok(())
}

/// Blocks of the linear layers do not depend on the document: their time is no stage's.
struct Counted<'a> {
    inner: FreshBlocks<'a>,
    clock: Clock,
}

impl BlockSource for Counted<'_> {
    fn take(&mut self, pad: &BlockId) -> fesc_infer::Result<Prepared> {
        let start = Instant::now();
        let made = self.inner.take(pad);
        self.clock.add(start.elapsed());
        made
    }

    fn seconds(&self) -> f64 {
        self.inner.seconds()
    }
}

/// Bytes between a party and the dealer for a whole run, if there is one: what this party declares, its own
/// count is in the dealer's frames.
fn dealt_bytes(schedule: &Schedule, role: Role, task: &Task) -> Result<u64> {
    let mut sum = 0;
    if task.provider == crate::cli::Provider::TwoParty {
        return Ok(sum);
    }
    for request in schedule.demand() {
        let (up, down) = fesc_mpc::provider::dealer_cost(&request?, role);
        sum += up + down;
    }
    Ok(sum)
}

/// Notes what each stage declares. Declared and counted bytes must be equal, to the last one, and so must
/// rounds; at both parties.
fn check_declared(stats: &Stats, schedule: &Schedule, stages: &mut Vec<StageTime>) -> Result<u64> {
    let (mut bytes, mut rounds) = (0, 0);
    for part in declared(schedule)? {
        let stage = entry(stages, &part.stage);
        (stage.online_bytes, stage.rounds, stage.encrypted) = (part.online_bytes, part.rounds, part.encrypted);
        (bytes, rounds) = (bytes + part.online_bytes, rounds + part.rounds);
    }
    let online = stats.phase(phase::ONLINE);
    let counted = online.sent_bytes + online.received_bytes;
    ensure!(
        (counted, online.rounds) == (bytes, rounds),
        "online cost: declared {bytes} bytes in {rounds} rounds, counted {counted} in {}; this is a fault of a stage's \
         declaration, please report it",
        online.rounds
    );
    Ok(bytes)
}

/// The server makes the model and sends its public part. The weights do not stay in memory, as with
/// `fesc serve`.
fn upload(channel: &mut Channel, task: &Task) -> Result<Hosted> {
    let mut master = [0; 32];
    os_random()?.fill_bytes(&mut master);
    let hosted = Hosted::new(ServerSetup::new(model::twin(task)?, master)?, None)?;
    channel.phase(TERMS);
    channel.send(tag::BULK, [&hosted.id.0[..], &hosted.bytes.to_le_bytes()].concat())?;
    channel.phase(phase::SETUP);
    let mut upload = Upload::new(channel, hosted.bytes);
    hosted.write(&mut upload)?;
    upload.finish()?;
    Ok(hosted)
}

fn download(channel: &mut Channel) -> Result<Known> {
    channel.phase(TERMS);
    let head = channel.recv(tag::BULK, 40)?;
    channel.phase(phase::SETUP);
    let (id, bytes) = head.split_first_chunk::<32>().context("a short head")?;
    let bytes = bytes.first_chunk().copied().map(u64::from_le_bytes).context("a short head")?;
    // A cache for this run, as `fesc classify` has one. The file stays open and needs its name no more.
    let directory = tempfile::tempdir().context("a directory for the model's public part")?;
    Ok(Cache::open(directory.path())?.fill(Hex32(*id), bytes, channel, &mut os_random()?)?)
}
