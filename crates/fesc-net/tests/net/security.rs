//! What TLS must refuse, and what a listener on the wire must not see.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fesc_net::{Channel, ClientSecurity, Identity, Listener, NetError, ServerSecurity, Tag, connect};
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection};

use crate::foreign;
use crate::pair::{SESSION, both, plain, quick, refused, tls};
use crate::proxy::{self, Direction};

const T: Tag = Tag(0x0301);

fn handshake(server: ServerSecurity, client: ClientSecurity) -> (Result<Channel, NetError>, Result<Channel, NetError>) {
    let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
    let address = listener.address().to_string();
    both(|| connect(&address, &client, &SESSION, &quick()), || listener.accept()?.establish(&SESSION))
}

#[test]
fn the_pinned_server_is_accepted() {
    let (server, client) = tls();
    let (c, s) = handshake(server, client);
    assert!(c.is_ok() && s.is_ok());
}

#[test]
fn a_wrong_pin_is_refused_and_both_fingerprints_are_shown() {
    let (server, _) = tls();
    let other = Identity::generate().unwrap().fingerprint();
    let ServerSecurity::Tls(identity) = &server else { panic!() };
    let shown = identity.fingerprint();
    let (c, s) = handshake(server, ClientSecurity::Tls(other));
    let error = refused(c);
    assert!(matches!(error, NetError::WrongPin { expected, got } if expected == other && got == shown), "{error}");
    let error = refused(s);
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
}

#[test]
fn plaintext_and_tls_do_not_mix() {
    let ((tls_server, tls_client), (plain_server, plain_client)) = (tls(), plain());
    let (c, s) = handshake(tls_server, plain_client);
    let (c, s) = (refused(c), refused(s));
    assert!(matches!(s, NetError::Tls { .. }), "{s}");
    // The TLS server answers with an alert; when it hangs up first, that is all the client can see.
    assert!(matches!(c, NetError::NotOurs { .. } | NetError::Closed { .. }), "{c}");
    let (c, s) = handshake(plain_server, tls_client);
    let (c, s) = (refused(c), refused(s));
    assert!(matches!(s, NetError::NotOurs { hint } if hint.contains("TLS")), "{s}");
    assert!(matches!(c, NetError::Tls { .. }), "{c}");
}

#[test]
fn other_parameters_are_refused_on_both_sides() {
    for (server, client) in [plain(), tls()] {
        let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
        let address = listener.address().to_string();
        let (c, s) = both(|| connect(&address, &client, &[1; 32], &quick()), || listener.accept()?.establish(&[2; 32]));
        assert!(matches!(refused(c), NetError::Session { expected: 0x0101_0101, got: 0x0202_0202 }));
        assert!(matches!(refused(s), NetError::Session { expected: 0x0202_0202, got: 0x0101_0101 }));
    }
}

#[test]
fn a_tls_1_2_client_is_refused_and_a_tls_1_3_one_is_not() {
    for (versions, fine) in [(&[&rustls::version::TLS12], false), (&[&rustls::version::TLS13], true)] {
        let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
        let address = listener.address();
        let (client, server) = both(
            || {
                let mut socket = TcpStream::connect(address).unwrap();
                let mut connection = foreign::connection(foreign::client_of(versions));
                connection.complete_io(&mut socket).map(|_| connection.protocol_version())
            },
            || listener.accept()?.establish(&SESSION).map(|_| ()),
        );
        if fine {
            // It gets as far as the hello, which it does not know.
            assert_eq!(client.unwrap(), Some(rustls::ProtocolVersion::TLSv1_3));
            assert!(!matches!(server.unwrap_err(), NetError::Tls { .. }));
        } else {
            assert!(client.unwrap_err().to_string().contains("ProtocolVersion"));
            assert!(matches!(server.unwrap_err(), NetError::Tls { source: rustls::Error::PeerIncompatible(_), .. }));
        }
    }
}

fn connect_to_foreign(config: Arc<ServerConfig>, pin: &CertificateDer<'_>) -> NetError {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let pin = ClientSecurity::Tls(fesc_net::Fingerprint::of(pin));
    let (client, _) = both(
        || connect(&address, &pin, &SESSION, &quick()),
        || {
            let (mut stream, _) = socket.accept().unwrap();
            ServerConnection::new(config).unwrap().complete_io(&mut stream).is_ok()
        },
    );
    refused(client)
}

#[test]
fn a_stolen_certificate_without_its_key_is_refused() {
    let made = || rcgen::generate_simple_self_signed(vec!["fesc".to_string()]).unwrap();
    let (victim, thief) = (made(), made());
    let versions = &[&rustls::version::TLS13];
    let stolen = foreign::server(victim.cert.der().clone(), thief.signing_key.serialize_der(), versions);
    let error = connect_to_foreign(stolen, victim.cert.der());
    assert!(matches!(error, NetError::Tls { source: rustls::Error::InvalidCertificate(_), .. }), "{error}");
    // The control: with its own key the same server passes TLS, and fails only for want of a hello.
    let honest = foreign::server(victim.cert.der().clone(), victim.signing_key.serialize_der(), versions);
    let error = connect_to_foreign(honest, victim.cert.der());
    assert!(matches!(error, NetError::Closed { .. }), "{error}");
}

#[test]
fn a_tls_1_2_server_is_refused() {
    let made = rcgen::generate_simple_self_signed(vec!["fesc".to_string()]).unwrap();
    let old = foreign::server(made.cert.der().clone(), made.signing_key.serialize_der(), &[&rustls::version::TLS12]);
    let error = connect_to_foreign(old, made.cert.der());
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

#[test]
fn the_bytes_on_the_socket_are_not_the_protocols() {
    let secret = b"the diagnosis is none of your business";
    for ((server, client), protected) in [(tls(), true), (plain(), false)] {
        let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
        let (address, tap) = proxy::bytes(listener.address(), |_, _, _| {});
        let party = |mut c: Channel| {
            assert_eq!(c.exchange(T, secret.to_vec(), secret.len()).unwrap(), secret);
            c.close().unwrap();
        };
        both(
            || party(connect(&address.to_string(), &client, &SESSION, &quick()).unwrap()),
            || party(listener.accept().unwrap().establish(&SESSION).unwrap()),
        );
        let (up, down) = tap.join().unwrap();
        for seen in [up, down] {
            assert!(seen.len() >= 96 + 16 + secret.len());
            for mark in [&secret[..], b"FESC-2PC", &SESSION] {
                // Without TLS all of it is seen, or the test would prove nothing.
                assert_eq!(contains(&seen, mark), !protected);
            }
        }
    }
}

#[test]
fn a_changed_byte_under_tls_is_refused() {
    let (server, client) = tls();
    let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
    // Handshake and hello fit in the first 100,000 bytes; the message is longer.
    let (address, middle) = proxy::bytes(listener.address(), |direction, offset, bytes| {
        if direction == Direction::ToServer && (offset..offset + bytes.len()).contains(&100_000) {
            bytes[100_000 - offset] ^= 1;
        }
    });
    let (sent, received) = both(
        || {
            let mut c = connect(&address.to_string(), &client, &SESSION, &quick())?;
            c.send(T, vec![1; 300_000])?;
            c.recv(T, 1).map(|_| ())
        },
        || listener.accept()?.establish(&SESSION)?.recv(T, 300_000).map(|_| ()),
    );
    assert!(matches!(received.unwrap_err(), NetError::Tls { source: rustls::Error::DecryptError, .. }));
    let error = sent.unwrap_err();
    assert!(matches!(error, NetError::Tls { .. } | NetError::Closed { .. } | NetError::ClosedOnSend { .. }), "{error}");
    middle.join().unwrap();
}

#[test]
fn a_client_that_trickles_cannot_hold_the_handshake_open() {
    for (server, _) in [plain(), tls()] {
        let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
        let address = listener.address();
        let start = Instant::now();
        let (_, error) = both(
            || {
                let mut socket = TcpStream::connect(address).unwrap();
                // A byte of a TLS record of 512 bytes every 50 ms: always within the idle limit.
                let mut record = vec![0x16, 3, 1, 2, 0];
                record.resize(40, 0);
                for byte in record {
                    if socket.write_all(&[byte]).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            },
            || {
                let result = listener.accept().unwrap().establish(&SESSION);
                (refused(result), start.elapsed())
            },
        );
        let (error, time) = error;
        assert!(matches!(error, NetError::HandshakeTimeout { .. }), "{error}");
        assert!(time < Duration::from_millis(1900), "{time:?}");
    }
}

#[test]
fn a_client_that_begins_and_falls_silent_ends_in_a_timeout() {
    // Half a hello, half a TLS record: some bytes came, and then the wait runs out in one piece.
    for ((server, _), bytes) in [(plain(), &[0, 1, 1, 0xfe][..]), (tls(), &[0x16, 3, 1, 2, 0, 1])] {
        let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
        let mut socket = TcpStream::connect(listener.address()).unwrap();
        socket.write_all(bytes).unwrap();
        let error = refused(listener.accept().unwrap().establish(&SESSION));
        assert!(matches!(error, NetError::HandshakeTimeout { .. }), "{error}");
    }
}

/// A client made by hand, whose hello carries this exporter label; then it leaves without a TLS goodbye.
fn hello_by_hand(label: &[u8]) -> Result<Channel, NetError> {
    let (client, server) = foreign::visit(foreign::client(), label);
    client.unwrap();
    server
}

#[test]
fn an_end_without_close_notify_is_an_end_all_the_same() {
    let error = hello_by_hand(foreign::LABEL).unwrap_or_else(|e| panic!("{e}")).recv(T, 1).unwrap_err();
    assert!(matches!(error, NetError::Closed { index: 1 }), "{error}");
}

#[test]
fn a_hello_of_another_tls_connection_is_refused() {
    assert!(matches!(refused(hello_by_hand(b"EXPORTER-something else")), NetError::Binding));
}
