//! Memory: a model of what each side holds at its peak, without the queue of correlations made ahead.
//!
//! ```text
//! run    = program + 3 residual streams + f (largest correlations of a stage on a segment)
//! client = max(run, program + 3 residual streams + hints of a layer) + transform tables of each set
//!          + the most of: one key of a set, a message of results,
//!                         uploads of a circuit that wait to be sent + a message of them, twice
//! server = max(run + weights and RLWE secrets of a layer + keys and buffers under CKKS,
//!              program + all weights as floats while the public part is made)
//! ```
//!
//! `f` is 1.6 with a dealer and 2.1 between two parties, who make them: measured at Mamba-base with 128 to
//! 8,192 tokens, where the model is within ten percent.
//! A client encrypts faster than a server takes ciphertexts, which then wait in the channel's queue, as many
//! as it holds; a message is joined from its ciphertexts, so it is there twice. What waits depends on which
//! side is faster, and so do keys, which wait too and are not in the model. So the client's part is a rough
//! one: at Mamba-base, 128 tokens and with a dealer 2 to 5 percent low for `paper`, 21 to 28 high where
//! projections are on shares, 9 high to 19 low for `he-dual`; at `tiny` and 2,048 tokens 11 to 38 low.
//! Weights, hints and the table are in files, so that a run's memory does not grow with layers, and with the
//! document only by its stream. Keys and buffers under CKKS are what `serve` reserves for a session
//! ([`fesc_infer::memory`]).

use anyhow::Result;
use fesc_ckks::wire;
use fesc_hybrid::backend::Chain;
use fesc_infer::{ClientSetup, Embedding, Schedule};
use fesc_net::Config;

use super::declared::{Declared, Prices};

/// The program, its engine tables and buffers.
const PROGRAM: u64 = 25 << 20;

/// A stage's correlations with opened values and results, over the correlations alone: from a dealer, and
/// where the two parties make them.
const DEALT: f64 = 1.6;
const MADE: f64 = 2.1;

/// Ciphertexts of a message.
const BATCH: u64 = 16;

/// Bytes of transform tables for each coefficient and prime: roots and their quotients, forwards and back.
const TABLES: u64 = 4 * 8;

/// Bytes of each side.
pub struct Memory {
    pub client: u64,
    pub server: u64,
}

/// The model.
pub fn model(schedule: &Schedule, declared: &Declared, prices: &Prices) -> Result<Memory> {
    let outline = schedule.outline();
    let shape = outline.shape();
    let (vocab, width, layers) = (shape.vocab as u64, shape.d_model as u64, shape.layers as u64);
    let (inner, projected) = (shape.inner() as u64, shape.proj_dim() as u64);
    let matrices = width * projected + inner * width;
    // On the wire an element has 6 bytes, in memory 8.
    let public = ClientSetup::bytes(outline, Embedding::Encrypted)?;
    let hints = public.saturating_sub(6 * vocab * width) / layers.max(1) * 8 / 6;
    let secrets = 8 * matrices + 2048 * (projected + width);
    // The stream before and after a layer and the part that is computed.
    let program = PROGRAM + 3 * 8 * schedule.tokens() as u64 * width;
    let more = if matches!(prices, Prices::Dealer) { DEALT } else { MADE };
    let run = program + (more * declared.largest as f64) as u64;
    let floats = 4 * (layers * matrices + vocab * width);
    let [client, server] = encrypted(declared);
    let server = (run + secrets + server).max(PROGRAM + floats + secrets + hints);
    Ok(Memory { client: run.max(program + hints) + client, server })
}

/// What the kernels under CKKS add at the client, and at the server.
fn encrypted(declared: &Declared) -> [u64; 2] {
    let works = declared.works.iter().flat_map(|(_, works)| works);
    let server = fesc_infer::memory::encrypted(&declared.keys, works);
    let (mut tables, mut most) = (0, 0);
    for keys in declared.keys.iter() {
        let (params, chain) = (keys.params(), Chain::of(keys.params()));
        tables += TABLES * (params.primes() * params.degree()) as u64;
        // Keys are made and sent one by one.
        most = most.max((params.key_memory() + wire::switching_key_bytes(params)) as u64);
        let own = declared.works.iter().flat_map(|(_, works)| works);
        for work in own.filter(|work| work.params.literal() == params.literal()) {
            let (up, count) = (work.upload_bytes(), work.ciphertexts_up().max(1));
            let message = up * count.min(BATCH) / count;
            let waiting = up.min(Config::default().queue_bytes as u64);
            let results = work.results.min(BATCH) * chain.ciphertext_bytes(work.result_level);
            most = most.max(waiting + 2 * message).max(results);
        }
    }
    [tables + most, server]
}
