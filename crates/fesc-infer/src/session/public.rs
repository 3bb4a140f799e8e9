//! The model's public part: what every client of a model downloads once.
//!
//! A file of named sections (`container.rs`): the card, with the outline (and the names of the classes)
//! and the tokenizer as JSON, and what the plan's kernels need, hints and table of the RLWE linear layers
//! ([`ClientSetup`]). The model id is the hash of the sections' names, lengths and digests; it is in every
//! handshake.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::Arc;

use fesc_model::Tokenizer;
use fesc_model::outline::Outline;
use fesc_mpc::{Ledger, Role};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::container::{CARD, Index, RLWE, SECTIONS, Section, index_bytes};
use super::download::network;
use super::error::{Result, SessionError};
use super::hex::Hex32;
use crate::InferError;
use crate::setup::{ClientSetup, ServerSetup};
use crate::stage::Embedding;

/// No card is longer: an outline of a thousand layers and a large tokenizer.
const MAX_CARD: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    outline: String,
    tokenizer: Option<String>,
}

impl Card {
    fn encoded(&self) -> Result<Vec<u8>> {
        let problem = |e: serde_json::Error| SessionError::Malformed { what: "card", problem: e.to_string() };
        serde_json::to_vec(self).map_err(problem)
    }
}

/// Declares what a client downloads once of a model, before anything is published.
///
/// # Errors
/// If the outline does not fit the kernels.
pub fn declare(outline: &Outline, embedding: Embedding, tokenizer: Option<String>, ledger: &mut Ledger) -> Result<()> {
    let card = Card { outline: outline.to_json(), tokenizer }.encoded()?.len() as u64;
    let sections = index_bytes(SECTIONS.len()) + card + ClientSetup::bytes(outline, embedding)?;
    ledger.setup(Role::P1, sections);
    Ok(())
}

/// The public part as a client has it.
pub struct Known {
    /// The model id.
    pub id: Hex32,
    /// Shapes, scales and forms.
    pub outline: Outline,
    /// Digest of the outline.
    pub outline_digest: Hex32,
    /// The tokenizer, as JSON.
    tokenizer_json: Option<String>,
    /// Hints and table.
    pub setup: Arc<ClientSetup>,
}

/// Whatever is wrong with a public part is the peer's fault, or the file's; not this program's.
fn malformed(problem: impl std::fmt::Display) -> SessionError {
    SessionError::malformed("public part of a model", problem)
}

/// A part that ends early is a bad one; a disk that fails says nothing about it.
fn unread(error: std::io::Error) -> SessionError {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData => malformed(error),
        _ => unsent(error),
    }
}

/// A network that fails is the peer's or nobody's fault; anything else is this side's disk.
pub(super) fn unsent(error: std::io::Error) -> SessionError {
    match network(error) {
        Ok(error) => SessionError::Net(error),
        Err(source) => SessionError::Io { path: "public part of a model".into(), source },
    }
}

fn no_setup(error: InferError) -> SessionError {
    match error {
        InferError::Io(e) => unread(e),
        e => malformed(e),
    }
}

impl Known {
    /// A public part in its file, where hints and table stay: memory grows neither with layers nor with the
    /// vocabulary. Refuses it unless it is that of `expected`. All of it is read once and checked; the file
    /// may get another name afterwards, or none, and must not change.
    ///
    /// # Errors
    /// If it is another model's, damaged or malformed, or cannot be read.
    pub fn open(file: File, expected: Hex32, remedy: &'static str) -> Result<Self> {
        let wrong =
            |got: Hex32| SessionError::WrongModel { expected: expected.to_string(), got: got.to_string(), remedy };
        let bytes = file.metadata().map_err(unread)?.len();
        let mut input = BufReader::with_capacity(1 << 16, &file);
        let index = Index::read(&mut input, unread)?;
        let id = index.id();
        if id != expected {
            return Err(wrong(id));
        }
        if bytes != index.bytes() {
            return Err(malformed(format!("{bytes} bytes, its sections have {}", index.bytes())));
        }
        let (_, section) = index.section(CARD)?;
        if section.bytes > MAX_CARD {
            return Err(SessionError::TooLarge { what: "a model's card", value: section.bytes, limit: MAX_CARD });
        }
        let mut card = Vec::new();
        input.take(section.bytes).read_to_end(&mut card).map_err(unread)?;
        // The id names the digests, so these bytes are the server's.
        if Sha256::digest(&card)[..] != section.digest {
            return Err(wrong(Hex32(Sha256::digest(&card).into())));
        }
        let card: Card = serde_json::from_slice(&card).map_err(malformed)?;
        let outline = Outline::from_json(&card.outline).map_err(malformed)?;
        let (at, section) = index.section(RLWE)?;
        let setup = ClientSetup::open(file, at, &outline).map_err(no_setup)?;
        if setup.digest() != section.digest {
            return Err(wrong(Hex32(setup.digest())));
        }
        if section.bytes != ClientSetup::bytes(&outline, setup.embedding()).map_err(no_setup)? {
            return Err(malformed("hints and table have not the size of the outline"));
        }
        let (outline_digest, setup) = (Hex32(outline.digest()?), Arc::new(setup));
        Ok(Self { id, outline, outline_digest, tokenizer_json: card.tokenizer, setup })
    }

    /// The tokenizer's file, if the model reads text.
    pub fn tokenizer_json(&self) -> Option<&str> {
        self.tokenizer_json.as_deref()
    }

    /// The model's tokenizer, checked against its vocabulary.
    ///
    /// # Errors
    /// If the model reads no text, or the tokenizer does not fit it.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        tokenizer(self.tokenizer_json.as_deref(), &self.outline)
    }

    /// The name of a class, if the model has names.
    pub fn label(&self, class: usize) -> Option<&str> {
        self.outline.labels().get(class).map(String::as_str)
    }
}

fn tokenizer(json: Option<&str>, outline: &Outline) -> Result<Tokenizer> {
    let tokenizer = Tokenizer::from_json(json.ok_or(SessionError::NoTokenizer)?)?;
    tokenizer.check(outline.shape().vocab)?;
    Ok(tokenizer)
}

/// A model as its server has it.
pub struct Hosted {
    /// The model id.
    pub id: Hex32,
    /// Shapes, scales and forms.
    pub outline: Outline,
    /// Digest of the outline.
    pub outline_digest: Hex32,
    /// Bytes of the public part.
    pub bytes: u64,
    index: Index,
    card: Vec<u8>,
    tokenizer_json: Option<String>,
    /// Weights and secrets.
    pub setup: ServerSetup,
}

impl Hosted {
    /// Joins a server's setup with what clients must know besides: the tokenizer, if the model reads text.
    pub fn new(setup: ServerSetup, tokenizer: Option<String>) -> Result<Self> {
        let outline = setup.outline()?.clone();
        let tokenizer_json = tokenizer.clone();
        let card = Card { outline: outline.to_json(), tokenizer };
        let card = card.encoded()?;
        let outline_digest = Hex32(outline.digest()?);
        let index = Index::new(vec![
            Section { name: CARD, bytes: card.len() as u64, digest: Sha256::digest(&card).into() },
            Section {
                name: RLWE,
                bytes: ClientSetup::bytes(&outline, setup.embedding())?,
                digest: setup.client_setup().digest(),
            },
        ]);
        let (id, bytes) = (index.id(), index.bytes());
        Ok(Self { id, outline, outline_digest, bytes, index, card, tokenizer_json, setup })
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// If the model reads no text.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        tokenizer(self.tokenizer_json.as_deref(), &self.outline)
    }

    /// Writes the public part.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        self.index.write(out).map_err(unsent)?;
        out.write_all(&self.card).map_err(unsent)?;
        self.setup.client_setup().write(out).map_err(|e| match e {
            InferError::Io(e) => unsent(e),
            e => e.into(),
        })?;
        out.flush().map_err(unsent)
    }
}
