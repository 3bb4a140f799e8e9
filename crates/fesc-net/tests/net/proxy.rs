//! Somebody in the middle: forwards between two TCP ends, records, and does harm at one chosen frame.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// What to do with the chosen frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    Close,
    Stall,
    Truncate,
    TruncateAndStall,
    Repeat,
    /// When no other frame follows, the frame is lost.
    SwapWithNext,
    FlipHeaderBit(usize),
    Garbage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// Starts a proxy for one connection to `server`.
pub fn frames(server: SocketAddr, fault: Fault, at: usize, direction: Direction) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        let pick = |d| if d == direction { (fault, at) } else { (Fault::None, 0) };
        let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (to_server, to_client) = (pick(Direction::ToServer), pick(Direction::ToClient));
        let up = thread::spawn(move || forward_frames(client, server, to_server));
        forward_frames(s, c, to_client);
        up.join().unwrap();
    });
    (address, handle)
}

/// Bytes that went to the server and to the client.
pub type Seen = (Vec<u8>, Vec<u8>);

/// Forwards bytes, changed by `edit(direction, offset, bytes)`, and tells what it saw.
pub fn bytes(server: SocketAddr, edit: fn(Direction, usize, &mut [u8])) -> (SocketAddr, JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = thread::spawn(move || forward_bytes(client, server, Direction::ToServer, edit));
        let down = forward_bytes(s, c, Direction::ToClient, edit);
        (up.join().unwrap(), down)
    });
    (address, handle)
}

fn forward_bytes(
    mut from: TcpStream,
    mut to: TcpStream,
    direction: Direction,
    edit: fn(Direction, usize, &mut [u8]),
) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let offset = seen.len();
        seen.extend_from_slice(&buffer[..n]);
        edit(direction, offset, &mut buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    seen
}

/// The next frame with its header, or nothing at the end of the stream.
fn next_frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 16];
    from.read_exact(&mut frame).ok()?;
    let len = u32::from_le_bytes(frame[12..].try_into().unwrap()) as usize;
    frame.resize(16 + len, 0);
    from.read_exact(&mut frame[16..]).ok()?;
    Some(frame)
}

fn forward_frames(mut from: TcpStream, mut to: TcpStream, (fault, at): (Fault, usize)) {
    let mut held = None;
    let mut index = 0;
    while let Some(mut frame) = next_frame(&mut from) {
        let chosen = fault != Fault::None && index == at;
        index += 1;
        if chosen {
            match fault {
                Fault::None => {}
                Fault::Close => return close(&from, &to),
                Fault::Stall => return drain(&mut from, &to),
                Fault::Truncate => {
                    let _ = to.write_all(&frame[..frame.len() / 2]);
                    return close(&from, &to);
                }
                Fault::TruncateAndStall => {
                    let _ = to.write_all(&frame[..frame.len() / 2]);
                    return drain(&mut from, &to);
                }
                Fault::Repeat => frame.extend_from_within(..),
                Fault::SwapWithNext => {
                    held = Some(frame);
                    continue;
                }
                Fault::FlipHeaderBit(bit) => frame[bit / 8] ^= 1 << (bit % 8),
                Fault::Garbage => frame.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 89 + 41) as u8),
            }
        }
        if to.write_all(&frame).is_err() || to.write_all(&held.take().unwrap_or_default()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn close(from: &TcpStream, to: &TcpStream) {
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Swallows everything until the sender gives up.
fn drain(from: &mut TcpStream, to: &TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = from.read(&mut buffer) {}
    let _ = to.shutdown(Shutdown::Write);
}
