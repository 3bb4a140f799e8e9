//! TLS ends made by hand: what an attacker, a careless program or an older build of ours brings.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use fesc_net::hello::{HELLO_BYTES, Hello, Role};
use fesc_net::{Channel, Listener, NetError};
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, SideData, SupportedProtocolVersion};

use crate::pair::{SESSION, both, quick, tls};

/// The exporter label of an honest hello.
pub const LABEL: &[u8] = b"EXPORTER-fesc-net hello";

/// What a verifier of either side does with signatures here: it takes them all.
macro_rules! any_signature {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    };
}
pub(crate) use any_signature;

/// Trusts everybody: what an attacker's or a careless client does.
#[derive(Debug)]
struct TrustAll;

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    any_signature!();
}

/// A client that speaks these versions, with no certificate and no ALPN: as ours was before it had either.
pub fn client_of(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAll))
        .with_no_client_auth()
}

pub fn client() -> ClientConfig {
    client_of(&[&rustls::version::TLS13])
}

/// The same with any certificates and key, whether they fit or not.
pub fn client_with(certificates: Vec<CertificateDer<'static>>, key: Vec<u8>) -> ClientConfig {
    let mut config = client();
    config.client_auth_cert_resolver = shown(certificates, key);
    config
}

pub fn connection(config: ClientConfig) -> ClientConnection {
    ClientConnection::new(Arc::new(config), ServerName::try_from("fesc").unwrap()).unwrap()
}

fn shown(certificates: Vec<CertificateDer<'static>>, key: Vec<u8>) -> Arc<SingleCertAndKey> {
    let provider = ring::default_provider();
    let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(key).into()).unwrap();
    // `CertifiedKey::new` does not compare the two.
    Arc::new(SingleCertAndKey::from(CertifiedKey::new(certificates, key)))
}

/// A server with any certificate and key, which asks for no client certificate: as ours was before it did.
pub fn server(
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(shown(vec![certificate], key));
    Arc::new(config)
}

/// Says our side of the hello with the exporter value of `label`, and reads the other's.
pub fn hello<S: SideData>(
    mut connection: &mut ConnectionCommon<S>,
    socket: &mut TcpStream,
    role: Role,
    label: &[u8],
) -> io::Result<()> {
    connection.complete_io(socket)?;
    let binding = connection.export_keying_material([0; 32], label, None).map_err(io::Error::other)?;
    let mut stream = rustls::Stream::new(&mut connection, socket);
    stream.write_all(&Hello { role, session: SESSION, binding }.encode())?;
    // The peer's hello must be read, or closing would be a reset that overtakes ours.
    stream.read_exact(&mut [0; HELLO_BYTES])
}

/// A client made by hand at a server of ours: what either of them got. It leaves without a TLS goodbye.
pub fn visit(config: ClientConfig, label: &[u8]) -> (io::Result<()>, Result<Channel, NetError>) {
    let listener = Listener::bind("127.0.0.1:0", tls().0, quick()).unwrap();
    let address = listener.address();
    both(
        || {
            let mut socket = TcpStream::connect(address).unwrap();
            hello(&mut connection(config), &mut socket, Role::Client, label)
        },
        || listener.accept()?.establish(&SESSION),
    )
}
