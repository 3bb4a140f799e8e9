#![allow(clippy::unwrap_used)]
use super::*;

const T: Tag = Tag(0x0301);

#[test]
fn counts_are_exact_and_rounds_are_causal() {
    let (mut a, mut b) = Channel::memory_pair();
    // Two messages one after the other are one round; the answer is the second; a simultaneous exchange
    // the third.
    a.send(T, vec![1; 10]).unwrap();
    a.send(T, vec![2; 20]).unwrap();
    b.recv(T, 10).unwrap();
    b.recv(T, 20).unwrap();
    b.send(T, vec![3; 5]).unwrap();
    assert_eq!(a.recv(T, 5).unwrap(), [3; 5]);
    a.phase("exchange");
    b.phase("exchange");
    a.send(T, vec![4]).unwrap();
    b.send(T, vec![5]).unwrap();
    assert_eq!((a.recv(T, 1).unwrap(), b.recv(T, 1).unwrap()), (vec![5], vec![4]));
    let (sa, sb) = (a.stats(), b.stats());
    assert_eq!(sa.total.rounds, 3);
    assert_eq!(sa.total.sent_bytes, 30 + 1 + 3 * 16);
    assert_eq!((sa.total.sent_bytes, sa.total.sent_frames), (sb.total.received_bytes, sb.total.received_frames));
    assert_eq!((sb.total.sent_bytes, sb.total.rounds), (sa.total.received_bytes, 3));
    assert_eq!(sa.phase("exchange").rounds, 1);
}

/// A generator's messages between two of the protocol: with one clock they hide its rounds or add to
/// them, depending on who sent last. With a clock of its own each phase has the rounds that it would have
/// alone.
#[test]
fn a_phase_with_its_own_clock_has_its_own_rounds() {
    let (mut a, mut b) = Channel::memory_pair();
    // Set-up ends with a message of `a`: `b` has seen more than `a`.
    a.send(T, vec![]).unwrap();
    b.recv(T, 0).unwrap();
    let pass = |from: &mut Channel, to: &mut Channel| {
        from.send(T, vec![]).unwrap();
        to.recv(T, 0).unwrap();
    };
    for _ in 0..3 {
        a.begin("online");
        b.begin("online");
        // One message of `a` and an answer: two rounds.
        pass(&mut a, &mut b);
        pass(&mut b, &mut a);
        a.begin("offline");
        b.begin("offline");
        // Three: `b` speaks first and last.
        pass(&mut b, &mut a);
        pass(&mut a, &mut b);
        pass(&mut b, &mut a);
    }
    for stats in [a.stats(), b.stats()] {
        // The first message of a later turn of `b` does not wait for its own last one.
        assert_eq!((stats.phase("main").rounds, stats.phase("online").rounds), (1, 6));
        assert_eq!(stats.phase("offline").rounds, 7);
        assert_eq!(stats.total.rounds, 14);
    }
    // A clock that only one of them started anew.
    a.begin("other");
    a.send(T, vec![]).unwrap();
    assert!(matches!(b.recv(T, 0), Err(NetError::Depth { .. })));
}

#[test]
fn payloads_are_moved_not_copied() {
    let (mut a, mut b) = Channel::memory_pair();
    let payload = vec![9; 1 << 20];
    let at = payload.as_ptr();
    a.send(T, payload).unwrap();
    let received = b.recv(T, 1 << 20).unwrap();
    assert_eq!(received.as_ptr(), at);
}

#[test]
fn an_error_is_final() {
    let (mut a, mut b) = Channel::memory_pair();
    a.send(T, vec![1]).unwrap();
    a.send(T, vec![1]).unwrap();
    assert!(matches!(b.recv(Tag(0x0302), 1), Err(NetError::Unexpected { index: 0, .. })));
    assert!(matches!(b.recv(T, 1), Err(NetError::Ended)));
    assert!(matches!(b.send(T, vec![]), Err(NetError::Ended)));
}

#[test]
fn a_dropped_end_leaves_its_messages_and_then_closes() {
    let (mut a, mut b) = Channel::memory_pair();
    a.send(T, vec![1]).unwrap();
    a.close().unwrap();
    assert_eq!(b.recv(T, 1).unwrap(), [1]);
    assert!(matches!(b.recv(T, 1), Err(NetError::Closed { index: 1 })));
    let (mut a, b) = Channel::memory_pair();
    drop(b);
    assert!(matches!(a.send(T, vec![1]), Err(NetError::ClosedOnSend { .. })));
}

#[test]
fn a_silent_peer_ends_in_a_timeout() {
    let config = Config { read_timeout: Duration::from_millis(20), ..Config::default() };
    let (mut a, _b) = Channel::memory_pair_with(&config).unwrap();
    assert!(matches!(a.recv(T, 1), Err(NetError::Timeout { index: 0, .. })));
}

#[test]
fn another_thread_can_hang_up() {
    let (mut a, _b) = Channel::memory_pair();
    let hangup = a.hangup().unwrap();
    let waiting = std::thread::spawn(move || {
        let received = a.recv(T, 1);
        (received, a.send(T, vec![1]))
    });
    hangup.now();
    let (received, sent) = waiting.join().unwrap();
    assert!(matches!(received, Err(NetError::Closed { index: 0 })), "{received:?}");
    assert!(matches!(sent, Err(NetError::Ended)));
}

#[test]
fn a_queue_limit_ends_in_a_stall() {
    let config = Config { queue_bytes: 100, write_timeout: Duration::from_millis(20), ..Config::default() };
    let (mut a, _b) = Channel::memory_pair_with(&config).unwrap();
    a.send(T, vec![0; 60]).unwrap();
    assert!(matches!(a.send(T, vec![0; 60]), Err(NetError::SendStalled { index: 1, .. })));
}

#[test]
fn message_numbers_and_depths_do_not_wrap() {
    let (mut a, mut b) = Channel::memory_pair();
    a.next_out = u32::MAX;
    assert!(matches!(a.send(T, vec![]), Err(NetError::SessionTooLong)));
    b.clock.received = u32::MAX;
    assert!(matches!(b.send(T, vec![]), Err(NetError::SessionTooLong)));
    let (mut a, _b) = Channel::memory_pair();
    a.next_in = u32::MAX;
    assert!(matches!(a.recv(T, 0), Err(NetError::SessionTooLong)));
}

#[test]
fn channels_can_move_between_threads() {
    fn send<T: Send>() {}
    send::<Channel>();
    send::<NetError>();
}
