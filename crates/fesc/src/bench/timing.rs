//! Times of several pieces of work that are measured in turn, so that a busy machine slows all of them alike
//! and their ratios hold.

use std::time::Instant;

use anyhow::Result;

use crate::usage;

/// Runs of each, however short the time is.
const LEAST: usize = 3;

/// Milliseconds of one piece of work.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Of the fastest run: the least disturbed one.
    pub min_ms: f64,
    /// Of the run in the middle.
    pub median_ms: f64,
    /// Processor time of a run, all threads, mean: what other programs take is not in it, nor is waiting. NaN
    /// where there is no `/proc`. The kernel counts in steps of some milliseconds, so this needs seconds;
    /// reading it adds some 0.05 ms.
    pub cpu_ms: f64,
}

impl Times {
    /// Of one part of work that has `count` equal ones.
    pub fn divided(self, count: usize) -> Self {
        let part = |ms: f64| ms / count as f64;
        Self { min_ms: part(self.min_ms), median_ms: part(self.median_ms), cpu_ms: part(self.cpu_ms) }
    }
}

/// One piece of work. What it returns is dropped outside of the time.
pub type Work<'a, T> = &'a mut (dyn FnMut() -> Result<T> + Send);

/// Runs every piece in turn, once without a clock (for caches and pools), then until `seconds` are over and
/// at least three times.
///
/// # Errors
/// The first one of a piece.
pub fn in_turn<T>(seconds: f64, works: &mut [Work<'_, T>]) -> Result<Vec<Times>> {
    in_turn_by(&|| usage::cpu_seconds().unwrap_or(f64::NAN), seconds, works)
}

/// The same with another clock of processor time, as of a thread that does all of the work.
///
/// # Errors
/// The first one of a piece.
pub fn in_turn_by<T>(cpu_seconds: &dyn Fn() -> f64, seconds: f64, works: &mut [Work<'_, T>]) -> Result<Vec<Times>> {
    for work in works.iter_mut() {
        work()?;
    }
    let mut times: Vec<(Vec<f64>, f64)> = vec![(Vec::new(), 0.0); works.len()];
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < LEAST || begin.elapsed().as_secs_f64() < seconds {
        for (work, (times, used)) in works.iter_mut().zip(&mut times) {
            let (before, start) = (cpu_seconds(), Instant::now());
            let result = work()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            *used += cpu_seconds() - before;
            drop(result);
        }
        rounds += 1;
    }
    Ok(times.into_iter().map(|(times, used)| summary(times, used)).collect())
}

fn summary(mut times: Vec<f64>, cpu_seconds: f64) -> Times {
    times.sort_by(f64::total_cmp);
    let at = |i: usize| times.get(i).copied().unwrap_or(f64::NAN);
    Times { min_ms: at(0), median_ms: at(times.len() / 2), cpu_ms: cpu_seconds * 1e3 / times.len() as f64 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn works_run_in_turn_and_at_least_three_times() {
        let order = std::sync::Mutex::new(String::new());
        let note = |name: char| {
            order.lock().unwrap().push(name);
            Ok(())
        };
        let (mut a, mut b) = (|| note('a'), || note('b'));
        let times = in_turn(0.0, &mut [&mut a, &mut b]).unwrap();
        assert_eq!((times.len(), order.lock().unwrap().as_str()), (2, "abababab"));
    }

    #[test]
    fn an_error_ends_the_measurement() {
        let mut runs = 0;
        let mut work = || {
            runs += 1;
            anyhow::ensure!(runs < 3, "enough");
            Ok(())
        };
        assert!(in_turn(3600.0, &mut [&mut work]).is_err());
    }

    #[test]
    fn minimum_and_median() {
        let times = summary(vec![3.0, 1.0, 2.0], 0.009);
        assert_eq!((times.min_ms, times.median_ms), (1.0, 2.0));
        assert!((times.cpu_ms - 3.0).abs() < 1e-9);
    }
}
