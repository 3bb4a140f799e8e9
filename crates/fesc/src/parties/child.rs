//! One process of a measurement: reads its job, connects, works, reports.

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fesc_mpc::provider::{Budget, serve_dealer};
use fesc_net::{Channel, ClientSecurity, Identity, Listener, ServerSecurity, connect};
use serde_json::Value;

use super::wire::{Address, Event, Job, Seat, Work};
use crate::random::os_random;
use crate::{bench, exit, measured};

/// No job is longer.
const MAX_JOB_BYTES: u64 = 1 << 16;

/// Runs the job on standard input. The exit code is that of the error, which is also reported on standard
/// output.
pub fn main() -> ExitCode {
    match read_job().and_then(|job| work(&job)) {
        Ok(value) => {
            tell(&Event::Done(value));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = exit::code(&error);
            tell(&Event::Failed { message: exit::message(&error), code });
            ExitCode::from(code)
        }
    }
}

/// Reports an event. If nobody listens any more, the watcher of standard input ends the process.
pub fn tell(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

fn read_job() -> Result<Job> {
    let mut line = String::new();
    std::io::stdin().lock().take(MAX_JOB_BYTES).read_line(&mut line).context("reading the job")?;
    let job =
        serde_json::from_str(&line).context("this command is for `fesc bench` only: standard input has no job")?;
    // When the parent ends, however it ends, so does this process.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(exit::OTHER.into());
    });
    Ok(job)
}

fn work(job: &Job) -> Result<Value> {
    rayon::ThreadPoolBuilder::new().num_threads(job.threads.into()).build_global().context("starting threads")?;
    if job.seat == Seat::Dealer {
        let doors = listen(job, 2)?;
        let [p0, p1] = [&doors[0], &doors[1]].map(|door| admit(job, door));
        return Ok(serve_dealer(p0?, p1?, &mut os_random()?, &Budget::unlimited())?.into());
    }
    // P1 opens its door before it goes to the dealer, who admits P0 first, who needs P1's address: no circle.
    let door = if job.seat == Seat::P1 { listen(job, 1)?.pop() } else { None };
    let dealer = job.dealer.as_ref().map(|address| reach(job, address)).transpose()?;
    let channel = match (&door, &job.peer) {
        (Some(door), None) => admit(job, door)?,
        (None, Some(address)) => reach(job, address)?,
        _ => bail!("P0 needs an address and P1 must have none"),
    };
    match &job.work {
        Work::Ot(task) => bench::ot::party(job.seat, channel, task),
        Work::Mpc(task) => bench::mpc::party::run(job.seat, channel, dealer, task),
        Work::Infer(task) => measured::party::run(job.seat, channel, dealer, task),
    }
}

fn reach(job: &Job, address: &Address) -> Result<Channel> {
    let security = match (&address.pin, job.tls) {
        (Some(pin), true) => ClientSecurity::Tls(pin.parse()?),
        (None, false) => ClientSecurity::InsecurePlaintext,
        _ => bail!("one side has TLS and the other has not"),
    };
    Ok(connect(&address.at, &security, &job.session, &job.config()?)?)
}

/// Listens on `count` ports of the loopback, and reports them.
fn listen(job: &Job, count: usize) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..count {
        let (security, pin) = if job.tls {
            let identity = Identity::generate()?;
            let pin = identity.fingerprint().to_string();
            (ServerSecurity::Tls(identity), Some(pin))
        } else {
            (ServerSecurity::InsecurePlaintext, None)
        };
        let listener = Listener::bind("127.0.0.1:0", security, job.config()?)?;
        addresses.push(Address { at: listener.address().to_string(), pin });
        listeners.push(listener);
    }
    tell(&Event::Listening(addresses));
    Ok(listeners)
}

/// Takes one connection.
fn admit(job: &Job, door: &Listener) -> Result<Channel> {
    Ok(door.accept()?.establish(&job.session)?)
}
