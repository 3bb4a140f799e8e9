//! Measurements between real processes: this program starts itself two or three times and gathers what they
//! report.
//!
//! Separate processes make CPU time, memory and the thread pool each party's own, as they are between two
//! machines.

pub mod child;
pub mod tag;
pub mod wire;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::LinkArgs;
use crate::exit::{PEER, Refusal};
use crate::progress::Progress;
use crate::random::os_random;
use wire::{Address, Event, Job, Seat, Work};

/// How long the others may take to say why they failed, after the first one did.
const GRACE: Duration = Duration::from_secs(2);

/// A started process; killed when dropped.
struct Process {
    seat: Seat,
    child: Child,
    /// BlockReader open: its end tells the child that we are gone.
    _stdin: Option<ChildStdin>,
    result: Option<Value>,
    failure: Option<(String, u8)>,
    ended: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has already ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the reader threads hand over: an event, or `None` at the end of a process's output.
type Heard = (usize, Option<Event>);

/// Runs `work` between two processes (three with a dealer) and returns what P0 and P1 measured.
pub fn run<R: DeserializeOwned>(link: &LinkArgs, dealer: bool, work: Work, progress: &Progress) -> Result<[R; 2]> {
    let mut session = [0; 32];
    os_random()?.fill_bytes(&mut session);
    let job = |seat, peer, dealer| Job {
        seat,
        session,
        peer,
        dealer,
        tls: link.tls,
        threads: link.threads,
        net: link.net.to_string(),
        timeout: link.timeout,
        work: work.clone(),
    };
    let (heard, events) = channel();
    let mut crew = Crew { processes: Vec::new(), heard, events, progress };
    let dealers = if dealer {
        let who = crew.start(job(Seat::Dealer, None, None))?;
        crew.addresses(who)?.into_iter().map(Some).collect()
    } else {
        vec![None, None]
    };
    let [for_p0, for_p1] = <[Option<Address>; 2]>::try_from(dealers).map_err(|_| anyhow::anyhow!("two addresses"))?;
    let p1 = crew.start(job(Seat::P1, None, for_p1))?;
    let peer = crew.addresses(p1)?.into_iter().next();
    let p0 = crew.start(job(Seat::P0, peer, for_p0))?;
    crew.finish()?;
    let mut result = |who: usize| -> Result<R> {
        let value = crew.processes[who].result.take().context("a party ended without a result")?;
        Ok(serde_json::from_value(value)?)
    };
    Ok([result(p0)?, result(p1)?])
}

struct Crew<'a> {
    processes: Vec<Process>,
    heard: Sender<Heard>,
    events: Receiver<Heard>,
    progress: &'a Progress,
}

impl Crew<'_> {
    fn start(&mut self, job: Job) -> Result<usize> {
        let me = std::env::current_exe().context("finding this program's own file")?;
        // The loopback needs no TLS, and the warning that says so is for networks; RUST_LOG brings it back.
        let mut child = Command::new(me)
            .args(["--quiet", "party"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a process of the measurement")?;
        tracing::info!(seat = ?job.seat, pid = child.id(), "started");
        let mut stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let index = self.processes.len();
        let seat = job.seat;
        let text = serde_json::to_string(&job)?;
        // If the child has already died, its end is heard below and says more than a broken pipe.
        let _ = stdin.as_mut().map(|s| writeln!(s, "{text}"));
        self.processes.push(Process { seat, child, _stdin: stdin, result: None, failure: None, ended: false });
        let heard = self.heard.clone();
        std::thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|s| BufReader::new(s).lines()) {
                let Ok(line) = line else { break };
                match serde_json::from_str(&line) {
                    Ok(event) => drop(heard.send((index, Some(event)))),
                    Err(error) => tracing::warn!(%error, line, "a line from a party that is no event"),
                }
            }
            drop(heard.send((index, None)));
        });
        Ok(index)
    }

    /// Waits until process `who` says where it listens.
    fn addresses(&mut self, who: usize) -> Result<Vec<Address>> {
        loop {
            match self.events.recv()? {
                (index, Some(Event::Listening(addresses))) if index == who => return Ok(addresses),
                heard => self.take(heard)?,
            }
            if self.failed() {
                return Err(self.explain());
            }
        }
    }

    /// Waits until all have ended.
    fn finish(&mut self) -> Result<()> {
        while self.processes.iter().any(|p| !p.ended) {
            if self.failed() {
                return Err(self.explain());
            }
            let heard = self.events.recv()?;
            self.take(heard)?;
        }
        if self.failed() { Err(self.explain()) } else { Ok(()) }
    }

    fn take(&mut self, (index, event): Heard) -> Result<()> {
        let process = &mut self.processes[index];
        match event {
            Some(Event::Phase(phase)) => self.progress.say(format!("{:?}: {phase}", process.seat)),
            Some(Event::Steps { done, total }) => self.progress.at(done, total),
            Some(Event::Done(value)) => process.result = Some(value),
            Some(Event::Failed { message, code }) => process.failure = Some((message, code)),
            Some(Event::Listening(_)) => bail!("{:?} listens where it should not", process.seat),
            None => {
                process.ended = true;
                let status = process.child.wait()?;
                if !status.success() && process.failure.is_none() {
                    process.failure = Some((format!("the process died ({status})"), PEER));
                }
            }
        }
        Ok(())
    }

    fn failed(&self) -> bool {
        self.processes.iter().any(|p| p.failure.is_some())
    }

    /// Hears the others out for a moment, then names the cause: a party's own error rather than "the peer is
    /// gone".
    fn explain(&mut self) -> anyhow::Error {
        let until = Instant::now() + GRACE;
        while self.processes.iter().any(|p| !p.ended) {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(heard) => {
                    if let Err(error) = self.take(heard) {
                        return error;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let failures = || self.processes.iter().filter_map(|p| p.failure.as_ref().map(|f| (p.seat, f)));
        let cause = failures().find(|(_, f)| f.1 != PEER).or_else(|| failures().next());
        for (seat, (message, _)) in failures() {
            tracing::info!(?seat, message, "failed");
        }
        match cause {
            Some((seat, (message, code))) => {
                Refusal::Party { who: format!("{seat:?}"), message: message.clone(), code: *code }.into()
            }
            None => anyhow::anyhow!("a party failed and did not say why"),
        }
    }
}

/// Waits until both parties are here. Counted in a phase of its own.
pub fn barrier(channel: &mut fesc_net::Channel) -> Result<(), fesc_net::NetError> {
    channel.phase("barrier");
    channel.exchange(tag::BARRIER, Vec::new(), 0).map(drop)
}
