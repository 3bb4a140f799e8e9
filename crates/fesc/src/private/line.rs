//! Connections as the command line describes them, and what a terminal sees of a session.

use std::path::PathBuf;

use anyhow::Result;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::Dial;
use fesc_infer::session::{Doing, Lines, Progress as Told};
use fesc_net::{ClientSecurity, Config, Fingerprint};

use crate::cli::{ConnectArgs, LineArgs, ThirdArgs};
use crate::exit::Refusal;
use crate::progress::Progress;

/// Bytes that may wait for a peer that does not read, of each connection: twice what an honest run has waiting at Mamba-base.
const QUEUE_BYTES: usize = 512 << 20;

/// The limits of a channel.
pub fn config(line: &LineArgs) -> Config {
    let LineArgs { timeout, net } = *line;
    Config {
        read_timeout: timeout,
        write_timeout: timeout,
        profile: net,
        queue_bytes: QUEUE_BYTES,
        ..Config::default()
    }
}

fn security(pin: Option<Fingerprint>, plaintext: bool, what: &str) -> Result<ClientSecurity> {
    match (pin, plaintext) {
        (Some(pin), _) => Ok(ClientSecurity::Tls(pin)),
        (None, true) => Ok(ClientSecurity::InsecurePlaintext),
        (None, false) => {
            let text =
                format!("give {what} FINGERPRINT, as that side prints it when it starts: it says who may answer");
            Err(Refusal::Usage(text).into())
        }
    }
}

/// The server that the command line names. `lines` may cut the connections to it.
pub fn server(args: &ConnectArgs, lines: &Lines) -> Result<Dial> {
    let Some(address) = args.server.clone() else {
        let text = "give --server ADDRESS and --pin FINGERPRINT; or --plain, to run in the clear on this machine";
        return Err(Refusal::Usage(text.into()).into());
    };
    let security = security(args.pin, args.insecure_plaintext, "--pin")?;
    Ok(Dial { address, security, config: config(&args.line), lines: Some(lines.clone()) })
}

/// The dealer that the command line names.
pub fn third(args: &ThirdArgs, line: &LineArgs, plaintext: bool, lines: Option<&Lines>) -> Result<Option<Dial>> {
    let Some(address) = args.dealer.clone() else { return Ok(None) };
    let security = security(args.dealer_pin, plaintext, "--dealer-pin")?;
    Ok(Some(Dial { address, security, config: config(line), lines: lines.cloned() }))
}

/// The cache of public parts.
pub fn cache(args: &ConnectArgs) -> Result<Cache> {
    let directory = match &args.cache {
        Some(directory) => directory.clone(),
        None => user_cache()?,
    };
    Ok(Cache::open(&directory)?)
}

fn user_cache() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let Some(base) = base else {
        return Err(Refusal::Usage("there is no home directory; give --cache DIR".into()).into());
    };
    Ok(base.join("fesc"))
}

/// Shows on the terminal what a session does.
pub struct Shown(Progress);

impl Shown {
    /// Nothing shown yet.
    pub fn new() -> Self {
        Self(Progress::start("connecting"))
    }
}

impl Told for Shown {
    fn doing(&mut self, doing: Doing<'_>) {
        // The words of the server's log: whoever has both logs can lay them side by side.
        let sentence = sentence(&doing);
        tracing::debug!("{sentence}");
        self.0.say(sentence);
    }
}

/// What a session does, in words.
pub fn sentence(doing: &Doing<'_>) -> String {
    match doing {
        Doing::Handshake => "agreeing on the terms".into(),
        Doing::Setup(bytes) => format!("the model's public part, {:.1} MB", *bytes as f64 / 1e6),
        Doing::Correlations => "setting up correlations".into(),
        Doing::Stage(name, Some(layer), segment) => format!("layer {layer}, segment {segment}: {name}"),
        Doing::Stage(name, None, segment) => format!("segment {segment}: {name}"),
        Doing::Preparing(number, of) => format!("correlations of session {number} of {of}"),
        Doing::Verifying => "comparing with the twin".into(),
    }
}
