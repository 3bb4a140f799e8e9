//! Who may ask: as an operator and clients see it, by processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::time::Duration;

use fesc_infer::session::VERSION;
use fesc_infer::session::handshake::{Greeting, Offer, Purpose, Reply};
use fesc_infer::session::message::Talk;
use fesc_infer::session::{Hex32, hello};
use fesc_net::{Channel, ClientSecurity, Config, connect};
use serde_json::Value;
use support::place::Place;
use support::server::Listening;
use support::{fesc, signal, tiny};

/// Makes a client's identity in a place; returns its options and its line for a list, without budgets.
fn client(place: &Place, name: &str) -> ([String; 4], String) {
    let made: Value =
        serde_json::from_str(&fesc(&["keygen", "--client", "--out", &place.text(name), "--json"]).ok()).unwrap();
    let text = |key: &str| made[key].as_str().unwrap().to_string();
    assert_eq!(text("list_line"), format!("{name} {} sessions=100 logits=0", text("fingerprint")));
    let options = ["--key".into(), text("key"), "--cert".into(), text("certificate")];
    (options, format!("{name} {}", text("fingerprint")))
}

fn log(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(place.path("state").join("sessions.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn clients_without_a_listed_certificate_or_over_their_budget_are_refused() {
    let place = Place::new(1);
    let text = tiny::text(3);
    let ((one, line), (two, _)) = (client(&place, "one"), client(&place, "two"));
    let (one, two) = (one.each_ref().map(String::as_str), two.each_ref().map(String::as_str));
    let list = place.path("clients");
    let write = |budget: &str| fs::write(&list, format!("# who may ask\n{line} {budget}\n")).unwrap();
    write("sessions=2 logits=1");
    let server = place.serve(&["--clients", &place.text("clients"), "--reveal", "logits"]);
    assert_eq!(server.said["listed_clients_only"], true);
    assert!(server.said["queue_bytes"].as_u64().unwrap() > 1 << 28);
    for stranger in [&[][..], &two] {
        let said = place.refused(&server, &text, 5, stranger);
        assert!(said.contains("listed clients only") && said.contains("keygen --client"), "{said}");
    }
    assert!(
        !place.path("cache").exists() || fs::read_dir(place.path("cache")).unwrap().next().is_none(),
        "nothing told"
    );
    let logits = [&one[..], &["--reveal", "logits"]].concat();
    assert_eq!(place.classify(&server, &text, &logits)[0]["label"].as_u64(), Some(place.twin(&text)));
    let said = place.refused(&server, &text, 5, &logits);
    assert!(said.contains("1 sessions that reveal logits a day") && said.contains("begins in at most"), "{said}");
    place.classify(&server, &text, &one);
    assert!(place.refused(&server, &text, 5, &one).contains("2 sessions a day"));
    // A larger budget counts at once, and so does an empty list.
    write("sessions=3");
    place.classify(&server, &text, &one);
    fs::write(&list, "").unwrap();
    assert!(place.refused(&server, &text, 5, &one).contains("listed clients only"));
    server.stop();
    // Counts outlive the server.
    write("sessions=3");
    let server = place.serve(&["--clients", &place.text("clients")]);
    assert!(place.refused(&server, &text, 5, &one).contains("3 sessions a day"));
    server.stop();
    let lines = log(&place);
    let seen: Vec<(u64, &str, &str)> = lines
        .iter()
        .map(|l| (l["code"].as_u64().unwrap(), l["result"].as_str().unwrap(), l["reveal"].as_str().unwrap()))
        .collect();
    let (done, refused) = ((0, "done", "label"), (5, "refused", "label"));
    assert_eq!(seen, [(0, "done", "logits"), (5, "refused", "logits"), done, refused, done, refused]);
    for line in &lines {
        let names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known =
            vec!["time", "session", "client", "kind", "bucket", "plan", "reveal", "code", "result", "seconds", "bytes"];
        known.sort_unstable();
        assert_eq!(names, known, "nothing else is written of a session");
        assert_eq!((line["client"].as_str(), line["bucket"].as_u64()), (Some("one"), Some(128)));
    }
}

#[test]
fn a_list_that_is_wrong_is_named_with_its_line() {
    let place = Place::new(1);
    fs::write(place.path("clients"), "one 1234\n").unwrap();
    let (model, state, list) = (place.text("model"), place.text("state"), place.text("clients"));
    let said = fesc(&["serve", "--model", &model, "--state", &state, "--clients", &list]).fails(1);
    assert!(said.contains("clients: line 1") && said.contains("64 hex digits"), "{said}");
    let said = fesc(&["serve", "--model", &model, "--state", &state, "--queue-memory", "16777216"]).fails(4);
    assert!(said.contains("--queue-memory") && said.contains("free"), "{said}");
}

#[test]
fn a_server_without_a_list_says_so_beyond_the_loopback() {
    let place = Place::new(1);
    let (model, state) = (place.text("model"), place.text("state"));
    let mut server = support::Watched::start(&["serve", "--model", &model, "--state", &state, "--listen", "0.0.0.0:0"]);
    assert!(server.wait_for("no list of clients").contains("--clients"));
    server.kill();
    let server = place.serve(&[]);
    server.stop();
}

/// A client that greets, is offered everything, and holds its seat.
fn holding(server: &Listening) -> Channel {
    let pin = ClientSecurity::Tls(server.text("fingerprint").parse().unwrap());
    let mut channel = connect(&server.text("listening"), &pin, &hello(), &Config::default()).unwrap();
    let mut talk = Talk::default();
    let greeting = Greeting { version: VERSION, nonce: Hex32([4; 32]), purpose: Purpose::Session };
    talk.tell(&mut channel, "greeting", &greeting).unwrap();
    talk.hear::<Reply<Offer>>(&mut channel, "offer").unwrap().granted().unwrap();
    channel
}

#[test]
fn a_busy_server_is_waited_for() {
    let place = Place::new(1);
    let text = tiny::text(3);
    let server = place.serve(&["--max-sessions", "1"]);
    let seat = holding(&server);
    assert!(place.refused(&server, &text, 4, &[]).contains("busy"));
    assert!(place.refused(&server, &text, 4, &["--wait", "1"]).contains("busy"), "a second later as well");
    let waiting = place.call(&server, "classify", &text, &["--wait", "40"]);
    std::thread::sleep(Duration::from_millis(1500));
    drop(seat);
    waiting.end().ok();
    server.stop();
}

/// It fills its own share of the queues, and keeps its own seat.
#[test]
fn a_client_that_stops_reading_costs_nobody_else_anything() {
    let place = Place::new(1);
    let text = tiny::text(3);
    let server = place.serve(&["--max-sessions", "2", "--queue-memory", "256"]);
    assert_eq!(server.said["queue_bytes"].as_u64(), Some(256 << 20));
    let mut stopped = place.watch(&server, "classify", &text, &["--net", "1gbps,20ms"]);
    stopped.wait_for("segment 0: silu");
    signal("STOP", stopped.pid());
    let label = Some(place.twin(&text));
    for _ in 0..3 {
        assert_eq!(place.classify(&server, &text, &[])[0]["label"].as_u64(), label);
    }
    assert!(server.memory() < 700 << 20, "{}", server.memory());
    stopped.kill();
    server.stop();
}
