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
//! Under a plan with CKKS queues have at most a quarter of what is free, and the rest of three quarters is
//! for keys and ciphertexts of all sessions together. They are not in shares: a run takes what its length
//! needs, and is refused where that is not free.
//!
//! Not counted: one message a connection and one correlation a session, which always fit into an empty queue,
//! however large they are; and what the protocol computes on shares (`fesc estimate`).

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
    /// Bytes of keys and ciphertexts, of all sessions.
    pub encrypted: u64,
}

/// What the command line says of memory, in bytes.
pub struct Wanted {
    /// For all queues, if it says so.
    pub queues: Option<u64>,
    /// For keys and ciphertexts, if it says so.
    pub encrypted: Option<u64>,
    pub sessions: u64,
    /// Correlations that a session keeps ready.
    pub ready: u64,
    /// Whether the plan has anything under encryption.
    pub encrypts: bool,
}

/// What cannot be given.
fn too_much(what: &'static str, value: u64, max: u64) -> Refusal {
    let remedy = "that is what this machine has free: ask for less, or take fewer --max-sessions";
    Refusal::Limit { what, value, max, remedy }
}

impl Queues {
    /// Divides what is wanted, or what the sessions can use and the machine has, if nothing was.
    ///
    /// # Errors
    /// If the machine has less memory than was asked for, or so little that a session could do nothing with
    /// its share.
    pub fn divide(wanted: &Wanted, available: Option<u64>) -> std::result::Result<Self, Refusal> {
        let &Wanted { queues, encrypted, sessions, ready, encrypts } = wanted;
        let useful = sessions * (2 * CONNECTION + ready);
        let available = available.unwrap_or(u64::MAX);
        let quarter = available / 4;
        let total = match queues {
            Some(asked) if asked > available => return Err(too_much("bytes of --queue-memory", asked, available)),
            Some(asked) => asked,
            None => useful.min(if encrypts { quarter } else { 3 * quarter }),
        };
        let left = available - total;
        let encrypted = match encrypted {
            Some(asked) if asked > left => return Err(too_much("bytes of --encrypted-memory", asked, left)),
            Some(asked) => asked,
            None => (3 * quarter).saturating_sub(total),
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
        Ok(Self { total, connection, ready: ready.min(share - 2 * connection), encrypted })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const GIB: u64 = 1 << 30;

    fn wanted(queues: Option<u64>, sessions: u64, ready: u64) -> Wanted {
        Wanted { queues, encrypted: None, sessions, ready, encrypts: false }
    }

    #[test]
    fn shares_add_up_and_too_little_is_refused() {
        let roomy = Queues::divide(&wanted(None, 4, GIB), Some(64 * GIB)).unwrap();
        assert_eq!(roomy, Queues { total: 8 * GIB, connection: GIB / 2, ready: GIB, encrypted: 40 * GIB });
        let small = Queues::divide(&wanted(None, 4, GIB), Some(4 * GIB)).unwrap();
        assert_eq!(small, Queues { total: 3 * GIB, connection: 3 * GIB / 16, ready: 3 * GIB / 8, encrypted: 0 });
        let unknown = Queues::divide(&wanted(None, 1, 64 << 20), None).unwrap();
        assert_eq!((unknown.total, unknown.ready), (GIB + (64 << 20), 64 << 20));
        for queues in [roomy, small] {
            assert!(4 * (2 * queues.connection + queues.ready) <= queues.total);
        }
        let text = |r: Result<Queues, Refusal>| r.unwrap_err().to_string();
        assert!(text(Queues::divide(&wanted(Some(9 * GIB), 4, GIB), Some(8 * GIB))).contains("--queue-memory"));
        assert!(text(Queues::divide(&wanted(None, 100, GIB), Some(8 * GIB))).contains("100 is not in 1 to 48"));
        assert!(text(Queues::divide(&wanted(Some(GIB), 9, GIB), Some(8 * GIB))).contains("9 is not in 1 to 8"));
    }

    #[test]
    fn keys_and_ciphertexts_have_their_part_of_the_same_memory() {
        let encrypts = |queues, encrypted| Wanted { encrypted, encrypts: true, ..wanted(queues, 4, GIB) };
        let usual = Queues::divide(&encrypts(None, None), Some(16 * GIB)).unwrap();
        assert_eq!((usual.total, usual.encrypted), (4 * GIB, 8 * GIB));
        // What queues have is not given twice.
        let told = Queues::divide(&encrypts(Some(10 * GIB), None), Some(16 * GIB)).unwrap();
        assert_eq!((told.total, told.encrypted), (10 * GIB, 2 * GIB));
        let both = Queues::divide(&encrypts(Some(10 * GIB), Some(6 * GIB)), Some(16 * GIB)).unwrap();
        assert_eq!((both.total, both.encrypted), (10 * GIB, 6 * GIB));
        let refused = Queues::divide(&encrypts(Some(10 * GIB), Some(7 * GIB)), Some(16 * GIB)).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("--encrypted-memory") && text.contains(&(6 * GIB).to_string()), "{text}");
    }
}
