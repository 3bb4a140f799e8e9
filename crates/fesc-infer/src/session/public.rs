//! The model's public part: what every client of a model downloads once.
//!
//! ```text
//! file and wire   "FESCmod1"  card length (u64)  card (JSON)  setup (hints and table, see ClientSetup)
//! model id        SHA-256("fesc model 1", digest of the outline, digest of the setup, SHA-256(card))
//! ```
//!
//! The card has the outline (with the names of the classes) and the tokenizer. The model id is in every
//! handshake, so a part that was changed on the way or on disk is refused.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::Arc;

use fesc_model::Tokenizer;
use fesc_model::outline::Outline;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::download::network;
use super::error::{Result, SessionError};
use super::hex::Hex32;
use crate::InferError;
use crate::setup::{ClientSetup, ServerSetup};

const MAGIC: &[u8; 8] = b"FESCmod1";

/// No card is longer: an outline of a thousand layers and a large tokenizer.
const MAX_CARD: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    outline: String,
    tokenizer: Option<String>,
}

fn model_id(outline: &[u8; 32], setup: &[u8; 32], card: &[u8]) -> Hex32 {
    let mut hash = Sha256::new_with_prefix(b"fesc model 1\0");
    hash.update(outline);
    hash.update(setup);
    hash.update(Sha256::digest(card));
    Hex32(hash.finalize().into())
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

/// What comes before the setup.
struct Front {
    card: Vec<u8>,
    outline: Outline,
    tokenizer: Option<String>,
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

impl Front {
    fn read(source: &mut impl Read) -> Result<Self> {
        let mut head = [0; 16];
        source.read_exact(&mut head).map_err(unread)?;
        let (magic, length) = head.split_at(8);
        if magic != MAGIC {
            return Err(malformed("not a public part, or of another version"));
        }
        let length = length.first_chunk().copied().map_or(0, u64::from_le_bytes);
        if length > MAX_CARD {
            return Err(SessionError::TooLarge { what: "a model's card", value: length, limit: MAX_CARD });
        }
        let mut card = Vec::new();
        source.take(length).read_to_end(&mut card).map_err(unread)?;
        let parsed: Card = serde_json::from_slice(&card).map_err(malformed)?;
        let outline = Outline::from_json(&parsed.outline).map_err(malformed)?;
        Ok(Self { card, outline, tokenizer: parsed.tokenizer })
    }

    /// Refuses anything but the model that was asked for.
    fn with(self, setup: ClientSetup, expected: Hex32, remedy: &'static str) -> Result<Known> {
        let Self { card, outline, tokenizer } = self;
        let outline_digest = outline.digest()?;
        let id = model_id(&outline_digest, &setup.digest(), &card);
        if id != expected {
            return Err(SessionError::WrongModel { expected: expected.to_string(), got: id.to_string(), remedy });
        }
        let outline_digest = Hex32(outline_digest);
        Ok(Known { id, outline, outline_digest, tokenizer_json: tokenizer, setup: Arc::new(setup) })
    }
}

impl Known {
    /// A public part in its file, where hints and table stay: memory grows neither with layers nor with the
    /// vocabulary. Refuses it unless it is that of `expected`. All of it is read once and checked; the file
    /// may get another name afterwards, or none, and must not change.
    pub fn open(file: File, expected: Hex32, remedy: &'static str) -> Result<Self> {
        let front = Front::read(&mut BufReader::with_capacity(1 << 16, &file))?;
        let (first, bytes) = (16 + front.card.len() as u64, file.metadata().map_err(unread)?.len());
        let setup = ClientSetup::open(file, first, &front.outline).map_err(no_setup)?;
        if bytes != first + ClientSetup::bytes(&front.outline, setup.embedding()).map_err(no_setup)? {
            return Err(malformed("bytes after its end"));
        }
        front.with(setup, expected, remedy)
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
        let problem = |e: serde_json::Error| SessionError::Malformed { what: "card", problem: e.to_string() };
        let card = serde_json::to_vec(&card).map_err(problem)?;
        let digest = outline.digest()?;
        let id = model_id(&digest, &setup.client_setup().digest(), &card);
        let bytes = 16 + card.len() as u64 + ClientSetup::bytes(&outline, setup.embedding())?;
        Ok(Self { id, outline, outline_digest: Hex32(digest), bytes, card, tokenizer_json, setup })
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
        out.write_all(MAGIC).map_err(unsent)?;
        out.write_all(&(self.card.len() as u64).to_le_bytes()).map_err(unsent)?;
        out.write_all(&self.card).map_err(unsent)?;
        self.setup.client_setup().write(out).map_err(|e| match e {
            InferError::Io(e) => unsent(e),
            e => e.into(),
        })?;
        out.flush().map_err(unsent)
    }
}
