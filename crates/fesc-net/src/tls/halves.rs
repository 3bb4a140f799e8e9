//! The reading half and the writing half of a TLS connection, in two threads.
//!
//! The rustls state sits behind a mutex that is held only while bytes are encrypted or decrypted, never while
//! a thread waits on the socket: reading blocks on the socket first and locks after, writing locks first and
//! blocks after. Only the writer thread takes ciphertext out, so records leave in the order in which they
//! were encrypted.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::Connection;

use crate::writer::Sink;

/// Plaintext that is encrypted under one lock and written at once.
const CHUNK: usize = 64 * 1024;

/// Slices looked at in one go; each becomes part of a record, so more of them would not help.
const SLICES: usize = 64;

type Shared = Arc<Mutex<Connection>>;

// rustls keeps its own error state; a panic of the other half cannot leave it half-way.
fn lock(shared: &Shared) -> MutexGuard<'_, Connection> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits a connection whose handshake is complete.
pub(crate) fn split(mut connection: Connection, socket: TcpStream) -> io::Result<(TlsSource, TlsSink)> {
    connection.set_buffer_limit(Some(CHUNK));
    let reading = socket.try_clone()?;
    let shared = Arc::new(Mutex::new(connection));
    let source = TlsSource {
        shared: Arc::clone(&shared),
        socket: reading,
        buffer: vec![0; CHUNK].into_boxed_slice(),
        start: 0,
        end: 0,
    };
    Ok((source, TlsSink { shared, socket, out: Vec::new() }))
}

/// The reading half.
pub(crate) struct TlsSource {
    shared: Shared,
    socket: TcpStream,
    /// Ciphertext.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Read for TlsSource {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(result) = self.decrypt(out) {
                return result;
            }
            // All ciphertext is used up; wait for more, without the lock. Both ends of the buffer go back
            // first: a read that is interrupted (a process that was stopped and goes on) comes again, and
            // must not find the old ciphertext.
            (self.start, self.end) = (0, 0);
            self.end = self.socket.read(&mut self.buffer)?;
            if self.end == 0 {
                // Told of the end, rustls says whether it came after a close_notify.
                lock(&self.shared).read_tls(&mut io::empty())?;
            }
        }
    }
}

impl TlsSource {
    /// Plaintext of the ciphertext at hand; `None` when more is needed.
    fn decrypt(&mut self, out: &mut [u8]) -> Option<io::Result<usize>> {
        let mut connection = lock(&self.shared);
        let mut filled = 0;
        loop {
            let room = out.get_mut(filled..).unwrap_or_default();
            if room.is_empty() {
                return Some(Ok(filled));
            }
            match connection.reader().read(room) {
                Ok(0) => return Some(Ok(filled)),
                Ok(n) => {
                    filled += n;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if filled > 0 => return Some(Ok(filled)),
                Err(e) => return Some(Err(e)),
            }
            let mut ciphertext = self.buffer.get(self.start..self.end).unwrap_or_default();
            if ciphertext.is_empty() {
                return (filled > 0).then_some(Ok(filled));
            }
            let step = connection.read_tls(&mut ciphertext).and_then(|n| {
                self.start += n;
                connection.process_new_packets().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
            });
            if let Err(e) = step {
                return Some(Err(e));
            }
        }
    }
}

/// The writing half.
pub(crate) struct TlsSink {
    shared: Shared,
    socket: TcpStream,
    /// Ciphertext, empty between calls.
    out: Vec<u8>,
}

impl TlsSink {
    /// Runs `step` under the lock, then writes the records it made without the lock.
    fn with<T>(&mut self, step: impl FnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        let result = {
            let mut connection = lock(&self.shared);
            let result = step(&mut connection)?;
            while connection.wants_write() {
                connection.write_tls(&mut self.out)?;
            }
            result
        };
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(result)
    }
}

impl Sink for TlsSink {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let some = slices.get(..SLICES).unwrap_or(slices);
        self.with(|connection| connection.writer().write_vectored(some))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.with(|connection| {
            connection.send_close_notify();
            Ok(())
        })?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn abort(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
