//! Many clients: right answers, one after the other and four at once, and a server that keeps nothing of
//! them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use serde_json::Value;
use support::place::Place;
use support::server::Calling;
use support::tiny;

/// Sessions in all, sessions at once, and after how many the server has seen everything once.
const ALL: usize = 50;
const AT_ONCE: usize = 4;
const WARM: usize = 20;

/// Two documents of different classes: one answer for all would prove nothing.
fn documents(place: &Place) -> Vec<(String, u64)> {
    let known = |i| (tiny::text(i), place.twin(&tiny::text(i)));
    let first = known(0);
    let other = (1..40).map(known).find(|(_, class)| *class != first.1).expect("a document of another class");
    vec![first, other]
}

#[test]
fn a_client_too_many_is_told_and_the_others_are_not_disturbed() {
    let place = Place::new(1);
    let known = documents(&place);
    let server = place.serve(&["--max-sessions", "1"]);
    let first = place.call(&server, "classify", &known[0].0, &["--net", "40mbps,20ms"]);
    server.wait_for("granted");
    assert!(place.refused(&server, &known[1].0, 4, &[]).contains("busy"));
    let row: Value = serde_json::from_str(&first.end().ok()).unwrap();
    assert_eq!(row["label"].as_u64(), Some(known[0].1));
}

#[cfg(target_os = "linux")]
#[test]
fn fifty_sessions_four_at_once_are_right_and_leave_nothing_behind() {
    let place = Place::new(1);
    let known = documents(&place);
    let server = place.serve(&["--max-sessions", "4"]);
    // The first fills the cache.
    let mut done = 0;
    let mut early = (0, 0);
    let mut most = 1;
    while done < ALL {
        let batch = most.min(ALL - done);
        let calls: Vec<(Calling, u64)> = (done..done + batch)
            .map(|i| &known[i % known.len()])
            .map(|(text, class)| (place.call(&server, "classify", text, &[]), *class))
            .collect();
        for (call, class) in calls {
            let row: Value = serde_json::from_str(&call.end().ok()).unwrap();
            assert_eq!(row["label"].as_u64(), Some(class));
        }
        // The server is done a moment after its client.
        (0..batch).for_each(|_| drop(server.wait_for("done")));
        done += batch;
        most = AT_ONCE;
        if early.0 == 0 && done >= WARM {
            early = (server.memory(), server.descriptors());
        }
    }
    let late = (server.memory(), server.descriptors());
    println!("memory and descriptors after {WARM}: {early:?}, after {ALL}: {late:?}");
    // Measured in three runs: 30 to 32 MB after 20, 39 to 40 after 50. A session's correlations are
    // megabytes: thirty that stayed would show.
    assert!(late.0 < early.0 + (40 << 20), "{early:?}, {late:?}");
    assert!(late.1 <= early.1, "{early:?}, {late:?}");
    server.stop();
}
