//! Shaped channels in real time. Only the lower bounds are sharp: no channel is faster than its profile.

use std::time::{Duration, Instant};

use fesc_net::{Channel, Config, Profile, Tag};

use crate::pair::{all, both};

const T: Tag = Tag(0x0301);

fn timed(a: Channel, b: Channel, party: fn(Channel, bool)) -> Duration {
    let start = Instant::now();
    both(move || party(a, true), move || party(b, false));
    start.elapsed()
}

#[test]
fn latency_is_a_round_trip_and_bandwidth_is_a_limit() {
    let profile: Profile = "80mbps,40ms".parse().unwrap();
    let config = Config { profile, ..Config::default() };
    for (name, (a, b)) in all(&config) {
        // Three round trips, then one megabyte: 120 ms, 100 ms on the link and 20 ms on the way.
        let time = timed(a, b, |mut c, first| {
            for _ in 0..3 {
                if first {
                    c.send(T, vec![1; 16]).unwrap();
                    c.recv(T, 16).unwrap();
                } else {
                    c.recv(T, 16).unwrap();
                    c.send(T, vec![1; 16]).unwrap();
                }
            }
            if first {
                c.send(T, vec![2; 1_000_000]).unwrap();
            } else {
                assert!(c.recv(T, 1_000_000).unwrap() == vec![2; 1_000_000]);
            }
        });
        assert!(time >= Duration::from_millis(240), "{name}: {time:?} is faster than the profile");
        assert!(time < Duration::from_millis(2400), "{name}: {time:?}");
    }
}

#[test]
fn frames_in_flight_share_the_latency() {
    let profile: Profile = "unlimited,100ms".parse().unwrap();
    let config = Config { profile, ..Config::default() };
    let (a, b) = Channel::memory_pair_with(&config).unwrap();
    let time = timed(a, b, |mut c, _| {
        for _ in 0..40 {
            c.send(T, vec![1]).unwrap();
        }
        for _ in 0..40 {
            c.recv(T, 1).unwrap();
        }
    });
    // One after the other they would take 2 s.
    assert!((Duration::from_millis(50)..Duration::from_millis(1500)).contains(&time), "{time:?}");
}
