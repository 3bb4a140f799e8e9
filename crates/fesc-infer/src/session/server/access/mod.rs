//! Who may ask, how often, and what is written about it.
//!
//! `list` is the operator's file of clients, `log` the log of sessions. The counts of a day lie in the state
//! directory (`usage.jsonl`): a session is counted, on the disk, before the client hears that it is granted,
//! so that neither a crash nor a restart gives a client more than its budget. A session that the server's
//! process did not survive is written into the log when the next process starts: each granted session has one
//! line, whatever happened.
//!
//! A client over its budget is written into the log at its first, second, fourth, eighth refusal of a day, so
//! that it cannot fill it. Preparing is logged and not counted: it reveals nothing.
//!
//! One process at a time uses a state directory.

mod list;
mod log;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fesc_net::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::schedule::Reveal;
use crate::session::error::{RefusalKind, Result, SessionError, at};
use crate::session::handshake::Refusal;
use crate::session::journal::{Journal, private_directory, private_file};
pub use list::Client;
pub use log::{Ending, Line};
use log::{SessionLog, utc};

const DAY: u64 = 86_400;

/// Entries after which the list of grants is made short again, and at least twice what was left the last
/// time.
const MANY: usize = 4096;

/// What a client is told that is not on the list. It is the same for all of them, and tells nothing of the
/// model.
const NOT_LISTED: &str = "this server serves listed clients only, and this one is not on its list: show a certificate \
                          (--key and --cert, made by `fesc keygen --client`), and ask the operator to list its fingerprint";

/// Where the list is, and where things are kept.
#[derive(Debug, Clone)]
pub struct AccessOptions {
    /// The file of clients; `None` serves everybody.
    pub clients: Option<PathBuf>,
    /// The server's state directory.
    pub state: PathBuf,
    /// The log of sessions.
    pub log: PathBuf,
    /// Bytes of the log before it is rotated.
    pub log_bytes: u64,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// `run` or `prepare`.
    pub kind: String,
    pub bucket: usize,
    pub plan: String,
    pub reveal: Reveal,
}

impl Asked {
    fn is_run(&self) -> bool {
        self.kind == "run"
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// A session was granted.
    Granted { session: String, time: u64, client: Option<String>, asked: Asked },
    /// It is over and in the log.
    Ended(String),
    /// Sessions that are over, of one client and day.
    Counted { day: u64, client: Option<String>, sessions: u64, logits: u64 },
}

/// Runs of a day, and those of them that reveal logits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    sessions: u64,
    logits: u64,
}

struct Open {
    session: String,
    time: u64,
    since: Instant,
    client: Option<String>,
    asked: Asked,
}

/// Who may ask, and how often.
pub(super) struct Access {
    clients: Option<PathBuf>,
    usage: Journal<Entry>,
    log: SessionLog,
    /// By the number of their connection.
    open: Mutex<HashMap<u64, Open>>,
    /// Refusals of the present day by client, of this process: a client over its budget must not fill the
    /// log.
    refusals: Mutex<HashMap<(u64, String), u64>>,
    many: AtomicUsize,
    _owner: File,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn refuse<T>(kind: RefusalKind, message: String) -> std::result::Result<T, Refusal> {
    Err(Refusal { kind, message })
}

impl Access {
    /// Opens the counts and the log. Sessions that an earlier process did not survive get their line.
    pub fn open(options: &AccessOptions) -> Result<Self> {
        private_directory(&options.state)?;
        let owner = owner(&options.state)?;
        if let Some(path) = &options.clients {
            // A list that cannot be read is better known now than when the first client comes.
            list::read(path)?;
        }
        let log = SessionLog::open(&options.log, options.log_bytes)?;
        let usage = Journal::open(&options.state, "usage.jsonl")?;
        let access = Self {
            clients: options.clients.clone(),
            usage,
            log,
            open: Mutex::default(),
            refusals: Mutex::default(),
            many: AtomicUsize::new(MANY),
            _owner: owner,
        };
        access.recover()?;
        Ok(access)
    }

    /// Writes the lines of lost sessions.
    fn recover(&self) -> Result<()> {
        let mut held = self.usage.hold()?;
        let ended = ended(held.entries());
        let left: Vec<Open> = held
            .entries()
            .iter()
            .filter_map(|entry| match entry {
                Entry::Granted { session, time, client, asked } if !ended.contains(session) => Some(Open {
                    session: session.clone(),
                    time: *time,
                    since: Instant::now(),
                    client: client.clone(),
                    asked: asked.clone(),
                }),
                _ => None,
            })
            .collect();
        let names: Vec<String> = left.iter().map(|o| o.session.clone()).collect();
        let written = self.log.has(&names);
        for lost in left {
            if !written.contains(&lost.session) {
                self.log.add(&lost.line(1, Ending::Lost, None, None))?;
            }
            held.add(Entry::Ended(lost.session))?;
        }
        let short = short(held.entries(), now());
        held.replace(short)
    }

    /// Who it is. Everybody, without a list.
    pub fn admit(&self, shown: Option<Fingerprint>) -> Result<std::result::Result<Option<Client>, Refusal>> {
        let Some(path) = &self.clients else { return Ok(Ok(None)) };
        // Who shows nothing costs no reading.
        let Some(shown) = shown else { return Ok(refuse(RefusalKind::NotListed, NOT_LISTED.into())) };
        let listed = list::read(path)?.into_iter().find(|c| c.fingerprint == shown);
        Ok(match listed {
            Some(client) => Ok(Some(client)),
            None => refuse(RefusalKind::NotListed, NOT_LISTED.into()),
        })
    }

    /// Whether the client's budget allows a session, before anything is computed for it. Nothing is counted.
    /// `session` is a name of its own.
    pub fn allows(
        &self,
        session: [u8; 8],
        client: Option<&Client>,
        asked: &Asked,
    ) -> Result<std::result::Result<(), Refusal>> {
        let open = Open::new(now(), session, client, asked.clone());
        self.within_budget(self.usage.hold()?.entries(), client, &open)
    }

    /// Counts a session, durably, if the client's budget allows it: others of it may have come meanwhile.
    pub fn charge(
        &self,
        number: u64,
        session: [u8; 8],
        client: Option<&Client>,
        asked: Asked,
    ) -> Result<std::result::Result<(), Refusal>> {
        self.charge_at(now(), number, session, client, asked)
    }

    fn within_budget(
        &self,
        entries: &[Entry],
        client: Option<&Client>,
        open: &Open,
    ) -> Result<std::result::Result<(), Refusal>> {
        let Some(client) = client.filter(|_| open.asked.is_run()) else { return Ok(Ok(())) };
        let (time, logits) = (open.time, open.asked.reveal == Reveal::Logits);
        let counts = counts(entries, &client.name, time / DAY);
        let (what, most) = match client.sessions {
            Some(most) if counts.sessions >= most => ("sessions", most),
            _ if logits && counts.logits >= client.logits => ("sessions that reveal logits", client.logits),
            _ => return Ok(Ok(())),
        };
        if self.to_be_logged(time / DAY, &client.name) {
            self.log.add(&open.line(5, Ending::Refused, None, None))?;
        }
        let hours = (DAY - time % DAY).div_ceil(3600);
        let message = format!(
            "this client's budget is {most} {what} a day, and they are used; the next day (UTC) begins in at most {hours} \
             hours"
        );
        Ok(refuse(RefusalKind::Budget, message))
    }

    fn charge_at(
        &self,
        time: u64,
        number: u64,
        session: [u8; 8],
        client: Option<&Client>,
        asked: Asked,
    ) -> Result<std::result::Result<(), Refusal>> {
        let open = Open::new(time, session, client, asked);
        let mut held = self.usage.hold()?;
        if let Err(refusal) = self.within_budget(held.entries(), client, &open)? {
            return Ok(Err(refusal));
        }
        if held.entries().len() >= self.many.load(Ordering::Relaxed) {
            let short = short(held.entries(), time);
            self.many.store(MANY.max(2 * short.len()), Ordering::Relaxed);
            held.replace(short)?;
        }
        let Open { session, client, asked, .. } = &open;
        held.add(Entry::Granted { session: session.clone(), time, client: client.clone(), asked: asked.clone() })?;
        drop(held);
        self.opened().insert(number, open);
        Ok(Ok(()))
    }

    /// A session is over: its line. Nothing for a connection that was granted none.
    pub fn finish(&self, number: u64, code: u8, bytes: Option<u64>) -> Result<()> {
        let Some(open) = self.opened().remove(&number) else { return Ok(()) };
        let ending = if code == 0 { Ending::Done } else { Ending::Failed };
        self.log.add(&open.line(code, ending, Some(open.since.elapsed().as_secs_f64()), bytes))?;
        self.usage.hold()?.add(Entry::Ended(open.session))
    }

    /// The first refusal of a client's day, the second, the fourth, and so on.
    fn to_be_logged(&self, day: u64, name: &str) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.retain(|(of, _), _| *of == day);
        let count = refusals.entry((day, name.into())).or_default();
        *count += 1;
        count.is_power_of_two()
    }

    // Nothing that can panic runs under the lock.
    fn opened(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn new(time: u64, session: [u8; 8], client: Option<&Client>, asked: Asked) -> Self {
        let session = session.iter().map(|b| format!("{b:02x}")).collect();
        Self { session, time, since: Instant::now(), client: client.map(|c| c.name.clone()), asked }
    }

    fn line(&self, code: u8, result: Ending, seconds: Option<f64>, bytes: Option<u64>) -> Line {
        Line {
            time: utc(self.time),
            session: self.session.clone(),
            client: self.client.clone(),
            kind: self.asked.kind.clone(),
            bucket: self.asked.bucket,
            plan: self.asked.plan.clone(),
            reveal: self.asked.reveal.name().into(),
            code,
            result,
            seconds,
            bytes,
        }
    }
}

/// The right to be the one server of a state directory.
fn owner(state: &Path) -> Result<File> {
    let path = state.join("server.lock");
    let file = private_file(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SessionError::File {
            path: state.display().to_string(),
            problem: "another server uses this state directory; stop it, or give this one a --state of its own".into(),
        }),
        Err(TryLockError::Error(e)) => Err(at(&path)(e)),
    }
}

fn ended(entries: &[Entry]) -> std::collections::HashSet<String> {
    let ended = entries.iter().filter_map(|e| match e {
        Entry::Ended(session) => Some(session.clone()),
        _ => None,
    });
    ended.collect()
}

/// What a client has used of a day.
fn counts(entries: &[Entry], name: &str, day: u64) -> Counts {
    let mut counts = Counts::default();
    for entry in entries {
        match entry {
            Entry::Granted { time, client, asked, .. }
                if time / DAY == day && asked.is_run() && client.as_deref() == Some(name) =>
            {
                counts.sessions += 1;
                counts.logits += u64::from(asked.reveal == Reveal::Logits);
            }
            Entry::Counted { day: of, client, sessions, logits } if *of == day && client.as_deref() == Some(name) => {
                counts.sessions += sessions;
                counts.logits += logits;
            }
            _ => {}
        }
    }
    counts
}

/// The same counts in fewer entries, of the present day and of those beside it, since clocks are set.
/// Sessions that are not over stay as they are.
fn short(entries: &[Entry], time: u64) -> Vec<Entry> {
    let (day, ended) = (time / DAY, ended(entries));
    let mut over: Vec<Entry> = Vec::new();
    let mut running = Vec::new();
    for entry in entries {
        match entry {
            Entry::Granted { session, .. } if !ended.contains(session) => running.push(entry.clone()),
            Entry::Granted { .. } | Entry::Counted { .. } => over.push(entry.clone()),
            Entry::Ended(_) => {}
        }
    }
    let mut names: Vec<String> = over
        .iter()
        .filter_map(|e| match e {
            Entry::Granted { client, .. } | Entry::Counted { client, .. } => client.clone(),
            Entry::Ended(_) => None,
        })
        .collect();
    names.sort();
    names.dedup();
    let days = day.saturating_sub(1)..=day + 1;
    let places = names.into_iter().flat_map(|name| days.clone().map(move |day| (day, name.clone())));
    let counted = places.filter_map(|(day, name)| {
        let Counts { sessions, logits } = counts(&over, &name, day);
        (sessions > 0).then_some(Entry::Counted { day, client: Some(name), sessions, logits })
    });
    counted.chain(running).collect()
}

#[cfg(test)]
mod tests;
