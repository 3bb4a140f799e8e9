//! Who is here: places for connections, seats for sessions, second connections that are awaited, and the clock.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fesc_net::{Channel, Hangup};

use crate::session::hex::Hex32;

/// Connections for each session (two, and some that are still shaking hands), and for the busy ones that are told so.
const PLACES_PER_SEAT: usize = 4;
const MORE_PLACES: usize = 16;

/// How long a connection may take to say what it wants.
const GREETING: Duration = Duration::from_secs(30);

struct Sitting {
    until: Instant,
    lines: Vec<Hangup>,
    cut: bool,
}

#[derive(Default)]
struct State {
    places: usize,
    /// Connections that have not yet said what they want.
    greeting: HashMap<u64, (Instant, Hangup)>,
    sitting: HashMap<u64, Sitting>,
    /// Second connections that are awaited, by their token.
    awaited: HashMap<Hex32, SyncSender<Channel>>,
    closed: bool,
}

/// Everybody who is here.
pub(super) struct Seats {
    state: Arc<Mutex<State>>,
    limit: usize,
    time: Duration,
}

/// A place for one connection; free again when dropped.
pub(super) struct Place(Arc<Mutex<State>>);

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.0).places -= 1;
    }
}

/// A second connection that is awaited; no longer when dropped.
pub(super) struct Awaited<'a> {
    seats: &'a Seats,
    token: Hex32,
    come: Receiver<Channel>,
}

impl Awaited<'_> {
    /// Waits for it.
    pub(super) fn wait(self, limit: Duration) -> Option<Channel> {
        self.come.recv_timeout(limit).ok()
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        lock(&self.seats.state).awaited.remove(&self.token);
    }
}

// Nothing that can panic runs under the lock, so a poisoned state is a valid one.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    pub(super) fn new(limit: usize, time: Duration) -> Self {
        Self { state: Arc::default(), limit, time }
    }

    /// A place for a connection, if there is one.
    pub(super) fn enter(&self) -> Option<Place> {
        let mut state = lock(&self.state);
        if state.places >= PLACES_PER_SEAT * self.limit + MORE_PLACES {
            return None;
        }
        state.places += 1;
        Some(Place(Arc::clone(&self.state)))
    }

    /// A connection has a short while to say what it wants.
    pub(super) fn greet(&self, number: u64, line: Hangup) {
        lock(&self.state).greeting.insert(number, (Instant::now() + GREETING, line));
    }

    /// A seat for session `number`, if there is one.
    pub(super) fn sit(&self, number: u64, line: Hangup) -> bool {
        let mut state = lock(&self.state);
        state.greeting.remove(&number);
        if state.closed || state.sitting.len() >= self.limit {
            return false;
        }
        let until = Instant::now() + self.time;
        state.sitting.insert(number, Sitting { until, lines: vec![line], cut: false });
        true
    }

    /// One more connection of a session.
    pub(super) fn line(&self, number: u64, line: Hangup) {
        if let Some(sitting) = lock(&self.state).sitting.get_mut(&number) {
            sitting.lines.push(line);
        }
    }

    /// The connection is over, and the session with it.
    pub(super) fn leave(&self, number: u64) {
        let mut state = lock(&self.state);
        state.greeting.remove(&number);
        state.sitting.remove(&number);
    }

    /// Whether the session was cut.
    pub(super) fn was_cut(&self, number: u64) -> bool {
        lock(&self.state).sitting.get(&number).is_some_and(|s| s.cut)
    }

    /// Cuts sessions that are over their time.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.sitting.values_mut().filter(|s| s.until <= now).for_each(Sitting::cut);
        state.greeting.values().filter(|(until, _)| *until <= now).for_each(|(_, line)| line.now());
    }

    /// Cuts all sessions.
    pub(super) fn cut_all(&self) {
        let mut state = lock(&self.state);
        state.sitting.values_mut().for_each(Sitting::cut);
        state.greeting.values().for_each(|(_, line)| line.now());
    }

    /// No seat is given any more.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
    }

    pub(super) fn closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Nobody is here.
    pub(super) fn empty(&self) -> bool {
        lock(&self.state).places == 0
    }

    /// From now on a second connection with this token is awaited.
    pub(super) fn expect(&self, token: Hex32) -> Awaited<'_> {
        let (tell, come) = sync_channel(1);
        lock(&self.state).awaited.insert(token, tell);
        Awaited { seats: self, token, come }
    }

    /// Hands a second connection to its session; gives it back if nobody awaits it.
    pub(super) fn join(&self, token: Hex32, channel: Channel) -> Option<Channel> {
        let awaited = lock(&self.state).awaited.remove(&token);
        match awaited {
            Some(tell) => tell.try_send(channel).err().map(|e| match e {
                std::sync::mpsc::TrySendError::Full(c) | std::sync::mpsc::TrySendError::Disconnected(c) => c,
            }),
            None => Some(channel),
        }
    }
}

impl Sitting {
    fn cut(&mut self) {
        self.cut = true;
        self.lines.iter().for_each(Hangup::now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seats_are_counted_and_come_back() {
        let seats = Seats::new(2, Duration::from_secs(60));
        let line = || Channel::memory_pair().0.hangup().unwrap();
        assert!(seats.sit(1, line()) && seats.sit(2, line()) && !seats.sit(3, line()));
        seats.leave(1);
        assert!(seats.sit(3, line()));
        seats.close();
        seats.leave(2);
        assert!(!seats.sit(4, line()));
        let places: Vec<Place> = (0..100).filter_map(|_| seats.enter()).collect();
        assert_eq!(places.len(), PLACES_PER_SEAT * 2 + MORE_PLACES);
        drop(places);
        assert!(seats.empty());
    }

    #[test]
    fn a_session_over_its_time_is_cut() {
        let seats = Seats::new(1, Duration::ZERO);
        let (mut a, _b) = Channel::memory_pair();
        assert!(seats.sit(1, a.hangup().unwrap()));
        seats.expire();
        assert!(seats.was_cut(1) && a.recv(fesc_net::Tag(0x0680), 1).is_err());
    }

    #[test]
    fn a_second_connection_needs_its_token_and_works_once() {
        let seats = Seats::new(1, Duration::from_secs(60));
        let awaited = seats.expect(Hex32([1; 32]));
        assert!(seats.join(Hex32([2; 32]), Channel::memory_pair().0).is_some());
        assert!(seats.join(Hex32([1; 32]), Channel::memory_pair().0).is_none());
        assert!(seats.join(Hex32([1; 32]), Channel::memory_pair().0).is_some());
        assert!(awaited.wait(Duration::from_secs(1)).is_some());
        drop(seats.expect(Hex32([3; 32])));
        assert!(seats.join(Hex32([3; 32]), Channel::memory_pair().0).is_some());
    }
}
