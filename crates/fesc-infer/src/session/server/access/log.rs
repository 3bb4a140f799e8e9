//! The log of sessions: one JSON object a line, nothing of a document.
//!
//! | field | |
//! |---|---|
//! | `time` | when it was granted or refused, UTC |
//! | `session` | 16 hex digits, its own |
//! | `client` | the name on the list; null without a list |
//! | `kind` | `run` or `prepare` |
//! | `bucket`, `plan`, `reveal` | what was asked for |
//! | `code` | the exit code of its error; 0 for done; 1 for a session that the server did not survive |
//! | `result` | `done`, `failed`, `refused`, or `lost` with the server's process |
//! | `seconds`, `bytes` | what it took; null where that is not known |
//!
//! A file that is full becomes `NAME.1`, and the one before `NAME.2`; the oldest goes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::session::error::{Result, SessionError, at};

/// Files that are kept besides the one that is written.
const OLD: u32 = 4;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// With its answer.
    Done,
    /// With an error.
    Failed,
    /// Before it began.
    Refused,
    /// With the server's process.
    Lost,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it was granted or refused.
    pub time: String,
    /// Its own name.
    pub session: String,
    /// Who asked.
    pub client: Option<String>,
    /// `run` or `prepare`.
    pub kind: String,
    /// Tokens.
    pub bucket: usize,
    /// How it is computed.
    pub plan: String,
    /// What the client learns.
    pub reveal: String,
    /// The exit code.
    pub code: u8,
    /// How it ended.
    pub result: Ending,
    /// Wall time.
    pub seconds: Option<f64>,
    /// Both ways.
    pub bytes: Option<u64>,
}

/// The file.
pub(super) struct SessionLog {
    path: PathBuf,
    most: u64,
    alone: Mutex<()>,
}

impl SessionLog {
    /// A log of at most `most` bytes a file.
    pub fn open(path: &Path, most: u64) -> Result<Self> {
        let log = Self { path: path.to_path_buf(), most, alone: Mutex::new(()) };
        // A line that a crash cut short must not swallow the next one.
        let ends = fs::read(path).is_ok_and(|text| text.last().is_some_and(|&b| b != b'\n'));
        if ends {
            log.append(b"\n")?;
        }
        Ok(log)
    }

    fn append(&self, bytes: &[u8]) -> Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = || {
            let mut file = options.open(&self.path)?;
            let before = file.metadata()?.len();
            // On the disk before the session counts as ended. What a full disk cut short must not swallow the
            // next line.
            file.write_all(bytes).and_then(|()| file.sync_data()).inspect_err(|_| drop(file.set_len(before)))
        };
        write().map_err(at(&self.path))
    }

    fn old(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}.{number}", self.path.display()))
    }

    /// One more line.
    pub fn add(&self, line: &Line) -> Result<()> {
        let problem =
            |e: serde_json::Error| SessionError::File { path: self.path.display().to_string(), problem: e.to_string() };
        let mut text = serde_json::to_vec(line).map_err(problem)?;
        text.push(b'\n');
        let _alone = self.alone.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let full = fs::metadata(&self.path).is_ok_and(|m| m.len() > 0 && m.len() + text.len() as u64 > self.most);
        if full {
            for number in (1..OLD).rev() {
                // One that is not there yet cannot be moved.
                let _ = fs::rename(self.old(number), self.old(number + 1));
            }
            fs::rename(&self.path, self.old(1)).map_err(at(&self.path))?;
        }
        self.append(&text)
    }

    /// Which of these sessions have a line already, in the newest two files.
    pub fn has(&self, sessions: &[String]) -> Vec<String> {
        let texts = [self.path.clone(), self.old(1)].map(|path| fs::read_to_string(path).unwrap_or_default());
        let found = texts.iter().flat_map(|text| text.lines()).filter_map(|l| serde_json::from_str::<Line>(l).ok());
        let found: std::collections::HashSet<String> = found.map(|line| line.session).collect();
        sessions.iter().filter(|s| found.contains(*s)).cloned().collect()
    }
}

/// Seconds since 1970 as a date, UTC.
pub(super) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that a leap day ends its year; eras of 400 years (Hinnant,
    // days_from_civil).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_794_873_600, "2026-11-17T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn a_full_file_gives_way_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.jsonl");
        let line = |n: usize| Line {
            time: utc(0),
            session: format!("{n:016x}"),
            client: None,
            kind: "run".into(),
            bucket: 128,
            plan: "fast".into(),
            reveal: "label".into(),
            code: 0,
            result: Ending::Done,
            seconds: Some(1.0),
            bytes: None,
        };
        let each = serde_json::to_string(&line(0)).unwrap().len() as u64 + 1;
        fs::write(&path, "{\"cut").unwrap();
        let log = SessionLog::open(&path, 3 * each).unwrap();
        (0..20).for_each(|n| log.add(&line(n)).unwrap());
        let kept = |name: &str| fs::read_to_string(directory.path().join(name)).map_or(0, |t| t.lines().count());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5);
        assert_eq!((kept("sessions.jsonl.1"), kept("sessions.jsonl.4")), (3, 3));
        let names = |range: std::ops::Range<usize>| range.map(|n| format!("{n:016x}")).collect::<Vec<_>>();
        assert_eq!(log.has(&names(17..25)), names(17..20), "of the newest two files");
    }
}
