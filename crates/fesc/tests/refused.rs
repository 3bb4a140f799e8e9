//! Refusals: each with its own words and its own exit code, and nothing given away before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use fesc_infer::session::VERSION;
use fesc_infer::session::handshake::{Accept, Granted, Greeting, Offer, Purpose, Reply, Step, Terms};
use fesc_infer::session::message::Talk;
use fesc_infer::session::{Hex32, Provider, hello};
use fesc_infer::{Embedding, Reveal};
use fesc_net::{ClientSecurity, Config, Identity, Listener, ServerSecurity, connect};
use support::place::Place;
use support::{fesc, fesc_reads, signal, tiny};

#[test]
fn each_refusal_has_its_own_words_and_code() {
    let place = Place::new(1);
    let server = place.serve(&["--max-tokens", "128"]);
    let text = tiny::text(3);
    let cache = place.path("cache");
    let (address, path) = (server.text("listening"), cache.display().to_string());
    let called = |more: &[&str], code| {
        let args = [&["classify", "--server", &address, "--cache", &path], more].concat();
        fesc_reads(&args, text.as_bytes()).fails(code)
    };
    assert!(called(&["--pin", &"00".repeat(32)], 5).contains("fingerprint"));
    assert!(called(&[], 2).contains("--pin"));
    assert!(called(&["--insecure-plaintext", "--timeout", "5"], 3).contains("peer"));
    assert!(fs::read_dir(&cache).unwrap().next().is_none(), "nothing was downloaded from a server that was refused");

    let said = place.refused(&server, &text, 5, &["--expect", &"ab".repeat(32)]);
    assert!(said.contains("another model"), "{said}");
    let long = (0..30).map(tiny::text).collect::<Vec<_>>().join(" ");
    let said = place.refused(&server, &long, 4, &[]);
    assert!(said.contains("at most 128") && said.contains("Nothing was sent"), "{said}");
    assert!(place.refused(&server, &text, 3, &["--reveal", "logits"]).contains("does not reveal"));
    assert!(
        place.refused(&server, &text, 3, &["--verify", "--model", &place.text("model")]).contains("--insecure-verify")
    );
    let other = place.text("other");
    tiny::write(Path::new(&other), 2, 6);
    assert!(place.refused(&server, &text, 2, &["--verify", "--model", &other]).contains("not the model"));
    assert!(place.refused(&server, &text, 1, &["--prepared", &place.text("empty")]).contains("fesc prepare"));
    assert!(place.refused(&server, &text, 2, &["--provider", "dealer"]).contains("--dealer"));
    let said = place.prepare(&server, &[]).fails(3);
    assert!(said.contains("--store"), "{said}");

    // A part of the document is fine, and a damaged cache is downloaded again.
    let file = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let row = place.classify(&server, &long, &["--length", "100"]).remove(0);
    assert_eq!((row["tokens"].as_u64(), row["cut"].as_bool()), (Some(100), Some(true)));
    assert!(row["setup_bytes"].as_u64().unwrap() > bytes.len() as u64);
    bytes[middle] ^= 1;
    assert!(fs::read(&file).unwrap() == bytes);
    assert!(fesc(&["serve", "--explain-trust"]).ok().contains("semi-honest"));
}

/// The first message of a client that knows TLS 1.2 and nothing later: no extension names versions.
fn hello_of_tls_1_2() -> Vec<u8> {
    let extensions: [&[u8]; 3] = [
        // Groups x25519 and secp256r1; uncompressed points; signatures by ECDSA and RSA.
        &[0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17],
        &[0, 11, 0, 2, 1, 0],
        &[0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1],
    ];
    let extensions = extensions.concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    // No session; three suites of TLS 1.2; no compression.
    body.extend([0, 0, 6, 0xc0, 0x2b, 0xc0, 0x2f, 0, 0x9c, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    record(1, &body)
}

/// The first message of a server that has chosen TLS 1.2.
fn answer_of_tls_1_2() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.extend([0, 0xc0, 0x2b, 0]);
    record(2, &body)
}

/// A handshake message in a record.
fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u16;
    let mut out = vec![0x16, 3, 3];
    out.extend((length + 4).to_be_bytes());
    out.extend([kind, 0]);
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

#[test]
fn a_client_of_tls_1_2_is_refused_and_another_is_served() {
    let place = Place::new(1);
    let server = place.serve(&[]);
    let mut old = TcpStream::connect(server.text("listening")).unwrap();
    old.write_all(&hello_of_tls_1_2()).unwrap();
    let mut answer = Vec::new();
    old.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    old.read_to_end(&mut answer).unwrap();
    // One fatal alert, protocol_version, and the end.
    assert_eq!(answer, [0x15, 3, 3, 0, 2, 2, 70]);
    let line = server.wait_for("WARN");
    assert!(line.contains("TLS") && line.contains("code=Some(5)"), "{line}");
    let text = tiny::text(3);
    assert_eq!(place.classify(&server, &text, &[])[0]["label"].as_u64(), Some(place.twin(&text)));
}

#[test]
fn a_server_of_tls_1_2_is_refused() {
    let place = Place::new(1);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, cache) = (socket.local_addr().unwrap().to_string(), place.text("cache"));
    let old = std::thread::spawn(move || {
        let (mut client, _) = socket.accept().unwrap();
        let mut first = [0; 5];
        client.read_exact(&mut first).unwrap();
        let mut rest = vec![0; usize::from(u16::from_be_bytes([first[3], first[4]]))];
        client.read_exact(&mut rest).unwrap();
        client.write_all(&answer_of_tls_1_2()).unwrap();
        let mut alert = Vec::new();
        let _ = client.read_to_end(&mut alert);
        alert
    });
    let pin = "00".repeat(32);
    let args = ["classify", "--server", &address, "--pin", &pin, "--cache", &cache, "--timeout", "20"];
    let said = fesc_reads(&args, b"some words").fails(5);
    assert!(said.contains("TLS"), "{said}");
    // An alert about the version, and not a byte of anything else.
    assert_eq!(old.join().unwrap(), [0x15, 3, 3, 0, 2, 2, 70]);
}

/// Of kernels that this program does not have.
const OTHER: Hex32 = Hex32([0xab; 32]);

#[test]
fn a_server_with_other_parameters_is_refused() {
    let place = Place::new(1);
    let identity = Identity::generate().unwrap();
    let (pin, cache) = (identity.fingerprint().to_string(), place.text("cache"));
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default()).unwrap();
    let address = listener.address().to_string();
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut channel = listener.accept().unwrap().establish(&hello()).unwrap();
            let mut talk = Talk::default();
            talk.hear::<Greeting>(&mut channel, "greeting").unwrap();
            let (model, outline, embedding) = (Hex32([1; 32]), Hex32([2; 32]), Embedding::Encrypted);
            let offer = Offer {
                version: VERSION,
                nonce: Hex32([3; 32]),
                terms: Terms { model, plan: "fast".into(), outline, kernels: OTHER, embedding },
                setup_bytes: 1 << 20,
                max_tokens: 128,
                reveals: vec![Reveal::Label],
                providers: vec!["ahead".into()],
                insecure_verify: false,
                keys_s: 86_400,
            };
            talk.tell(&mut channel, "offer", &Reply::Ok(offer)).unwrap();
            assert!(talk.hear::<Step>(&mut channel, "step").is_err(), "the client goes without another word");
        });
        let args = ["classify", "--server", &address, "--pin", &pin, "--cache", &cache, "--timeout", "20"];
        fesc_reads(&args, b"some words").fails(5)
    });
    assert!(said.contains("refuses") && said.contains(&OTHER.to_string()), "{said}");
}

#[test]
fn a_client_with_other_parameters_is_refused() {
    let place = Place::new(1);
    let server = place.serve(&[]);
    let pin = ClientSecurity::Tls(server.text("fingerprint").parse().unwrap());
    let mut channel = connect(&server.text("listening"), &pin, &hello(), &Config::default()).unwrap();
    let mut talk = Talk::default();
    let greeting = Greeting { version: VERSION, nonce: Hex32([4; 32]), purpose: Purpose::Session };
    talk.tell(&mut channel, "greeting", &greeting).unwrap();
    let offer = talk.hear::<Reply<Offer>>(&mut channel, "offer").unwrap().granted().unwrap();
    // All as offered but the parameters.
    let accept = Accept {
        terms: Terms { kernels: OTHER, ..offer.terms },
        bucket: 128,
        reveal: Reveal::Label,
        provider: Provider::Inline,
        verify: false,
        keys: None,
    };
    talk.tell(&mut channel, "step", &Step::Run(accept)).unwrap();
    let answer = talk.hear::<Reply<Granted>>(&mut channel, "answer").unwrap().granted();
    let said = answer.unwrap_err().to_string();
    assert!(said.contains("parameters") && said.contains(&OTHER.to_string()), "{said}");
    let line = server.wait_for("WARN");
    assert!(line.contains(&OTHER.to_string()) && line.contains("code=Some(5)"), "{line}");
}

#[test]
fn a_session_over_its_time_is_cut_and_its_seat_is_free() {
    let place = Place::new(1);
    let text = tiny::text(3);
    // A client that stops in the middle; its system keeps the connection open. The server's patience for
    // silence is longer.
    let server = place.serve(&["--max-sessions", "1", "--session-time", "40", "--timeout", "120"]);
    let mut client = place.watch(&server, "classify", &text, &["--net", "1gbps,20ms", "--timeout", "120"]);
    client.wait_for("segment 0: silu");
    signal("STOP", client.pid());
    assert!(place.refused(&server, &text, 4, &[]).contains("busy"));
    let line = server.wait_for("longer than");
    assert!(line.contains("40s") && line.contains("code=Some(4)"), "{line}");
    assert_eq!(place.classify(&server, &text, &[])[0]["label"].as_u64(), Some(place.twin(&text)));
    signal("CONT", client.pid());
    let (code, said) = client.end(Duration::from_secs(25));
    assert!(code == Some(3) && said.contains("peer"), "{code:?} {said}");
    server.stop();
}
