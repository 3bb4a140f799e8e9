//! Memory that sessions take under encryption: keys of clients, and ciphertexts while they are computed on.
//!
//! It is known before a session is granted ([`crate::Schedule::encrypted_memory`]), and gigabytes for a large
//! model. A session reserves its own for as long as it runs; one for which there is no room is told so, and
//! nothing is computed for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::error::{RefusalKind, SessionError};
use crate::session::handshake::Refusal;

/// What all sessions may take, and what they have taken.
pub(in crate::session) struct Memory {
    most: u64,
    taken: Arc<AtomicU64>,
}

/// Memory of one session; free again when dropped.
pub(in crate::session) struct Held {
    taken: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Why there is no room.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) struct Lack {
    bytes: u64,
    most: u64,
}

impl Memory {
    pub fn new(most: u64) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Whether there would be room if nobody else were here.
    pub fn fits(&self, bytes: u64) -> Result<(), Lack> {
        if bytes > self.most { Err(Lack { bytes, most: self.most }) } else { Ok(()) }
    }

    /// Takes memory for a session.
    pub fn reserve(&self, bytes: u64) -> Result<Held, Lack> {
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.most);
        match self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Held { taken: Arc::clone(&self.taken), bytes }),
            Err(_) => Err(Lack { bytes, most: self.most }),
        }
    }
}

impl Lack {
    fn says(&self, plan: &str, tokens: usize) -> String {
        let Self { bytes, most } = self;
        format!(
            "a run of {tokens} tokens by the plan {plan} takes {bytes} bytes of the server's memory for keys and ciphertexts, and \
             all sessions together may take {most}"
        )
    }

    /// What a client is told. What others take is not for it.
    pub fn refusal(&self, plan: &str, tokens: usize) -> Refusal {
        let (kind, remedy) = if self.bytes > self.most {
            (RefusalKind::Tokens, "send a shorter document, or ask the operator for more (--encrypted-memory)")
        } else {
            (RefusalKind::Busy, "others have it at this moment, try again later")
        };
        Refusal { kind, message: format!("{}; {remedy}", self.says(plan, tokens)) }
    }

    /// What an operator is told whose server could run nothing.
    pub fn useless(&self, plan: &str, tokens: usize) -> SessionError {
        let message =
            format!("{}; give more (--encrypted-memory) or take another plan (--plan)", self.says(plan, tokens));
        SessionError::RefusedHere { kind: RefusalKind::Full, message }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memory_is_taken_once_and_comes_back() {
        let memory = Memory::new(10);
        let first = memory.reserve(6).unwrap();
        let second = memory.reserve(4).unwrap();
        assert!(memory.fits(10).is_ok() && memory.fits(11).is_err());
        let busy = memory.reserve(1).err().unwrap().refusal("paper", 128);
        assert!(busy.kind == RefusalKind::Busy && busy.message.contains("try again later"), "{}", busy.message);
        drop(first);
        assert!(memory.reserve(7).is_err());
        drop((memory.reserve(6).unwrap(), second));
        let never = memory.reserve(11).err().unwrap().refusal("paper", 128);
        assert!(never.kind == RefusalKind::Tokens, "{}", never.message);
        for part in ["128 tokens", "paper", "11 bytes", "may take 10", "shorter document", "--encrypted-memory"] {
            assert!(never.message.contains(part), "{part}: {}", never.message);
        }
        assert!(memory.reserve(u64::MAX).is_err() && memory.reserve(10).is_ok());
        // A plan without keys takes nothing, however full it is.
        let _all = memory.reserve(10).unwrap();
        assert!(memory.reserve(0).is_ok());
    }
}
