//! Where the correlations of a run come from: one enum for the handshake, the client and the command line.

use serde::{Deserialize, Serialize};

use super::hex::Hex32;

/// Who makes correlations, and when.
///
/// `D` is how to reach a dealer and `S` where prepared correlations are. The handshake says neither: it has
/// the session id of a prepared store alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider<D = (), S = Hex32> {
    /// The two parties, on the same connection, when they are needed.
    Inline,
    /// The two parties, on a second connection, ahead of the need.
    Ahead,
    /// A third process.
    Dealer(D),
    /// A store that `prepare` made.
    Prepared(S),
}

impl<D, S> Provider<D, S> {
    /// Its name without its content.
    pub fn name(&self) -> &'static str {
        match self {
            Provider::Inline => "inline",
            Provider::Ahead => "ahead",
            Provider::Dealer(_) => "dealer",
            Provider::Prepared(_) => "prepared",
        }
    }
}
