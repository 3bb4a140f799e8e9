//! A whole private inference between two processes, with random weights of a named shape: what `bench infer`
//! prints and `estimate` scales.

pub mod encrypted;
pub mod errors;
mod model;
pub mod party;
mod stages;

use anyhow::Result;
use fesc_infer::Reveal;
use fesc_model::Config;
use serde::{Deserialize, Serialize};

use crate::cli::{LinkArgs, Provider};
use crate::exit::Refusal;
use crate::parties;
use crate::parties::wire::Work;
use crate::progress::Progress;
use crate::random::os_random;
pub use errors::Errors;
pub use model::{config, outline, random_model, random_outline};
pub use party::Measured;
pub use stages::StageTime;

/// The config of a named shape; another name is a wrong command line.
pub fn named(shape: &str) -> Result<Config> {
    let unknown = || Refusal::Usage(format!("no shape {shape}; there are {}", Config::NAMES.join(", ")));
    Ok(Config::named(shape).ok_or_else(unknown)?)
}

/// What is to be computed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Name of the shape, or a config as JSON.
    pub shape: String,
    /// Layers.
    pub layers: usize,
    /// Rows of the embedding; the shape's own unless told.
    pub vocab: Option<usize>,
    /// Tokens.
    pub length: usize,
    /// Who makes correlations.
    pub provider: Provider,
    /// The plan, by name.
    pub plan: String,
    /// What the client learns.
    pub reveal: Reveal,
    /// Compare the residual stream with the twin's.
    pub check: bool,
    /// The document comes from it. It is public: the document is nobody's.
    pub seed: [u8; 16],
}

impl Task {
    /// A task with a fresh seed.
    pub fn new(shape: &str, layers: Option<usize>, length: usize, provider: Provider) -> Result<Self> {
        let named = named(shape)?;
        let mut seed = [0; 16];
        os_random()?.fill_bytes(&mut seed);
        let layers = layers.unwrap_or(named.shape().layers);
        let (shape, plan, reveal) = (shape.into(), "fast".into(), Reveal::Label);
        Ok(Self { shape, layers, vocab: None, length, provider, plan, reveal, check: false, seed })
    }
}

/// What both parties measured.
pub struct Ran {
    /// P0's and P1's.
    pub parties: [Measured; 2],
}

impl Ran {
    /// The slower party's.
    pub fn slower(&self, f: fn(&Measured) -> f64) -> f64 {
        self.parties.iter().map(f).fold(0.0, f64::max)
    }

    /// Of both parties.
    pub fn sum(&self, f: fn(&Measured) -> u64) -> u64 {
        self.parties.iter().map(f).sum()
    }

    /// Each stage by name, both parties together: the slower one's time, in order of first use.
    pub fn stages(&self) -> Vec<StageTime> {
        stages::join(&self.parties[0].stages, &self.parties[1].stages)
    }
}

/// Runs a task between two processes, three with a dealer.
pub fn measure(link: &LinkArgs, task: &Task, progress: &Progress) -> Result<Ran> {
    let dealer = task.provider == Provider::Dealer;
    let parties = parties::run::<Measured>(link, dealer, Work::Infer(task.clone()), progress)?;
    Ok(Ran { parties })
}
