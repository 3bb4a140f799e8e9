//! Exit codes: the one place where an error becomes a number.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | any other error |
//! | 2 | the command line is wrong |
//! | 3 | the peer, the network or the protocol failed |
//! | 4 | over a limit of size, memory or count |
//! | 5 | refused for security: certificate, pin, weak parameters, no randomness, list of clients, budget |
//! | 130 | ended by a signal; a server that a first signal stops has done its work and ends with 0 |

use fesc_hybrid::HybridError;
use fesc_hybrid::ckks::CkksError;
use fesc_infer::InferError;
use fesc_infer::session::{RefusalKind, SessionError};
use fesc_model::ModelError;
use fesc_mpc::MpcError;
use fesc_net::NetError;
use fesc_ot::OtError;
use fesc_rlwe::RlweError;

/// Any other error.
pub const OTHER: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The peer, the network or the protocol failed.
pub const PEER: u8 = 3;
/// Over a limit.
pub const LIMIT: u8 = 4;
/// Refused for security.
pub const SECURITY: u8 = 5;
/// Ended by a signal, before the work was done.
pub const SIGNAL: u8 = 130;

/// Errors that belong to the program itself.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Options that do not fit together.
    #[error("{0}")]
    Usage(String),
    /// Over a limit of this program.
    #[error("{what}: {value} is not in 1 to {max}; {remedy}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        max: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system ({0}); nothing secret can be made on this machine")]
    Randomness(String),
    /// A process of a measurement failed; `code` is the code of its own error.
    #[error("{who}: {message}")]
    Party {
        /// Which process.
        who: String,
        /// Its message.
        message: String,
        /// Its exit code.
        code: u8,
    },
}

/// The exit code of an error: that of the first error in its chain which has one.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(of).unwrap_or(OTHER)
}

/// The text of an error and its causes. Many errors name their cause themselves; it is not said twice.
pub fn message(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .reduce(|said, cause| if said.contains(&cause) { said } else { format!("{said}: {cause}") })
        .unwrap_or_default()
}

fn of(error: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(e) = error.downcast_ref::<Refusal>() {
        return Some(refusal(e));
    }
    if let Some(e) = error.downcast_ref::<NetError>() {
        return Some(net(e));
    }
    if let Some(e) = error.downcast_ref::<OtError>() {
        return Some(ot(e));
    }
    if let Some(e) = error.downcast_ref::<ModelError>() {
        return model(e);
    }
    if let Some(e) = error.downcast_ref::<SessionError>() {
        return session(e);
    }
    if let Some(e) = error.downcast_ref::<InferError>() {
        return infer(e);
    }
    error.downcast_ref::<MpcError>().map(mpc)
}

/// `None` where the cause of the error may know more.
pub fn session(error: &SessionError) -> Option<u8> {
    use RefusalKind as K;
    Some(match error {
        SessionError::Net(e) => net(e),
        SessionError::Mpc(e) => mpc(e),
        SessionError::Infer(e) => return infer(e),
        SessionError::Model(e) => return model(e),
        SessionError::Parameters { .. }
        | SessionError::Exposed { .. }
        | SessionError::WrongModel { .. }
        | SessionError::Transcript
        | SessionError::UsedBefore { .. }
        | SessionError::Randomness(_) => SECURITY,
        SessionError::TooLarge { .. } | SessionError::TooManyTokens { .. } | SessionError::TimeLimit(_) => LIMIT,
        SessionError::NoHome(_) => USAGE,
        // The same code on both sides, so that the two logs agree.
        SessionError::Refused { kind, .. } | SessionError::RefusedHere { kind, .. } => match kind {
            K::Tokens | K::Busy | K::Full => LIMIT,
            K::Parameters | K::NotListed | K::Budget => SECURITY,
            K::Mismatch | K::NotOffered | K::Prepared | K::Keys | K::Stopping => PEER,
        },
        SessionError::Version { .. }
        | SessionError::Malformed { .. }
        | SessionError::Mismatch { .. }
        | SessionError::NoSecondConnection(_)
        | SessionError::Silent(_) => PEER,
        _ => return None,
    })
}

fn infer(error: &InferError) -> Option<u8> {
    Some(match error {
        InferError::Net(e) => net(e),
        InferError::Mpc(e) => mpc(e),
        InferError::Model(e) => return model(e),
        InferError::Ring(_) | InferError::Answer { .. } => PEER,
        InferError::Rlwe(e) => return rlwe(e),
        InferError::Hybrid(e) => return hybrid(e),
        InferError::Length { .. } | InferError::Document { .. } | InferError::WeightBound { .. } => LIMIT,
        _ => return None,
    })
}

/// Keys and ciphertexts that are none come from the peer.
fn hybrid(error: &HybridError) -> Option<u8> {
    Some(match error {
        HybridError::Net(e) => net(e),
        HybridError::Mpc(e) => mpc(e),
        HybridError::Ckks(CkksError::Wire { .. } | CkksError::UnplannedKey { .. } | CkksError::MissingKey { .. }) => {
            PEER
        }
        _ => return None,
    })
}

/// Ciphertexts that are none come from the peer; the rest are shapes of our own.
fn rlwe(error: &RlweError) -> Option<u8> {
    matches!(error, RlweError::Residue { .. } | RlweError::Length { .. }).then_some(PEER)
}

fn refusal(error: &Refusal) -> u8 {
    match error {
        Refusal::Usage(_) => USAGE,
        Refusal::Limit { .. } => LIMIT,
        Refusal::Randomness(_) => SECURITY,
        Refusal::Party { code, .. } => *code,
    }
}

/// `None` where the cause of the error may know more.
fn model(error: &ModelError) -> Option<u8> {
    matches!(error, ModelError::FileTooLarge { .. }).then_some(LIMIT)
}

fn net(error: &NetError) -> u8 {
    match error {
        NetError::Parse { .. } => USAGE,
        NetError::TooLong { .. } | NetError::OutOfMemory { .. } | NetError::SessionTooLong => LIMIT,
        NetError::WrongPin { .. } | NetError::Tls { .. } | NetError::Binding | NetError::IdentityFile { .. } => {
            SECURITY
        }
        NetError::Certificate(_) => OTHER,
        _ => PEER,
    }
}

fn ot(error: &OtError) -> u8 {
    match error {
        OtError::Net(e) => net(e),
        OtError::Ring(_) | OtError::Point { .. } => PEER,
        OtError::WeakParameters { .. } => SECURITY,
        OtError::TooMany { .. } => LIMIT,
        _ => OTHER,
    }
}

fn mpc(error: &MpcError) -> u8 {
    match error {
        MpcError::Net(e) => net(e),
        MpcError::Ot(e) => ot(e),
        MpcError::Ring(_) | MpcError::DealerDisagreement { .. } | MpcError::Request(_) | MpcError::PeerStore { .. } => {
            PEER
        }
        MpcError::DealerFull { .. } => LIMIT,
        MpcError::Parameter { .. } => USAGE,
        MpcError::Generator(e) => e.downcast_ref().and_then(rlwe).unwrap_or(OTHER),
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_cause_is_said_once() {
        let source = || std::io::Error::other("cable cut");
        let named = NetError::Io { during: "sending", index: 1, source: source() };
        let text = message(&anyhow::Error::from(named).context("measuring"));
        assert_eq!(text, "measuring: sending failed at message 1: cable cut");
        assert_eq!(message(&anyhow::Error::from(source()).context("measuring")), "measuring: cable cut");
    }

    #[test]
    fn every_kind_of_error_has_its_code() {
        let limit = Duration::from_secs(1);
        let cases: Vec<(anyhow::Error, u8)> = vec![
            (anyhow::anyhow!("anything"), OTHER),
            (std::io::Error::other("disk").into(), OTHER),
            (Refusal::Usage("no".into()).into(), USAGE),
            (ModelError::NoTokens.into(), OTHER),
            (ModelError::FileTooLarge { path: "config.json".into(), limit: 1 }.into(), LIMIT),
            (NetError::Parse { what: "profile", text: "x".into(), problem: "bad" }.into(), USAGE),
            (MpcError::Parameter { what: "width", value: 99, min: 2, max: 64 }.into(), USAGE),
            (NetError::Closed { index: 1 }.into(), PEER),
            (NetError::Timeout { index: 1, limit }.into(), PEER),
            (NetError::SendStalled { index: 1, limit }.into(), PEER),
            (NetError::Sequence { expected: 1, got: 2 }.into(), PEER),
            (NetError::Session { expected: 1, got: 2 }.into(), PEER),
            (MpcError::Net(NetError::Truncated { index: 0, got: 1, expected: 2 }).into(), PEER),
            (MpcError::Ot(OtError::Net(NetError::Ended)).into(), PEER),
            (OtError::Point { index: 0, what: "the identity" }.into(), PEER),
            (MpcError::DealerDisagreement { p0: "a".into(), p1: "b".into() }.into(), PEER),
            (MpcError::PeerStore { path: "store".into(), reason: "prepared another session" }.into(), PEER),
            (MpcError::DealerFull { bytes: 2, limit: 1 }.into(), LIMIT),
            (NetError::OutOfMemory { index: 1, len: 2 }.into(), LIMIT),
            (MpcError::Net(NetError::TooLong { index: 1, len: 2 }).into(), LIMIT),
            (OtError::TooMany { count: 1, each: 2 }.into(), LIMIT),
            (Refusal::Limit { what: "n", value: 2, max: 1, remedy: "less" }.into(), LIMIT),
            (NetError::Binding.into(), SECURITY),
            (SessionError::Transcript.into(), SECURITY),
            (SessionError::TooManyTokens { tokens: 9, bucket: 128, limit: 1 }.into(), LIMIT),
            (SessionError::Version { ours: 1, theirs: 2 }.into(), PEER),
            (SessionError::Refused { kind: RefusalKind::Busy, message: "full".into() }.into(), LIMIT),
            (SessionError::Refused { kind: RefusalKind::Parameters, message: "N = 1024".into() }.into(), SECURITY),
            (SessionError::Refused { kind: RefusalKind::NotListed, message: "no".into() }.into(), SECURITY),
            (SessionError::Refused { kind: RefusalKind::Budget, message: "no".into() }.into(), SECURITY),
            (SessionError::RefusedHere { kind: RefusalKind::Busy, message: "full".into() }.into(), LIMIT),
            (SessionError::RefusedHere { kind: RefusalKind::NotListed, message: "no".into() }.into(), SECURITY),
            (SessionError::UsedBefore { path: "stores".into() }.into(), SECURITY),
            (SessionError::Refused { kind: RefusalKind::Mismatch, message: "other".into() }.into(), PEER),
            (SessionError::Infer(InferError::Mpc(MpcError::Net(NetError::Ended))).into(), PEER),
            (InferError::Length { tokens: 9, most: 1 }.into(), LIMIT),
            (SessionError::Refused { kind: RefusalKind::Keys, message: "no".into() }.into(), PEER),
            (SessionError::Infer(HybridError::Net(NetError::Ended).into()).into(), PEER),
            (SessionError::Infer(HybridError::from(CkksError::UnplannedKey { what: "x".into() }).into()).into(), PEER),
            (SessionError::Infer(HybridError::Kept(std::io::Error::other("disk")).into()).into(), OTHER),
            (SessionError::Infer(InferError::Answer { classes: 2 }).into(), PEER),
            (MpcError::from(RlweError::Residue { what: "upload", modulus: 3 }).into(), PEER),
            (Refusal::Randomness("none".into()).into(), SECURITY),
            (
                OtError::WeakParameters { k: 1, t: 1, log_block: 1, bits: 1.0, attack: "any", needed: 128.0 }.into(),
                SECURITY,
            ),
            (Refusal::Party { who: "P0".into(), message: "died".into(), code: PEER }.into(), PEER),
        ];
        for (error, expected) in cases {
            assert_eq!(code(&error), expected, "{error}");
            assert_eq!(code(&error.context("while measuring")), expected, "context does not hide the cause");
        }
    }
}
