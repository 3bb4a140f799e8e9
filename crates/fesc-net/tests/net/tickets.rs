//! The ticket in the ClientHello: when it is heard, when not, and that looking for it changes nothing else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fesc_net::hello::{Hello, Role};
use fesc_net::{
    Channel, ClientSecurity, Config, Identity, Listener, NetError, ServerSecurity, Tag, Ticket, connect_with_ticket,
};
use rustls::{ClientConfig, ServerConnection};

use crate::foreign;
use crate::pair::{SESSION, both, plain, quick, refused, tls};
use crate::proxy;

const TICKET: Ticket = [0x4f; 32];
const T: Tag = Tag(0x0301);

fn name() -> Vec<u8> {
    [b"fesc-join-", "4f".repeat(32).as_bytes()].concat()
}

/// The next client's channel, and all that was heard of its tickets.
fn establish(listener: &Listener) -> (Result<Channel, NetError>, Vec<Option<Ticket>>) {
    let mut heard = Vec::new();
    let result = listener.accept().and_then(|p| p.establish_seen(&SESSION, |ticket| heard.push(ticket)));
    (result, heard)
}

fn over(pair: (ServerSecurity, ClientSecurity), ticket: Option<&Ticket>) -> Vec<Option<Ticket>> {
    let listener = Listener::bind("127.0.0.1:0", pair.0, quick()).unwrap();
    let address = listener.address().to_string();
    let (c, (s, heard)) =
        both(|| connect_with_ticket(&address, &pair.1, ticket, &SESSION, &quick()), || establish(&listener));
    let (mut c, mut s) = (c.unwrap_or_else(|e| panic!("{e}")), s.unwrap_or_else(|e| panic!("{e}")));
    let (a, b) = both(|| c.exchange(T, vec![1], 1).unwrap(), || s.exchange(T, vec![2], 1).unwrap());
    assert_eq!((a, b), (vec![2], vec![1]));
    heard
}

#[test]
fn a_ticket_arrives_and_the_lack_of_one_too() {
    let named = || {
        let (server, ClientSecurity::Tls(pin)) = tls() else { panic!() };
        (server, ClientSecurity::TlsAs(pin, Arc::new(Identity::generate().unwrap())))
    };
    for pair in [tls, named] {
        assert_eq!(over(pair(), Some(&TICKET)), [Some(TICKET)]);
        assert_eq!(over(pair(), Some(&[0; 32])), [Some([0; 32])]);
        assert_eq!(over(pair(), None), [None]);
    }
    // Without TLS there is nowhere to put it.
    assert_eq!(over(plain(), Some(&TICKET)), [None]);
}

/// A client made by hand, with these ALPN names: the connection works, and this is heard.
fn names(names: &[&[u8]]) -> Vec<Option<Ticket>> {
    let mut config = foreign::client();
    config.alpn_protocols = names.iter().map(|n| n.to_vec()).collect();
    visit(config)
}

fn visit(config: ClientConfig) -> Vec<Option<Ticket>> {
    let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
    let address = listener.address();
    let (client, (server, heard)) = both(
        || {
            let mut socket = TcpStream::connect(address).unwrap();
            foreign::hello(&mut foreign::connection(config), &mut socket, Role::Client, foreign::LABEL)
        },
        || establish(&listener),
    );
    client.unwrap();
    assert!(server.is_ok());
    heard
}

#[test]
fn other_names_are_no_ticket_and_no_obstacle() {
    let name = name();
    // The control.
    assert_eq!(names(&[&name]), [Some(TICKET)]);
    let long = [&name[..], b"0"].concat();
    let digit = [&name[..73], b"g"].concat();
    let accent = [&name[..72], "\u{e9}".as_bytes()].concat();
    let other = [b"fesc-link-", &name[10..]].concat();
    for bad in [&name[..73], &name[..10], &name[10..], &long, &digit, &accent, &other, b"h2", &[b'f'; 255], &[0]] {
        assert_eq!(names(&[bad]), [None], "{bad:?}");
    }
    for several in [&[&name[..], &name[..]][..], &[b"h2", &name], &[&name, b"h2"], &[&[b'x'; 255][..]; 100]] {
        assert_eq!(names(several), [None]);
    }
    assert_eq!(names(&[]), [None]);
}

/// The first bytes of a client with a ticket.
fn client_hello() -> Vec<u8> {
    let mut config = foreign::client();
    config.alpn_protocols = vec![name()];
    let mut bytes = Vec::new();
    foreign::connection(config).write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_ticket_is_heard_before_anything_is_answered() {
    let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
    let mut socket = TcpStream::connect(listener.address()).unwrap();
    socket.write_all(&client_hello()).unwrap();
    let pending = listener.accept().unwrap();
    let mut looked = None;
    let result = pending.establish_seen(&SESSION, |ticket| {
        socket.set_nonblocking(true).unwrap();
        looked = Some((ticket, socket.peek(&mut [0; 1]).map_err(|e| e.kind())));
    });
    refused(result);
    assert_eq!(looked, Some((Some(TICKET), Err(std::io::ErrorKind::WouldBlock))));
    // The control: afterwards there is an answer.
    assert!(matches!(socket.peek(&mut [0; 1]), Ok(1)));
}

#[test]
fn a_client_hello_in_pieces_is_put_together() {
    // In many records.
    let mut config = foreign::client();
    config.alpn_protocols = vec![name()];
    config.max_fragment_size = Some(32);
    assert_eq!(visit(config), [Some(TICKET)]);
    // Byte by byte.
    let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
    let address = listener.address();
    let (mut socket, (server, heard)) = both(
        || {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_nodelay(true).unwrap();
            client_hello().iter().for_each(|byte| socket.write_all(&[*byte]).unwrap());
            socket
        },
        || establish(&listener),
    );
    assert_eq!(heard, [Some(TICKET)]);
    assert!(matches!(refused(server), NetError::HandshakeTimeout { .. }));
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x16]);
}

#[test]
fn a_trickled_client_hello_has_the_same_deadline_and_is_not_heard() {
    let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
    let address = listener.address();
    let start = Instant::now();
    let (_, ((result, heard), time)) = both(
        || {
            let mut socket = TcpStream::connect(address).unwrap();
            let (bytes, pause) = (client_hello(), Duration::from_millis(10));
            // At this pace all of it would take this long.
            assert!(bytes.len() as u32 * pause > Duration::from_secs(2));
            for byte in bytes {
                if socket.write_all(&[byte]).is_err() {
                    break;
                }
                sleep(pause);
            }
        },
        || (establish(&listener), start.elapsed()),
    );
    let error = refused(result);
    assert!(matches!(error, NetError::HandshakeTimeout { .. }), "{error}");
    assert!(time < Duration::from_millis(1900), "{time:?}");
    assert_eq!(heard, []);
}

#[test]
fn a_late_client_hello_does_not_begin_the_deadline_anew() {
    let (limit, late) = (Duration::from_secs(2), Duration::from_millis(1500));
    let listener = Listener::bind("127.0.0.1:0", tls().0, Config { connect_timeout: limit, ..quick() }).unwrap();
    let address = listener.address();
    let (_socket, ((result, heard), time)) = both(
        || {
            let mut socket = TcpStream::connect(address).unwrap();
            sleep(late);
            socket.write_all(&client_hello()).unwrap();
            socket
        },
        || {
            let start = Instant::now();
            (establish(&listener), start.elapsed())
        },
    );
    assert_eq!(heard, [Some(TICKET)]);
    let error = refused(result);
    assert!(matches!(error, NetError::HandshakeTimeout { .. }), "{error}");
    assert!(time < late + limit - Duration::from_millis(500), "{time:?}");
}

#[test]
fn who_says_nothing_is_not_heard_of() {
    for (server, _) in [plain(), tls()] {
        let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
        let _silent = TcpStream::connect(listener.address()).unwrap();
        let (result, heard) = establish(&listener);
        assert!(matches!(refused(result), NetError::HandshakeTimeout { .. }));
        assert_eq!(heard, []);
    }
}

/// Everything that comes back from a server that is sent these bytes and no more.
fn answer(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(bytes).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    socket.read_to_end(&mut back).unwrap();
    back
}

#[test]
fn bad_first_bytes_are_answered_as_tls_answers_them() {
    let good = client_hello();
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let mut old = Vec::new();
    foreign::connection(foreign::client_of(&[&rustls::version::TLS12])).write_tls(&mut old).unwrap();
    let plaintext = Hello { role: Role::Client, session: SESSION, binding: [0; 32] }.encode();
    let cases: [(&str, &[u8], bool); 11] = [
        ("nothing", &[], false),
        ("half", &good[..good.len() / 2], false),
        ("our plaintext hello", &plaintext, true),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n", true),
        ("TLS 1.2", &old, true),
        ("another handshake message", &changed(5, 2), true),
        ("a broken ClientHello", &changed(43, 0xff), true),
        ("a goodbye", &[0x15, 3, 3, 0, 2, 1, 0], false),
        ("an alert", &[0x15, 3, 3, 0, 2, 2, 40], false),
        ("change cipher spec", &[0x14, 3, 3, 0, 1, 1], true),
        ("more than a ClientHello", &[&good[..], &[0x17, 3, 3, 0xff, 0xff]].concat(), true),
    ];
    let made = rcgen::generate_simple_self_signed(vec!["fesc".to_string()]).unwrap();
    let versions = &[&rustls::version::TLS13];
    let config = foreign::server(made.cert.der().clone(), made.signing_key.serialize_der(), versions);
    for (case, bytes, answered) in cases {
        let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
        let address = listener.address();
        let (ours, result) = both(|| answer(address, bytes), || listener.accept()?.establish(&SESSION));
        let error = refused(result);
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (theirs, result) = both(
            || answer(address, bytes),
            || {
                let (mut stream, _) = socket.accept().unwrap();
                let result = ServerConnection::new(Arc::clone(&config)).unwrap().complete_io(&mut stream);
                stream.shutdown(Shutdown::Write).unwrap();
                // Closing with unread bytes would be a reset.
                while let Ok(1..) = stream.read(&mut [0; 4096]) {}
                result
            },
        );
        assert_eq!(!theirs.is_empty(), answered, "{case}: {theirs:02x?}");
        // An answer to a good ClientHello has fresh keys in it; an alert is the same bytes.
        if theirs.first() == Some(&0x16) {
            assert_eq!(ours.first(), Some(&0x16), "{case}");
        } else {
            assert_eq!(ours, theirs, "{case}");
        }
        let cause = result.err().unwrap().downcast::<rustls::Error>();
        match error {
            NetError::Tls { source, .. } => assert_eq!(source, cause.unwrap(), "{case}"),
            _ => assert!(matches!(error, NetError::Closed { .. }) && cause.is_err(), "{case}: {error}"),
        }
    }
}

#[test]
fn the_network_sees_the_ticket_and_not_the_certificate() {
    let (server, ClientSecurity::Tls(pin)) = tls() else { panic!() };
    let dir = tempfile::tempdir().unwrap();
    let (key, path) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
    Identity::generate().unwrap().save(&key, &path).unwrap();
    let certificate: rustls::pki_types::CertificateDer<'_> =
        rustls::pki_types::pem::PemObject::from_pem_file(&path).unwrap();
    let client = ClientSecurity::TlsAs(pin, Arc::new(Identity::load(&key, &path).unwrap()));
    let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
    let (address, tap) = proxy::bytes(listener.address(), |_, _, _| {});
    let (_, known) = both(
        || drop(connect_with_ticket(&address.to_string(), &client, Some(&TICKET), &SESSION, &quick())),
        || establish(&listener).0.ok().unwrap().peer_fingerprint(),
    );
    assert_eq!(known, Some(fesc_net::Fingerprint::of(&certificate)));
    let (up, _) = tap.join().unwrap();
    let holds = |needle: &[u8]| up.windows(needle.len()).any(|w| w == needle);
    assert!(holds(&name()));
    // Any piece of it would show; the control is the ticket.
    assert!(!certificate.chunks_exact(16).any(holds));
}
