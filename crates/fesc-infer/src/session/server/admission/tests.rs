#![allow(clippy::unwrap_used)]
use super::*;

fn admission(limit: usize, seconds: u64) -> Admission {
    Admission::new(limit, Duration::from_secs(seconds), Duration::from_secs(60))
}

#[test]
fn seats_are_counted_and_come_back() {
    let admission = admission(2, 60);
    let line = || Channel::memory_pair().0.hangup().unwrap();
    assert!(admission.admit(1, line()) && admission.admit(2, line()) && !admission.admit(3, line()));
    assert!(admission.seated(2) && !admission.seated(3));
    admission.leave(1);
    assert!(admission.admit(3, line()));
    admission.close();
    admission.leave(2);
    assert!(!admission.admit(4, line()));
    let most = PLACES_PER_SEAT * 2 + MORE_PLACES;
    let places: Vec<Place> = (10..200).filter_map(|n| admission.enter(n, line())).collect();
    assert_eq!(places.len(), 2 * most);
    drop(places);
    assert!(admission.empty());
}

#[test]
fn silent_connections_make_room_and_those_that_spoke_do_not() {
    let admission = admission(1, 60);
    let most = (PLACES_PER_SEAT + MORE_PLACES) as u64;
    let mut ends: Vec<_> = (0..=most).map(|_| Channel::memory_pair()).collect();
    let mut places: Vec<Option<Place>> = Vec::new();
    for (number, (end, _)) in (0..most).zip(&ends) {
        places.push(admission.enter(number, end.hangup().unwrap()));
    }
    assert!(places.iter().all(Option::is_some));
    assert!(admission.admit(0, ends[0].0.hangup().unwrap()));
    assert!(admission.enter(most, ends[most as usize].0.hangup().unwrap()).is_some(), "a silent one goes");
    let tag = fesc_net::Tag(0x0680);
    let cut: Vec<usize> = (0..ends.len()).filter(|&i| ends[i].0.send(tag, vec![0]).is_err()).collect();
    assert_eq!(cut, [1], "the oldest of those that have said nothing");
    (1..most).for_each(|number| admission.leave(number));
    assert!(admission.enter(most + 1, ends[1].0.hangup().unwrap()).is_none(), "nobody is silent");
}

/// However many strangers come after it, and only the first with its ticket.
#[test]
fn strangers_do_not_push_out_a_connection_with_a_ticket() {
    let admission = admission(1, 60);
    let most = (PLACES_PER_SEAT + MORE_PLACES) as u64;
    let mut ends: Vec<_> = (0..3 * most).map(|_| Channel::memory_pair()).collect();
    let _awaited = admission.expect(Hex32([1; 32]), None);
    let mut places = Vec::new();
    for (number, (end, _)) in (0..).zip(&ends) {
        places.push(admission.enter(number, end.hangup().unwrap()));
        if number < 3 {
            // The second connection, one that has overheard its ticket, and one with another.
            admission.show(number, ticket(Hex32([if number < 2 { 1 } else { 2 }; 32])));
        }
    }
    let tag = fesc_net::Tag(0x0680);
    let here: Vec<usize> = (0..3).filter(|&i| ends[i].0.send(tag, vec![0]).is_ok()).collect();
    assert_eq!(here, [0]);
    admission.leave(0);
    let again = *lock(&admission.state).greeting.keys().next().unwrap();
    admission.show(again, ticket(Hex32([1; 32])));
    assert!(lock(&admission.state).joining.contains_key(&again), "a client may try again");
    assert_ne!(ticket(Hex32([1; 32])), [1; 32], "the ticket does not tell the token");
}

#[test]
fn a_session_over_its_time_is_cut() {
    let admission = admission(1, 0);
    let (mut a, _b) = Channel::memory_pair();
    assert!(admission.admit(1, a.hangup().unwrap()));
    admission.expire();
    assert!(admission.was_cut(1) == Some(Cut::Time) && a.recv(fesc_net::Tag(0x0680), 1).is_err());
}

#[test]
fn a_silent_client_is_cut_only_when_it_is_its_turn() {
    let admission = Admission::new(1, Duration::from_secs(60), Duration::ZERO);
    let (mut a, mut b) = Channel::memory_pair();
    let tag = fesc_net::Tag(0x0680);
    assert!(admission.admit(1, a.hangup().unwrap()));
    admission.expire();
    admission.listen(1);
    admission.clear_deadline(1);
    admission.expire();
    b.send(tag, vec![1]).unwrap();
    assert!(admission.was_cut(1).is_none() && a.recv(tag, 1).is_ok(), "it spoke, or was not asked");
    admission.listen(1);
    admission.expire();
    assert!(admission.was_cut(1) == Some(Cut::Silence(Duration::ZERO)) && a.recv(tag, 1).is_err());
}

#[test]
fn a_second_connection_needs_its_token_and_works_once() {
    let admission = admission(1, 60);
    let awaited = admission.expect(Hex32([1; 32]), None);
    assert!(admission.join(Hex32([2; 32]), None, Channel::memory_pair().0).is_some());
    let other = Some(Fingerprint::of(b"another client"));
    assert!(admission.join(Hex32([1; 32]), other, Channel::memory_pair().0).is_some(), "its token, not its own");
    assert!(admission.join(Hex32([1; 32]), None, Channel::memory_pair().0).is_none());
    assert!(admission.join(Hex32([1; 32]), None, Channel::memory_pair().0).is_some());
    assert!(awaited.wait(Duration::from_secs(1)).is_some());
    drop(admission.expect(Hex32([3; 32]), None));
    assert!(admission.join(Hex32([3; 32]), None, Channel::memory_pair().0).is_some());
}
