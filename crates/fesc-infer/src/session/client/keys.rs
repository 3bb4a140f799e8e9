//! The CKKS keys of one session at the client: kept ones taken up, or fresh ones made and, after a session
//! that ended well, kept.

use std::time::Duration;

use fesc_hybrid::HybridError;
use fesc_hybrid::keys::{ClientKeys, KeyShape};
use fesc_net::Channel;
use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::keys::KeySets;
use crate::session::error::{Result, SessionError};
use crate::session::hex::Hex32;
use crate::session::keyring::{Claim, Claimed, Grant, KeyPurpose, MOST_DAYS, Note, READY, Shelf, Wish};
use crate::session::{nonce, phase};
use crate::watch::{Doing, Watch};

/// What became of the keys of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// Bytes of keys that were sent, with frames.
    pub sent_bytes: u64,
    /// Keys of an earlier session served.
    pub reused: bool,
    /// The keys serve again.
    pub kept: bool,
}

/// The keys of one session.
pub(super) struct SessionKeys<'a> {
    shapes: &'a KeySets<KeyShape>,
    source: Keys<'a>,
}

enum Keys<'a> {
    /// The plan needs none.
    None,
    /// Fresh ones, to be kept there under this note.
    Fresh { keep: Option<(&'a Shelf, Note)> },
    /// Kept ones.
    Kept { shelf: &'a Shelf, claim: Claim<'a>, keys: Box<KeySets<ClientKeys>> },
}

impl<'a> SessionKeys<'a> {
    /// Keys that were kept for this purpose and are free, else none yet.
    pub fn find(
        shelf: Option<&'a Shelf>,
        shapes: &'a KeySets<KeyShape>,
        purpose: KeyPurpose,
        prg: &mut Prg,
    ) -> Result<Self> {
        let fresh = |keep| Ok(Self { shapes, source: Keys::Fresh { keep } });
        if shapes.is_empty() {
            return Ok(Self { shapes, source: Keys::None });
        }
        let Some(shelf) = shelf else { return fresh(None) };
        let most = Duration::from_secs(86_400 * u64::from(MOST_DAYS));
        // Whatever a server may say.
        let purpose = KeyPurpose { age: purpose.age.min(most), ..purpose };
        shelf.expire(most)?;
        let age = purpose.age;
        let wanted = shelf.note_of(shapes, purpose)?;
        for entry in shelf.list()? {
            let Note { server, client, shape, .. } = &entry.note;
            if entry.taken || (server, client, *shape) != (&wanted.server, &wanted.client, wanted.shape) {
                continue;
            }
            let Claimed::Mine(claim) = shelf.claim(entry.name)? else { continue };
            if entry.age() >= age {
                claim.discard()?;
                continue;
            }
            match restored(&claim, shapes, prg) {
                Ok(keys) => return Ok(Self { shapes, source: Keys::Kept { shelf, claim, keys: Box::new(keys) } }),
                // Damaged: worth nothing.
                Err(_) => claim.discard()?,
            }
        }
        fresh(Some((shelf, wanted)))
    }

    /// What the server is asked for.
    pub fn wish(&self) -> Option<Wish> {
        let (kept, keep) = match &self.source {
            Keys::None => return None,
            Keys::Fresh { keep } => (None, keep.is_some()),
            Keys::Kept { claim, .. } => (Some(claim.name()), true),
        };
        Some(Wish { shape: Hex32(self.shapes.digest()), kept, keep })
    }

    /// The server has agreed to this.
    pub fn granted(mut self, grant: Option<Grant>) -> Result<Self> {
        match (&mut self.source, grant) {
            (Keys::None, None) | (Keys::Kept { .. }, Some(Grant::Use)) => Ok(self),
            (Keys::Fresh { keep }, Some(Grant::Send { keep: kept })) if keep.is_some() || !kept => {
                keep.take_if(|_| !kept);
                Ok(self)
            }
            _ => {
                let problem = "it grants other keys than those that were asked for".into();
                Err(SessionError::Malformed { what: "answer", problem })
            }
        }
    }

    /// The server does not have the other half.
    pub fn discard(self) -> Result<()> {
        if let Keys::Kept { claim, .. } = self.source { claim.discard() } else { Ok(()) }
    }

    /// The keys, which the server has too from now on. Who watches knows the size before they are made.
    pub fn ready(
        self,
        channel: &mut Channel,
        prg: &mut Prg,
        watch: &mut dyn Watch,
    ) -> Result<(Held<'a>, KeySets<ClientKeys>)> {
        let sent_bytes = self.shapes.bytes();
        let ready = match self.source {
            Keys::None => return Ok((Held::Nothing(KeyUse::default()), KeySets::default())),
            Keys::Kept { shelf, claim, keys } => {
                watch.doing(Doing::KeptKeys);
                (Held::Kept { shelf, claim }, *keys)
            }
            Keys::Fresh { keep } => {
                watch.doing(Doing::NewKeys(sent_bytes));
                let told = &mut |done, all| watch.doing(Doing::Keys(done, all));
                let (keys, name) = self.shapes.send(channel, prg, told)?;
                let used = KeyUse { sent_bytes, ..KeyUse::default() };
                let fresh = |(shelf, note)| Held::Fresh { shelf, note, name: Hex32(name), used };
                (keep.map_or(Held::Nothing(used), fresh), keys)
            }
        };
        // Sent is not received, and kept keys are read from a disk there: the run begins when they are ready.
        channel.recv(READY, 0)?;
        Ok(ready)
    }
}

/// Secret keys as they were written: they serve when the digest of the file is right.
fn restored(claim: &Claim<'_>, shapes: &KeySets<KeyShape>, prg: &mut Prg) -> Result<KeySets<ClientKeys>> {
    let damaged = |e: std::io::Error| SessionError::Infer(HybridError::Kept(e).into());
    let mut reader = claim.keys().map_err(damaged)?;
    let keys = shapes.map(|shape| {
        let mut secret = Zeroizing::new(vec![0; ClientKeys::kept_bytes(shape)]);
        reader.read_exact(&mut secret).map_err(HybridError::Kept)?;
        Ok(ClientKeys::restore(shape.clone(), &secret, prg)?)
    })?;
    reader.finish(claim.name()).map_err(damaged)?;
    Ok(keys)
}

/// The keys of a session whose other half the server has.
pub(super) enum Held<'a> {
    /// They serve this session, or there are none.
    Nothing(KeyUse),
    /// Fresh ones, to be kept.
    Fresh { shelf: &'a Shelf, note: Note, name: Hex32, used: KeyUse },
    /// Kept ones.
    Kept { shelf: &'a Shelf, claim: Claim<'a> },
}

impl Held<'_> {
    /// The session computes from now on. Fresh keys are not kept yet, which is as good as a mark.
    pub fn begin(&mut self) -> Result<()> {
        if let Self::Kept { claim, .. } = self { claim.begin() } else { Ok(()) }
    }

    /// The session has ended well: keeps the keys, and hears that the server does. The answer is there
    /// already, so what fails here costs the keys and nothing else.
    pub fn end(self, keys: &KeySets<ClientKeys>, channel: &mut Channel, prg: &mut Prg) -> KeyUse {
        let (shelf, name, used, kept) = match self {
            Self::Nothing(used) => return used,
            Self::Fresh { shelf, note, name, used } => (shelf, name, used, keep(shelf, &note, name, keys, prg)),
            Self::Kept { shelf, claim } => {
                let used = KeyUse { reused: true, ..KeyUse::default() };
                (shelf, claim.name(), used, claim.end())
            }
        };
        let agreed = kept.and_then(|()| {
            channel.phase(phase::SETUP);
            channel.send(READY, Vec::new())?;
            channel.recv(READY, 0)?;
            Ok(())
        });
        if agreed.is_err() {
            // What cannot be deleted is deleted when the server refuses it.
            let _ = shelf.delete(name);
        }
        KeyUse { kept: agreed.is_ok(), ..used }
    }
}

/// Writes the secret keys.
fn keep(shelf: &Shelf, note: &Note, name: Hex32, keys: &KeySets<ClientKeys>, prg: &mut Prg) -> Result<()> {
    let mut draft = shelf.draft(nonce(prg), note)?;
    for set in keys.iter() {
        draft.write_all(&set.keep()).map_err(|e| SessionError::Infer(HybridError::Kept(e).into()))?;
    }
    draft.commit(name)
}
