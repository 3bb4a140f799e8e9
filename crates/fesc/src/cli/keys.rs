//! Options of `keys`, and what `classify` does with keys.

use clap::{Args, Subcommand, ValueEnum};
use fesc_infer::session::Hex32;

use super::private::{ReachArgs, hex};

/// What becomes of a client's CKKS keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeysArg {
    /// They are kept by both sides for later documents, if the server keeps those of this client.
    Keep,
    /// They serve this document.
    Once,
}

/// The commands of `keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Show the keys that a server keeps of this client.
    ///
    /// Prints for each name, sets, bucket (the length that they were made for), bytes, age_s, left_s (until
    /// they are deleted), usable (the secret half is on this side), in_use (a session has them now); with
    /// --json also plan, degrees, keys.
    ///
    /// Example: fesc keys list --server example.org:7340 --pin 5d0f... --key clinic-a.key --cert
    /// clinic-a.crt
    List(KeysArgs),
    /// Delete keys at a server and their secret halves here.
    ///
    /// Prints for each name and result: deleted, in use (a session has them; try again later) or not there.
    ///
    /// Example: fesc keys delete --all --server example.org:7340 --pin 5d0f... --key clinic-a.key --cert
    /// clinic-a.crt
    Delete(DeleteArgs),
}

/// Options of `keys list`.
#[derive(Debug, Clone, Args)]
pub struct KeysArgs {
    /// The server.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Options of `keys delete`.
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Names of keys, as `fesc keys list` prints them.
    #[arg(value_name = "NAME", value_parser = hex, required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<Hex32>,
    /// All of them.
    #[arg(long)]
    pub all: bool,
    /// The server.
    #[command(flatten)]
    pub reach: ReachArgs,
}
