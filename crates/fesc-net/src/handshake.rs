//! The handshake on a socket: TLS, hello, and then a [`Channel`]. All of it has one deadline.
//!
//! A server reads the ClientHello once for its [`Ticket`], and then again from memory, as the first bytes of
//! the handshake proper. So the ticket is known before anything is answered or computed, and what TLS answers
//! to a good or a bad ClientHello is what it always answers.

use std::io::{self, Cursor, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;
use rustls::server::Acceptor;

use crate::hello::{HELLO_BYTES, Hello, Role, decode_hello, not_ours};
use crate::ticket::{self, Ticket};
use crate::writer::Sink;
use crate::{Channel, Config, Fingerprint, NetError, tls};

/// Label of the TLS exporter value in the hello.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-fesc-net hello";

/// How long a refused peer may take to hang up.
const LEAVING: Duration = Duration::from_millis(200);

/// TLS, if there is any, then the hello, and the channel over what was agreed. A server's `seen` hears of the
/// client's ticket, see [`crate::Pending::establish_seen`].
pub(crate) fn establish(
    socket: TcpStream,
    connection: Option<Connection>,
    role: Role,
    session: &[u8; 32],
    config: Config,
    seen: impl FnOnce(Option<Ticket>),
) -> Result<Channel, NetError> {
    let limit = config.connect_timeout;
    let now = Instant::now();
    let until = now.checked_add(limit).unwrap_or(now);
    let mut stream = Handshake { socket, until, again: Cursor::default() };
    let connection = match shake_hands(&mut stream, connection, role, session, limit, seen) {
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
    // rustls keeps a certificate only after it has checked the signature of its owner.
    let peer = connection.as_ref().and_then(|c| c.peer_certificates()?.first()).map(|c| Fingerprint::of(c));
    let third = socket.try_clone().map_err(system("splitting the socket"))?;
    let (source, sink): (Box<dyn Read + Send>, Box<dyn Sink>) = match connection {
        None => (Box::new(socket.try_clone().map_err(system("splitting the socket"))?), Box::new(TcpSink(socket))),
        Some(connection) => {
            let (source, sink) = tls::split(connection, socket).map_err(system("splitting the socket"))?;
            (Box::new(source), Box::new(sink))
        }
    };
    Channel::after_hello(source, sink, third, peer, config, HELLO_BYTES as u64)
}

/// TLS, if there is any, and the hello.
fn shake_hands(
    stream: &mut Handshake,
    connection: Option<Connection>,
    role: Role,
    session: &[u8; 32],
    limit: Duration,
    seen: impl FnOnce(Option<Ticket>),
) -> Result<Option<Connection>, NetError> {
    stream.socket.set_nodelay(true).map_err(system("setting socket options"))?;
    let Some(mut connection) = connection else {
        exchange_hello(stream, role, session, [0; 32], limit)?;
        seen(None);
        return Ok(None);
    };
    if role == Role::Server {
        stream.look_at_client_hello(seen);
    }
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

pub(crate) fn system(during: &'static str) -> impl Fn(io::Error) -> NetError {
    move |source| NetError::Io { during, index: 0, source }
}

/// A socket refuses a time limit of zero.
pub(crate) fn at_least(limit: Duration) -> Duration {
    limit.max(Duration::from_millis(1))
}

/// A socket with one deadline for everything.
struct Handshake {
    socket: TcpStream,
    until: Instant,
    /// Bytes that have been looked at and are read again before the socket is.
    again: Cursor<Vec<u8>>,
}

impl Handshake {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(at_least(left)) }
    }

    /// Reads the ClientHello, tells `seen` of the ticket in it, and puts the bytes back. When none comes,
    /// because the client sends something else, or is late, or leaves, the handshake proper finds that out
    /// and says so.
    fn look_at_client_hello(&mut self, seen: impl FnOnce(Option<Ticket>)) {
        let mut acceptor = Acceptor::default();
        let mut copied = Copied { from: self, copy: Vec::new() };
        loop {
            match acceptor.read_tls(&mut copied) {
                Ok(1..) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    seen(ticket::of(&accepted.client_hello()));
                    break;
                }
                Err(_) => break,
            }
        }
        self.again = Cursor::new(copied.copy);
    }

    /// Ends a refused connection. Closing a socket with unread bytes is a reset, which can overtake the alert
    /// or the hello that tells the peer why; so read what is still on the way, for a moment.
    fn leave(mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        self.until = Instant::now() + LEAVING;
        let mut rest = [0; 4096];
        while let Ok(1..) = self.read(&mut rest) {}
    }
}

/// A blocking socket says `WouldBlock` when its time is over. To rustls that means "ask again later", and it
/// would call a handshake that has only begun a success.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Handshake {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let known = self.again.read(out)?;
        if known > 0 {
            return Ok(known);
        }
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(out).map_err(timed_out)
    }
}

/// Keeps a copy of what is read. A handshake message, and so the copy, has at most 64 KiB in rustls.
struct Copied<'a> {
    from: &'a mut Handshake,
    copy: Vec<u8>,
}

impl Read for Copied<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(out)?;
        self.copy.extend_from_slice(out.get(..n).unwrap_or_default());
        Ok(n)
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
