//! Correlations made ahead of the online party, by a thread with a channel of its own.
//!
//! The thread makes the demand of a run in order and puts it into a queue that is bounded in bytes; the
//! online party takes from the other end. Both parties make the same correlations in the same order and use
//! them in the same order, so a full queue only ever waits for its own party's use, which needs nothing that
//! is not yet in the queue: no circle.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use fesc_mpc::correlation::Material;
use fesc_mpc::provider::Correlations;
use fesc_mpc::{MpcError, Request, Role};
use fesc_net::{Channel, Hangup, Stats};

use crate::schedule::Schedule;
use crate::session::error::{Result, SessionError};

struct Made<T> {
    request: Request,
    half: T,
    bytes: usize,
}

struct State<T> {
    ready: VecDeque<Made<T>>,
    bytes: usize,
    /// The maker is done, or has failed.
    ended: bool,
    failed: bool,
    /// The taker is gone.
    closed: bool,
    taken: u64,
}

/// The queue between maker and taker.
struct Between<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    limit: usize,
}

impl<T> Between<T> {
    fn new(limit: usize) -> Self {
        let state = State { ready: VecDeque::new(), bytes: 0, ended: false, failed: false, closed: false, taken: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), limit }
    }

    // Nothing that can panic runs under the lock, so a poisoned state is a valid one.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// False when the taker is gone. One correlation always fits into an empty queue.
    fn put(&self, made: Made<T>) -> bool {
        let mut state = self.lock();
        while !state.closed && !state.ready.is_empty() && state.bytes.saturating_add(made.bytes) > self.limit {
            state = self.wait(state);
        }
        if state.closed {
            return false;
        }
        state.bytes = state.bytes.saturating_add(made.bytes);
        state.ready.push_back(made);
        drop(state);
        self.changed.notify_all();
        true
    }

    fn end(&self, failed: bool) {
        let mut state = self.lock();
        (state.ended, state.failed) = (true, failed);
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        let unused = {
            let mut state = self.lock();
            state.closed = true;
            state.bytes = 0;
            std::mem::take(&mut state.ready)
        };
        // Wiped outside the lock: it may be a gigabyte.
        drop(unused);
        self.changed.notify_all();
    }
}

/// The taking end, for a party.
pub struct Ahead<T = Material> {
    between: Arc<Between<T>>,
}

impl<T> Ahead<T> {
    /// The next half, which must be that of `request`; waits for it.
    fn next(&self, request: &Request) -> std::result::Result<T, MpcError> {
        let mut state = self.between.lock();
        loop {
            if let Some(made) = state.ready.pop_front() {
                state.bytes -= made.bytes;
                let index = state.taken;
                state.taken += 1;
                drop(state);
                self.between.changed.notify_all();
                if made.request != *request {
                    let (found, wanted) = (made.request.to_string(), request.to_string());
                    return Err(MpcError::WrongCorrelation { index, found, wanted });
                }
                return Ok(made.half);
            }
            if state.ended {
                return Err(MpcError::Exhausted { prepared: state.taken });
            }
            state = self.between.wait(state);
        }
    }
}

impl Correlations for Ahead {
    fn take(&mut self, _channel: &mut Channel, request: &Request) -> std::result::Result<Material, MpcError> {
        self.next(request)
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.between.close();
    }
}

/// What the maker did.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    /// Time spent making, without waiting for room.
    pub seconds: f64,
    /// Time until it could begin: base transfers, keys.
    pub setup_seconds: f64,
    /// Counts of its channel.
    pub stats: Stats,
}

/// The maker's thread. Dropping it ends it.
pub struct Maker<T = Material> {
    between: Arc<Between<T>>,
    hangup: Hangup,
    thread: Option<JoinHandle<Result<Generated>>>,
}

/// A source over a channel of its own.
pub trait Generator: Send {
    /// What it makes.
    type Half: Send;
    /// What it sends from now on is generation, no longer set-up.
    fn begin(&mut self);
    /// Counts of its channel.
    fn stats(&self) -> Stats;
    /// Makes one correlation.
    fn make(&mut self, request: &Request) -> std::result::Result<Self::Half, MpcError>;
}

/// The end that takes correlations, and the thread that makes them.
pub type Started<T> = (Ahead<T>, Maker<T>);

/// Starts a thread that first sets a generator up with `set_up` and then makes the demand of `schedule`,
/// holding at most `limit` bytes.
pub fn start<G: Generator + 'static>(
    role: Role,
    schedule: Arc<Schedule>,
    limit: usize,
    hangup: Hangup,
    set_up: impl FnOnce() -> Result<G> + Send + 'static,
) -> Result<Started<G::Half>>
where
    G::Half: 'static,
{
    spawn(limit, hangup, move |queue| make(role, schedule.demand(), queue, set_up))
}

fn spawn<T: Send + 'static>(
    limit: usize,
    hangup: Hangup,
    work: impl FnOnce(&Between<T>) -> Result<Generated> + Send + 'static,
) -> Result<Started<T>> {
    let between = Arc::new(Between::new(limit));
    let queue = Arc::clone(&between);
    let work = move || {
        // However the thread ends, the taker must hear of it.
        let mut queue = EndOnDrop { queue, failed: true };
        let made = work(&queue.queue);
        queue.failed = made.is_err();
        made
    };
    let spawned = std::thread::Builder::new().name("correlations".into()).spawn(work);
    let thread = spawned.map_err(|e| SessionError::Died(e.to_string()))?;
    Ok((Ahead { between: Arc::clone(&between) }, Maker { between, hangup, thread: Some(thread) }))
}

struct EndOnDrop<T> {
    queue: Arc<Between<T>>,
    /// True until it is known better: a panic is a failure too.
    failed: bool,
}

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.queue.end(self.failed);
    }
}

fn make<G: Generator>(
    role: Role,
    demand: impl Iterator<Item = crate::Result<Request>>,
    queue: &Between<G::Half>,
    set_up: impl FnOnce() -> Result<G>,
) -> Result<Generated> {
    let start = Instant::now();
    let mut generator = set_up()?;
    let setup_seconds = start.elapsed().as_secs_f64();
    generator.begin();
    let mut seconds = 0.0;
    for request in demand {
        let request = request?;
        let start = Instant::now();
        let half = generator.make(&request)?;
        seconds += start.elapsed().as_secs_f64();
        let bytes = request.half_bytes(role);
        if !queue.put(Made { request, half, bytes }) {
            break;
        }
    }
    Ok(Generated { seconds, setup_seconds, stats: generator.stats() })
}

impl<T> Maker<T> {
    /// It stopped early, with an error.
    pub fn failed(&self) -> bool {
        self.between.lock().failed
    }

    /// Waits for the end of the thread, after the online party has used everything.
    pub fn finish(mut self) -> Result<Generated> {
        // Nobody takes any more: a maker that had more to put would wait for ever.
        self.between.close();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(made)) => made,
            _ => Err(SessionError::Died("the generator of correlations".into())),
        }
    }
}

impl<T> Drop for Maker<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.between.close();
            self.hangup.now();
            // Its error is not wanted any more: the session has one of its own.
            let _ = thread.join();
        }
    }
}
