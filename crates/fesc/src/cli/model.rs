//! Options of the commands that have a model: `classify`, `eval`, `train`, `calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fesc_model::Plan;
use fesc_model::Precision;
use fesc_train::FormSet;

use super::plan::plan;
use super::{PrivateArgs, Provider};

/// Which model, and how it is computed.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The model's directory (config.json, model.safetensors, tokenizer.json); the shipped model unless told.
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Compute in fixed point as the private protocol does; a DIR needs a calibration.json (see
    /// `fesc calibrate`).
    #[arg(long)]
    pub twin: bool,
    /// Which plan's fixed point: fast (piecewise forms) unless told, paper (its polynomials), or paper-44 (in
    /// its ring of 44 bits); choices may follow, as in fast,norm=nerms.
    #[arg(long, alias = "preset", value_name = "PLAN", value_parser = Plan::parse, requires = "twin")]
    pub plan: Option<Plan>,
}

/// Options of `classify`.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// The text; - is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Run in the clear on this machine: nothing is hidden from anyone who can see it.
    #[arg(long, conflicts_with_all = ["server", "pin", "verify", "prepared"])]
    pub plain: bool,
    /// Tokens that are looked at; with --plain 2048, else the whole document unless told.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: Option<u32>,
    /// The model: for --plain, and for --verify.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The private run.
    #[command(flatten)]
    pub private: PrivateArgs,
}

/// Options of `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Labelled documents.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Tokens that are looked at; several lengths are separated by commas.
    #[arg(long, value_name = "L", required = true, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: Vec<u32>,
    /// Look at the first N documents only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Without showing the documents, by this plan: `serve` in a process, `classify` in one for each
    /// document. Several plans, each after its own --private, have the same documents. Compared with the
    /// twin.
    #[arg(long, value_name = "PLAN", value_parser = plan, conflicts_with = "twin")]
    pub private: Vec<Plan>,
    /// Who makes correlations of --private; a dealer is a process more.
    #[arg(long, value_enum, default_value_t = Provider::TwoParty, requires = "private")]
    pub provider: Provider,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Options of `train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The recipe.
    #[arg(long, value_name = "FILE")]
    pub recipe: PathBuf,
    /// The directory of the documents.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The model's new directory.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Go on with the run in OUT.
    #[arg(long)]
    pub resume: bool,
    /// A tokenizer.json to use instead of training one; a resumed run keeps its own.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// A model to begin with; it must have the recipe's shape, and its tokenizer is used.
    #[arg(long, value_name = "DIR")]
    pub start: Option<PathBuf>,
    /// A model to imitate, for recipes that distil; its tokenizer is used.
    #[arg(long, value_name = "DIR")]
    pub teacher: Option<PathBuf>,
    /// Begin with every second layer of the teacher.
    #[arg(long, requires = "teacher", conflicts_with = "start")]
    pub halve: bool,
    /// How the weights are stored.
    #[arg(long, value_enum, default_value_t = PrecisionChoice::F32)]
    pub precision: PrecisionChoice,
    /// Threads, all cores unless told. The same number gives the same weights.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// A precision of stored weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionChoice {
    /// 32 bits, as trained.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of 32 bits.
    Bf16,
}

impl From<PrecisionChoice> for Precision {
    fn from(choice: PrecisionChoice) -> Self {
        match choice {
            PrecisionChoice::F32 => Self::F32,
            PrecisionChoice::F16 => Self::F16,
            PrecisionChoice::Bf16 => Self::Bf16,
        }
    }
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// The model's directory; calibration.json is written there.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Documents like those that will be classified.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Tokens of each document.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: u32,
    /// Documents.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

/// Options of `bench forms`.
#[derive(Debug, Args)]
pub struct FormsArgs {
    /// The directory of the documents.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The model's directory; the shipped model unless told.
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Sets of forms besides `exact`, which always comes first.
    #[arg(long, value_delimiter = ',', default_value = "d2,d4,d6,n1,n2,n3,paper,fast", value_parser = form)]
    pub forms: Vec<FormSet>,
    /// Tokens of a document.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub length: u32,
    /// Passes over the training documents with the forms in place.
    #[arg(long, default_value_t = 0.5)]
    pub epochs: f64,
    /// The largest learning rate of that training.
    #[arg(long, default_value_t = 1e-4)]
    pub lr: f64,
    /// Threads, all cores unless told.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

fn form(name: &str) -> Result<FormSet, String> {
    name.parse().map_err(|e: fesc_train::TrainError| e.to_string())
}
