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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn admission(limit: usize, seconds: u64) -> Admission {
        Admission::new(limit, Duration::from_secs(seconds), Duration::from_secs(60))
    }

    #[test]
    fn seats_are_counted_and_come_back() {
        let admission = admission(2, 60);
        let line = || Channel::memory_pair().0.hangup().unwrap();
        assert!(admission.admit(1, line()) && admission.admit(2, line()) && !admission.admit(3, line()));
        assert!(admission.seated(2) && !admission.seated(3));
        admission.leave(1);
        assert!(admission.admit(3, line()));
        admission.close();
        admission.leave(2);
        assert!(!admission.admit(4, line()));
        let most = PLACES_PER_SEAT * 2 + MORE_PLACES;
        let places: Vec<Place> = (10..200).filter_map(|n| admission.enter(n, line())).collect();
        assert_eq!(places.len(), 2 * most);
        drop(places);
        assert!(admission.empty());
    }

    #[test]
    fn silent_connections_make_room_and_those_that_spoke_do_not() {
        let admission = admission(1, 60);
        let most = (PLACES_PER_SEAT + MORE_PLACES) as u64;
        let mut ends: Vec<_> = (0..=most).map(|_| Channel::memory_pair()).collect();
        let mut places: Vec<Option<Place>> = Vec::new();
        for (number, (end, _)) in (0..most).zip(&ends) {
            places.push(admission.enter(number, end.hangup().unwrap()));
        }
        assert!(places.iter().all(Option::is_some));
        assert!(admission.admit(0, ends[0].0.hangup().unwrap()));
        assert!(admission.enter(most, ends[most as usize].0.hangup().unwrap()).is_some(), "a silent one goes");
        let tag = fesc_net::Tag(0x0680);
        let cut: Vec<usize> = (0..ends.len()).filter(|&i| ends[i].0.send(tag, vec![0]).is_err()).collect();
        assert_eq!(cut, [1], "the oldest of those that have said nothing");
        (1..most).for_each(|number| admission.leave(number));
        assert!(admission.enter(most + 1, ends[1].0.hangup().unwrap()).is_none(), "nobody is silent");
    }

    /// However many strangers come after it, and only the first with its ticket.
    #[test]
    fn strangers_do_not_push_out_a_connection_with_a_ticket() {
        let admission = admission(1, 60);
        let most = (PLACES_PER_SEAT + MORE_PLACES) as u64;
        let mut ends: Vec<_> = (0..3 * most).map(|_| Channel::memory_pair()).collect();
        let _awaited = admission.expect(Hex32([1; 32]), None);
        let mut places = Vec::new();
        for (number, (end, _)) in (0..).zip(&ends) {
            places.push(admission.enter(number, end.hangup().unwrap()));
            if number < 3 {
                // The second connection, one that has overheard its ticket, and one with another.
                admission.show(number, ticket(Hex32([if number < 2 { 1 } else { 2 }; 32])));
            }
        }
        let tag = fesc_net::Tag(0x0680);
        let here: Vec<usize> = (0..3).filter(|&i| ends[i].0.send(tag, vec![0]).is_ok()).collect();
        assert_eq!(here, [0]);
        admission.leave(0);
        let again = *lock(&admission.state).greeting.keys().next().unwrap();
        admission.show(again, ticket(Hex32([1; 32])));
        assert!(lock(&admission.state).joining.contains_key(&again), "a client may try again");
        assert_ne!(ticket(Hex32([1; 32])), [1; 32], "the ticket does not tell the token");
    }

    #[test]
    fn a_session_over_its_time_is_cut() {
        let admission = admission(1, 0);
        let (mut a, _b) = Channel::memory_pair();
        assert!(admission.admit(1, a.hangup().unwrap()));
        admission.expire();
        assert!(admission.was_cut(1) == Some(Cut::Time) && a.recv(fesc_net::Tag(0x0680), 1).is_err());
    }

    #[test]
    fn a_silent_client_is_cut_only_when_it_is_its_turn() {
        let admission = Admission::new(1, Duration::from_secs(60), Duration::ZERO);
        let (mut a, mut b) = Channel::memory_pair();
        let tag = fesc_net::Tag(0x0680);
        assert!(admission.admit(1, a.hangup().unwrap()));
        admission.expire();
        admission.listen(1);
        admission.clear_deadline(1);
        admission.expire();
        b.send(tag, vec![1]).unwrap();
        assert!(admission.was_cut(1).is_none() && a.recv(tag, 1).is_ok(), "it spoke, or was not asked");
        admission.listen(1);
        admission.expire();
        assert!(admission.was_cut(1) == Some(Cut::Silence(Duration::ZERO)) && a.recv(tag, 1).is_err());
    }

    #[test]
    fn a_second_connection_needs_its_token_and_works_once() {
        let admission = admission(1, 60);
        let awaited = admission.expect(Hex32([1; 32]), None);
        assert!(admission.join(Hex32([2; 32]), None, Channel::memory_pair().0).is_some());
        let other = Some(Fingerprint::of(b"another client"));
        assert!(admission.join(Hex32([1; 32]), other, Channel::memory_pair().0).is_some(), "its token, not its own");
        assert!(admission.join(Hex32([1; 32]), None, Channel::memory_pair().0).is_none());
        assert!(admission.join(Hex32([1; 32]), None, Channel::memory_pair().0).is_some());
        assert!(awaited.wait(Duration::from_secs(1)).is_some());
        drop(admission.expect(Hex32([3; 32]), None));
        assert!(admission.join(Hex32([3; 32]), None, Channel::memory_pair().0).is_some());
    }
}
