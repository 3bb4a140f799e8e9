//! Options of `bench ckks` and `bench ntt`.

use clap::{Args, ValueEnum};
use fesc_ckks::sets::{self, Set};

use super::PathChoice;
use crate::bench::ckks::CkksOp;

/// Options of `bench ckks`.
#[derive(Debug, Args)]
pub struct CkksArgs {
    /// Chains of primes; several are separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    pub chain: Vec<Chain>,
    /// Named parameter sets instead of chains (`scan-d10`, `project`, ...); several are separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = set, conflicts_with = "chain")]
    pub set: Vec<Set>,
    /// Measures a key switch at every level instead of all operations at the top one.
    #[arg(long, conflicts_with = "op")]
    pub level: bool,
    /// Compute threads; each number of them is measured.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Operations; all of them unless told. Keys are made for these only.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub op: Vec<CkksOp>,
    /// Seconds for each operation and number of threads, with the loop of transforms beside it; at least
    /// three runs.
    #[arg(long, default_value = "2", value_parser = measure_seconds)]
    pub seconds: f64,
}

/// A chain of the peers' measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Chain {
    /// N = 32768, 1 level.
    #[value(name = "1")]
    One,
    /// N = 32768, 8 levels.
    #[value(name = "2")]
    Two,
    /// N = 32768, 17 levels.
    #[value(name = "3")]
    Three,
    /// N = 65536, 22 levels.
    #[value(name = "4")]
    Four,
    /// The four.
    All,
}

/// Options of `bench ntt`.
#[derive(Debug, Args)]
pub struct NttArgs {
    /// Degrees, powers of two from 1024 to 65536; several are separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "32768", value_parser = degree)]
    pub n: Vec<usize>,
    /// Bit lengths of primes, 20 to 60; from 51 on there is the portable path only.
    #[arg(long, value_delimiter = ',', default_value = "40,50", value_parser = clap::value_parser!(u32).range(20..=60))]
    pub bits: Vec<u32>,
    /// SIMD path; `all` takes every one that this processor has.
    #[arg(long, value_enum, default_value_t = PathChoice::All)]
    pub path: PathChoice,
    /// Seconds for each row; at least three runs.
    #[arg(long, default_value = "0.5", value_parser = measure_seconds)]
    pub seconds: f64,
}

fn set(text: &str) -> Result<Set, String> {
    let names = || sets::ALL.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    sets::ALL.iter().find(|s| s.name == text).copied().ok_or_else(|| format!("give one of {}", names()))
}

fn degree(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n.is_power_of_two() && (1024..=65_536).contains(&n) => Ok(n),
        _ => Err("give a power of two from 1024 to 65536".into()),
    }
}

pub(super) fn measure_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=3600.0).contains(&s) => Ok(s),
        _ => Err("give 0 to 3600 seconds, as in 2 or 0.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_powers_of_two() {
        assert_eq!((degree("1024"), degree("65536")), (Ok(1024), Ok(65_536)));
        for bad in ["", "x", "0", "512", "1025", "131072", "-2048"] {
            assert!(degree(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sets_are_known_by_name() {
        assert_eq!(set("scan-d10"), Ok(sets::SCAN_D10));
        assert!(set("scan-d11").is_err_and(|e| e.contains("project")));
    }

    #[test]
    fn measurements_end() {
        assert_eq!(measure_seconds("0"), Ok(0.0));
        for bad in ["", "nan", "inf", "-1", "3601"] {
            assert!(measure_seconds(bad).is_err(), "{bad:?}");
        }
    }
}
