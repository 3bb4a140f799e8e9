//! What can go wrong in a session, each with its own words.

use std::time::Duration;

use fesc_model::ModelError;
use fesc_mpc::MpcError;
use fesc_net::NetError;
use serde::{Deserialize, Serialize};

use crate::InferError;

/// Why a peer says no. It travels as a word, with a sentence for people beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// As many sessions as the server takes are under way.
    Busy,
    /// The document's bucket is over the server's limit.
    Tokens,
    /// Another model, plan, parameters or version than the server's.
    Mismatch,
    /// Kernels with other parameters than this side has checked.
    Parameters,
    /// The server does not offer what the client chose: provider, reveal, verification.
    NotOffered,
    /// The store of correlations that the client named is not there, or belongs to something else.
    Prepared,
    /// There is no room for more prepared correlations, or for more keys.
    Full,
    /// The CKKS keys that the client named are not there for it.
    Keys,
    /// The server stops.
    Stopping,
    /// The server serves listed clients only, and this is none.
    NotListed,
    /// The client has used what it may in a day.
    Budget,
}

/// An error of a session. Each ends it; nothing is retried inside.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The channel failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A protocol failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// The inference failed.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// The model or its outline is not usable.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The peer computes with parameters that this side has not checked.
    #[error(
        "the peer's kernels have other parameters ({theirs}) than this program's ({ours}), which refuses to compute with what \
         it has not checked; update the older one"
    )]
    Parameters {
        /// Digest of this side's.
        ours: String,
        /// Digest of the peer's.
        theirs: String,
    },
    /// A secret that others can read.
    #[error(
        "{path} has mode {mode:o}: others can read it. Take their rights away (chmod 600), and think about who has read it"
    )]
    Exposed {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// The peer speaks another version of the session protocol.
    #[error("the peer speaks version {theirs} of sessions, this program {ours}; update the older one")]
    Version {
        /// Ours.
        ours: u64,
        /// Theirs.
        theirs: u64,
    },
    /// A message of the handshake is not what it must be.
    #[error("malformed {what} from the peer: {problem}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A size from the peer is over a limit.
    #[error("{what} of {value} bytes from the peer, at most {limit} are taken")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// The two ends do not run the same thing.
    #[error("{what} differs: the peer has {theirs}, this end has {ours}; both ends must run the same")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// Ours.
        ours: String,
        /// Theirs.
        theirs: String,
    },
    /// What was downloaded or cached is not the model that was asked for.
    #[error("the model's public part has id {got}, expected is {expected}; {remedy}")]
    WrongModel {
        /// The id that was asked for.
        expected: String,
        /// The id of what came.
        got: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The two ends have seen different handshakes.
    #[error("the two ends have seen different handshakes; somebody stands between them, or one of them is broken")]
    Transcript,
    /// The peer said no.
    #[error("the peer refused: {message}")]
    Refused {
        /// Why, as a word.
        kind: RefusalKind,
        /// Why, as a sentence.
        message: String,
    },
    /// This side said no; the peer was told so.
    #[error("refused: {message}")]
    RefusedHere {
        /// Why, as a word.
        kind: RefusalKind,
        /// Why, as a sentence: what the peer was told, and what only this side's log has.
        message: String,
    },
    /// The model has no tokenizer.
    #[error("this model reads no text: the server gave no tokenizer")]
    NoTokenizer,
    /// There is no directory for the cache.
    #[error("there is no home directory; give a directory for {0}")]
    NoHome(&'static str),
    /// The document is over the server's limit. Nothing of it was sent.
    #[error(
        "the document has {tokens} tokens, which needs a run of {bucket}; the server takes at most {limit}. Nothing was sent; \
         classify a part of it with --length"
    )]
    TooManyTokens {
        /// Tokens of the document.
        tokens: usize,
        /// The bucket it needs; 0 when there is none.
        bucket: usize,
        /// The server's limit.
        limit: usize,
    },
    /// Nothing to classify.
    #[error("the document has no tokens")]
    Empty,
    /// A file or directory of this side.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of this side that is not what it should be.
    #[error("{path}: {problem}")]
    File {
        /// Where.
        path: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// No store of correlations fits.
    #[error(
        "{path} has no unused correlations for this model, server, length ({bucket} tokens) and reveal; \
         make some with `fesc prepare`"
    )]
    NothingPrepared {
        /// The directory.
        path: String,
        /// The length that is needed.
        bucket: usize,
    },
    /// Prepared correlations that were used before.
    #[error(
        "{path} has correlations that were used before, or that the list of used ones in --state knows nothing of: the \
         directory is a copy, was put back from one, or belongs to another --state. Used twice they would give documents \
         away, so nothing was sent; delete them, and make new ones with `fesc prepare`"
    )]
    UsedBefore {
        /// The directory.
        path: String,
    },
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system ({0}); nothing secret can be made on this machine")]
    Randomness(String),
    /// The other connection of a session never came.
    #[error("the client did not open its second connection within {0:?}")]
    NoSecondConnection(Duration),
    /// The client had the word, and said nothing.
    #[error("the client did not say what it wants within {0:?} and was cut off")]
    Silent(Duration),
    /// The session took longer than the server allows.
    #[error("the session took longer than {0:?} and was ended")]
    TimeLimit(Duration),
    /// A thread of a session died; the cause is on standard error.
    #[error("a thread of this session died: {0}")]
    Died(String),
    /// The generator of correlations stopped before it had made all of them.
    #[error("the generator of correlations stopped: {0}")]
    Generator(String),
}

/// The result of a session.
pub type Result<T, E = SessionError> = std::result::Result<T, E>;

impl SessionError {
    /// For what a peer or a file said wrongly. The text may quote it, and is cleaned.
    pub(super) fn malformed(what: &'static str, problem: impl std::fmt::Display) -> Self {
        SessionError::Malformed { what, problem: clean(&problem.to_string()) }
    }
}

/// A sentence that a peer may have chosen, before anybody reads it on a terminal or in a log: short, and
/// without control characters.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

/// For errors of files: `.map_err(at(path))`.
pub(super) fn at(path: &std::path::Path) -> impl Fn(std::io::Error) -> SessionError {
    let path = path.display().to_string();
    move |source| SessionError::Io { path: path.clone(), source }
}
