//! The connections of one command, which another thread may cut: how a signal ends a client.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fesc_net::Hangup;

#[derive(Default)]
struct State {
    connections: Vec<Hangup>,
    cut: bool,
}

/// Cuts all connections of a command, those to come included. Clones are the same.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Mutex<State>>);

impl CancelHandle {
    /// Every wait on these connections ends with an error, and every later call.
    pub fn cut(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.cut = true;
        state.connections.iter().for_each(Hangup::now);
    }

    /// One more connection.
    pub(super) fn add(&self, line: Hangup) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut {
            line.now();
        }
        state.connections.push(line);
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelHandle")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_net::{Channel, Tag};

    #[test]
    fn a_cut_ends_connections_that_are_there_and_that_come() {
        let handle = CancelHandle::default();
        let ((mut early, _a), (mut late, _b)) = (Channel::memory_pair(), Channel::memory_pair());
        handle.add(early.hangup().unwrap());
        early.send(Tag(0x0680), vec![1]).unwrap();
        handle.clone().cut();
        handle.add(late.hangup().unwrap());
        assert!(early.recv(Tag(0x0680), 1).is_err() && late.recv(Tag(0x0680), 1).is_err());
    }
}
