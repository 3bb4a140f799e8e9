//! Serves the shipped classifier on this machine until it is stopped:
//! `cargo run --release -p fesc-infer --example serve [ADDRESS]`. It prints what `--example classify` needs.

use std::sync::atomic::AtomicBool;

use fesc_infer::Server;
use fesc_model::Classifier;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7340".into());
    let server = Server::builder(Classifier::shipped()?).build()?;
    let listening = server.listen(&address)?;
    let pin = listening.fingerprint().ok_or("no fingerprint")?;
    println!("cargo run --release -p fesc-infer --example classify {} {pin} FILE", listening.address());
    listening.run(&AtomicBool::new(false))?;
    Ok(())
}
