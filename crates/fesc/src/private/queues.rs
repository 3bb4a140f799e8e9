//! One budget of memory for all queues of a server, in equal shares.
//!
//! A session has two connections, each with bytes that wait for a client that does not read yet, and
//! correlations that are ready for use. Shares are fixed from the start: a client that stops reading fills
//! its own share and nobody else's.
//!
//! ```text
//! share = total / sessions = 2 (bytes that wait) + (correlations that are ready)
//! ```
//!
//! Not counted: one message a connection and one correlation a session, which always fit into an empty queue,
//! however large they are; and what the protocol itself computes on (`fesc estimate`).

use crate::exit::Refusal;

/// Bytes that may wait on one connection: twice what an honest run has waiting at Mamba-base.
pub const CONNECTION: u64 = 512 << 20;

/// The least share of a session that is of use.
const LEAST: u64 = 128 << 20;

/// What each session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Of all sessions.
    pub total: u64,
    /// Bytes that wait on one connection.
    pub connection: u64,
    /// Bytes of correlations that are ready.
    pub ready: u64,
}

impl Queues {
    /// Divides `asked` bytes, or what the sessions can use and the machine has, if nothing was asked for.
    ///
    /// # Errors
    /// If the machine has less memory than was asked for, or so little that a session could do nothing with
    /// its share.
    pub fn divide(
        asked: Option<u64>,
        sessions: u64,
        ready: u64,
        available: Option<u64>,
    ) -> std::result::Result<Self, Refusal> {
        let useful = sessions * (2 * CONNECTION + ready);
        let available = available.unwrap_or(u64::MAX);
        let total = match asked {
            Some(asked) if asked > available => {
                return Err(Refusal::Limit {
                    what: "bytes of --queue-memory",
                    value: asked,
                    max: available,
                    remedy: "that is what this machine has free: ask for less, or take fewer --max-sessions",
                });
            }
            Some(asked) => asked,
            None => useful.min(available / 4 * 3),
        };
        let share = total / sessions;
        if share < LEAST {
            return Err(Refusal::Limit {
                what: "sessions at once, of 128 MiB for queues each",
                value: sessions,
                max: total / LEAST,
                remedy: "take fewer --max-sessions, or give more --queue-memory",
            });
        }
        let connection = CONNECTION.min(share / 4);
        Ok(Self { total, connection, ready: ready.min(share - 2 * connection) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn shares_add_up_and_too_little_is_refused() {
        let roomy = Queues::divide(None, 4, GIB, Some(64 * GIB)).unwrap();
        assert_eq!(roomy, Queues { total: 8 * GIB, connection: GIB / 2, ready: GIB });
        let small = Queues::divide(None, 4, GIB, Some(4 * GIB)).unwrap();
        assert_eq!(small, Queues { total: 3 * GIB, connection: 3 * GIB / 16, ready: 3 * GIB / 8 });
        let unknown = Queues::divide(None, 1, 64 << 20, None).unwrap();
        assert_eq!((unknown.total, unknown.ready), (GIB + (64 << 20), 64 << 20));
        for queues in [roomy, small] {
            assert!(4 * (2 * queues.connection + queues.ready) <= queues.total);
        }
        let text = |r: Result<Queues, Refusal>| r.unwrap_err().to_string();
        assert!(text(Queues::divide(Some(9 * GIB), 4, GIB, Some(8 * GIB))).contains("--queue-memory"));
        assert!(text(Queues::divide(None, 100, GIB, Some(8 * GIB))).contains("100 is not in 1 to 48"));
        assert!(text(Queues::divide(Some(GIB), 9, GIB, Some(8 * GIB))).contains("9 is not in 1 to 8"));
    }
}
