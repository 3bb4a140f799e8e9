//! Clients with a certificate: who is known, who is refused, and who learns of it.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use fesc_net::hello::Role;
use fesc_net::{
    Channel, ClientSecurity, Fingerprint, Identity, Listener, NetError, Tag, Ticket, connect, connect_with_ticket,
};
use rcgen::{CertifiedKey, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, ServerConfig, ServerConnection};

use crate::foreign;
use crate::pair::{SESSION, all, both, over_tcp, quick, refused, tls};

const T: Tag = Tag(0x0301);

fn made(names: usize) -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed((0..names).map(|i| format!("fesc-{i:03}")).collect::<Vec<_>>()).unwrap()
}

/// What a server of ours says to a client that shows these certificates and signs with this key.
fn shown(certificates: &[&CertificateDer<'static>], key: &KeyPair) -> Result<Channel, NetError> {
    let certificates = certificates.iter().map(|c| (*c).clone()).collect();
    foreign::visit(foreign::client_with(certificates, key.serialize_der()), foreign::LABEL).1
}

/// A refusal for the certificate, and for nothing else.
fn refused_for_it(result: Result<Channel, NetError>) {
    let error = refused(result);
    assert!(matches!(error, NetError::Tls { source: rustls::Error::InvalidCertificate(_), .. }), "{error}");
}

#[test]
fn a_client_with_an_identity_is_known_by_its_fingerprint() {
    let dir = tempfile::tempdir().unwrap();
    let (key, certificate) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
    let first = Identity::generate().unwrap();
    first.save(&key, &certificate).unwrap();
    let again = Identity::load(&key, &certificate).unwrap();
    let second = Identity::generate().unwrap();
    assert_ne!(first.fingerprint(), second.fingerprint());
    for identity in [first, again, second] {
        let (server, ClientSecurity::Tls(pin)) = tls() else { panic!() };
        let fingerprint = identity.fingerprint();
        let (mut c, mut s) = over_tcp((server, ClientSecurity::TlsAs(pin, Arc::new(identity))), &quick());
        assert_eq!(s.peer_fingerprint(), Some(fingerprint));
        assert_eq!(c.peer_fingerprint(), Some(pin));
        c.send(T, vec![1, 2]).unwrap();
        assert_eq!(s.recv(T, 2).unwrap(), [1, 2]);
    }
}

#[test]
fn an_anonymous_client_has_no_fingerprint_and_neither_has_plaintext() {
    for (name, (client, server)) in all(&quick()) {
        assert_eq!(server.peer_fingerprint(), None, "{name}");
        assert_eq!(client.peer_fingerprint().is_some(), name == "TLS", "{name}");
    }
}

#[test]
fn a_stolen_client_certificate_without_its_key_is_refused() {
    let (victim, thief) = (made(1), made(1));
    refused_for_it(shown(&[victim.cert.der()], &thief.signing_key));
    // The control: with its own key the same client is let in, as who it is.
    let channel = shown(&[victim.cert.der()], &victim.signing_key).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(channel.peer_fingerprint(), Some(Fingerprint::of(victim.cert.der())));
}

#[test]
fn long_certificates_chains_and_garbage_are_refused() {
    let (one, other) = (made(1), made(1));
    refused_for_it(shown(&[one.cert.der(), other.cert.der()], &one.signing_key));
    let garbage = CertificateDer::from(vec![0x30; 100]);
    refused_for_it(shown(&[&garbage], &one.signing_key));
    for (names, fits) in [(360, true), (400, false), (4000, false)] {
        let long = made(names);
        let bytes = long.cert.der().len();
        assert_eq!(bytes <= 4096, fits, "{bytes}");
        let result = shown(&[long.cert.der()], &long.signing_key);
        if fits {
            assert!(bytes > 3700);
            assert_eq!(result.ok().unwrap().peer_fingerprint(), Some(Fingerprint::of(long.cert.der())));
        } else {
            refused_for_it(result);
        }
    }
    // More than rustls takes in one handshake message.
    let huge = made(7000);
    assert!(huge.cert.der().len() > 65_535);
    let error = refused(shown(&[huge.cert.der()], &huge.signing_key));
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
}

#[test]
fn a_refused_client_is_told_so() {
    // In TLS 1.3 a client is through with the handshake before the server has seen its certificate.
    let (victim, thief) = (made(1), made(1));
    let config = foreign::client_with(vec![victim.cert.der().clone()], thief.signing_key.serialize_der());
    let (client, server) = foreign::visit(config, foreign::LABEL);
    refused_for_it(server);
    let error = client.unwrap_err();
    let cause = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    assert!(matches!(cause, Some(rustls::Error::AlertReceived(_))), "{error}");
}

#[test]
fn ends_of_older_builds_still_meet_ours() {
    // A client that knows neither certificates nor tickets.
    let (client, server) = foreign::visit(foreign::client(), foreign::LABEL);
    client.unwrap();
    assert_eq!(server.unwrap_or_else(|e| panic!("{e}")).peer_fingerprint(), None);
    // A server that does not ask for the one and does not know the other.
    let old = made(1);
    let versions = &[&rustls::version::TLS13];
    let config = foreign::server(old.cert.der().clone(), old.signing_key.serialize_der(), versions);
    let pin = Fingerprint::of(old.cert.der());
    for security in [ClientSecurity::Tls(pin), ClientSecurity::TlsAs(pin, Arc::new(Identity::generate().unwrap()))] {
        for ticket in [None, Some(&[7; 32])] {
            let (channel, shown) = meet(Arc::clone(&config), &security, ticket);
            assert_eq!(channel.unwrap_or_else(|e| panic!("{e}")).peer_fingerprint(), Some(pin));
            assert_eq!(shown, None);
        }
    }
}

/// A client of ours at a server made by hand, and whose certificate that one holds in the end.
fn meet(
    config: Arc<ServerConfig>,
    security: &ClientSecurity,
    ticket: Option<&Ticket>,
) -> (Result<Channel, NetError>, Option<Fingerprint>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    both(
        || connect_with_ticket(&address, security, ticket, &SESSION, &quick()),
        || {
            let (mut stream, _) = socket.accept().unwrap();
            let mut connection = ServerConnection::new(config).unwrap();
            let _ = foreign::hello(&mut connection, &mut stream, Role::Server, foreign::LABEL);
            connection.peer_certificates().map(|c| Fingerprint::of(&c[0]))
        },
    )
}

/// Asks for a certificate, and remembers every one that it sees, owned or not.
#[derive(Debug, Default)]
struct Curious(Mutex<Vec<Fingerprint>>);

impl ClientCertVerifier for Curious {
    fn client_auth_mandatory(&self) -> bool {
        false
    }
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.lock().unwrap().push(Fingerprint::of(certificate));
        Ok(ClientCertVerified::assertion())
    }
    foreign::any_signature!();
}

#[test]
fn a_client_shows_its_certificate_to_the_pinned_server_only() {
    let (server, client) = (made(1), Arc::new(Identity::generate().unwrap()));
    let asked = |pin: Fingerprint| {
        let curious = Arc::new(Curious::default());
        let key = server.signing_key.serialize_der();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::clone(&curious) as Arc<dyn ClientCertVerifier>)
            .with_single_cert(vec![server.cert.der().clone()], rustls::pki_types::PrivatePkcs8KeyDer::from(key).into())
            .unwrap();
        let (result, _) = meet(Arc::new(config), &ClientSecurity::TlsAs(pin, Arc::clone(&client)), None);
        let seen = curious.0.lock().unwrap().clone();
        (result, seen)
    };
    let (result, seen) = asked(Fingerprint::of(b"another server"));
    assert!(matches!(refused(result), NetError::WrongPin { .. }));
    assert_eq!(seen, []);
    // The control: the pinned one does see it.
    let (result, seen) = asked(Fingerprint::of(server.cert.der()));
    assert!(result.is_ok());
    assert_eq!(seen, [client.fingerprint()]);
}

#[test]
fn one_listener_serves_known_and_anonymous_clients() {
    let (server, anonymous) = tls();
    let ClientSecurity::Tls(pin) = anonymous else { panic!() };
    let identity = Arc::new(Identity::generate().unwrap());
    let listener = Listener::bind("127.0.0.1:0", server, quick()).unwrap();
    let address = listener.address().to_string();
    let known = ClientSecurity::TlsAs(pin, Arc::clone(&identity));
    for (security, expected) in
        [(&known, Some(identity.fingerprint())), (&anonymous, None), (&known.clone(), Some(identity.fingerprint()))]
    {
        let (c, s) =
            both(|| connect(&address, security, &SESSION, &quick()), || listener.accept()?.establish(&SESSION));
        assert!(c.is_ok());
        assert_eq!(s.ok().unwrap().peer_fingerprint(), expected);
    }
}
