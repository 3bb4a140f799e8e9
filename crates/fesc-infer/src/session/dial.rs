//! How to reach a server or a dealer.

use fesc_net::{Channel, ClientSecurity, Config, Ticket, connect_with_ticket};

use super::cancel::CancelHandle;
use super::error::Result;
use super::phase;

/// How to reach somebody.
#[derive(Debug, Clone)]
pub struct Dial {
    /// `host:port`.
    pub address: String,
    /// Who it must be.
    pub security: ClientSecurity,
    /// Limits of the channel.
    pub config: Config,
    /// Who may cut the connection, if anybody.
    pub cancel: Option<CancelHandle>,
}

impl Dial {
    pub(super) fn connect(&self, hello: &[u8; 32]) -> Result<Channel> {
        self.connect_as(None, hello)
    }

    pub(super) fn connect_as(&self, ticket: Option<&Ticket>, hello: &[u8; 32]) -> Result<Channel> {
        let mut channel = connect_with_ticket(&self.address, &self.security, ticket, hello, &self.config)?;
        if let Some(lines) = &self.cancel {
            lines.add(channel.hangup()?);
        }
        channel.phase(phase::SETUP);
        Ok(channel)
    }

    /// A name for who it must be, for notes on prepared correlations.
    pub(super) fn identity(&self) -> String {
        match &self.security {
            ClientSecurity::Tls(pin) | ClientSecurity::TlsAs(pin, _) => pin.to_string(),
            ClientSecurity::InsecurePlaintext => format!("plaintext {}", self.address),
        }
    }

    /// The fingerprint of the certificate that this side shows.
    pub(super) fn shown(&self) -> Option<String> {
        match &self.security {
            ClientSecurity::TlsAs(_, identity) => Some(identity.fingerprint().to_string()),
            ClientSecurity::Tls(_) | ClientSecurity::InsecurePlaintext => None,
        }
    }
}
