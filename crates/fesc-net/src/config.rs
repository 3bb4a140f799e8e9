//! Limits of a channel.

use std::time::Duration;

use crate::Profile;

/// Time and memory limits, and the network to imitate.
///
/// The idle limits are long by default: between two messages the peer may compute for minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Time for TCP connect, and again for the TLS handshake with the hello.
    pub connect_timeout: Duration,
    /// Longest wait for a byte from the peer.
    pub read_timeout: Duration,
    /// Longest time in which the peer takes none of the bytes that wait to be sent.
    pub write_timeout: Duration,
    /// Bytes that may wait to be sent; above it `send` waits. One message may be larger.
    pub queue_bytes: usize,
    /// The network to imitate on our sending direction; give both ends the same.
    pub profile: Profile,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(300),
            write_timeout: Duration::from_secs(300),
            queue_bytes: 1 << 30,
            profile: Profile::NONE,
        }
    }
}
