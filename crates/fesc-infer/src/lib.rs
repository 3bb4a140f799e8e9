//! Private inference: a client's document, a server's model, a label.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fesc_infer::{Client, Server};
//!
//! let server = Server::builder(fesc_model::Classifier::shipped()?).build()?;
//! let client = Client::in_memory(&server);
//! let found = client.classify("The officers searched the car without a warrant.")?;
//! println!("{}", found.label()); // Criminal Procedure
//! # assert_eq!(found.label(), "Criminal Procedure");
//! # Ok(())
//! # }
//! ```
//!
//! Where to look:
//! - [`Client`], [`Server`]: the library in a few lines; [`session`]: all that a session can do;
//! - [`kernels`]: the one file that turns a plan ([`fesc_model::Plan`]) into kernels, and the kernels;
//! - [`stage`]: the stages, each a map from shares to shares with a declared cost, and the traits of kernels;
//! - [`Schedule`]: the schedule of one inference: stages in order, their costs ([`Schedule::costs`]),
//!   correlations ([`Schedule::demand`]), prepared blocks ([`Schedule::blocks`]), keys ([`Schedule::keys`])
//!   and what is computed under encryption ([`Schedule::works`]), all known before anything runs;
//! - `block`: the block protocol, written once over the stages for both parties; it names no kernel;
//! - [`run_client`], [`run_server`]: the two runs; [`Watch`] follows them;
//! - [`setup`]: what is made once per model: [`ServerSetup`] keeps the RLWE secrets, [`ClientSetup`] is what
//!   clients download;
//! - [`verify`]: a run against the twin and, under encryption, against the noise formula;
//! - [`audit`]: every message of the program, in one table;
//! - [`blocks`]: the client's input-independent work on the linear layers, as it is needed, ahead in a
//!   thread, or on disk.
//!
//! # What a run computes
//! What `fesc_model::Twin` computes, stage by stage: every rounding gives the twin's integer or its
//! neighbour, linear layers add RLWE noise of 3.2 units to their inputs, and where a value lies in the zone
//! of chance of a threshold either piece may be taken. How far that goes per layer is measured, not proved
//! (`fesc_model::twin`); the tests here hold a private layer to the spread of the twin's own noisy runs.
//!
//! # Who learns what
//! Semi-honest, two parties. The client learns the label (or the floored logits), the server nothing. Public:
//! the outline, the schedule's length, sizes and timing of messages. Between two stages there are only
//! shares; every opened value is masked by a correlation that is used once; messages of the linear layers and
//! of the embedding are RLWE samples. The real length of the document is hidden inside the schedule's:
//! padding is embedded like a token, nothing in a causal model sees it, and the pooling vector is the
//! client's secret. The last step is exact (`stage::Floor`): no value that depends on the randomness of
//! shares is shown.
//!
//! # Cost
//! [`Schedule::costs`] is exact to the byte and the round (tested); rounds do not grow with tokens inside a
//! segment of 2,048.
//!
//! Not guaranteed: anything against a party that leaves the protocol; that values stay in their ranges. A
//! document outside the calibrated ranges gives a wrong answer without notice, since nobody sees the values
//! (the twin would refuse it).
#![forbid(unsafe_code)]

mod api;
pub mod audit;
mod block;
pub mod blocks;
mod crossings;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod kernels;
pub mod keys;
pub mod memory;
mod run;
mod schedule;
pub mod session;
pub mod setup;
pub mod stage;
pub mod verify;
mod watch;

pub use api::{Classification, Client, Listening, SETUP_LIMIT, Server, ServerBuilder};
pub use blocks::{BlockId, BlockSource, BlocksAhead, FreshBlocks};
pub use error::{InferError, Result};
pub use keys::KeySets;
pub use run::{Ahead, Answer, ClientKit, ServerKit, run_client, run_client_with, run_server, run_server_with};
pub use schedule::{MAX_TOKENS, Reveal, Schedule, StageCost, StageWork};
pub use setup::{ClientSetup, Matrix, SCHEME, ServerSetup};
pub use stage::{Embedding, Stage};
pub use watch::{Doing, Unwatched, Watch};
