//! What every transport must do alike.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fesc_net::frame::{FRAME_VERSION, Header};
use fesc_net::hello::{HELLO_BYTES, Hello, Role};
use fesc_net::{Channel, Config, Listener, NetError, Phase, ServerSecurity, Stats, Tag};

use crate::pair::{self, SESSION, both, over_tcp, plain, quick};

const T: Tag = Tag(0x0301);
const SIZES: [usize; 9] = [0, 1, 15, 16, 65_519, 65_536, 65_537, (1 << 20) + 3, 5 << 20];

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 9) ^ seed) as u8).collect()
}

/// Both send everything before they read anything.
fn talk(mut c: Channel, me: usize) -> Stats {
    c.phase("talk");
    for (i, len) in SIZES.into_iter().enumerate() {
        c.send(T, pattern(i + me, len)).unwrap();
    }
    for (i, len) in SIZES.into_iter().enumerate() {
        assert!(c.recv(T, len).unwrap() == pattern(i + 1 - me, len), "message {i} of {len} bytes");
    }
    let stats = c.stats().clone();
    c.close().unwrap();
    stats
}

#[test]
fn both_send_first_all_sizes_same_counts() {
    let total: usize = SIZES.iter().map(|s| s + 16).sum();
    for (name, (a, b)) in pair::all(&Config::default()) {
        let (sa, sb) = both(move || talk(a, 0), move || talk(b, 1));
        let (bytes, frames) = (total as u64, SIZES.len() as u64);
        let expected =
            Phase { sent_bytes: bytes, received_bytes: bytes, sent_frames: frames, received_frames: frames, rounds: 1 };
        assert_eq!(sa.phase("talk"), expected, "{name}");
        assert_eq!(sb.phase("talk"), expected, "{name}");
        let hello = if name == "memory" { 0 } else { HELLO_BYTES as u64 };
        assert_eq!(sa.total.sent_bytes, bytes + hello, "{name}");
        assert_eq!(sa.phase("hello").received_bytes, hello, "{name}");
        let json = serde_json::to_string(&sa).unwrap();
        assert_eq!(serde_json::from_str::<Stats>(&json).unwrap(), sa);
    }
}

#[test]
fn many_small_messages() {
    for (name, (mut a, mut b)) in pair::all(&Config::default()) {
        let n: u32 = 20_000;
        let (_, sum) = both(
            move || {
                (0..n).for_each(|i| a.send(T, i.to_le_bytes().to_vec()).unwrap());
                a.recv(T, 0).unwrap();
            },
            move || {
                let sum: u64 =
                    (0..n).map(|_| u64::from(u32::from_le_bytes(b.recv(T, 4).unwrap().try_into().unwrap()))).sum();
                b.send(T, vec![]).unwrap();
                sum
            },
        );
        assert_eq!(sum, u64::from(n) * u64::from(n - 1) / 2, "{name}");
    }
}

#[test]
fn dropping_flushes_and_then_closes() {
    for (name, (mut a, mut b)) in pair::all(&Config::default()) {
        let len = 20 << 20;
        let (_, ()) = both(
            move || {
                a.send(T, pattern(1, len)).unwrap();
                a.send(T, vec![7]).unwrap();
            },
            move || {
                assert!(b.recv(T, len).unwrap() == pattern(1, len), "{name}");
                assert_eq!(b.recv(T, 1).unwrap(), [7], "{name}");
                let end = b.recv(T, 1).unwrap_err();
                assert!(matches!(end, NetError::Closed { .. }), "{name}: {end}");
            },
        );
    }
}

#[test]
fn a_peer_that_does_not_read_ends_in_a_stall() {
    let config = Config { queue_bytes: 4 << 20, ..quick() };
    for (name, (mut a, b)) in pair::all(&config) {
        let start = Instant::now();
        let error = (0..200).find_map(|_| a.send(T, vec![0; 1 << 20]).err()).expect("the queue is bounded");
        assert!(matches!(error, NetError::SendStalled { .. }), "{name}: {error}");
        drop(a);
        assert!(start.elapsed() < Duration::from_secs(10), "{name}: {:?}", start.elapsed());
        drop(b);
    }
}

#[test]
fn closing_towards_a_peer_that_does_not_read_says_so() {
    for (name, (mut a, b)) in pair::all(&quick()).into_iter().skip(1) {
        a.send(T, vec![0; 64 << 20]).unwrap();
        let error = a.close().unwrap_err();
        assert!(matches!(error, NetError::SendStalled { .. }), "{name}: {error}");
        drop(b);
    }
}

#[test]
fn after_an_error_dropping_does_not_wait_for_a_peer_that_does_not_read() {
    // The limits here are minutes.
    for (name, (mut a, mut b)) in pair::all(&Config::default()).into_iter().skip(1) {
        b.send(T, vec![]).unwrap();
        a.send(T, vec![0; 64 << 20]).unwrap();
        assert!(a.recv(Tag(0x0302), 0).is_err());
        let start = Instant::now();
        drop(a);
        assert!(start.elapsed() < Duration::from_secs(20), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn a_silent_peer_ends_in_a_timeout_that_names_the_message() {
    for (name, (mut a, mut b)) in pair::all(&quick()) {
        a.send(T, vec![1]).unwrap();
        b.recv(T, 1).unwrap();
        let error = b.recv(T, 1).unwrap_err();
        let index = if name == "memory" { 1 } else { 2 };
        assert!(matches!(error, NetError::Timeout { index: i, .. } if i == index), "{name}: {error}");
        assert!(matches!(b.send(T, vec![]), Err(NetError::Ended)), "{name}");
    }
}

#[test]
fn a_message_over_four_gigabytes_is_refused_without_touching_memory() {
    let (mut a, _b) = Channel::memory_pair();
    assert!(matches!(a.recv(T, 1 << 32), Err(NetError::TooLong { index: 0, len: 0x1_0000_0000 })));
}

/// A hand-made client that says a proper hello, then `bytes`, and hangs up when told.
fn hostile(bytes: Vec<u8>, check: impl FnOnce(&mut Channel)) {
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, quick()).unwrap();
    let mut socket = TcpStream::connect(listener.address()).unwrap();
    let hello = Hello { role: Role::Client, session: SESSION, binding: [0; 32] };
    socket.write_all(&hello.encode()).unwrap();
    let mut channel = listener.accept().unwrap().establish(&SESSION).unwrap();
    socket.read_exact(&mut [0; HELLO_BYTES]).unwrap();
    socket.write_all(&bytes).unwrap();
    check(&mut channel);
}

#[test]
fn a_false_length_is_refused_on_the_header_alone() {
    // Only the header is sent: refusing at once, not in a timeout, shows that nobody waits for the payload.
    for len in [0, 9, 11, u32::MAX] {
        let header = Header { tag: T, version: FRAME_VERSION, sequence: 1, depth: 1, len };
        hostile(header.encode().to_vec(), |channel| {
            let error = channel.recv(T, 10).unwrap_err();
            assert!(matches!(error, NetError::Unexpected { index: 1, expected_len: 10, .. }), "{len}: {error}");
        });
    }
}

#[test]
fn an_acausal_depth_is_refused() {
    // The server has sent only its hello (depth 1), so a client cannot be beyond depth 2.
    for (depth, fine) in [(0, false), (1, true), (2, true), (3, false), (u32::MAX, false)] {
        let header = Header { tag: T, version: FRAME_VERSION, sequence: 1, depth, len: 0 };
        hostile(header.encode().to_vec(), |channel| match channel.recv(T, 0) {
            Ok(_) => assert!(fine, "depth {depth}"),
            Err(error) => assert!(!fine && matches!(error, NetError::Depth { index: 1, .. }), "depth {depth}: {error}"),
        });
    }
}

#[test]
fn a_cut_off_payload_says_how_far_it_came() {
    let header = Header { tag: T, version: FRAME_VERSION, sequence: 1, depth: 1, len: 3_000_000 };
    let mut bytes = header.encode().to_vec();
    bytes.resize(16 + 1000, 0);
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, quick()).unwrap();
    let mut socket = TcpStream::connect(listener.address()).unwrap();
    socket.write_all(&Hello { role: Role::Client, session: SESSION, binding: [0; 32] }.encode()).unwrap();
    let mut channel = listener.accept().unwrap().establish(&SESSION).unwrap();
    socket.read_exact(&mut [0; HELLO_BYTES]).unwrap();
    socket.write_all(&bytes).unwrap();
    drop(socket);
    let error = channel.recv(T, 3_000_000).unwrap_err();
    assert!(matches!(error, NetError::Truncated { index: 1, got: 1016, expected: 3_000_016 }), "{error}");
}

#[test]
fn the_dead_peer_of_a_waiting_receiver_is_noticed_at_once() {
    let (a, mut b) = over_tcp(plain(), &Config::default());
    // The limits here are minutes: only noticing the close can end this in time.
    let (_, error) = both(move || drop(a), move || b.recv(T, 1).unwrap_err());
    assert!(matches!(error, NetError::Closed { index: 1 }), "{error}");
}

#[test]
fn a_close_with_unread_messages_loses_nothing_that_was_sent() {
    let (mut a, mut b) = over_tcp(plain(), &Config::default());
    b.send(T, vec![1; 10]).unwrap();
    // Until it has arrived at `a`, which never asks for it.
    std::thread::sleep(std::time::Duration::from_millis(50));
    (0..16).for_each(|i| a.send(T, vec![i; 65_536]).unwrap());
    a.close().unwrap();
    (0..16).for_each(|i| assert!(b.recv(T, 65_536).unwrap() == vec![i; 65_536], "message {i}"));
}

#[test]
fn a_listener_waits_no_longer_than_told() {
    let config = Config::default();
    let listener = Listener::bind("127.0.0.1:0", plain().0, config.clone()).unwrap();
    assert!(listener.accept_within(Duration::from_millis(20)).unwrap().is_none());
    let address = listener.address().to_string();
    let (client, server) = both(
        || fesc_net::connect(&address, &plain().1, &SESSION, &config),
        || listener.accept_within(Duration::from_secs(20)).unwrap().expect("a client").establish(&SESSION),
    );
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.send(T, vec![1, 2]).unwrap();
    assert_eq!(server.recv(T, 2).unwrap(), [1, 2]);
}

#[test]
fn a_connection_that_says_nothing_can_be_ended_while_it_is_established() {
    let listener = Listener::bind("127.0.0.1:0", plain().0, Config::default()).unwrap();
    let _silent = TcpStream::connect(listener.address()).unwrap();
    let pending = listener.accept().unwrap();
    let hangup = pending.hangup().unwrap();
    let start = Instant::now();
    let (established, ()) = both(
        || pending.establish(&SESSION),
        || {
            std::thread::sleep(Duration::from_millis(50));
            hangup.now();
        },
    );
    assert!(established.is_err() && start.elapsed() < Duration::from_secs(8), "{:?}", established.err());
}

#[test]
fn hanging_up_ends_a_wait_on_every_transport() {
    for (name, (mut a, _b)) in pair::all(&Config::default()) {
        let hangup = a.hangup().unwrap();
        let start = Instant::now();
        let (received, ()) = both(
            || a.recv(T, 1),
            || {
                std::thread::sleep(Duration::from_millis(50));
                hangup.now();
            },
        );
        assert!(received.is_err() && start.elapsed() < Duration::from_secs(20), "{name}: {received:?}");
    }
}
