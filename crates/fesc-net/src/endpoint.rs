//! Listening and connecting: TCP, TLS, hello, and then a [`Channel`].
//!
//! `accept` returns as soon as TCP is up; the handshake belongs to [`Pending::establish`], so that a server
//! can run it in the client's own thread and a slow client keeps nobody waiting. TLS and hello together have
//! one deadline, which no trickle of bytes can extend.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{Connection, ServerConfig, ServerConnection};

use crate::handshake::{at_least, establish, system};
use crate::hello::Role;
use crate::ticket::Ticket;
use crate::{Channel, Config, Fingerprint, Hangup, Identity, NetError, tls};

/// How often a listener with a time limit looks for a client.
const POLL: Duration = Duration::from_millis(5);

/// How a server protects its connections.
pub enum ServerSecurity {
    /// TLS 1.3 with this identity. Clients are asked for a certificate and need not have one.
    Tls(Identity),
    /// Nothing: everybody on the way reads and changes everything. For tests and measurements only.
    InsecurePlaintext,
}

/// How a client protects its connection.
#[derive(Debug, Clone)]
pub enum ClientSecurity {
    /// TLS 1.3 to the server with this certificate and no other. The client stays anonymous.
    Tls(Fingerprint),
    /// The same, and the server learns which client it is: see [`Channel::peer_fingerprint`]. Nobody else
    /// does, also nobody who poses as the server: the certificate is sent encrypted, and after the server's
    /// has been checked.
    TlsAs(Fingerprint, Arc<Identity>),
    /// Nothing: everybody on the way reads and changes everything. For tests and measurements only.
    InsecurePlaintext,
}

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    config: Config,
    #[cfg(feature = "tap")]
    taken_for: Option<Fingerprint>,
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
        Ok(Listener {
            socket,
            address,
            tls,
            config,
            #[cfg(feature = "tap")]
            taken_for: None,
        })
    }

    /// Takes everybody who shows no certificate for the client with this one, so that tests can read what a
    /// client with an identity sends. Only with the feature `tap`, which no program switches on.
    #[cfg(feature = "tap")]
    pub fn taking_everybody_for(mut self, client: Fingerprint) -> Listener {
        self.taken_for = Some(client);
        self
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

    /// Waits for the next client for at most `limit`: `None` when nobody came. A server asks again and again,
    /// and looks in between whether it is to stop. Not for two threads at once.
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
        Pending {
            socket,
            peer,
            tls: self.tls.clone(),
            config: self.config.clone(),
            #[cfg(feature = "tap")]
            taken_for: self.taken_for,
        }
    }
}

/// A client that has connected and said nothing yet.
pub struct Pending {
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    config: Config,
    #[cfg(feature = "tap")]
    taken_for: Option<Fingerprint>,
}

impl Pending {
    /// Where it comes from.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A handle with which another thread can end this connection, also while it is being established and
    /// afterwards.
    pub fn hangup(&self) -> Result<Hangup, NetError> {
        Ok(Hangup::of_socket(self.socket.try_clone().map_err(system("splitting the socket"))?))
    }

    /// TLS, then the hello. `session` is the hash of all that both sides must agree on.
    pub fn establish(self, session: &[u8; 32]) -> Result<Channel, NetError> {
        self.establish_seen(session, |_| {})
    }

    /// [`Pending::establish`] that tells `seen`, at most once, as soon as the first message of the client is
    /// complete. With TLS that is the ClientHello, before anything is answered, and `seen` gets the ticket in
    /// it. Without TLS it is the hello, and `seen` gets `None`. Until then the client may be one of those who
    /// connect and say nothing. A ticket proves nothing, see [`Ticket`]; the time that `seen` takes is part
    /// of the deadline.
    pub fn establish_seen(self, session: &[u8; 32], seen: impl FnOnce(Option<Ticket>)) -> Result<Channel, NetError> {
        let connection = match self.tls {
            None => None,
            Some(config) => Some(Connection::from(
                ServerConnection::new(config).map_err(|source| NetError::Tls { during: "starting", source })?,
            )),
        };
        let channel = establish(self.socket, connection, Role::Server, session, self.config, seen)?;
        #[cfg(feature = "tap")]
        let channel = channel.taken_for(self.taken_for);
        Ok(channel)
    }
}

/// Connects to a server at `address` (`host:port`), checks who it is, and exchanges the hello.
pub fn connect(
    address: &str,
    security: &ClientSecurity,
    session: &[u8; 32],
    config: &Config,
) -> Result<Channel, NetError> {
    connect_with_ticket(address, security, None, session, config)
}

/// [`connect`] that shows the server a ticket in the first bytes. Without TLS there is no place for one: it
/// is not sent.
pub fn connect_with_ticket(
    address: &str,
    security: &ClientSecurity,
    ticket: Option<&Ticket>,
    session: &[u8; 32],
    config: &Config,
) -> Result<Channel, NetError> {
    let refuse = |source| NetError::Connect { what: "connect to", address: address.into(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs().map_err(refuse)? {
        match TcpStream::connect_timeout(&candidate, at_least(config.connect_timeout)) {
            Ok(socket) => return start_client(socket, security, ticket, session, config),
            Err(e) => last = e,
        }
    }
    Err(refuse(last))
}

fn start_client(
    socket: TcpStream,
    security: &ClientSecurity,
    ticket: Option<&Ticket>,
    session: &[u8; 32],
    config: &Config,
) -> Result<Channel, NetError> {
    let (pin, identity) = match security {
        ClientSecurity::InsecurePlaintext => {
            if socket.peer_addr().is_ok_and(|a| !a.ip().is_loopback()) {
                tracing::warn!("connected without TLS: anybody on the network can read and change everything");
            }
            return establish(socket, None, Role::Client, session, config.clone(), |_| {});
        }
        ClientSecurity::Tls(pin) => (*pin, None),
        ClientSecurity::TlsAs(pin, identity) => (*pin, Some(identity.as_ref())),
    };
    let (connection, verifier) =
        tls::client(pin, identity, ticket).map_err(|source| NetError::Tls { during: "starting", source })?;
    let result = establish(socket, Some(connection.into()), Role::Client, session, config.clone(), |_| {});
    match verifier.wrong() {
        Some(got) => Err(NetError::WrongPin { expected: pin, got }),
        None => result,
    }
}
