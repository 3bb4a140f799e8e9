//! What the parent and the processes of a measurement say to each other: one JSON object a line.
//!
//! The parent writes one [`Job`] to the child's standard input and keeps it open (its end means that the
//! parent is gone); the child writes [`Event`]s to its standard output. Protocol data goes over the channel,
//! never through here.

use std::time::Duration;

use fesc_net::{Config, NetError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which process this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seat {
    /// The client; connects. In OT, the sender.
    P0,
    /// The server; listens. In OT, the receiver.
    P1,
    /// The third process; listens once for each party.
    Dealer,
}

/// Where a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// `host:port`.
    pub at: String,
    /// Fingerprint of its certificate, with TLS.
    pub pin: Option<String>,
}

/// What is to be measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Work {
    /// Oblivious transfer.
    Ot(crate::bench::ot::Task),
    /// A protocol on shares.
    Mpc(crate::bench::mpc::Task),
    /// A whole inference.
    Infer(crate::measured::Task),
}

/// The task of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Which process it is.
    pub seat: Seat,
    /// Hash of the session, for the hello.
    pub session: [u8; 32],
    /// Where P1 listens; for P0 only.
    pub peer: Option<Address>,
    /// Where the dealer listens for this party, if there is one.
    pub dealer: Option<Address>,
    /// Protect the channel by TLS.
    pub tls: bool,
    /// Compute threads.
    pub threads: u16,
    /// Network profile, in the text form of `fesc_net::Profile`.
    pub net: String,
    /// Idle limit of the channel.
    pub timeout: Duration,
    /// What is to be measured.
    pub work: Work,
}

impl Job {
    /// The limits of this process's channels.
    pub fn config(&self) -> Result<Config, NetError> {
        let limit = self.timeout;
        Ok(Config { read_timeout: limit, write_timeout: limit, profile: self.net.parse()?, ..Config::default() })
    }
}

/// What a process reports.
#[derive(Debug, Serialize, Deserialize)]
pub enum Event {
    /// It listens: one address per expected connection.
    Listening(Vec<Address>),
    /// A new phase of its work has begun.
    Phase(String),
    /// So many of the equal steps of its work are done.
    Steps {
        /// Done.
        done: u64,
        /// In all.
        total: u64,
    },
    /// It is done; the result.
    Done(Value),
    /// It failed.
    Failed {
        /// Why.
        message: String,
        /// Its exit code.
        code: u8,
    },
}
