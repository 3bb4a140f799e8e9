//! Trains a tokenizer on a file of documents: `train_tokenizer DOCUMENTS OUT [ENTRIES [lower]]`. Prints
//! counts and times.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use fesc_model::data::Documents;
use fesc_model::{Case, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [documents, out, rest @ ..] = args.as_slice() else {
        return Err("usage: train_tokenizer DOCUMENTS OUT [ENTRIES [lower]]".into());
    };
    let case = if rest.get(1).is_some_and(|word| word == "lower") { Case::Lower } else { Case::Kept };
    let entries = rest.first().map_or(Ok(8192), |n| n.parse())?;
    let start = Instant::now();
    let texts = Documents::open(Path::new(documents))?
        .map(|document| document.map(|d| d.text))
        .collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} texts, {bytes} bytes, read in {:.1} s", texts.len(), start.elapsed().as_secs_f64());
    let start = Instant::now();
    let tokenizer = Tokenizer::train(texts.iter(), entries, case)?;
    println!("{} entries, trained in {:.1} s", tokenizer.rows(), start.elapsed().as_secs_f64());
    tokenizer.save(Path::new(out))?;
    let start = Instant::now();
    let mut tokens = 0;
    for text in &texts {
        let encoded = tokenizer.encode(text, usize::MAX)?;
        tokens += encoded.total;
        let expected = if case == Case::Lower { text.to_lowercase() } else { text.clone() };
        if tokenizer.decode(&encoded.ids)? != expected {
            return Err("a text was not given back".into());
        }
    }
    println!("{tokens} tokens, encoded and decoded in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
