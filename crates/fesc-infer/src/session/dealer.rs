//! The third process: hands correlations to pairs of parties.
//!
//! Each party connects, says which session and which side it is, and waits for the other. The name of the
//! session is a hash of the handshake between the two parties, which nobody else knows. The dealer sees the
//! shapes of a run, never an input; if it colludes with one party, the other has no privacy left.
//!
//! Connections and pairs are limited as a server's are, and so is the memory of what is being dealt: of a
//! request, and of all pairs together. A pair's fault ends that pair alone.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fesc_mpc::Role;
use fesc_mpc::provider::{Budget, serve_dealer};
use fesc_net::{Channel, Listener, Pending};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::VERSION;
use super::dial::Dial;
use super::error::{RefusalKind, Result, SessionError};
use super::hex::Hex32;
use super::message::Talk;
use super::randomness::Randomness;
use super::server::admission::{Admission, Place};

/// How long one party waits for the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pairs at once, and how long one may take.
const PAIRS: usize = 64;
const DEALING: Duration = Duration::from_secs(4 * 3600);

/// Bytes in memory of either half of one request. The largest of the base shape has 576 MiB; it does not grow
/// with the document, which is computed in segments.
pub const HALF_BYTES: usize = 1 << 30;
/// Bytes of both halves of what is being dealt, of all pairs together.
const ALL_BYTES: usize = 4 << 30;

/// How often the listener looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Visitor {
    version: u64,
    session: Hex32,
    server: bool,
}

fn hello() -> [u8; 32] {
    Sha256::digest(b"fesc dealer 1").into()
}

/// A party's channel to the dealer, for the session with this handshake.
pub fn reach(dial: &Dial, role: Role, transcript: &[u8; 32]) -> Result<Channel> {
    let mut channel = dial.connect(&hello())?;
    let session = Hex32(Sha256::new_with_prefix(b"fesc dealer session 1\0").chain_update(transcript).finalize().into());
    let visitor = Visitor { version: VERSION, session, server: role == Role::P1 };
    Talk::default().tell(&mut channel, "visitor", &visitor)?;
    Ok(channel)
}

struct Waiting {
    channel: Channel,
    server: bool,
    since: Instant,
    /// Counted as long as it waits.
    _place: Place,
}

/// What all connections share.
struct Room<'a> {
    admission: Admission,
    budget: Budget,
    waiting: Mutex<HashMap<Hex32, Waiting>>,
    told: &'a (dyn Fn(Result<u64>) + Sync),
}

/// Deals until `stop`, to each pair from a generator of its own. `told` hears of each session that ended: the
/// number of correlations, or why it failed.
pub fn serve(
    listener: &Listener,
    fresh: &Randomness,
    stop: &AtomicBool,
    told: &(dyn Fn(Result<u64>) + Sync),
) -> Result<()> {
    let (admission, budget) = (Admission::new(PAIRS, DEALING, PATIENCE), Budget::new(HALF_BYTES, ALL_BYTES));
    let room = Room { admission, budget, waiting: Mutex::default(), told };
    let mut number = 0;
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            room.admission.expire();
            lock(&room.waiting).retain(|_, w| w.since.elapsed() < PATIENCE);
            let pending = match listener.accept_within(LOOK) {
                Ok(Some(pending)) => pending,
                Ok(None) => continue,
                Err(e) => {
                    told(Err(e.into()));
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            number += 1;
            let Some(place) = pending.hangup().ok().and_then(|line| room.admission.enter(number, line)) else {
                // Dropping it closes the connection: there are too many.
                continue;
            };
            let (room, number) = (&room, number);
            let spawned = std::thread::Builder::new().name("pair".into()).spawn_scoped(scope, move || {
                room.one(number, pending, place, fresh);
            });
            if let Err(e) = spawned {
                told(Err(SessionError::Died(format!("no thread for a party: {e}"))));
            }
        }
        // The scope waits for all threads: they end when their channels do.
        room.admission.close();
        room.admission.cut_all();
        lock(&room.waiting).clear();
        Ok(())
    })
}

impl Room<'_> {
    /// One connection's thread. A fault in it, even a panic, ends its pair and nothing else.
    fn one(&self, number: u64, pending: Pending, place: Place, fresh: &Randomness) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.attend(number, pending, place, fresh)));
        self.admission.leave(number);
        match ended.unwrap_or_else(|_| Err(SessionError::Died("a pair's".into()))) {
            Ok(None) => {}
            Ok(Some(dealt)) => (self.told)(Ok(dealt)),
            Err(error) => (self.told)(Err(error)),
        }
    }

    /// Waits for the other party (`None`), or deals to both.
    fn attend(&self, number: u64, pending: Pending, place: Place, fresh: &Randomness) -> Result<Option<u64>> {
        let mut channel = pending.establish(&hello())?;
        let visitor: Visitor = Talk::default().hear(&mut channel, "visitor")?;
        // It has said what it wants: it is no longer among those that are cut for being silent.
        self.admission.leave(number);
        if visitor.version != VERSION {
            return Err(SessionError::Version { ours: VERSION, theirs: visitor.version });
        }
        let mut waiting = lock(&self.waiting);
        let other = waiting.remove(&visitor.session);
        let Some(other) = other.filter(|o| o.server != visitor.server) else {
            let (server, since) = (visitor.server, Instant::now());
            waiting.insert(visitor.session, Waiting { channel, server, since, _place: place });
            return Ok(None);
        };
        drop(waiting);
        if !self.admission.admit(number, channel.hangup()?) {
            let message = format!("this dealer is about to stop, or deals to {PAIRS} pairs already");
            return Err(SessionError::RefusedHere { kind: RefusalKind::Busy, message });
        }
        self.admission.line(number, other.channel.hangup()?);
        let (p0, p1) = if visitor.server { (other.channel, channel) } else { (channel, other.channel) };
        Ok(Some(serve_dealer(p0, p1, &mut fresh.generator()?, &self.budget)?))
    }
}

// Nothing that can panic runs under the lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_net::{ClientSecurity, Config, ServerSecurity};

    #[test]
    fn silent_and_lonely_visitors_do_not_hold_up_the_end() {
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
        let address = listener.address().to_string();
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let dealing = scope.spawn(|| serve(&listener, &Randomness::os(), &stop, &|_| {}));
            // One says nothing, two have been paired and ask for nothing, one waits for its peer.
            let silent = std::net::TcpStream::connect(&address).unwrap();
            let security = ClientSecurity::InsecurePlaintext;
            let dial = Dial { address: address.clone(), security, config: Config::default(), cancel: None };
            let mut pair = [Role::P0, Role::P1].map(|role| reach(&dial, role, &[1; 32]).unwrap());
            let _lonely = reach(&dial, Role::P0, &[2; 32]).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            dealing.join().unwrap().unwrap();
            assert!(pair[0].recv(fesc_net::Tag(0x0403), 1).is_err());
            drop(silent);
        });
        assert!(start.elapsed() < Duration::from_secs(30), "the limits of the channel are 10 s and 300 s");
    }
}
