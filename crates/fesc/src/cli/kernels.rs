//! Options of the measurements of encrypted kernels.

use clap::{Args, ValueEnum};
use fesc_net::Profile;
use fesc_scan::hescan::Factors;
use fesc_scan::hescan::chunks::Work;
use fesc_scan::hescan::cut::{self, Wanted};
use fesc_scan::hescan::paper::{FAMILIES, Family};
use fesc_scan::hescan::prefix::Topology;

use super::profile;

/// Megabytes of ciphertexts at once, unless told.
const MEMORY: u64 = 8000;

/// Options of `bench scan`.
#[derive(Debug, Clone, Args)]
pub struct ScanArgs {
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub shape: String,
    /// Where values lie in slots, and with it the algorithm.
    #[arg(long, value_enum, default_value_t = Packing::Lanes)]
    pub packing: Packing,
    /// The prefix network of `chunks`: sequential, kogge-stone, sklansky or brent-kung. `lanes` and `hybrid`
    /// have Brent-Kung, `dual` has none.
    #[arg(long, value_name = "T", default_value = "brent-kung", value_parser = topology)]
    pub topology: Topology,
    /// Tokens; several are separated by commas.
    #[arg(long, value_name = "L", value_delimiter = ',', default_value = "128",
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub length: Vec<u32>,
    /// Scans, one after the other, each under keys of its own; counts and seconds are those of all.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub layers: u32,
    /// Compute threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Count only: no keys, no encryption, no time.
    #[arg(long)]
    pub count: bool,
    /// Blocks of tokens in the slots of a ciphertext, a power of two (`lanes`, `hybrid`).
    #[arg(long, value_name = "N", value_parser = power)]
    pub blocks: Option<usize>,
    /// State coordinates in the slots of a ciphertext, a power of two (`lanes`, `hybrid`).
    #[arg(long, value_name = "N", value_parser = power)]
    pub coordinates: Option<usize>,
    /// Tokens of a leaf, a power of two (`lanes`: 2 unless told; `hybrid`: 4 or more).
    #[arg(long, value_name = "N", value_parser = power)]
    pub leaf: Option<usize>,
    /// Tokens of a block (`chunks`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub block: Option<u32>,
    /// Which work `chunks` does: what results depend on, or all that the paper counts.
    #[arg(long, value_name = "WORK", default_value = "needed", value_parser = work)]
    pub work: Work,
    /// Factors of another family (`chunks`): s4d, s5, lru, s6 or mamba2, with its own d_s; values are random.
    #[arg(long, value_name = "NAME", value_parser = family)]
    pub family: Option<Family>,
    /// Sum the coordinates of a ciphertext by rotations, not on shares (`lanes`, `hybrid`).
    #[arg(long)]
    pub fold: bool,
    /// Inputs that repeat go up packed, and are taken apart by key switches that are counted and timed too,
    /// as in a session; else each has a ciphertext of its own.
    #[arg(long)]
    pub packed: bool,
    /// Megabytes that ciphertexts may take at once.
    #[arg(long, value_name = "MB", default_value_t = MEMORY, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub memory: u64,
    /// Seconds for the times of operations at each level, from which the time is predicted; at least three
    /// runs.
    #[arg(long, default_value = "0", value_parser = super::ckks::measure_seconds)]
    pub seconds: f64,
}

impl ScanArgs {
    /// A scan without options: the defaults.
    pub fn new(packing: Packing, shape: &str, length: u32) -> Self {
        Self {
            shape: shape.into(),
            packing,
            topology: Topology::BrentKung,
            length: vec![length],
            layers: 1,
            threads: 1,
            count: true,
            blocks: None,
            coordinates: None,
            leaf: None,
            block: None,
            work: Work::Needed,
            family: None,
            fold: false,
            packed: false,
            memory: MEMORY,
            seconds: 0.0,
        }
    }
}

/// What is asked of a cut.
impl From<&ScanArgs> for Wanted {
    fn from(args: &ScanArgs) -> Self {
        Self {
            packing: args.packing.into(),
            blocks: args.blocks,
            coordinates: args.coordinates,
            leaf: args.leaf,
            fold: args.fold,
            packed: args.packed,
            block: args.block.map(|b| b as usize),
            topology: args.topology,
            work: args.work,
            factors: Factors::MAMBA2,
            memory: args.memory.saturating_mul(1_000_000),
            ..Self::new(args.packing.into())
        }
    }
}

impl From<Packing> for cut::Packing {
    fn from(packing: Packing) -> Self {
        match packing {
            Packing::Lanes => Self::Lanes,
            Packing::Hybrid => Self::Hybrid,
            Packing::Chunks => Self::Chunks,
            Packing::Dual => Self::Dual,
        }
    }
}

/// Options of `bench boundary`.
#[derive(Debug, Clone, Args)]
pub struct BoundaryArgs {
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub shape: String,
    /// Tokens.
    #[arg(long, value_name = "L", default_value_t = 128, value_parser = clap::value_parser!(u32).range(4..=16_384))]
    pub length: u32,
    /// Ciphertexts of the sample.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub sample: u32,
    /// Compute threads of each party.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Network for which the cheapest layout is marked: none, lan, wan1, wan2, wan3, or bandwidth,rtt as in
    /// 200mbps,10ms.
    #[arg(long, default_value = "none", value_parser = profile)]
    pub net: Profile,
}

/// A packing of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// Token blocks in slots, pairs of tokens as leaves.
    Lanes,
    /// The same with leaves of 4 tokens up to a whole block.
    Hybrid,
    /// The paper's: state chunks.
    Chunks,
    /// The block dual form, no state.
    Dual,
}

/// Options of `bench residency`.
#[derive(Debug, Clone, Args)]
pub struct ResidencyArgs {
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub shape: String,
    /// Tokens.
    #[arg(long, value_name = "L", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub length: u32,
    /// Tokens of a block; several are separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "64,128,256,512,1024,2048",
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub block: Vec<u32>,
    /// Which work is done: all that the paper counts, or what results depend on.
    #[arg(long, value_name = "WORK", default_value = "counted", value_parser = work)]
    pub work: Work,
    /// Keep B and C of all tokens, broadcast, for all chunks.
    #[arg(long)]
    pub hold: bool,
}

/// Options of `bench project`.
#[derive(Debug, Clone, Args)]
pub struct ProjectArgs {
    /// A named shape: tiny, small, slim, base, wide, state+, 130m or 370m. Weights are random.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub shape: String,
    /// Tokens.
    #[arg(long, value_name = "L", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub length: u32,
    /// Compute threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

fn power(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n.is_power_of_two() && n <= 1 << 15 => Ok(n),
        _ => Err("give a power of two from 1 to 32768".into()),
    }
}

fn topology(text: &str) -> Result<Topology, String> {
    let names = || Topology::ALL.map(Topology::name).join(", ");
    Topology::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| format!("give one of {}", names()))
}

fn family(text: &str) -> Result<Family, String> {
    let names = || FAMILIES.map(|f| f.name).join(", ");
    FAMILIES.into_iter().find(|f| f.name == text).ok_or_else(|| format!("give one of {}", names()))
}

fn work(text: &str) -> Result<Work, String> {
    match text {
        "needed" => Ok(Work::Needed),
        "counted" => Ok(Work::Counted),
        _ => Err("give needed or counted".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_powers_of_two() {
        assert_eq!((power("1"), power("32768")), (Ok(1), Ok(1 << 15)));
        for bad in ["", "0", "3", "65536", "-2"] {
            assert!(power(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn networks_are_known_by_name() {
        assert_eq!(topology("sklansky"), Ok(Topology::Sklansky));
        assert!(topology("bk").is_err_and(|e| e.contains("kogge-stone")));
    }
}
