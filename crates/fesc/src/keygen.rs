//! `fesc keygen`: a server's TLS identity, and the fingerprint that clients pin.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fesc_net::Identity;

use crate::exit::Refusal;
use crate::report::{Format, Report, Row};

/// Makes a key and a self-signed certificate in two new files beside each other and prints where they are.
pub fn run(out: &Path, format: Format) -> Result<()> {
    // Added, not put in place of an ending: `--out www.example.org` must not become `www.example.key`.
    let with = |ending: &str| PathBuf::from([out.as_os_str(), ending.as_ref()].join("".as_ref()));
    let (key, certificate) = (with(".key"), with(".crt"));
    if let Some(there) = [&key, &certificate].into_iter().find(|p| p.exists()) {
        let text = format!("{} exists and is not touched; give another --out, or move it away", there.display());
        return Err(Refusal::Usage(text).into());
    }
    let identity = Identity::generate()?;
    identity.save(&key, &certificate)?;
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("key", key.display().to_string())
            .with("certificate", certificate.display().to_string())
            .with("fingerprint", identity.fingerprint().to_string()),
    )?;
    report.finish()
}
