//! `fesc keygen`: a TLS identity: of a server, whose fingerprint clients pin, or of a client, whose
//! fingerprint a server lists.

use std::path::PathBuf;

use anyhow::Result;
use fesc_net::Identity;

use crate::cli::KeygenArgs;
use crate::exit::Refusal;
use crate::report::{Format, Report, Row};

/// Makes a key and a self-signed certificate in two new files beside each other and prints where they are.
pub fn run(args: &KeygenArgs, format: Format) -> Result<()> {
    let out = &args.out;
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
    let fingerprint = identity.fingerprint();
    let row = Row::new()
        .with("key", key.display().to_string())
        .with("certificate", certificate.display().to_string())
        .with("fingerprint", fingerprint.to_string());
    report.add(if args.client {
        let name = out.file_name().map_or_else(|| "client".into(), |name| name.to_string_lossy().into_owned());
        row.with("list_line", format!("{name} {fingerprint} sessions=100 logits=0"))
    } else {
        row
    })?;
    report.finish()
}
