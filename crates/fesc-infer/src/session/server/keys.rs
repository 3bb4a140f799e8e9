//! The CKKS keys of one session at the server: which ones, where they come from, and what becomes of them.

use fesc_hybrid::HybridError;
use fesc_hybrid::keys::{KeyShape, ServerKeys};
use fesc_net::{Channel, Fingerprint};
use fesc_ring::Prg;

use crate::keys::{KeySets, Progress};
use crate::session::error::{RefusalKind, Result, SessionError};
use crate::session::handshake::Refusal;
use crate::session::hex::Hex32;
use crate::session::keyring::{Claim, Claimed, Draft, Grant, KeyPurpose, Keyring, MOST_KEYS, Over, READY, Room, Wish};
use crate::session::{nonce, phase};

/// What a client is told whose keys are not here: deleted, retired, too old, another client's or never sent.
/// It is the same for all of them, and tells nothing of what others keep.
const UNKNOWN: &str = "this server has no such keys of this client: they were deleted or retired, or are too old. The \
                       client deletes its half; ask again, and fresh keys are made and sent";

/// The keys of one session.
pub(super) enum SessionKeys<'a> {
    /// The plan needs none.
    None,
    /// Fresh ones, for this session alone.
    Once,
    /// Fresh ones that are kept when the session has ended well.
    Fresh { draft: Draft<'a>, name: Option<Hex32>, room: Room },
    /// Kept ones.
    Kept(Claim<'a>),
}

fn refuse<T>(kind: RefusalKind, message: impl Into<String>) -> std::result::Result<T, Refusal> {
    Err(Refusal { kind, message: message.into() })
}

impl<'a> SessionKeys<'a> {
    /// Judges what a client wishes. `listed`: its certificate, if it is on the server's list; others have
    /// nothing kept.
    pub fn judge(
        keyring: &'a Keyring,
        shapes: &KeySets<KeyShape>,
        wish: Option<&Wish>,
        listed: Option<Fingerprint>,
        purpose: (&str, usize),
        prg: &mut Prg,
    ) -> Result<std::result::Result<Self, Refusal>> {
        let wish = match wish {
            None if shapes.is_empty() => return Ok(Ok(Self::None)),
            Some(wish) if !shapes.is_empty() => wish,
            _ => return Ok(refuse(RefusalKind::Mismatch, "the two ends do not agree whether this plan needs keys")),
        };
        let ours = Hex32(shapes.digest());
        if wish.shape != ours {
            let theirs = wish.shape;
            let message = format!(
                "the client has keys of other sets or rotations ({theirs}); a run of {} tokens needs {ours}; update the older \
                 side",
                purpose.1
            );
            return Ok(refuse(RefusalKind::Parameters, message));
        }
        let client = listed.map(|fingerprint| fingerprint.to_string());
        let Some(client) = client.as_deref() else {
            return Ok(if wish.kept.is_some() { refuse(RefusalKind::Keys, UNKNOWN) } else { Ok(Self::Once) });
        };
        if let Some(name) = wish.kept {
            return Ok(match keyring.claim(name, client, ours)? {
                Claimed::Mine(claim) => Ok(Self::Kept(claim)),
                // As when a client comes again before its lost session is seen.
                Claimed::Busy => {
                    refuse(RefusalKind::Busy, "another session has these keys at this moment; try again later")
                }
                Claimed::Absent => refuse(RefusalKind::Keys, UNKNOWN),
            });
        }
        if !wish.keep {
            return Ok(Ok(Self::Once));
        }
        let room = match keyring.reserve(client, shapes.payload())? {
            Ok(room) => room,
            Err(over) => return Ok(refuse(RefusalKind::Full, no_room(keyring, shapes.payload(), over))),
        };
        let (plan, bucket, age) = (purpose.0.into(), purpose.1, keyring.limits().age);
        let purpose = KeyPurpose { server: String::new(), client: Some(client.into()), plan, bucket, age };
        let shelf = keyring.shelf();
        let draft = shelf.draft(nonce(prg), &shelf.note_of(shapes, purpose)?)?;
        Ok(Ok(Self::Fresh { draft, name: None, room }))
    }

    /// What the client is told.
    pub fn grant(&self) -> Option<Grant> {
        match self {
            Self::None => None,
            Self::Once => Some(Grant::Send { keep: false }),
            Self::Fresh { .. } => Some(Grant::Send { keep: true }),
            Self::Kept(_) => Some(Grant::Use),
        }
    }

    /// Takes the keys, from the client or from the disk, and says that they are there: the client would wait
    /// in its first stage otherwise.
    pub fn load(
        self,
        shapes: &KeySets<KeyShape>,
        channel: &mut Channel,
        prg: &mut Prg,
        told: Progress<'_>,
    ) -> Result<(Self, KeySets<ServerKeys>)> {
        let taken = match self {
            Self::None => return Ok((self, KeySets::default())),
            Self::Once => (self, shapes.receive(channel, prg, told)?),
            Self::Fresh { mut draft, room, .. } => {
                let mut next = |tag, size| {
                    let payload = channel.recv(tag, size)?;
                    draft.write_all(&payload).map_err(HybridError::Kept)?;
                    Ok(payload)
                };
                let (keys, name) = shapes.take(&mut next, prg, told)?;
                let name = Hex32(name);
                draft.check(name)?;
                (Self::Fresh { draft, name: Some(name), room }, keys)
            }
            Self::Kept(claim) => match kept(&claim, shapes, prg, told) {
                Ok(keys) => (Self::Kept(claim), keys),
                Err(error) => {
                    // Worth nothing: the client is told so when it names them again.
                    claim.discard()?;
                    return Err(error);
                }
            },
        };
        channel.send(READY, Vec::new())?;
        Ok(taken)
    }

    /// The session computes from now on. Fresh keys are not kept yet, which is as good as a mark.
    pub fn begin(&mut self) -> Result<()> {
        if let Self::Kept(claim) = self { claim.begin() } else { Ok(()) }
    }

    /// The session has ended well for this side: keeps the keys, if the client says the same of its own.
    pub fn end(self, channel: &mut Channel) -> Result<()> {
        if matches!(self, Self::None | Self::Once) {
            return Ok(());
        }
        channel.phase(phase::SETUP);
        channel.recv(READY, 0)?;
        match self {
            Self::Fresh { draft, name: Some(name), room } => {
                draft.commit(name)?;
                drop(room);
            }
            Self::Kept(claim) => claim.end()?,
            Self::Fresh { name: None, .. } | Self::None | Self::Once => {}
        }
        Ok(channel.send(READY, Vec::new())?)
    }
}

/// Keys as they were when they came.
fn kept(
    claim: &Claim<'_>,
    shapes: &KeySets<KeyShape>,
    prg: &mut Prg,
    told: Progress<'_>,
) -> Result<KeySets<ServerKeys>> {
    let damaged = |e: std::io::Error| SessionError::Infer(HybridError::Kept(e).into());
    let mut reader = claim.keys().map_err(damaged)?;
    let mut next = |_, size| {
        let mut payload = vec![0; size];
        reader.read_exact(&mut payload).map_err(HybridError::Kept)?;
        Ok(payload)
    };
    let (keys, _) = shapes.take(&mut next, prg, told)?;
    reader.finish(claim.name()).map_err(damaged)?;
    Ok(keys)
}

fn no_room(keyring: &Keyring, more: u64, over: Over) -> String {
    let limits = keyring.limits();
    let remedy = "or let these serve one session and not be kept (--keys once)";
    match over {
        Over::Own { keys, bytes } => format!(
            "this client keeps {keys} keys of {bytes} bytes here, and {more} bytes more pass its limit of {} bytes and {MOST_KEYS} \
             keys; delete some (`fesc keys delete`), {remedy}",
            limits.client_bytes
        ),
        Over::All => format!(
            "no room for keys of {more} bytes: this server keeps {} bytes of all clients together; ask its operator for more \
             (--keys-quota), delete some of yours (`fesc keys delete`), {remedy}",
            limits.bytes
        ),
    }
}

#[cfg(test)]
mod tests;
