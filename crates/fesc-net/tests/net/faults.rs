//! Every fault, at every message, in both directions, on a protocol of six messages.
//!
//! Demanded: both parties end within the limits, nobody panics, a party that ends well has the right data,
//! and the party that received the fault names the message. At least one party fails, unless the fault came
//! too late to matter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fesc_net::{Channel, ClientSecurity, Listener, NetError, ServerSecurity, Tag, connect};

use crate::pair::{SESSION, both, index_of, quick};
use crate::proxy::{self, Direction, Fault};

/// Messages per direction, hello included.
const CLIENT_SENDS: usize = 4;
const SERVER_SENDS: usize = 4;

fn message(kind: u16, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u16 ^ kind.wrapping_mul(37)) as u8).collect()
}

fn send(c: &mut Channel, kind: u16, len: usize) -> Result<(), NetError> {
    c.send(Tag(0x0300 + kind), message(kind, len))
}

fn recv(c: &mut Channel, kind: u16, len: usize) -> Result<(), NetError> {
    let got = c.recv(Tag(0x0300 + kind), len)?;
    assert_eq!(got, message(kind, len), "accepted wrong data");
    Ok(())
}

fn client(mut c: Channel) -> Result<(), NetError> {
    send(&mut c, 1, 10)?;
    recv(&mut c, 2, 20)?;
    send(&mut c, 3, 8)?;
    recv(&mut c, 3, 8)?;
    send(&mut c, 4, 3000)?;
    recv(&mut c, 5, 1)?;
    c.close()
}

fn server(mut c: Channel) -> Result<(), NetError> {
    recv(&mut c, 1, 10)?;
    send(&mut c, 2, 20)?;
    send(&mut c, 3, 8)?;
    recv(&mut c, 3, 8)?;
    recv(&mut c, 4, 3000)?;
    send(&mut c, 5, 1)?;
    c.close()
}

struct Outcome {
    client: Result<(), NetError>,
    server: Result<(), NetError>,
    time: Duration,
}

fn run(fault: Fault, at: usize, direction: Direction) -> Outcome {
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, quick()).unwrap();
    let (address, middle) = proxy::frames(listener.address(), fault, at, direction);
    let start = Instant::now();
    let (client, server) = both(
        || client(connect(&address.to_string(), &ClientSecurity::InsecurePlaintext, &SESSION, &quick())?),
        || server(listener.accept()?.establish(&SESSION)?),
    );
    let time = start.elapsed();
    middle.join().expect("the proxy must not panic");
    Outcome { client, server, time }
}

/// Whether both parties may end well: the fault touches only what nobody waits for, or only the round count.
fn harmless(fault: Fault, at: usize, direction: Direction) -> bool {
    let last = match direction {
        Direction::ToServer => CLIENT_SENDS - 1,
        Direction::ToClient => SERVER_SENDS - 1,
    };
    match fault {
        Fault::None => true,
        Fault::Repeat => at == last,
        // The low bit of a depth may change it within its causal range, and the payload is still the right
        // one.
        Fault::FlipHeaderBit(64) => at > 0,
        _ => false,
    }
}

fn check(fault: Fault, at: usize, direction: Direction) {
    let name = format!("{fault:?} at {at} {direction:?}");
    let Outcome { client, server, time } = run(fault, at, direction);
    // Each party waits at most for its read limit and for flushing; the rest is a loaded machine.
    assert!(time < Duration::from_secs(6), "{name}: took {time:?}");
    for error in [&client, &server].into_iter().filter_map(|r| r.as_ref().err()) {
        assert!(index_of(error).is_some(), "{name}: {error} names no message");
    }
    if harmless(fault, at, direction) {
        return;
    }
    let victim = if direction == Direction::ToServer { &server } else { &client };
    let Err(error) = victim else { panic!("{name}: the receiver did not notice") };
    let index = index_of(error).unwrap() as usize;
    assert!(index == at || (fault == Fault::Repeat && index == at + 1), "{name}: {error}");
}

#[test]
fn without_a_fault_all_is_well() {
    let Outcome { client, server, .. } = run(Fault::None, 0, Direction::ToServer);
    client.unwrap();
    server.unwrap();
}

#[test]
fn every_fault_at_every_message_ends_both_parties() {
    let mut cases = Vec::new();
    // One bit of each header field, and the top bit of the length.
    let flips = [3, 16, 33, 64, 95, 98, 127].map(Fault::FlipHeaderBit);
    let others = [
        Fault::Close,
        Fault::Stall,
        Fault::Truncate,
        Fault::TruncateAndStall,
        Fault::Repeat,
        Fault::SwapWithNext,
        Fault::Garbage,
    ];
    for fault in others.into_iter().chain(flips) {
        cases.extend((0..CLIENT_SENDS).map(|at| (fault, at, Direction::ToServer)));
        cases.extend((0..SERVER_SENDS).map(|at| (fault, at, Direction::ToClient)));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(&(fault, at, direction)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(fault, at, direction);
                }
            });
        }
    });
}

#[test]
fn repeating_the_last_message_does_no_harm() {
    let Outcome { client, server, .. } = run(Fault::Repeat, SERVER_SENDS - 1, Direction::ToClient);
    client.unwrap();
    server.unwrap();
}
