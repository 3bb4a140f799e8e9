//! The program `fesc`: parse, dispatch, one exit code.
//!
//! Results go to standard output, everything else to standard error.
//!
//! What is in it:
//! - `cli`: every command and option; `exit`: the codes; `report`: tables and JSON; `progress`: what a run
//!   does; `usage`: what this process has used; `interrupt`: signals; `random`: randomness of the system;
//! - `private`: the private run (`demo`, `serve`, `classify`, `prepare`, `keys`, `dealer`), over
//!   `fesc_infer`; `keygen`: certificates;
//! - `classifier`, `corpus`: where a command finds its model and its documents; `classify`, `eval`,
//!   `calibrate`, `train`: models in the clear; `inspect`: what is in a checkpoint, and the list of messages;
//! - `parties`: processes that a measurement starts; `measured`: a whole inference between two of them;
//!   `estimate`: costs before a run; `bench`: measurements; `doctor`: whether this machine is fit.
//!
//! There is no library here: programs use `fesc-infer`.
#![forbid(unsafe_code)]

mod bench;
mod calibrate;
mod classifier;
mod classify;
mod cli;
mod corpus;
mod doctor;
mod estimate;
mod eval;
mod exit;
mod inspect;
mod interrupt;
mod keygen;
mod measured;
mod parties;
mod private;
mod progress;
mod random;
mod report;
mod train;
mod usage;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use cli::{Bench, Cli, Command};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(&cli);
    let format = if cli.json { report::Format::Json } else { report::Format::Table };
    let result = match &cli.command {
        Command::Doctor => doctor::run(format),
        Command::Inspect(args) => inspect::run(args, format),
        Command::Classify(args) => classify::run(args, format, cli.verbose > 0),
        Command::Eval(args) => eval::run(args, format),
        Command::Train(args) => train::run(args, format),
        Command::Calibrate(args) => calibrate::run(args, format),
        Command::Serve(args) => private::serve(args, format),
        Command::Prepare(args) => private::prepare(args, format),
        Command::Keys(command) => private::keys(command, format),
        Command::Dealer(args) => private::dealer(args, format),
        Command::Estimate(args) => estimate::run(args, format),
        Command::Demo(args) => private::demo::run(args, format),
        Command::Keygen(args) => keygen::run(args, format),
        Command::Bench(Bench::Forms(args)) => bench::forms::run(args, format),
        Command::Bench(Bench::Gemm(args)) => bench::gemm::run(args, format),
        Command::Bench(Bench::Ot(args)) => bench::ot::run(args, format),
        Command::Bench(Bench::Net(args)) => bench::net::run(args, format),
        Command::Bench(Bench::Infer(args)) => bench::infer::run(args, format),
        Command::Bench(Bench::Mpc(args)) => bench::mpc::run(args, format),
        Command::Bench(Bench::Ckks(args)) => bench::ckks::run(args, format),
        Command::Bench(Bench::Ntt(args)) => bench::ntt::run(args, format),
        Command::Bench(Bench::Boundary(args)) => bench::boundary::run(args, format),
        Command::Bench(Bench::Project(args)) => bench::project::run(args, format),
        Command::Bench(Bench::Residency(args)) => bench::residency::run(args, format),
        Command::Bench(Bench::Scan(args)) => bench::scan::run(args, format),
        Command::Party => return parties::child::main(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (`fesc ... | head`) is no failure.
        Err(error) if report::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(_) if interrupt::caught() => {
            eprintln!("fesc: ended by a signal");
            ExitCode::from(exit::SIGNAL)
        }
        Err(error) => {
            eprintln!("fesc: {}", exit::message(&error));
            ExitCode::from(exit::code(&error))
        }
    }
}

/// Logs to standard error: `RUST_LOG` if set, else by `-v` and `-q`.
fn start_log(cli: &Cli) {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .without_time()
        .init();
}
