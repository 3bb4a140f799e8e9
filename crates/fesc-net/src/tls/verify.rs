//! Whose certificates are accepted: one server's, any client's.
//!
//! A certificate is only the carrier of a public key and its fingerprint only a name for it, so neither the
//! names, the dates nor the self-signature in it are looked at. What counts is the signature over this
//! handshake: showing a certificate is not owning it. TLS 1.2 is refused on both sides.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::Fingerprint;
use crate::identity::CERTIFICATE_LIMIT;

fn refused() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

fn old_tls() -> Error {
    Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOfferedOrEnabled)
}

/// Accepts exactly one certificate. The handshake signature is still checked: showing a certificate is not
/// owning it.
#[derive(Debug)]
pub(crate) struct PinnedServer {
    pin: Fingerprint,
    shown: OnceLock<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl PinnedServer {
    pub(super) fn new(pin: Fingerprint, provider: Arc<CryptoProvider>) -> PinnedServer {
        PinnedServer { pin, shown: OnceLock::new(), provider }
    }

    /// The fingerprint of the certificate that the server showed, when it is not the pinned one.
    pub(crate) fn wrong(&self) -> Option<Fingerprint> {
        self.shown.get().copied().filter(|f| *f != self.pin)
    }
}

/// What the verifiers of both sides have in common, and two traits ask for: a signature of TLS 1.3 is
/// checked by the provider, one of an older version is refused.
macro_rules! signatures_of_tls_13 {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(old_tls())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = *self.shown.get_or_init(|| Fingerprint::of(end_entity));
        if shown == self.pin && Fingerprint::of(end_entity) == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(refused())
        }
    }

    signatures_of_tls_13!();
}

/// Accepts a client without a certificate, and one with any single certificate whose key it has. Who may do
/// what is decided by the layers above: a stranger learns nothing from the handshake.
#[derive(Debug)]
pub(crate) struct AnyClient {
    provider: Arc<CryptoProvider>,
}

impl AnyClient {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> AnyClient {
        AnyClient { provider }
    }
}

impl ClientCertVerifier for AnyClient {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // A chain would mean nothing here, and a client of ours sends none.
        if end_entity.len() <= CERTIFICATE_LIMIT && intermediates.is_empty() {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(refused())
        }
    }

    signatures_of_tls_13!();
}
