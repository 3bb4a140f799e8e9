//! TLS 1.3 over a socket: the settings of both sides.
//!
//! No session resumption, no early data: every session has fresh keys, which are never stored. Key exchange
//! is X25519 or a NIST curve: not post-quantum.
//!
//! A client's certificate travels encrypted, and only after the server has proved that it is the pinned one.

mod halves;
mod verify;

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error, ServerConfig};

pub(crate) use halves::split;
use verify::{AnyClient, PinnedServer};

use crate::ticket::{self, Ticket};
use crate::{Fingerprint, Identity};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server's side: this identity, TLS 1.3, clients with or without a certificate, no resumption. It speaks
/// no protocol by ALPN, so the name in which a client's ticket travels is ignored by TLS.
pub(crate) fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider();
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(AnyClient::new(provider)))
        .with_single_cert(vec![identity.certificate()], identity.key())?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// A client's side, and the verifier to ask afterwards which certificate was shown.
pub(crate) fn client(
    pin: Fingerprint,
    identity: Option<&Identity>,
    ticket: Option<&Ticket>,
) -> Result<(ClientConnection, Arc<PinnedServer>), Error> {
    let provider = provider();
    let verifier = Arc::new(PinnedServer::new(pin, Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>);
    let mut config = match identity {
        Some(identity) => builder.with_client_auth_cert(vec![identity.certificate()], identity.key())?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = ticket.map(ticket::name).into_iter().collect();
    let name = ServerName::try_from("fesc").map_err(|_| Error::General("bad server name".into()))?;
    Ok((ClientConnection::new(Arc::new(config), name)?, verifier))
}
