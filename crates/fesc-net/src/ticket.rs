//! Join tickets: how a server knows an expected connection by its first bytes.
//!
//! A ticket travels in the TLS ClientHello as the only protocol name of the ALPN extension: `fesc-join-` and
//! 64 hex digits. A server of ours speaks no protocol by ALPN, so TLS ignores the name. Any other name, or
//! more than one, is no ticket.

use rustls::server::ClientHello;

use crate::hex;

/// What a server gives a client under TLS, and the client shows first on its next connection, so that a
/// server with too many silent connections can keep this one.
///
/// The ClientHello is not encrypted: everybody on the way reads the ticket, and may show it too. So a
/// ticket may keep one connection from being dropped, once, and must allow nothing else; who the client is
/// must be proved under TLS.
pub type Ticket = [u8; 32];

const PREFIX: &[u8] = b"fesc-join-";

/// The name in which a ticket travels.
pub(crate) fn name(ticket: &Ticket) -> Vec<u8> {
    [PREFIX, hex::text(ticket).as_bytes()].concat()
}

/// The ticket of a ClientHello, if it has one.
pub(crate) fn of(hello: &ClientHello<'_>) -> Option<Ticket> {
    let mut names = hello.alpn()?;
    match (names.next(), names.next()) {
        (Some(name), None) => parse(name),
        _ => None,
    }
}

fn parse(name: &[u8]) -> Option<Ticket> {
    hex::bytes(name.strip_prefix(PREFIX)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        let ticket: Ticket = std::array::from_fn(|i| (i * 8 + 1) as u8);
        let name = name(&ticket);
        assert_eq!(name, b"fesc-join-0109111921293139414951596169717981899199a1a9b1b9c1c9d1d9e1e9f1f9");
        assert_eq!(parse(&name), Some(ticket));
        let changed = |at: usize, to: u8| {
            let mut name = name.clone();
            name[at] = to;
            name
        };
        // Another digit is another ticket; anything that is no digit is none.
        assert!(parse(&changed(11, b'2')).is_some_and(|t| t != ticket));
        for bad in [b"".to_vec(), PREFIX.to_vec(), name[1..].to_vec(), name[..73].to_vec(), [&name[..], b"0"].concat()]
        {
            assert_eq!(parse(&bad), None);
        }
        for at in 0..name.len() {
            assert_eq!(parse(&changed(at, b'g')), None, "{at}");
            assert_eq!(parse(&changed(at, 0xff)), None, "{at}");
        }
    }
}
