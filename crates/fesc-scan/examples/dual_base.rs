//! The block dual form under encryption at the paper's base shape (24 heads of 64 channels, 128 states): what
//! it does, how long that takes on this machine, and how precise it is against the recurrence.
//! `cargo run --release -p fesc-scan --example dual_base [tokens] [threads]`: up to 128 tokens in one chunk,
//! more with carries.

use std::error::Error;

use fesc_ckks::sets::{BOUNDARY, CHAIN_2, PROJECT, SCAN_D10};
use fesc_hybrid::backend::Operation;
use fesc_scan::hescan::dual::DualScan;
use fesc_scan::hescan::trial::{Inputs, encrypted};
use fesc_scan::hescan::{HeScan, ScanShape};

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|n| n.parse());
    let tokens = numbers.next().transpose()?.unwrap_or(128);
    let threads = numbers.next().transpose()?.unwrap_or(2);
    let shape = ScanShape { tokens, heads: 24, head_dim: 64, groups: 1, state: 128 };
    let kernel = DualScan::chunked(shape, 1 << 14, BOUNDARY)?;
    let set = [PROJECT, CHAIN_2, SCAN_D10].into_iter().find(|s| s.levels >= BOUNDARY + kernel.depth());
    let set = set.ok_or("no set is that deep")?;
    println!(
        "{tokens} tokens: depth {}, {} inputs, {} results, set {}",
        kernel.depth(),
        kernel.inputs(),
        kernel.results(),
        set.name
    );
    let inputs = if tokens <= 256 { Inputs::Held } else { Inputs::Streamed };
    let run = encrypted(&kernel, &set.params()?, threads, inputs, 1)?;
    for operation in Operation::ALL {
        println!("{:18} {:>7}", operation.name(), run.tally.total(operation));
    }
    println!("key switches       {:>7}", run.tally.key_switches());
    println!(
        "seconds            {:>10.2} on {threads} threads, {:.2} for inputs apart",
        run.seconds, run.input_seconds
    );
    println!(
        "precision          {:>9.1} bits of the largest output, {:.0}",
        run.precision.bits(),
        run.precision.largest
    );
    println!("ciphertexts        {:>7} MB at most", run.live_bytes / 1_000_000);
    println!(
        "keys               {:>7} MB sent, {} MB in memory",
        run.key_bytes[0] / 1_000_000,
        run.key_bytes[1] / 1_000_000
    );
    Ok(())
}
