//! Two connected ends for a test, over each transport.

use std::thread;
use std::time::Duration;

use fesc_net::{Channel, ClientSecurity, Config, Identity, Listener, NetError, ServerSecurity, connect};

pub const SESSION: [u8; 32] = [0x5e; 32];

/// Short limits, so that a fault ends quickly; long enough for a loaded machine.
pub fn quick() -> Config {
    Config {
        connect_timeout: Duration::from_millis(400),
        read_timeout: Duration::from_millis(400),
        write_timeout: Duration::from_millis(400),
        ..Config::default()
    }
}

pub fn tls() -> (ServerSecurity, ClientSecurity) {
    let identity = Identity::generate().unwrap();
    let pin = identity.fingerprint();
    (ServerSecurity::Tls(identity), ClientSecurity::Tls(pin))
}

pub fn plain() -> (ServerSecurity, ClientSecurity) {
    (ServerSecurity::InsecurePlaintext, ClientSecurity::InsecurePlaintext)
}

/// Client and server over loopback.
pub fn over_tcp((server, client): (ServerSecurity, ClientSecurity), config: &Config) -> (Channel, Channel) {
    let listener = Listener::bind("127.0.0.1:0", server, config.clone()).unwrap();
    let address = listener.address().to_string();
    let (c, s) =
        both(move || connect(&address, &client, &SESSION, config), move || listener.accept()?.establish(&SESSION));
    (c.unwrap(), s.unwrap())
}

/// Each transport with its name.
pub fn all(config: &Config) -> Vec<(&'static str, (Channel, Channel))> {
    vec![
        ("memory", Channel::memory_pair_with(config).unwrap()),
        ("TCP", over_tcp(plain(), config)),
        ("TLS", over_tcp(tls(), config)),
    ]
}

/// Runs the two parties at once.
pub fn both<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = scope.spawn(b);
        (a.join().unwrap(), b.join().unwrap())
    })
}

/// The error; a channel has no `Debug`.
pub fn refused(result: Result<Channel, NetError>) -> NetError {
    result.err().expect("must be refused")
}

/// The index of the message that an error names; failures of the handshake and the hello are message 0.
pub fn index_of(error: &NetError) -> Option<u32> {
    match *error {
        NetError::Closed { index }
        | NetError::ClosedOnSend { index }
        | NetError::Truncated { index, .. }
        | NetError::Timeout { index, .. }
        | NetError::SendStalled { index, .. }
        | NetError::Unexpected { index, .. }
        | NetError::FrameVersion { index, .. }
        | NetError::Depth { index, .. }
        | NetError::Io { index, .. } => Some(index),
        NetError::Sequence { expected, .. } => Some(expected),
        NetError::NotOurs { .. } | NetError::ProtocolVersion { .. } | NetError::Role | NetError::Session { .. } => {
            Some(0)
        }
        NetError::HandshakeTimeout { .. } => Some(0),
        _ => None,
    }
}
