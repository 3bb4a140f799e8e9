//! Classifies a text on a server that does not see it:
//! `cargo run --release -p fesc-infer --example classify ADDRESS FINGERPRINT FILE`.

use fesc_infer::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, pin, file] = &args[..] else { return Err("give ADDRESS FINGERPRINT FILE".into()) };
    let found = Client::connect(address, pin.parse()?)?.classify(&std::fs::read_to_string(file)?)?;
    println!("{}", found.label());
    if let Some(report) = found.report {
        let seconds = report.online.seconds;
        println!("{} tokens; {seconds:.1} s online, {:.1} MB in all", found.tokens, report.bytes() as f64 / 1e6);
    }
    Ok(())
}
