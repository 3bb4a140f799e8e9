//! `fesc serve`: a model for clients that do not show their documents.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use fesc_infer::session::SessionError;
use fesc_infer::session::keyring::KeyLimits;
use fesc_infer::session::server::access::AccessOptions;
use fesc_infer::session::server::{Audience, Event, Limits, Options, descriptors};
use fesc_infer::session::source::stores::Amount;
use fesc_infer::{Reveal, SCHEME, Server};
use fesc_net::{Config, Identity};

use super::queues::{Queues, Wanted};
use super::{connect, trust};
use crate::cli::ServeArgs;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use crate::usage::{available_memory, open_file_limit};
use crate::{classifier, exit, interrupt};

/// Serves until it is told to stop.
pub fn run(args: &ServeArgs, format: Format) -> Result<()> {
    if args.explain_trust {
        return trust::explain();
    }
    enough_files(descriptors(args.max_sessions.into()) as u64)?;
    let wanted = Wanted {
        queues: args.queue_memory.map(|mb| mb << 20),
        encrypted: args.encrypted_memory.map(|mb| mb << 20),
        sessions: args.max_sessions.into(),
        ready: args.ready << 20,
        encrypts: args.plan.encrypts(),
    };
    let queues = Queues::divide(&wanted, available_memory())?;
    let progress = Progress::start("loading the model");
    let directory = (args.model.as_os_str() != "built-in").then_some(args.model.as_path());
    let classifier = classifier::load(directory)?;
    let name = classifier.name().to_string();
    progress.say("making the model's public part");
    let counts = Arc::new(Counts::default());
    let options = options(args, &queues)?;
    let server = Server::builder(classifier)
        .plan(args.plan)
        .embedding(args.embedding.into())
        .state(&args.state)
        .audience(Box::new(Log(Arc::clone(&counts))))
        .options(|o| *o = options)
        .build()?;
    drop(progress);
    let config = Config { queue_bytes: queues.connection as usize, ..connect::config(&args.line) };
    let listening = match (args.insecure_plaintext, &args.key, &args.cert) {
        (true, ..) => server.listen_in_plaintext(&args.listen, config)?,
        (false, Some(key), Some(cert)) => server.listen_as(&args.listen, Identity::load(key, cert)?, config)?,
        (false, ..) => server.listen_as(&args.listen, server.identity()?, config)?,
    };
    warn(args, server.replaced_seeds(), listening.address());
    let stop = told_to_stop(args.stop_with_stdin)?;
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("listening", listening.address().to_string())
            .with("fingerprint", listening.fingerprint().map(|pin| pin.to_string()))
            .with("model_id", server.model())
            .with("queue_bytes", queues.total)
            .detail("model", name)
            .detail("plan", args.plan.name())
            .detail("max_tokens", args.max_tokens)
            .detail("max_sessions", args.max_sessions)
            .detail("listed_clients_only", args.clients.is_some())
            .detail("public_bytes", server.public_bytes())
            .detail("encrypted_bytes", queues.encrypted)
            .detail("pid", std::process::id()),
    )?;
    report.finish()?;
    listening.run(&stop)?;
    let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let mut report = Report::new(format);
    report.add(Row::new().with("served", count(&counts.served)).with("failed", count(&counts.failed)))?;
    report.finish()
}

/// The command line's limits and rights.
fn options(args: &ServeArgs, queues: &Queues) -> Result<Options> {
    Ok(Options {
        limits: Limits {
            sessions: args.max_sessions.into(),
            tokens: args.max_tokens as usize,
            time: args.session_time,
            reply_timeout: args.answer_time,
            prepared: Amount { stores: args.max_prepared as usize, bytes: args.prepared_bytes },
            prepared_days: args.prepared_days,
            keys: KeyLimits {
                bytes: args.keys_quota,
                client_bytes: args.keys_per_client,
                age: Duration::from_secs(86_400 * u64::from(args.keys_age)),
            },
            queue_bytes: queues.ready as usize,
            encrypted_bytes: queues.encrypted,
            grace: args.grace,
        },
        // Logits tell the label too.
        reveals: Reveal::ALL.into_iter().filter(|r| *r <= args.reveal).collect(),
        access: AccessOptions {
            clients: args.clients.clone(),
            state: args.state.clone(),
            log: args.session_log.clone().unwrap_or_else(|| args.state.join("sessions.jsonl")),
            log_bytes: args.session_log_bytes,
        },
        store: args.store.clone(),
        dealer: connect::third(&args.third, &args.line, args.insecure_plaintext, None)?,
        insecure_verify: args.insecure_verify,
        code: |error| exit::session(error).unwrap_or(exit::OTHER),
    })
}

/// What an operator should know before the first client comes.
fn warn(args: &ServeArgs, replaced: &[String], address: SocketAddr) {
    if !replaced.is_empty() {
        eprintln!(
            "fesc: {} was made by another version of what servers publish ({}). What came from it is not continued, since \
             two versions under one seed can give secrets away: this server has a new root (version {SCHEME}), and clients \
             download the model's public part once more. The old file is no longer needed.",
            args.state.display(),
            replaced.join(", ")
        );
    }
    if args.insecure_plaintext {
        tracing::warn!("without TLS: anybody on the way reads and changes everything");
    }
    if args.insecure_verify {
        eprintln!(
            "fesc: INSECURE: this server gives its shares of hidden values to every client that asks. \
             Clients can read the model. For checks of the program only."
        );
    }
    if args.clients.is_none() && !address.ip().is_loopback() {
        eprintln!(
            "fesc: this server listens on {address} and has no list of clients: anybody who reaches it may ask as often as \
             they like, and labels of many documents teach the model. Give --clients FILE (see `fesc keygen --client`)."
        );
    }
}

/// Refuses a server that could run out of open files in the middle of its sessions. Where the system does not
/// say how many there may be, nothing is refused.
fn enough_files(needed: u64) -> Result<(), exit::Refusal> {
    match open_file_limit().filter(|most| needed > *most) {
        None => Ok(()),
        Some(max) => Err(exit::Refusal::Limit {
            what: "open files that --max-sessions may need",
            value: needed,
            max,
            remedy: "raise the limit with `ulimit -n`, or take fewer --max-sessions",
        }),
    }
}

/// A flag that the first signal sets, and the end of standard input where that is asked for.
pub fn told_to_stop(with_stdin: bool) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    interrupt::on_first(move || flag.store(true, Ordering::Relaxed))?;
    if with_stdin {
        stop_at_the_end_of_stdin(&stop);
    }
    Ok(stop)
}

/// Sets the flag when standard input ends: how a parent stops a child, however it ends itself.
fn stop_at_the_end_of_stdin(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut rest = [0; 256];
        while let Ok(1..) = std::io::stdin().lock().read(&mut rest) {}
        stop.store(true, Ordering::Relaxed);
    });
}

/// Sessions that are over.
#[derive(Default)]
struct Counts {
    served: AtomicU64,
    failed: AtomicU64,
}

/// Events go to the log, and are counted.
struct Log(Arc<Counts>);

impl Audience for Log {
    fn event(&self, number: u64, event: Event<'_>) {
        match event {
            Event::Granted(tokens, reveal, provider) => {
                tracing::info!(session = number, tokens, ?reveal, provider = provider.name(), "granted");
            }
            Event::Doing(doing) => tracing::debug!(session = number, "{}", connect::sentence(doing)),
            Event::Done(report) => {
                self.0.served.fetch_add(1, Ordering::Relaxed);
                tracing::info!(session = number, seconds = report.total_s, bytes = report.bytes(), "done");
            }
            Event::Failed(error) => {
                self.0.failed.fetch_add(1, Ordering::Relaxed);
                match error {
                    SessionError::Died(_) => tracing::error!(session = number, "{error}"),
                    _ => tracing::warn!(session = number, code = ?exit::session(error), "{error}"),
                }
            }
        }
    }
}
