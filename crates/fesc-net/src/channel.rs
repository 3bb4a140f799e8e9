//! The [`Channel`]: sequence numbers, causal depth, counts, and the two halves underneath.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::frame::{Expected, FRAME_VERSION, Header};
use crate::queue::{Failure, Frame, Popped, Queue};
use crate::reader::FrameReader;
use crate::stats::Counter;
use crate::writer::{self, Output, Sink};
use crate::{Config, Fingerprint, HEADER_BYTES, NetError, Stats, Tag};

/// After an error, what is still queued is sent for at most this long: it may tell the peer something, but no
/// more.
const AFTER_ERROR: Duration = Duration::from_secs(2);

/// At most this much is read away when a socket is closed: a peer that sends for ever must not keep us.
const UNREAD_LIMIT: usize = 16 << 20;

/// One end of a connection between two parties.
///
/// `send` queues and returns; a writer thread empties the queue, so both sides may send first without a
/// deadlock (up to [`Config::queue_bytes`]; above, both would stall into an error), and there is no flush to
/// forget. Dropping a channel still sends what is queued, for at most the write timeout.
pub struct Channel {
    outgoing: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
    /// To end a writer that is stuck in the operating system.
    socket: Option<TcpStream>,
    incoming: Incoming,
    config: Config,
    /// Of the certificate that the peer has shown and proved to own.
    peer: Option<Fingerprint>,
    next_out: u32,
    next_in: u32,
    clock: Clock,
    /// The clocks of other phases, by the name of the phase.
    stopped: Vec<(String, Clock)>,
    /// Whose clock runs; empty before the first [`Channel::begin`].
    running: String,
    counter: Counter,
    /// After an error the stream is out of step: nothing on it can be trusted any more.
    broken: bool,
    #[cfg(feature = "tap")]
    tap: Option<Tap>,
}

/// A causal clock: depths as [`crate::frame`] defines them, of the messages sent while it runs.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    /// Greatest depth sent.
    sent: u32,
    /// Greatest depth received.
    received: u32,
}

impl Clock {
    /// The greatest depth so far.
    fn depth(&self) -> u32 {
        self.sent.max(self.received)
    }
}

/// What a test does with every payload that arrives: keep a copy, or spoil it.
#[cfg(feature = "tap")]
pub type Tap = Box<dyn FnMut(Tag, &mut Vec<u8>) + Send>;

/// Ends a channel from another thread: a wait in `send` or `recv` returns with an error, and so does every
/// later call. For time limits on whole sessions, and for a server that stops.
pub struct Hangup {
    socket: Option<TcpStream>,
    outgoing: Option<Arc<Queue>>,
    inbox: Option<Arc<Queue>>,
}

impl Hangup {
    /// For a connection that is no channel yet.
    pub(crate) fn of_socket(socket: TcpStream) -> Hangup {
        Hangup { socket: Some(socket), outgoing: None, inbox: None }
    }

    /// Ends it now. What is queued and not yet sent is lost.
    pub fn now(&self) {
        if let Some(outgoing) = &self.outgoing {
            outgoing.fail(Failure::Gone { index: 0 });
        }
        if let Some(inbox) = &self.inbox {
            inbox.end(Instant::now());
        }
        if let Some(socket) = &self.socket {
            // It fails only when the peer has already ended the connection.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

enum Incoming {
    Memory(Arc<Queue>),
    Stream(Box<FrameReader<Box<dyn Read + Send>>>),
}

impl Channel {
    /// Two connected ends in memory, with the default limits and no shaping. Payloads are moved, never
    /// copied.
    pub fn memory_pair() -> (Channel, Channel) {
        Channel::unshaped_pair(&Config::default())
    }

    fn unshaped_pair(config: &Config) -> (Channel, Channel) {
        let (ab, ba) = (Arc::new(Queue::new(config.queue_bytes)), Arc::new(Queue::new(config.queue_bytes)));
        let a = Channel::over(Arc::clone(&ab), None, Incoming::Memory(Arc::clone(&ba)), config.clone());
        (a, Channel::over(ba, None, Incoming::Memory(ab), config.clone()))
    }

    /// Two connected ends in memory with the limits and the network profile of `config`.
    pub fn memory_pair_with(config: &Config) -> Result<(Channel, Channel), NetError> {
        if config.profile.is_none() {
            return Ok(Channel::unshaped_pair(config));
        }
        let queue = || Arc::new(Queue::new(config.queue_bytes));
        let (to_a, to_b) = (queue(), queue());
        let end = |peer: &Arc<Queue>, inbox: &Arc<Queue>| -> Result<Channel, NetError> {
            let outgoing = queue();
            let output = Output::Memory(Arc::clone(peer));
            let thread = writer::spawn(Arc::clone(&outgoing), output, config.profile, config.write_timeout)?;
            Ok(Channel::over(outgoing, Some(thread), Incoming::Memory(Arc::clone(inbox)), config.clone()))
        };
        Ok((end(&to_b, &to_a)?, end(&to_a, &to_b)?))
    }

    /// One end over the two halves of a stream on which the hellos of `hello_bytes` each have been exchanged:
    /// message 0 in both directions, and round 1. `peer` is the fingerprint that the peer has proved.
    pub(crate) fn after_hello(
        source: Box<dyn Read + Send>,
        sink: Box<dyn Sink>,
        socket: TcpStream,
        peer: Option<Fingerprint>,
        config: Config,
        hello_bytes: u64,
    ) -> Result<Channel, NetError> {
        let outgoing = Arc::new(Queue::new(config.queue_bytes));
        let output = Output::Stream(sink);
        let thread = writer::spawn(Arc::clone(&outgoing), output, config.profile, config.write_timeout)?;
        let reader = Box::new(FrameReader::new(source, config.read_timeout));
        let mut channel = Channel::over(outgoing, Some(thread), Incoming::Stream(reader), config);
        channel.socket = Some(socket);
        channel.peer = peer;
        (channel.next_out, channel.next_in) = (1, 1);
        channel.phase("hello");
        channel.counter.sent(1, hello_bytes);
        channel.counter.received(0, hello_bytes);
        channel.clock = Clock { sent: 1, received: 1 };
        channel.phase("main");
        Ok(channel)
    }

    fn over(outgoing: Arc<Queue>, writer: Option<JoinHandle<()>>, incoming: Incoming, config: Config) -> Channel {
        Channel {
            outgoing,
            writer,
            socket: None,
            incoming,
            config,
            peer: None,
            next_out: 0,
            next_in: 0,
            clock: Clock::default(),
            stopped: Vec::new(),
            running: String::new(),
            counter: Counter::new(),
            broken: false,
            #[cfg(feature = "tap")]
            tap: None,
        }
    }

    /// Shows every payload that arrives to `tap` before the protocol sees it. Only with the feature `tap`,
    /// which tests of other crates switch on and no program does.
    #[cfg(feature = "tap")]
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// A peer without a certificate is taken for this one: [`Listener`](crate::Listener) says why.
    #[cfg(feature = "tap")]
    pub(crate) fn taken_for(mut self, peer: Option<Fingerprint>) -> Self {
        self.peer = self.peer.or(peer);
        self
    }

    /// The fingerprint of the certificate whose key the peer has proved to own in this TLS handshake. At a
    /// client it is the pinned one; at a server it is the client's, and `None` when the client showed none.
    /// Always `None` in memory and without TLS.
    pub fn peer_fingerprint(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// Starts (or goes back to) a named phase; all counts go to it until the next call. The causal clock runs
    /// on: a round of this phase may begin where the one before ended, and need not be told to the peer.
    pub fn phase(&mut self, name: &str) {
        self.counter.enter(name);
    }

    /// The same with a causal clock of its own, which stands still while another phase's runs. So the rounds
    /// of a phase are those of its own messages, whatever comes before or between them. Both parties must
    /// begin it between the same messages, else depths are wrong and sooner or later refused.
    pub fn begin(&mut self, name: &str) {
        self.counter.enter(name);
        if self.running == name {
            return;
        }
        let next = match self.stopped.iter().position(|(n, _)| n == name) {
            Some(at) => self.stopped.swap_remove(at).1,
            None => Clock::default(),
        };
        let before = std::mem::replace(&mut self.clock, next);
        self.stopped.push((std::mem::replace(&mut self.running, name.into()), before));
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        &self.counter.stats
    }

    /// Sends one message. Returns as soon as it is queued; an error may therefore belong to an earlier
    /// message.
    pub fn send(&mut self, tag: Tag, payload: Vec<u8>) -> Result<(), NetError> {
        if self.broken {
            return Err(NetError::Ended);
        }
        let result = self.try_send(tag, payload);
        self.broken = result.is_err();
        result
    }

    fn try_send(&mut self, tag: Tag, payload: Vec<u8>) -> Result<(), NetError> {
        let sequence = self.next_out;
        let next = sequence.checked_add(1).ok_or(NetError::SessionTooLong)?;
        let depth = self.clock.received.checked_add(1).ok_or(NetError::SessionTooLong)?;
        let len = length(sequence, payload.len())?;
        let header = Header { tag, version: FRAME_VERSION, sequence, depth, len };
        let frame = Frame { header, payload, queued: Instant::now() };
        self.outgoing.push(frame, self.config.write_timeout).map_err(|f| self.explain(f))?;
        self.next_out = next;
        let before = self.clock.depth();
        self.clock.sent = self.clock.sent.max(depth);
        self.counter.sent(self.clock.depth() - before, u64::from(len) + HEADER_BYTES as u64);
        Ok(())
    }

    /// Receives the next message, which must have this tag and exactly `len` bytes.
    pub fn recv(&mut self, tag: Tag, len: usize) -> Result<Vec<u8>, NetError> {
        if self.broken {
            return Err(NetError::Ended);
        }
        let result = self.try_recv(tag, len);
        self.broken = result.is_err();
        result
    }

    fn try_recv(&mut self, tag: Tag, len: usize) -> Result<Vec<u8>, NetError> {
        let sequence = self.next_in;
        let next = sequence.checked_add(1).ok_or(NetError::SessionTooLong)?;
        let expected = Expected {
            tag,
            len: length(sequence, len)?,
            sequence,
            min_depth: self.clock.received.max(1),
            max_depth: self.clock.sent.saturating_add(1),
        };
        let timeout = self.config.read_timeout;
        let received = match &mut self.incoming {
            Incoming::Memory(inbox) => receive_in_memory(inbox, &expected, timeout),
            Incoming::Stream(reader) => reader.frame(&expected),
        };
        let (header, payload) = received.map_err(|e| self.prefer_stall(e))?;
        self.next_in = next;
        let before = self.clock.depth();
        self.clock.received = header.depth;
        self.counter.received(self.clock.depth() - before, u64::from(expected.len) + HEADER_BYTES as u64);
        #[cfg(feature = "tap")]
        let payload = {
            let mut payload = payload;
            if let Some(tap) = &mut self.tap {
                tap(tag, &mut payload);
            }
            payload
        };
        Ok(payload)
    }

    /// Sends one message and receives one: a single round when both parties call it together.
    pub fn exchange(&mut self, tag: Tag, payload: Vec<u8>, len: usize) -> Result<Vec<u8>, NetError> {
        self.send(tag, payload)?;
        self.recv(tag, len)
    }

    /// A handle with which another thread can end this channel.
    pub fn hangup(&self) -> Result<Hangup, NetError> {
        let socket = self.socket.as_ref().map(TcpStream::try_clone).transpose();
        let socket = socket.map_err(|source| NetError::Io { during: "splitting the socket", index: 0, source })?;
        let inbox = match &self.incoming {
            Incoming::Memory(inbox) => Some(Arc::clone(inbox)),
            Incoming::Stream(_) => None,
        };
        Ok(Hangup { socket, outgoing: Some(Arc::clone(&self.outgoing)), inbox })
    }

    /// Sends what is queued, tells the peer that no more will come, and reports whether all of it could be
    /// sent. It does not wait until the peer has read it; messages of the peer that arrive later may still
    /// cost it our last ones.
    pub fn close(mut self) -> Result<(), NetError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), NetError> {
        let Config { write_timeout, profile, .. } = &self.config;
        // A shaped link needs its own time for what is queued; that is no stall.
        let pacing = profile.transmission(self.outgoing.bytes() as u64).saturating_add(profile.rtt);
        let patience = if self.broken { AFTER_ERROR.min(*write_timeout) } else { *write_timeout };
        let now = Instant::now();
        let by = now.checked_add(patience.saturating_add(pacing)).unwrap_or(now);
        self.outgoing.end(by);
        if let Some(thread) = self.writer.take() {
            if let (false, Some(socket)) = (self.outgoing.wait_left(by), &self.socket) {
                self.outgoing.fail(Failure::Stalled { index: self.next_out.saturating_sub(1) });
                let _ = socket.shutdown(Shutdown::Both);
            }
            // The thread does not panic; if it did, its queue would still say what failed.
            let _ = thread.join();
            self.socket.as_ref().map(discard_unread);
        }
        self.outgoing.lost().map_or(Ok(()), |f| Err(self.explain(f)))
    }

    fn explain(&self, failure: Failure) -> NetError {
        match failure {
            Failure::Gone { index } => NetError::ClosedOnSend { index },
            Failure::Stalled { index } => NetError::SendStalled { index, limit: self.config.write_timeout },
            Failure::Os { index, kind } => NetError::Io { during: "sending", index, source: kind.into() },
        }
    }

    /// When our writer gave up it also ended the reading half; the cause is then the sending, not the peer.
    fn prefer_stall(&self, error: NetError) -> NetError {
        match (&error, self.outgoing.failure()) {
            (
                NetError::Closed { .. } | NetError::Truncated { .. },
                Some(f @ (Failure::Stalled { .. } | Failure::Os { .. })),
            ) => self.explain(f),
            _ => error,
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::debug!(%error, "a channel was dropped before all of it was sent");
        }
        if let Incoming::Memory(inbox) = &self.incoming {
            inbox.fail(Failure::Gone { index: self.next_in });
        }
    }
}

/// Reads away what has arrived and nobody asked for. Closing a socket with unread bytes is a reset, which
/// throws away what we have sent and the peer has not yet read.
fn discard_unread(mut socket: &TcpStream) {
    if socket.set_nonblocking(true).is_ok() {
        let mut rest = [0; 4096];
        let mut left = UNREAD_LIMIT;
        while let (true, Ok(n @ 1..)) = (left > 0, socket.read(&mut rest)) {
            left = left.saturating_sub(n);
        }
    }
}

fn length(index: u32, len: usize) -> Result<u32, NetError> {
    u32::try_from(len).map_err(|_| NetError::TooLong { index, len })
}

fn receive_in_memory(inbox: &Queue, expected: &Expected, timeout: Duration) -> Result<(Header, Vec<u8>), NetError> {
    let index = expected.sequence;
    match inbox.pop(timeout) {
        Popped::Frame(frame) => {
            frame.header.check(expected)?;
            Ok((frame.header, frame.payload))
        }
        Popped::End => Err(NetError::Closed { index }),
        Popped::TimedOut => Err(NetError::Timeout { index, limit: timeout }),
    }
}

#[cfg(test)]
mod tests;
