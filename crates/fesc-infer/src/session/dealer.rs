//! The third process: hands correlations to pairs of parties.
//!
//! Each party connects, says which session and which side it is, and waits for the other. The name of the session is a hash of
//! the handshake between the two parties, which nobody else knows. The dealer sees the shapes of a run, never an input; if
//! it colludes with one party, the other has no privacy left.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fesc_mpc::Role;
use fesc_mpc::provider::serve_dealer;
use fesc_net::{Channel, Listener};
use fesc_ring::Prg;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::client::Dial;
use super::error::{Result, SessionError};
use super::handshake::VERSION;
use super::hex::Hex32;
use super::message::Talk;

/// How long one party waits for the other.
const PATIENCE: Duration = Duration::from_secs(60);

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
}

/// Deals until `stop`. `told` hears of each session that ended: the number of correlations, or why it failed.
pub fn serve(listener: &Listener, prg: &mut Prg, stop: &AtomicBool, told: &(dyn Fn(Result<u64>) + Sync)) -> Result<()> {
    let waiting: Mutex<HashMap<Hex32, Waiting>> = Mutex::default();
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            lock(&waiting).retain(|_, w| w.since.elapsed() < PATIENCE);
            let pending = match listener.accept_within(LOOK) {
                Ok(Some(pending)) => pending,
                Ok(None) => continue,
                Err(e) => {
                    told(Err(e.into()));
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            let (waiting, mut prg) = (&waiting, prg.fork());
            scope.spawn(move || {
                let pair = || -> Result<Option<u64>> {
                    let mut channel = pending.establish(&hello())?;
                    let visitor: Visitor = Talk::default().hear(&mut channel, "visitor")?;
                    if visitor.version != VERSION {
                        return Err(SessionError::Version { ours: VERSION, theirs: visitor.version });
                    }
                    let mut room = lock(waiting);
                    let other = room.remove(&visitor.session);
                    let Some(other) = other.filter(|o| o.server != visitor.server) else {
                        let (server, since) = (visitor.server, Instant::now());
                        room.insert(visitor.session, Waiting { channel, server, since });
                        return Ok(None);
                    };
                    drop(room);
                    let (p0, p1) = if visitor.server { (other.channel, channel) } else { (channel, other.channel) };
                    Ok(Some(serve_dealer(p0, p1, &mut prg)?))
                };
                match pair() {
                    Ok(None) => {}
                    Ok(Some(dealt)) => told(Ok(dealt)),
                    Err(error) => told(Err(error)),
                }
            });
        }
        Ok(())
    })
}

// Nothing that can panic runs under the lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
