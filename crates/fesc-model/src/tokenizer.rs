//! Text to token ids, by the `tokenizers` library, from the `tokenizer.json` of the model.
//!
//! No special token is added and the file's own cutting and padding are off: the document's ids are those of
//! its text, the first `length` of them. Padding is on the right: the model is causal, so that padding
//! changes no state of a token before it, and only pooling must know the true length.
//!
//! Not guaranteed: the library reads the file; a hostile tokenizer file is bounded in size here and nothing
//! else.

mod train;

use std::fmt;
use std::path::Path;

use crate::{ModelError, Result};

pub use train::{Case, END_OF_TEXT, PADDING};

/// The largest `tokenizer.json` taken, in bytes. That of GPT-NeoX has 2.5 MB.
pub(crate) const TOKENIZER_LIMIT: u64 = 64 << 20;

/// A loaded tokenizer.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    largest: u32,
}

/// The beginning of a document. `Debug` shows its length, not its tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids, at most as many as asked for.
    pub ids: Vec<u32>,
    /// Tokens of the whole document.
    pub total: usize,
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded({} of {} tokens)", self.ids.len(), self.total)
    }
}

impl Encoded {
    /// Whether the document was longer than asked for.
    pub fn truncated(&self) -> bool {
        self.total > self.ids.len()
    }

    /// The ids followed by `pad` up to `length`. Pool over `self.ids.len()` tokens.
    pub fn padded(&self, length: usize, pad: u32) -> Result<Vec<u32>> {
        if self.ids.len() > length {
            return Err(ModelError::Pad { tokens: self.ids.len(), length });
        }
        let mut ids = self.ids.clone();
        ids.resize(length, pad);
        Ok(ids)
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub fn load(path: &Path) -> Result<Self> {
        let text = crate::checkpoint::read_text(path, TOKENIZER_LIMIT)?;
        Self::parse(&text).map_err(|reason| ModelError::Tokenizer { path: path.into(), reason })
    }

    /// The same from its text.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::parse(text).map_err(|reason| ModelError::Tokenizer { path: "tokenizer.json".into(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut inner = tokenizers::Tokenizer::from_bytes(text).map_err(|e| e.to_string())?;
        inner.with_truncation(None).map_err(|e| e.to_string())?;
        inner.with_padding(None);
        let largest = inner.get_vocab(true).into_values().max().ok_or("it has no token")?;
        Ok(Self { inner, largest })
    }

    /// Number of ids, gaps included.
    pub fn rows(&self) -> usize {
        self.largest as usize + 1
    }

    /// Checks that every id has a row in an embedding of `vocab` rows.
    pub fn check(&self, vocab: usize) -> Result<()> {
        if self.rows() > vocab {
            return Err(ModelError::Vocabulary { largest: self.largest, vocab });
        }
        Ok(())
    }

    /// The first `length` token ids of a text.
    pub fn encode(&self, text: &str, length: usize) -> Result<Encoded> {
        let encoding = self.inner.encode_fast(text, false).map_err(|e| ModelError::Encode { reason: e.to_string() })?;
        let all = encoding.get_ids();
        Ok(Encoded { ids: all.iter().copied().take(length).collect(), total: all.len() })
    }

    /// The text of some ids.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, false).map_err(|e| ModelError::Encode { reason: e.to_string() })
    }

    /// The id of a token, for example of the padding token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// Words of a tiny language; id 9 leaves a gap.
    const WORDS: &str = r#"{"version": "1.0", "padding": null, "added_tokens": [], "truncation":
        {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
        "decoder": null, "model": {"type": "WordLevel", "unk_token": "?",
        "vocab": {"?": 0, "the": 1, "court": 2, "affirms": 3, "pad": 9}}}"#;

    fn tiny() -> (tempfile::TempDir, Tokenizer) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        std::fs::write(&path, WORDS).unwrap();
        let tokenizer = Tokenizer::load(&path).unwrap();
        (dir, tokenizer)
    }

    #[test]
    fn a_document_is_cut_to_its_length_and_padded_on_the_right() {
        let (_dir, tokenizer) = tiny();
        let all = tokenizer.encode("The Court affirms the rest", 512).unwrap();
        assert_eq!(all, Encoded { ids: vec![1, 2, 3, 1, 0], total: 5 }, "the file's own limit of 2 must be off");
        assert!(!all.truncated());
        let cut = tokenizer.encode("The Court affirms the rest", 3).unwrap();
        assert_eq!(cut, Encoded { ids: vec![1, 2, 3], total: 5 });
        assert!(cut.truncated());
        let pad = tokenizer.id("pad").unwrap();
        assert_eq!(cut.padded(5, pad).unwrap(), [1, 2, 3, 9, 9]);
        assert!(matches!(all.padded(4, pad), Err(ModelError::Pad { tokens: 5, length: 4 })));
        assert!(tokenizer.encode("", 8).unwrap().ids.is_empty());
    }

    #[test]
    fn ids_must_have_rows() {
        let (_dir, tokenizer) = tiny();
        assert_eq!(tokenizer.rows(), 10);
        tokenizer.check(10).unwrap();
        assert!(matches!(tokenizer.check(9), Err(ModelError::Vocabulary { largest: 9, vocab: 9 })));
    }

    #[test]
    fn broken_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        assert!(matches!(Tokenizer::load(&path), Err(ModelError::Io { .. })));
        for text in ["", "{}", &WORDS[..WORDS.len() / 2], &WORDS.replace("WordLevel", "Oracle")] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Tokenizer::load(&path), Err(ModelError::Tokenizer { .. })), "{text}");
        }
    }

    /// Values from the README beside the file; it is not part of the repository.
    #[test]
    fn the_gpt_neox_tokenizer_gives_its_published_ids() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
        let path = root.join("shared/data/tokenizer/tokenizer.json");
        if !path.exists() {
            eprintln!("skipped: {} is not here", path.display());
            return;
        }
        let tokenizer = Tokenizer::load(&path).unwrap();
        assert_eq!(tokenizer.rows(), 50_277);
        tokenizer.check(50_288).unwrap();
        assert_eq!(tokenizer.encode("Hello world", 9).unwrap().ids, [12092, 1533]);
        let text = "Mamba is a selective state space model.";
        assert_eq!(tokenizer.encode(text, 99).unwrap().ids, [46, 31834, 310, 247, 13687, 1375, 2317, 1566, 15]);
        assert_eq!(tokenizer.decode(&[510, 3158, 8516, 30013]).unwrap(), "The quick brown fox");
    }
}
