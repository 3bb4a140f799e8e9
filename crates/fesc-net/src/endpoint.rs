//! Listening and connecting: TCP, TLS, hello, and then a [`Channel`].
//!
//! `accept` returns as soon as TCP is up; the handshake belongs to [`Pending::establish`], so that a server can run it in
//! the client's own thread and a slow client keeps nobody waiting. TLS and hello together have one deadline, which no
//! trickle of bytes can extend.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{Connection, ServerConfig, ServerConnection};

use crate::hello::{HELLO_BYTES, Hello, Role, decode_hello, not_ours};
use crate::writer::Sink;
use crate::{Channel, Config, Fingerprint, Hangup, Identity, NetError, tls};

/// Label of the TLS exporter value in the hello.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-fesc-net hello";

/// How long a refused peer may take to hang up.
const LEAVING: Duration = Duration::from_millis(200);

/// How often a listener with a time limit looks for a client.
const POLL: Duration = Duration::from_millis(5);

/// How a server protects its connections.
pub enum ServerSecurity {
    /// TLS 1.3 with this identity.
    Tls(Identity),
    /// Nothing: everybody on the way reads and changes everything. For tests and measurements only.
    InsecurePlaintext,
}

/// How a client protects its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSecurity {
    /// TLS 1.3 to the server with this certificate and no other.
    Tls(Fingerprint),
    /// Nothing: everybody on the way reads and changes everything. For tests and measurements only.
    InsecurePlaintext,
}

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    config: Config,
}

impl Listener {
    /// Listens on `address` (`host:port`; port 0 takes a free one).
    pub fn bind(address: &str, security: ServerSecurity, config: Config) -> Result<Listener, NetError> {
        let refuse = |source| NetError::Connect { what: "listen on", address: address.into(), source };
        let tls = match security {
            ServerSecurity::Tls(identity) => Some(
                tls::server_config(&identity)
                    .map_err(|source| NetError::Tls { during: "reading the server's identity", source })?,
            ),
            ServerSecurity::InsecurePlaintext => None,
        };
        let socket = TcpListener::bind(address).map_err(refuse)?;
        let address = socket.local_addr().map_err(refuse)?;
        // The loopback is no network: a warning there would only teach people to overlook it.
        if tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "listening without TLS: anybody on the network can read and change everything");
        }
        Ok(Listener { socket, address, tls, config })
    }

    /// The address it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next client.
    pub fn accept(&self) -> Result<Pending, NetError> {
        let (socket, peer) = self.socket.accept().map_err(|source| NetError::Connect {
            what: "accept on",
            address: self.address.to_string(),
            source,
        })?;
        Ok(self.pending(socket, peer))
    }

    /// Waits for the next client for at most `limit`: `None` when nobody came. A server asks again and again, and looks in
    /// between whether it is to stop. Not for two threads at once.
    pub fn accept_within(&self, limit: Duration) -> Result<Option<Pending>, NetError> {
        let refuse = |source| NetError::Connect { what: "accept on", address: self.address.to_string(), source };
        let until = Instant::now() + limit;
        self.socket.set_nonblocking(true).map_err(refuse)?;
        let accepted = loop {
            match self.socket.accept() {
                // The standard library cannot wait for a listening socket with a limit; a short sleep can.
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break Ok(None);
                    }
                    std::thread::sleep(left.min(POLL));
                }
                other => break other.map(Some),
            }
        };
        self.socket.set_nonblocking(false).map_err(refuse)?;
        let Some((socket, peer)) = accepted.map_err(refuse)? else { return Ok(None) };
        // Some systems hand the mode of the listening socket down.
        socket.set_nonblocking(false).map_err(refuse)?;
        Ok(Some(self.pending(socket, peer)))
    }

    fn pending(&self, socket: TcpStream, peer: SocketAddr) -> Pending {
        Pending { socket, peer, tls: self.tls.clone(), config: self.config.clone() }
    }
}

/// A client that has connected and said nothing yet.
pub struct Pending {
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    config: Config,
}

impl Pending {
    /// Where it comes from.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A handle with which another thread can end this connection, also while it is being established and afterwards.
    pub fn hangup(&self) -> Result<Hangup, NetError> {
        Ok(Hangup::of_socket(self.socket.try_clone().map_err(system("splitting the socket"))?))
    }

    /// TLS, then the hello. `session` is the hash of all that both sides must agree on.
    pub fn establish(self, session: &[u8; 32]) -> Result<Channel, NetError> {
        let connection = match self.tls {
            None => None,
            Some(config) => Some(Connection::from(
                ServerConnection::new(config).map_err(|source| NetError::Tls { during: "starting", source })?,
            )),
        };
        establish(self.socket, connection, Role::Server, session, self.config)
    }
}

/// Connects to a server at `address` (`host:port`), checks who it is, and exchanges the hello.
pub fn connect(
    address: &str,
    security: &ClientSecurity,
    session: &[u8; 32],
    config: &Config,
) -> Result<Channel, NetError> {
    let refuse = |source| NetError::Connect { what: "connect to", address: address.into(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs().map_err(refuse)? {
        match TcpStream::connect_timeout(&candidate, at_least(config.connect_timeout)) {
            Ok(socket) => return start_client(socket, security, session, config),
            Err(e) => last = e,
        }
    }
    Err(refuse(last))
}

fn start_client(
    socket: TcpStream,
    security: &ClientSecurity,
    session: &[u8; 32],
    config: &Config,
) -> Result<Channel, NetError> {
    match *security {
        ClientSecurity::InsecurePlaintext => {
            if socket.peer_addr().is_ok_and(|a| !a.ip().is_loopback()) {
                tracing::warn!("connected without TLS: anybody on the network can read and change everything");
            }
            establish(socket, None, Role::Client, session, config.clone())
        }
        ClientSecurity::Tls(pin) => {
            let (connection, verifier) =
                tls::client(pin).map_err(|source| NetError::Tls { during: "starting", source })?;
            let result = establish(socket, Some(connection.into()), Role::Client, session, config.clone());
            match verifier.wrong() {
                Some(got) => Err(NetError::WrongPin { expected: pin, got }),
                None => result,
            }
        }
    }
}

fn establish(
    socket: TcpStream,
    connection: Option<Connection>,
    role: Role,
    session: &[u8; 32],
    config: Config,
) -> Result<Channel, NetError> {
    let limit = config.connect_timeout;
    let now = Instant::now();
    let mut stream = Handshake { socket, until: now.checked_add(limit).unwrap_or(now) };
    let connection = match shake_hands(&mut stream, connection, role, session, limit) {
        Ok(connection) => connection,
        Err(error) => {
            stream.leave();
            return Err(error);
        }
    };
    let socket = stream.socket;
    socket
        .set_read_timeout(Some(at_least(config.read_timeout)))
        .and_then(|()| socket.set_write_timeout(Some(at_least(config.write_timeout))))
        .map_err(system("setting socket options"))?;
    let third = socket.try_clone().map_err(system("splitting the socket"))?;
    let (source, sink): (Box<dyn Read + Send>, Box<dyn Sink>) = match connection {
        None => (Box::new(socket.try_clone().map_err(system("splitting the socket"))?), Box::new(TcpSink(socket))),
        Some(connection) => {
            let (source, sink) = tls::split(connection, socket).map_err(system("splitting the socket"))?;
            (Box::new(source), Box::new(sink))
        }
    };
    Channel::after_hello(source, sink, third, config, HELLO_BYTES as u64)
}

/// TLS, if there is any, and the hello.
fn shake_hands(
    stream: &mut Handshake,
    connection: Option<Connection>,
    role: Role,
    session: &[u8; 32],
    limit: Duration,
) -> Result<Option<Connection>, NetError> {
    stream.socket.set_nodelay(true).map_err(system("setting socket options"))?;
    let Some(mut connection) = connection else {
        exchange_hello(stream, role, session, [0; 32], limit)?;
        return Ok(None);
    };
    // On a refusal this also sends the alert that tells the peer why.
    connection.complete_io(stream).map_err(|e| explain(e, limit))?;
    let binding = connection
        .export_keying_material([0; 32], EXPORTER_LABEL, None)
        .map_err(|source| NetError::Tls { during: "binding the hello", source })?;
    match &mut connection {
        Connection::Client(c) => {
            exchange_hello(&mut rustls::Stream::new(c, stream), role, session, binding, limit)?;
        }
        Connection::Server(c) => {
            exchange_hello(&mut rustls::Stream::new(c, stream), role, session, binding, limit)?;
        }
    }
    Ok(Some(connection))
}

fn exchange_hello(
    stream: &mut (impl Read + Write),
    role: Role,
    session: &[u8; 32],
    binding: [u8; 32],
    limit: Duration,
) -> Result<(), NetError> {
    let ours = Hello { role, session: *session, binding };
    stream.write_all(&ours.encode()).and_then(|()| stream.flush()).map_err(|e| explain(e, limit))?;
    let mut bytes = [0; HELLO_BYTES];
    let mut got = 0;
    while let Some(room) = bytes.get_mut(got..).filter(|r| !r.is_empty()) {
        match stream.read(room) {
            Ok(0) => return Err(cut_off(&bytes, got)),
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if got > 0 && is_end(&e) => return Err(cut_off(&bytes, got)),
            Err(e) => return Err(explain(e, limit)),
        }
    }
    decode_hello(&bytes, &Hello { role: role.peer(), ..ours })
}

/// The peer left inside its hello: perhaps because it is no peer of ours at all.
fn cut_off(bytes: &[u8; HELLO_BYTES], got: usize) -> NetError {
    match (got, not_ours(bytes)) {
        (0, _) => NetError::Closed { index: 0 },
        (_, Some(hint)) => NetError::NotOurs { hint },
        (_, None) => NetError::Truncated { index: 0, got: got as u64, expected: HELLO_BYTES as u64 },
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe)
}

fn explain(error: io::Error, limit: Duration) -> NetError {
    if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) {
        return NetError::HandshakeTimeout { limit };
    }
    if is_end(&error) {
        return NetError::Closed { index: 0 };
    }
    match error.downcast::<rustls::Error>() {
        Ok(source) => NetError::Tls { during: "shaking hands", source },
        Err(source) => NetError::Io { during: "shaking hands", index: 0, source },
    }
}

fn system(during: &'static str) -> impl Fn(io::Error) -> NetError {
    move |source| NetError::Io { during, index: 0, source }
}

/// A socket refuses a time limit of zero.
fn at_least(limit: Duration) -> Duration {
    limit.max(Duration::from_millis(1))
}

/// A socket with one deadline for everything.
struct Handshake {
    socket: TcpStream,
    until: Instant,
}

impl Handshake {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(at_least(left)) }
    }

    /// Ends a refused connection. Closing a socket with unread bytes is a reset, which can overtake the alert or the hello
    /// that tells the peer why; so read what is still on the way, for a moment.
    fn leave(mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        self.until = Instant::now() + LEAVING;
        let mut rest = [0; 4096];
        while let Ok(1..) = self.read(&mut rest) {}
    }
}

/// A blocking socket says `WouldBlock` when its time is over. To rustls that means "ask again later", and it would call
/// a handshake that has only begun a success.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Handshake {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(out).map_err(timed_out)
    }
}

impl Write for Handshake {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes).map_err(timed_out)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write_vectored(slices).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writing half of a plain socket.
struct TcpSink(TcpStream);

impl Sink for TcpSink {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(slices)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    fn abort(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
