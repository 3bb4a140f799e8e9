//! Who is here: places for connections, places for sessions, second connections that are awaited, and the
//! clock.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fesc_net::{Channel, Fingerprint, Hangup, Ticket};
use sha2::{Digest, Sha256};

use crate::session::hex::Hex32;

/// Connections for each session (two, and some that are still shaking hands), and for the busy ones that are
/// told so.
const PLACES_PER_SEAT: usize = 4;
const MORE_PLACES: usize = 16;

/// How long a connection may take to say what it wants, TLS included.
const GREETING: Duration = Duration::from_secs(30);

/// A window of the public part is 32 MiB: four minutes for it, as a server's limit is unless told, are 1.1
/// megabits a second.
const GIVING: u32 = 4;

/// Of a connection that speaks: three for its two directions, one to hang it up. A stranger has two until
/// then.
const DESCRIPTORS: usize = 4;
/// Of the process itself: its files, its standard streams, where it listens.
const OWN_DESCRIPTORS: usize = 16;

/// About how many descriptors a server of so many sessions may need at once: for each its two connections,
/// the dealer's and a file of a store, and strangers on all other places.
pub const fn descriptors(sessions: usize) -> usize {
    let strangers = (PLACES_PER_SEAT - 2) * sessions + MORE_PLACES;
    (3 * DESCRIPTORS + 1) * sessions + 2 * strangers + OWN_DESCRIPTORS
}

struct Sitting {
    until: Instant,
    /// While it is the client's turn to speak of terms: until when, and how long it was given.
    speak_by: Option<(Instant, Duration)>,
    lines: Vec<Hangup>,
    cut: Option<Cut>,
}

/// Why a session was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Cut {
    /// It was over its time.
    Time,
    /// The client did not speak within this when it was its turn.
    Silence(Duration),
}

/// A second connection that a session waits for.
struct Second {
    client: Option<Fingerprint>,
    ticket: Ticket,
    /// The connection that has shown the ticket.
    shown: Option<u64>,
    tell: SyncSender<Channel>,
}

/// The ticket of a token: what a second connection shows in its first bytes. It travels in the clear, so it
/// is no token.
pub(in crate::session) fn ticket(token: Hex32) -> Ticket {
    Sha256::new_with_prefix(b"fesc join ticket 1\0").chain_update(token.0).finalize().into()
}

#[derive(Default)]
struct State {
    places: usize,
    /// Connections that have not yet said what they want. The oldest makes room for a new one.
    greeting: HashMap<u64, (Instant, Hangup)>,
    /// The same, with the ticket of a session: they make room for nobody.
    joining: HashMap<u64, (Instant, Hangup)>,
    sitting: HashMap<u64, Sitting>,
    /// Second connections that are awaited, by their token.
    awaited: HashMap<Hex32, Second>,
    closed: bool,
}

/// Everybody who is here.
pub(in crate::session) struct Admission {
    state: Arc<Mutex<State>>,
    limit: usize,
    time: Duration,
    reply_timeout: Duration,
}

/// A place for one connection; free again when dropped.
pub(in crate::session) struct Place {
    state: Arc<Mutex<State>>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.places -= 1;
        state.forget(self.number);
    }
}

/// A second connection that is awaited; no longer when dropped.
pub(in crate::session) struct Awaited<'a> {
    admission: &'a Admission,
    token: Hex32,
    come: Receiver<Channel>,
}

impl Awaited<'_> {
    /// Waits for it.
    pub(in crate::session) fn wait(self, limit: Duration) -> Option<Channel> {
        self.come.recv_timeout(limit).ok()
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        lock(&self.admission.state).awaited.remove(&self.token);
    }
}

// Nothing that can panic runs under the lock, so a poisoned state is a valid one.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admission {
    /// `limit` sessions of `time` each; a client speaks of terms within `reply_timeout`.
    pub(in crate::session) fn new(limit: usize, time: Duration, reply_timeout: Duration) -> Self {
        Self { state: Arc::default(), limit, time, reply_timeout }
    }

    /// A place for a connection, and a short while to say what it wants. When all places are taken, the
    /// connection that has been silent longest is cut for the new one: else a handful of silent connections
    /// would keep everybody out, and the second connections of sessions that run. `None` when there is nobody
    /// to cut.
    pub(in crate::session) fn enter(&self, number: u64, line: Hangup) -> Option<Place> {
        let mut state = lock(&self.state);
        let most = PLACES_PER_SEAT * self.limit + MORE_PLACES;
        if state.places >= most {
            // A cut connection keeps its place until its thread has seen it.
            let oldest = state.greeting.keys().min().copied().filter(|_| state.places < 2 * most)?;
            let (_, silent) = state.greeting.remove(&oldest)?;
            silent.now();
        }
        state.places += 1;
        state.greeting.insert(number, (Instant::now() + self.reply_timeout.min(GREETING), line));
        Some(Place { state: Arc::clone(&self.state), number })
    }

    /// A connection has shown a ticket in its first bytes. The first one with the ticket of an awaited
    /// connection no longer makes room for others.
    pub(in crate::session) fn show(&self, number: u64, ticket: Ticket) {
        let mut state = lock(&self.state);
        let awaited = state.awaited.values_mut().find(|second| second.ticket == ticket && second.shown.is_none());
        let Some(second) = awaited else { return };
        second.shown = Some(number);
        if let Some(line) = state.greeting.remove(&number) {
            state.joining.insert(number, line);
        }
    }

    /// A seat for session `number`, if there is one.
    pub(in crate::session) fn admit(&self, number: u64, line: Hangup) -> bool {
        let mut state = lock(&self.state);
        state.forget(number);
        if state.closed || state.sitting.len() >= self.limit {
            return false;
        }
        let until = Instant::now() + self.time;
        state.sitting.insert(number, Sitting { until, speak_by: None, lines: vec![line], cut: None });
        true
    }

    /// It is the client's turn to speak of terms, from now on.
    pub(in crate::session) fn listen(&self, number: u64) {
        self.speak_by(number, Some(self.reply_timeout));
    }

    /// It is the client's turn to take a window of the public part, for which a slow line needs longer; after
    /// the last one it speaks.
    pub(in crate::session) fn extend_deadline(&self, number: u64) {
        self.speak_by(number, Some(GIVING * self.reply_timeout));
    }

    /// It no longer is: only the time of the session counts, and the limits of its channels.
    pub(in crate::session) fn clear_deadline(&self, number: u64) {
        self.speak_by(number, None);
    }

    fn speak_by(&self, number: u64, within: Option<Duration>) {
        if let Some(sitting) = lock(&self.state).sitting.get_mut(&number) {
            sitting.speak_by = within.map(|within| (Instant::now() + within, within));
        }
    }

    /// One more connection of a session.
    pub(in crate::session) fn line(&self, number: u64, line: Hangup) {
        if let Some(sitting) = lock(&self.state).sitting.get_mut(&number) {
            sitting.lines.push(line);
        }
    }

    /// The connection is over, and the session with it.
    pub(in crate::session) fn leave(&self, number: u64) {
        let mut state = lock(&self.state);
        state.forget(number);
        state.sitting.remove(&number);
    }

    /// Whether it has a seat.
    pub(in crate::session) fn seated(&self, number: u64) -> bool {
        lock(&self.state).sitting.contains_key(&number)
    }

    /// Why the session was cut, if it was.
    pub(in crate::session) fn was_cut(&self, number: u64) -> Option<Cut> {
        lock(&self.state).sitting.get(&number).and_then(|s| s.cut)
    }

    /// Cuts sessions that are over their time, and those whose client is silent.
    pub(in crate::session) fn expire(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.sitting.values_mut().for_each(|s| s.check(now));
        let silent = state.greeting.values().chain(state.joining.values());
        silent.filter(|(until, _)| *until <= now).for_each(|(_, line)| line.now());
    }

    /// Ends all sessions, because the server ends.
    pub(in crate::session) fn cut_all(&self) {
        let state = lock(&self.state);
        state.sitting.values().for_each(Sitting::hang_up);
        state.greeting.values().chain(state.joining.values()).for_each(|(_, line)| line.now());
    }

    /// No seat is given any more.
    pub(in crate::session) fn close(&self) {
        lock(&self.state).closed = true;
    }

    pub(in crate::session) fn closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Nobody is here.
    pub(in crate::session) fn empty(&self) -> bool {
        lock(&self.state).places == 0
    }

    /// From now on a second connection with this token, of the client that showed this certificate, is
    /// awaited.
    pub(in crate::session) fn expect(&self, token: Hex32, client: Option<Fingerprint>) -> Awaited<'_> {
        let (tell, come) = sync_channel(1);
        let second = Second { client, ticket: ticket(token), shown: None, tell };
        lock(&self.state).awaited.insert(token, second);
        Awaited { admission: self, token, come }
    }

    /// Hands a second connection to its session; gives it back if nobody awaits it.
    pub(in crate::session) fn join(
        &self,
        token: Hex32,
        client: Option<Fingerprint>,
        channel: Channel,
    ) -> Option<Channel> {
        let mut state = lock(&self.state);
        // Another client's token is worth nothing, and stays good for its owner.
        let its_own = state.awaited.get(&token).is_some_and(|second| second.client == client);
        let awaited = its_own.then(|| state.awaited.remove(&token)).flatten();
        drop(state);
        match awaited {
            Some(second) => second.tell.try_send(channel).err().map(|e| match e {
                std::sync::mpsc::TrySendError::Full(c) | std::sync::mpsc::TrySendError::Disconnected(c) => c,
            }),
            None => Some(channel),
        }
    }
}

impl State {
    /// It is no longer among those that have said nothing.
    fn forget(&mut self, number: u64) {
        self.greeting.remove(&number);
        // If it had a ticket, the next one may show it: a client tries again.
        if self.joining.remove(&number).is_some() {
            self.awaited.values_mut().filter(|s| s.shown == Some(number)).for_each(|s| s.shown = None);
        }
    }
}

impl Sitting {
    fn check(&mut self, now: Instant) {
        let why = if self.until <= now {
            Cut::Time
        } else if let Some((_, within)) = self.speak_by.filter(|(by, _)| *by <= now) {
            Cut::Silence(within)
        } else {
            return;
        };
        self.cut = self.cut.or(Some(why));
        self.hang_up();
    }

    fn hang_up(&self) {
        self.lines.iter().for_each(Hangup::now);
    }
}

#[cfg(test)]
mod tests;
