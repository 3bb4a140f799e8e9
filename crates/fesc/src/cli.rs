//! The command line. The help texts are the manual: what a command does, an example, what is printed.

mod bench;
mod ckks;
mod kernels;
mod keys;
mod model;
mod plan;
mod private;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use fesc_net::Profile;
use fesc_ring::cpu;

use crate::bench::mpc::Op;

pub use bench::{Bench, Form, GemmArgs, MpcArgs, NetArgs, OtArgs, OtProtocol, PathChoice, Transport};
pub use ckks::{Chain, CkksArgs, NttArgs};
pub use kernels::{BoundaryArgs, Packing, ProjectArgs, ResidencyArgs, ScanArgs};
pub use keys::{Keys, KeysArg};
pub use model::{CalibrateArgs, ClassifyArgs, EvalArgs, FormsArgs, ModelArgs, TrainArgs};
pub use plan::PlanChoice;
pub use private::{
    ConnectArgs, ConnectionArgs, DealerArgs, DemoArgs, EstimateArgs, InferArgs, PrepareArgs, PrivateArgs, ReachArgs,
    ServeArgs, ThirdArgs, WhenArg,
};

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let available: Vec<&str> = cpu::Path::available().map(cpu::Path::name).collect();
    format!(
        "{} (SIMD path {}, available: {}; wire protocol {})",
        env!("CARGO_PKG_VERSION"),
        cpu::path().name(),
        available.join(", "),
        fesc_net::hello::PROTOCOL_VERSION
    )
});

const CODES: &str = "Exit codes: 0 done, 1 other error, 2 wrong command line, 3 peer, network or protocol failed,
4 over a limit, 5 refused for security, 130 ended by a signal.

FESC_SIMD=portable|avx2|avx512 lowers the SIMD path. RUST_LOG sets the log filter and wins over -v and -q.";

/// Private classification of long documents by two-party computation.
///
/// A server (`serve`) has a model, a client (`classify`) has a document: the client learns the label, the
/// server learns nothing of the document but its length bucket. `demo` shows it on this machine. The other
/// commands train, check and measure.
///
/// Results are printed to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "fesc", version = VERSION.as_str(), after_help = CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print one JSON object a line instead of a table; names are stable, and there are a few more than in a
    /// table.
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more on standard error; repeat for still more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check this machine: processor, memory, randomness, TLS, clock, limits.
    ///
    /// Prints one line per check: its name, ok, warn or fail, what was found, and what to do about it.
    /// Ends with code 1 if any check fails.
    ///
    /// Example: fesc doctor --json
    Doctor,
    /// Say what is in a model's checkpoint, without loading it, or what this program sends.
    ///
    /// DIR has config.json and model.safetensors (Hugging Face's or the original state-spaces names), and
    /// tokenizer.json if the model reads text. Prints the shape, parameters per part, sizes, classes. A
    /// configuration that is not supported is refused with a list of everything that differs.
    ///
    /// With --messages prints every kind of message that this program can send instead: tag, message, way
    /// (from whom to whom), phase, bytes (of the payload, as a formula), hidden, by (what masks it, or why it
    /// is public); with --json also crate and tests.
    ///
    /// With --sets prints the named parameter sets of CKKS: set, n, levels, depth, digits, special_primes,
    /// log_qp, security_bits, precision_bits, and the size of one key-switching key on the wire and in
    /// memory. Sizes are known before a key is made.
    ///
    /// Examples: fesc inspect mamba2-130m-hf --json
    /// fesc inspect --messages
    /// fesc inspect --sets
    Inspect(InspectArgs),
    /// Classify one document.
    ///
    /// With --server and --pin the document stays here and the model stays there: this side learns the label,
    /// the server learns the length bucket (see --explain-trust). With --plain the document and the model are
    /// both on this machine and nothing is hidden or sent.
    ///
    /// Without FILE, or with -, the text is read from standard input. It must be UTF-8 and have at most 16
    /// MiB. What lies beyond --length tokens is not looked at. A document over the server's limit is refused
    /// before anything is sent.
    ///
    /// Prints label, class, probability (with --reveal logits), tokens, bucket (tokens of the run), seconds,
    /// online_s, online_bytes, offline_bytes, setup_bytes, rounds; with --json also offline_s, setup_s,
    /// waited_s (for correlations), offline_rounds, logits, model_id, key_bytes (of CKKS keys that were
    /// sent), kept_keys_used, keys_kept (for later documents), cut, document_tokens, reveal, provider. With
    /// --verify also layer, max_ulps, rel_error for each layer, and class_of_twin, agrees.
    ///
    /// With --plain prints label, class, probability, tokens (looked at), cut (whether there were more),
    /// seconds (without loading), model, mode (float or twin), preset; with --json also document_tokens and
    /// probabilities, by label.
    ///
    /// Examples: fesc classify --plain document.txt
    /// fesc classify letter.txt --server example.org:7340 --pin 5d0f...
    Classify(ClassifyArgs),
    /// Show the private run on this machine: server and client as two processes, the shipped model, a sample.
    ///
    /// Prints the label, time and bytes by phase, and what each side learned; with --json one object: label,
    /// class, tokens, bucket, online_s, offline_s, setup_s, online_bytes, offline_bytes, setup_bytes, rounds,
    /// seconds, server_start_s, agrees (with the model in the clear), client_learned, server_learned.
    ///
    /// Example: fesc demo --file letter.txt
    Demo(DemoArgs),
    /// Serve a model to clients that do not show their documents.
    ///
    /// The first start makes a master seed and a TLS identity in the state directory. Prints listening,
    /// fingerprint (which clients pin; give it to them over a channel that they trust) and model_id; with
    /// --json also model, max_tokens, max_sessions, public_bytes (what each client downloads once), pid. Then
    /// serves until it is ended; -v logs sessions.
    ///
    /// Example: fesc serve --model my-model --listen 0.0.0.0:7340 --max-tokens 2048
    Serve(ServeArgs),
    /// Make correlations for later sessions, on both sides.
    ///
    /// The server must run with --store. Each prepared session serves one `fesc classify --prepared DIR` with
    /// this server, model, length and reveal, once. Prints sessions, bucket, offline_s, offline_bytes,
    /// setup_bytes, prepared.
    ///
    /// Example: fesc prepare --server example.org:7340 --pin 5d0f... --prepared ahead --length 2048
    /// --sessions 4
    Prepare(PrepareArgs),
    /// Show or delete this client's CKKS keys at a server.
    ///
    /// Plans with kernels under encryption need keys, of tens to hundreds of megabytes for each length. A
    /// server keeps those of listed clients, so that they are sent once; their secret halves are in --state.
    /// Keys go with their age, or when a session that computes with them dies.
    #[command(subcommand)]
    Keys(Keys),
    /// Say what a run will cost, before anything runs.
    ///
    /// Bytes and rounds are declared by the protocol itself, for the plan of --plan. Times are a model: one
    /// layer on one segment is measured here, with both parties on this machine, and multiplied stage by
    /// stage; the network's part is added. Prints model, layers, length, plan, provider, net, online_s,
    /// offline_s, online_bytes, offline_bytes, setup_bytes (once per client), rounds, memory_bytes_client,
    /// memory_bytes_server (a model too; the queue of correlations comes on top); then for each stage its
    /// bytes, rounds, calls, and the measured milliseconds a call and nanoseconds a byte.
    ///
    /// Example: fesc estimate --shape base --length 2048 --net wan3
    Estimate(EstimateArgs),
    /// Hand out correlations to pairs of clients and servers, as a third process.
    ///
    /// Faster and cheaper than making them by two, but whoever runs it must collude with neither side. Prints
    /// listening and fingerprint, for --dealer and --dealer-pin of `serve` and `classify`.
    ///
    /// Example: fesc dealer --listen 0.0.0.0:7341
    Dealer(DealerArgs),
    /// Measure how good a model is on labelled documents.
    ///
    /// FILE has one JSON object a line with label (0, 1, ...) and text, and may be compressed with zstd
    /// (window at most 32 MiB). The first L tokens of each document are classified, on all cores.
    ///
    /// Prints for each length accuracy, macro_f1 (mean F1 of the classes that occur as truth or as
    /// prediction), documents, length, model, mode (float or twin), preset, seconds (without reading); with
    /// --json also confusion (a row for each true label, a column for each predicted one), without it a table
    /// by class.
    ///
    /// With --private PLAN each document goes through a private run: a server and its clients on this
    /// machine, processes of this program. A line for each plan and length has also twin_agreement (the share
    /// of documents with the twin's label), seconds_per_document and online_s_per_document (means); with
    /// --json also truth and predicted, by document, online_bytes (of one document), key_bytes (of all: kept
    /// after the first) and provider.
    ///
    /// Example: fesc eval --data test.jsonl.zst --length 512,2048 --twin --json
    Eval(EvalArgs),
    /// Train a classifier of documents.
    ///
    /// DATA has train.jsonl and validation.jsonl (or .jsonl.zst): one JSON object a line with label (0, 1,
    /// ...) and text. The recipe is a JSON file: shape, seed, tokenizer, stages. A tokenizer is trained on
    /// the texts unless one is given. OUT becomes a model that `classify`, `eval` and `inspect` read: the
    /// checkpoint with the smallest validation loss of the last stage, its tokenizer, and calibration.json
    /// for the fixed-point twin. An interrupted run goes on with --resume and ends with the same weights.
    ///
    /// Prints a table of validations (with --json every event, as in OUT/training/log.jsonl) and at the end
    /// model, validation_loss, seconds, documents, vocabulary, calibrated_on.
    ///
    /// Example: fesc train --recipe recipes/scotus.json --data scotus --out my-model
    Train(TrainArgs),
    /// Find the ranges that the fixed-point twin of a model needs.
    ///
    /// Runs the float model over documents (JSONL or its zst, labels are not used) and writes
    /// calibration.json into the model's directory. A later document may exceed these ranges twofold (a mean
    /// of squares sixteenfold, either way) before the twin refuses it. Ranges are public in the private
    /// protocol: take public documents. Prints model, documents, tokens, file.
    ///
    /// Example: fesc calibrate --model my-model --data train.jsonl.zst
    Calibrate(CalibrateArgs),
    /// Make a server's TLS key and self-signed certificate.
    ///
    /// Writes OUT.key (readable by you only) and OUT.crt; files that exist are never touched. Prints key,
    /// certificate and fingerprint: the SHA-256 of the certificate, which clients pin. Give it to them over a
    /// channel that they trust.
    ///
    /// With --client, an identity for a client of a server that has a list: prints the line for that list
    /// too.
    ///
    /// Examples: fesc keygen --out server; fesc keygen --client --out clinic-a
    Keygen(KeygenArgs),
    /// Measure a part of the engine on this machine.
    #[command(subcommand)]
    Bench(Bench),
    /// One process of a measurement; started by `bench`, reads its task from standard input.
    #[command(hide = true)]
    Party,
}

/// Options of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The checkpoint's directory.
    #[arg(value_name = "DIR", required_unless_present_any = ["messages", "sets"])]
    pub directory: Option<PathBuf>,
    /// List every kind of message, with what masks it.
    #[arg(long, conflicts_with = "directory")]
    pub messages: bool,
    /// List the parameter sets of CKKS.
    #[arg(long, conflicts_with_all = ["directory", "messages"])]
    pub sets: bool,
}

/// Options of `keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where: the endings .key and .crt are added.
    #[arg(long, default_value = "fesc")]
    pub out: PathBuf,
    /// For a client: print its line for a server's list (`serve --clients`). Its name there is the last part
    /// of --out.
    #[arg(long)]
    pub client: bool,
}

/// Who makes correlations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// The two parties, by silent OT.
    TwoParty,
    /// A third process.
    Dealer,
}

/// How the processes of a measurement are connected and limited.
#[derive(Debug, Clone, Args)]
pub struct LinkArgs {
    /// Network to imitate: none, lan, wan1, wan2, wan3, or bandwidth,rtt as in 200mbps,10ms.
    #[arg(long, default_value = "none", value_parser = profile)]
    pub net: Profile,
    /// Use TLS 1.3 on the loopback instead of plain TCP.
    #[arg(long)]
    pub tls: bool,
    /// Compute threads of each party.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Seconds without a byte from the peer after which a party gives up.
    #[arg(long, default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
}

fn profile(text: &str) -> Result<Profile, String> {
    text.parse().map_err(|e: fesc_net::NetError| e.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "give seconds, as in 60 or 0.5".to_string())?;
    if !(0.05..=86_400.0).contains(&value) {
        return Err("give 0.05 to 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(value))
}

/// The name of a value as the command line spells it.
pub fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_limits() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "x", "-1", "0", "nan", "inf", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
    }
}
