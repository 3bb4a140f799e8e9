//! The model's public part: what every client of a model downloads once.
//!
//! ```text
//! file and wire   "FESCmod1"  card length (u64)  card (JSON)  setup (hints and table, see ClientSetup)
//! model id        SHA-256("fesc model 1", digest of the outline, digest of the setup, SHA-256(card))
//! ```
//!
//! The card has the outline (with the names of the classes) and the tokenizer. The model id is in every handshake, so a part that
//! was changed on the way or on disk is refused.

use std::io::{Read, Write};
use std::sync::Arc;

use fesc_model::outline::Outline;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::core::{ClientSetup, ServerSetup};
use super::download::network;
use super::error::{Result, SessionError};
use super::hex::Hex32;
use crate::InferError;

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
    pub tokenizer: Option<String>,
    /// Hints and table.
    pub setup: Arc<ClientSetup>,
}

impl Known {
    /// Reads a public part and refuses it unless it is that of `expected`.
    pub fn read(source: &mut impl Read, expected: Hex32, remedy: &'static str) -> Result<Self> {
        let malformed = |problem: String| SessionError::Malformed { what: "public part of a model", problem };
        let failed = |e| match network(e) {
            Ok(e) => SessionError::Net(e),
            Err(e) => SessionError::Malformed { what: "public part of a model", problem: e.to_string() },
        };
        let mut head = [0; 16];
        source.read_exact(&mut head).map_err(failed)?;
        let (magic, length) = head.split_at(8);
        if magic != MAGIC {
            return Err(malformed("not a public part, or of another version".into()));
        }
        let length = length.first_chunk().copied().map_or(0, u64::from_le_bytes);
        if length > MAX_CARD {
            return Err(SessionError::TooLarge { what: "a model's card", value: length, limit: MAX_CARD });
        }
        let mut card = Vec::new();
        source.take(length).read_to_end(&mut card).map_err(failed)?;
        let parsed: Card = serde_json::from_slice(&card).map_err(|e| malformed(e.to_string()))?;
        let outline = Outline::from_json(&parsed.outline)?;
        let outline_digest = outline.digest()?;
        let setup = ClientSetup::read(source, &outline)?;
        if source.read(&mut [0]).map_err(failed)? != 0 {
            return Err(malformed("bytes after its end".into()));
        }
        let id = model_id(&outline_digest, &setup.digest()?, &card);
        if id != expected {
            return Err(SessionError::WrongModel { expected: expected.to_string(), got: id.to_string(), remedy });
        }
        let (outline_digest, tokenizer) = (Hex32(outline_digest), parsed.tokenizer);
        Ok(Self { id, outline, outline_digest, tokenizer, setup: Arc::new(setup) })
    }

    /// The name of a class, if the model has names.
    pub fn label(&self, class: usize) -> Option<&str> {
        self.outline.labels().get(class).map(String::as_str)
    }
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
    /// Weights and secrets.
    pub setup: ServerSetup,
}

impl Hosted {
    /// Joins a server's setup with what clients must know besides: the tokenizer, if the model reads text.
    pub fn new(setup: ServerSetup, tokenizer: Option<String>) -> Result<Self> {
        let outline = setup.outline()?.clone();
        let card = Card { outline: outline.to_json(), tokenizer };
        let problem = |e: serde_json::Error| SessionError::Malformed { what: "card", problem: e.to_string() };
        let card = serde_json::to_vec(&card).map_err(problem)?;
        let digest = outline.digest()?;
        let id = model_id(&digest, &setup.client_setup().digest()?, &card);
        let mut hosted = Self { id, outline, outline_digest: Hex32(digest), bytes: 0, card, setup };
        let mut count = Count(0);
        hosted.write(&mut count)?;
        hosted.bytes = count.0;
        Ok(hosted)
    }

    /// Writes the public part.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        let failed = |e| match network(e) {
            Ok(e) => SessionError::Net(e),
            Err(source) => SessionError::Io { path: "public part of a model".into(), source },
        };
        out.write_all(MAGIC).map_err(failed)?;
        out.write_all(&(self.card.len() as u64).to_le_bytes()).map_err(failed)?;
        out.write_all(&self.card).map_err(failed)?;
        self.setup.client_setup().write(out).map_err(|e| match e {
            InferError::Io(e) => failed(e),
            e => e.into(),
        })?;
        out.flush().map_err(failed)
    }
}

struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
