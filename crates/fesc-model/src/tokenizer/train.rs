//! Training of a tokenizer: byte-level BPE as in GPT-2, by the `tokenizers` library.
//!
//! Ids: 0 is [`END_OF_TEXT`], 1 is [`PADDING`], 2..258 are the 256 bytes, the rest are merges, the most
//! frequent first. Every text has an encoding: no byte is unknown. `decode(encode(x))` is `x`, or `x` in
//! lower case with [`Case::Lower`]. Splitting into words is GPT-2's, no space is put before the first word.
//!
//! The same texts give the same tokenizer, in whatever order they come: the library breaks ties between pairs
//! by their ids. A test watches this, since the library does not promise it.
//!
//! Cost: the texts are read once; then memory and time grow with the number of different words, not of texts.

use std::path::Path;

use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerBuilder,
};

use super::Tokenizer;
use crate::{ModelError, Result};

/// The token between documents: id 0.
pub const END_OF_TEXT: &str = "<|endoftext|>";
/// The token that fills up: id 1.
pub const PADDING: &str = "<|padding|>";
/// Two tokens of our own and all bytes.
const SMALLEST: usize = 258;
/// A pair must occur this often to become a token.
const LEAST_FREQUENCY: u64 = 2;

/// What becomes of capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// They stay, and a text is given back as it was.
    #[default]
    Kept,
    /// They become small ones: fewer tokens for the same words, which helps a small classifier.
    Lower,
}

impl Tokenizer {
    /// Trains a tokenizer of at most `vocab` entries; fewer where the texts have no more pairs that occur
    /// twice.
    pub fn train<I>(texts: I, vocab: usize, case: Case) -> Result<Self>
    where
        I: Iterator<Item: AsRef<str> + Send> + Send,
    {
        let failed = |reason: String| ModelError::TokenizerTraining { reason };
        if vocab < SMALLEST {
            return Err(failed(format!("{vocab} entries do not hold the {SMALLEST} that every text needs")));
        }
        let bytes = ByteLevel::new(false, true, true);
        let mut fresh =
            TokenizerBuilder::<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>::new(
            )
            .with_model(BPE::default())
            .with_normalizer((case == Case::Lower).then(|| Lowercase.into()))
            .with_pre_tokenizer(Some(bytes.into()))
            .with_decoder(Some(bytes.into()))
            .build()
            .map_err(|e| failed(e.to_string()))?;
        let special = [END_OF_TEXT, PADDING].map(|token| AddedToken::from(token, true)).to_vec();
        let mut trainer = BpeTrainer::builder()
            .vocab_size(vocab)
            .min_frequency(LEAST_FREQUENCY)
            .show_progress(false)
            .special_tokens(special)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        let trained = fresh.train(&mut trainer, texts).map_err(|e| failed(e.to_string()))?;
        // Through its file form: what is used now is what will be loaded later.
        let text = trained.to_string(false).map_err(|e| failed(e.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    /// Writes a `tokenizer.json` that [`Tokenizer::load`] reads, without white space. The file appears whole
    /// or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = self.inner.to_string(false).map_err(|e| ModelError::Encode { reason: e.to_string() })?;
        let io = |source| ModelError::Io { path: path.into(), source };
        crate::checkpoint::replace(path, |new| std::fs::write(new, &text).map_err(io))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// Sentences with many ties between pairs: words over three letters, each in three sentences.
    fn texts() -> Vec<String> {
        let word =
            |i: usize| (0..2 + i % 5).map(|k| ["a", "b", "ab"][(i / 3usize.pow(k as u32)) % 3]).collect::<String>();
        (0..600).map(|i| format!("{} of {} v. {}", word(i % 200), word(i % 300), word(i / 2))).collect()
    }

    fn saved(tokenizer: &Tokenizer) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        tokenizer.save(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_same_texts_give_the_same_file_in_any_order() {
        for case in [Case::Kept, Case::Lower] {
            let mut texts = texts();
            let first = saved(&Tokenizer::train(texts.iter(), 700, case).unwrap());
            for _ in 0..8 {
                texts.rotate_left(71);
                assert!(saved(&Tokenizer::train(texts.iter(), 700, case).unwrap()) == first, "two trainings differ");
            }
        }
    }

    #[test]
    fn lower_case_is_all_that_is_lost() {
        let tokenizer = Tokenizer::train(texts().iter(), 300, Case::Lower).unwrap();
        let dir = tempfile::tempdir().unwrap();
        tokenizer.save(&dir.path().join("t")).unwrap();
        for tokenizer in [&tokenizer, &Tokenizer::load(&dir.path().join("t")).unwrap()] {
            let ids = |text: &str| tokenizer.encode(text, 99).unwrap().ids;
            assert_eq!(ids("Ab v. AB \u{c9}"), ids("ab v. ab \u{e9}"));
            assert_eq!(tokenizer.decode(&ids("Ab v.  AB \u{c9}")).unwrap(), "ab v.  ab \u{e9}");
        }
    }

    #[test]
    fn every_text_is_given_back() {
        let tokenizer = Tokenizer::train(texts().iter(), 400, Case::Kept).unwrap();
        let all: String =
            ('\u{0}'..='\u{2ff}').chain("\u{1f9d1}\u{200d}\u{2696}\u{fe0f} \r\n\t\u{a0}".chars()).collect();
        for text in ["", " ", "  two  spaces ", "ab ab 12's <|endoftext|>", &all, "na\u{ef}ve \u{a7} 12\n\n"] {
            let encoded = tokenizer.encode(text, usize::MAX).unwrap();
            assert_eq!(tokenizer.decode(&encoded.ids).unwrap(), text);
        }
    }

    #[test]
    fn ids_are_where_the_manual_says() {
        let tokenizer = Tokenizer::train(texts().iter(), 300, Case::Kept).unwrap();
        assert_eq!((tokenizer.id(END_OF_TEXT), tokenizer.id(PADDING), tokenizer.id("!")), (Some(0), Some(1), Some(2)));
        assert_eq!(tokenizer.rows(), 300);
        let text = "abab v. ab";
        assert!(tokenizer.encode(text, 99).unwrap().total < text.len(), "merges must shorten a text");
        let bytes = Tokenizer::train(std::iter::empty::<&str>(), 300, Case::Kept).unwrap();
        assert_eq!(bytes.rows(), 258);
        assert_eq!(bytes.encode(text, 99).unwrap().total, text.len());
        assert!(matches!(Tokenizer::train(texts().iter(), 257, Case::Kept), Err(ModelError::TokenizerTraining { .. })));
    }

    #[test]
    fn a_saved_tokenizer_is_loaded_the_same() {
        let tokenizer = Tokenizer::train(texts().iter(), 350, Case::Kept).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        tokenizer.save(&path).unwrap();
        let loaded = Tokenizer::load(&path).unwrap();
        for text in texts() {
            assert_eq!(loaded.encode(&text, 99).unwrap(), tokenizer.encode(&text, 99).unwrap());
        }
        assert_eq!(saved(&loaded), saved(&tokenizer));
    }
}
