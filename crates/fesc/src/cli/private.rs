//! Options of the commands of the private run: `serve`, `classify`, `prepare`, `dealer`, `demo`, `estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fesc_infer::session::Hex32;
use fesc_infer::session::keyring::MOST_DAYS;
use fesc_infer::{Embedding, Reveal};
use fesc_model::Plan;
use fesc_net::{Fingerprint, Profile};

use super::keys::KeysArg;
use super::plan::{PlanChoice, plan, plan_choice};
use super::{LinkArgs, Provider, profile, seconds};

/// How to reach a server, and as whom.
#[derive(Debug, Clone, Args)]
pub struct ReachArgs {
    /// Where the server listens: host:port.
    #[arg(long, value_name = "ADDRESS")]
    pub server: Option<String>,
    /// The server's fingerprint, as it prints it. Any other server is refused.
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint)]
    pub pin: Option<Fingerprint>,
    /// Without TLS: anybody on the way reads and changes everything. For measurements only.
    #[arg(long, conflicts_with = "pin")]
    pub insecure_plaintext: bool,
    /// This client's TLS key (`fesc keygen --client`), for a server that serves listed clients only.
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "insecure_plaintext")]
    pub key: Option<PathBuf>,
    /// This client's TLS certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Where this side notes which prepared correlations it has used, and keeps its secret CKKS keys; a
    /// directory in the user's state unless told. Leave it out of backups.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// How the connection is limited.
    #[command(flatten)]
    pub line: ConnectionArgs,
}

/// How to reach a server, and what is expected of it.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// The server.
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Where public parts of models are kept; a directory in the user's cache unless told.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Seconds to try again while the server is busy.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub wait: Option<Duration>,
    /// Refuse any model but the one with this id.
    #[arg(long, value_name = "ID", value_parser = hex)]
    pub expect: Option<Hex32>,
}

/// Limits of a connection.
#[derive(Debug, Clone, Args)]
pub struct ConnectionArgs {
    /// Seconds without a byte from the peer after which this side gives up.
    #[arg(long, default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
    /// Network to imitate on the sending side: none, lan, wan1, wan2, wan3, or bandwidth,rtt as in
    /// 200mbps,10ms.
    #[arg(long, default_value = "none", value_parser = profile)]
    pub net: Profile,
}

/// A third process that hands out correlations.
#[derive(Debug, Clone, Args)]
pub struct ThirdArgs {
    /// Where a dealer listens: host:port. It must not collude with either side.
    #[arg(long, value_name = "ADDRESS")]
    pub dealer: Option<String>,
    /// The dealer's fingerprint.
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint, requires = "dealer")]
    pub dealer_pin: Option<Fingerprint>,
}

/// When correlations are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenArg {
    /// Ahead of their use, by a thread on a second connection.
    Ahead,
    /// At the moment of use, on the same connection: slower, less memory.
    Inline,
}

/// Options of `classify` that belong to the private run.
#[derive(Debug, Clone, Args)]
pub struct PrivateArgs {
    /// The server.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// What this side learns; the server may allow the label alone.
    #[arg(long, default_value = "label", value_parser = reveal())]
    pub reveal: Reveal,
    /// Who makes correlations: the two parties, or a third process.
    #[arg(long, value_enum, default_value_t = Provider::TwoParty)]
    pub provider: Provider,
    /// The third process.
    #[command(flatten)]
    pub third: ThirdArgs,
    /// Use correlations that `fesc prepare` left in this directory.
    #[arg(long, value_name = "DIR")]
    pub prepared: Option<PathBuf>,
    /// When the two parties make correlations.
    #[arg(long, value_enum, default_value_t = WhenArg::Ahead)]
    pub when: WhenArg,
    /// Megabytes of correlations that are kept ready.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub ready: u64,
    /// What becomes of CKKS keys, which plans with kernels under encryption need.
    #[arg(long, value_enum, default_value_t = KeysArg::Keep)]
    pub keys: KeysArg,
    /// Compare hidden values with the model's twin, layer by layer. Needs the model, and a server with
    /// --insecure-verify.
    #[arg(long)]
    pub verify: bool,
    /// Say what each side learns and whom it trusts, and do nothing else.
    #[arg(long)]
    pub explain_trust: bool,
}

/// Options of `serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The model's directory (config.json, model.safetensors, tokenizer.json, calibration.json), or built-in.
    #[arg(long, value_name = "DIR", default_value = "built-in")]
    pub model: PathBuf,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7340")]
    pub listen: String,
    /// TLS key (see `fesc keygen`); made in the state directory unless told.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// TLS certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Which kernel computes each stage: fast, or choices such as fast,scan=hescan. Clients are told, and
    /// compute the same.
    #[arg(long, value_name = "PLAN", default_value = "fast", value_parser = plan)]
    pub plan: Plan,
    /// Where the server keeps its master seed, its identity, which prepared correlations were used, clients'
    /// CKKS keys, and what clients have used of their budgets. Whoever reads it can read the model's public
    /// part. Leave it out of backups.
    #[arg(long, value_name = "DIR", default_value = "fesc-state")]
    pub state: PathBuf,
    /// Serve these clients only. A line each: NAME FINGERPRINT sessions=N logits=N, the last two for a day
    /// (sessions=unlimited is no limit, without logits= there are none). Read anew for every connection.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_plaintext")]
    pub clients: Option<PathBuf>,
    /// Log of sessions, a JSON object a line; sessions.jsonl in the state directory unless told.
    #[arg(long, value_name = "FILE")]
    pub session_log: Option<PathBuf>,
    /// Bytes of the log of sessions before it is rotated; four old files are kept.
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = clap::value_parser!(u64).range(1 << 16..))]
    pub session_log_bytes: u64,
    /// Megabytes that all queues of this server may take together; as much as the sessions can use, and at
    /// most three quarters of what is free, unless told. Each session has an equal share, and a connection a
    /// quarter of it.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(128..=1 << 24))]
    pub queue_memory: Option<u64>,
    /// Megabytes that clients' CKKS keys and ciphertexts of all sessions may take together, under a plan that
    /// has some; what queues leave of three quarters of what is free, unless told. A run for which there is
    /// no room is refused with what it takes.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub encrypted_memory: Option<u64>,
    /// Keep prepared correlations here, for `fesc prepare`.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Sessions at once. Each may need 17 open files (`ulimit -n`), and the server some 50 more.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_sessions: u16,
    /// Tokens of the longest run.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(128..=1 << 20))]
    pub max_tokens: u32,
    /// Prepared sessions that may wait for their use.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub max_prepared: u32,
    /// Bytes on disk that prepared sessions may take together; 20 GiB unless told.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 30)]
    pub prepared_bytes: u64,
    /// Days after which a prepared session that nobody has used is deleted.
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub prepared_days: u32,
    /// Bytes on disk that kept CKKS keys of all clients may take together; 20 GiB unless told.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 30)]
    pub keys_quota: u64,
    /// Bytes of kept CKKS keys of one client; 2 GiB unless told. Only listed clients (--clients) have keys
    /// kept. A client that would pass it is told before it makes keys, and may delete some (`fesc keys`).
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
    pub keys_per_client: u64,
    /// Days after which kept CKKS keys are deleted, on both sides. The longer, the more sessions of a client
    /// hang on one secret key.
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
    pub keys_age: u32,
    /// Seconds that a session may take.
    #[arg(long, default_value = "7200", value_parser = seconds)]
    pub session_time: Duration,
    /// Seconds in which a client must say what it wants, each time that it is its turn before the run.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub answer_time: Duration,
    /// Seconds that running sessions are given when the server is told to stop (SIGINT, SIGTERM; a second one
    /// ends at once).
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub grace: Duration,
    /// Megabytes of correlations that a session keeps ready.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub ready: u64,
    /// Whether the table of the embedding is secret.
    #[arg(long, value_enum, default_value_t = EmbeddingArg::Encrypted)]
    pub embedding: EmbeddingArg,
    /// The most that clients may learn: with logits they choose between both.
    #[arg(long, default_value = "label", value_parser = reveal())]
    pub reveal: Reveal,
    /// The dealer.
    #[command(flatten)]
    pub third: ThirdArgs,
    /// Limits of a connection.
    #[command(flatten)]
    pub line: ConnectionArgs,
    /// Give shares of hidden values to clients that ask. It gives the model away: for checks of the program
    /// only.
    #[arg(long)]
    pub insecure_verify: bool,
    /// Without TLS: anybody on the way reads and changes everything. For measurements only.
    #[arg(long, conflicts_with_all = ["key", "cert"])]
    pub insecure_plaintext: bool,
    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    pub stop_with_stdin: bool,
    /// Say what each side learns and whom it trusts, and do nothing else.
    #[arg(long)]
    pub explain_trust: bool,
}

/// How the table of the embedding reaches clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EmbeddingArg {
    /// Encrypted; rows are fetched without telling which.
    Encrypted,
    /// In the clear, because it is public anyway.
    Public,
}

impl From<EmbeddingArg> for Embedding {
    fn from(arg: EmbeddingArg) -> Self {
        match arg {
            EmbeddingArg::Encrypted => Self::Encrypted,
            EmbeddingArg::Public => Self::Public,
        }
    }
}

/// Options of `prepare`.
#[derive(Debug, Clone, Args)]
pub struct PrepareArgs {
    /// The server.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Where the correlations are kept. Whoever copies this directory can break the privacy of its sessions.
    #[arg(long, value_name = "DIR")]
    pub prepared: PathBuf,
    /// Tokens of the documents to come; rounded up to a bucket.
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: u32,
    /// What the client will learn.
    #[arg(long, default_value = "label", value_parser = reveal())]
    pub reveal: Reveal,
    /// Sessions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub sessions: u32,
}

/// Options of `dealer`.
#[derive(Debug, Clone, Args)]
pub struct DealerArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7341")]
    pub listen: String,
    /// TLS key (see `fesc keygen`); a new identity for every start unless told.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// TLS certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Limits of a connection.
    #[command(flatten)]
    pub line: ConnectionArgs,
    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    pub stop_with_stdin: bool,
}

/// Options of `demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// A text of yours instead of the sample.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Tokens of it that are looked at.
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: Option<u32>,
    /// Which kernel computes each stage: fast, or choices such as fast,scan=hescan.
    #[arg(long, value_name = "PLAN", default_value = "fast", value_parser = plan)]
    pub plan: Plan,
    /// Say what each side learns and whom it trusts, and do nothing else.
    #[arg(long)]
    pub explain_trust: bool,
}

/// Options of `estimate`.
#[derive(Debug, Clone, Args)]
pub struct EstimateArgs {
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m.
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// A model's directory instead, or built-in (which is the default).
    #[arg(long, value_name = "DIR", conflicts_with = "shape")]
    pub model: Option<PathBuf>,
    /// Layers, other than the shape's own.
    #[arg(long, value_name = "K", requires = "shape", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub layers: Option<u32>,
    /// Tokens of the run.
    #[arg(long, value_name = "L", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: u32,
    /// Which kernel computes each stage: fast, or choices such as fast,scan=hescan; all for all plans side by
    /// side.
    #[arg(long, value_name = "PLAN", default_value = "fast", value_parser = plan_choice)]
    pub plan: PlanChoice,
    /// What the client learns.
    #[arg(long, default_value = "label", value_parser = reveal())]
    pub reveal: Reveal,
    /// Who makes correlations.
    #[arg(long, value_enum, default_value_t = Provider::TwoParty)]
    pub provider: Provider,
    /// Network: none, lan, wan1, wan2, wan3, or bandwidth,rtt as in 200mbps,10ms.
    #[arg(long, default_value = "none", value_parser = profile)]
    pub net: Profile,
    /// Compute threads of each party.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Measure nothing: bytes, rounds and memory only.
    #[arg(long)]
    pub no_time: bool,
}

/// Options of `bench infer`.
#[derive(Debug, Clone, Args)]
pub struct InferArgs {
    /// Which kernel computes each stage: fast, or choices such as fast,scan=hescan.
    #[arg(long, value_name = "PLAN", default_value = "fast", value_parser = plan)]
    pub plan: Plan,
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m. Weights are random.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub shape: String,
    /// Layers, other than the shape's own.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub layers: Option<u32>,
    /// Rows of the embedding, other than the shape's own: they change the set-up only.
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    pub vocab: Option<u32>,
    /// Tokens of the run.
    #[arg(long, value_name = "L", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: u32,
    /// What the client learns.
    #[arg(long, default_value = "label", value_parser = reveal())]
    pub reveal: Reveal,
    /// Who makes correlations.
    #[arg(long, value_enum, default_value_t = Provider::TwoParty)]
    pub provider: Provider,
    /// Compare every layer with the twin, also in a long run.
    #[arg(long)]
    pub check: bool,
    /// How the processes are connected and limited.
    #[command(flatten)]
    pub link: LinkArgs,
}

/// `label`, the class alone; or `logits`, floored to 4 fractional bits, which many documents make a way to
/// extract the model.
fn reveal() -> impl TypedValueParser<Value = Reveal> {
    let names = Reveal::ALL.map(Reveal::name);
    PossibleValuesParser::new(names)
        .map(|name| if name == Reveal::Logits.name() { Reveal::Logits } else { Reveal::Label })
}

fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    text.parse().map_err(|e: fesc_net::NetError| e.to_string())
}

pub(super) fn hex(text: &str) -> Result<Hex32, String> {
    text.parse().map_err(str::to_string)
}
