//! Connections as the command line describes them, and what a terminal sees of a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use fesc_infer::session::cache::{Cache, user_directory};
use fesc_infer::session::client::{Place, Visit};
use fesc_infer::session::{CancelHandle, Dial, Randomness, RefusalKind, SessionError};
use fesc_infer::{Doing, SETUP_LIMIT, Watch};
use fesc_net::{ClientSecurity, Config, Fingerprint, Identity};

use super::queues::CONNECTION;
use crate::cli::{ConnectArgs, ConnectionArgs, ReachArgs, ThirdArgs};
use crate::exit::Refusal;
use crate::progress::Progress;

/// What a bar counts in.
const MEGABYTE: u64 = 1_000_000;

/// How long to wait before a busy server is asked again.
const BUSY: Duration = Duration::from_millis(500);

/// The limits of a channel.
pub fn config(line: &ConnectionArgs) -> Config {
    let ConnectionArgs { timeout, net } = *line;
    Config {
        read_timeout: timeout,
        write_timeout: timeout,
        profile: net,
        queue_bytes: CONNECTION as usize,
        ..Config::default()
    }
}

fn security(
    pin: Option<Fingerprint>,
    identity: Option<Identity>,
    plaintext: bool,
    what: &str,
) -> Result<ClientSecurity> {
    match (pin, plaintext) {
        (Some(pin), _) => Ok(match identity {
            Some(identity) => ClientSecurity::TlsAs(pin, Arc::new(identity)),
            None => ClientSecurity::Tls(pin),
        }),
        (None, true) => Ok(ClientSecurity::InsecurePlaintext),
        (None, false) => {
            let text =
                format!("give {what} FINGERPRINT, as that side prints it when it starts: it says who may answer");
            Err(Refusal::Usage(text).into())
        }
    }
}

/// The server that the command line names. `cancel` may cut the connections to it.
pub fn server(args: &ReachArgs, cancel: &CancelHandle) -> Result<Dial> {
    let Some(address) = args.server.clone() else {
        let text = "give --server ADDRESS and --pin FINGERPRINT; or --plain, to run in the clear on this machine";
        return Err(Refusal::Usage(text.into()).into());
    };
    let identity = match (&args.key, &args.cert) {
        (Some(key), Some(cert)) => Some(Identity::load(key, cert)?),
        _ => None,
    };
    let security = security(args.pin, identity, args.insecure_plaintext, "--pin")?;
    Ok(Dial { address, security, config: config(&args.line), cancel: Some(cancel.clone()) })
}

/// The dealer that the command line names.
pub fn third(
    args: &ThirdArgs,
    line: &ConnectionArgs,
    plaintext: bool,
    cancel: Option<&CancelHandle>,
) -> Result<Option<Dial>> {
    let Some(address) = args.dealer.clone() else { return Ok(None) };
    let security = security(args.dealer_pin, None, plaintext, "--dealer-pin")?;
    Ok(Some(Dial { address, security, config: config(line), cancel: cancel.cloned() }))
}

/// The cache of public parts.
fn cache(args: &ConnectArgs) -> Result<Cache> {
    let directory = match &args.cache {
        Some(directory) => directory.clone(),
        None => user_directory("XDG_CACHE_HOME", ".cache", "--cache")?,
    };
    Ok(Cache::open(&directory)?)
}

/// Where this side keeps what it must not forget, and its secret CKKS keys.
pub fn state(args: &ReachArgs) -> Result<PathBuf> {
    Ok(match &args.state {
        Some(state) => state.clone(),
        None => user_directory("XDG_STATE_HOME", ".local/state", "--state")?,
    })
}

/// Where prepared correlations are, and which of them were used.
pub fn place(directory: &Path, args: &ReachArgs) -> Result<Place> {
    Ok(Place { directory: directory.to_path_buf(), state: state(args)? })
}

/// Connects and agrees on terms, again and again while the server is busy and there is time to wait.
pub fn visit(dial: &Dial, args: &ConnectArgs, shown: &mut Shown) -> Result<Visit> {
    let (cache, until) = (cache(args)?, Instant::now() + args.wait.unwrap_or_default());
    loop {
        match Visit::start(dial, &cache, args.expect, SETUP_LIMIT, &Randomness::os(), shown) {
            Err(SessionError::Refused { kind: RefusalKind::Busy, .. }) if Instant::now() < until => {
                let left = until.saturating_duration_since(Instant::now());
                shown.0.say(format!("the server is busy; waiting, at most {:.0} s more", left.as_secs_f64()));
                std::thread::sleep(left.min(BUSY));
            }
            visit => return Ok(visit?),
        }
    }
}

/// Shows on the terminal what a session does.
pub struct Shown(Progress);

impl Shown {
    /// Nothing shown yet.
    pub fn new() -> Self {
        Self(Progress::start("connecting"))
    }
}

impl Watch for Shown {
    fn doing(&mut self, doing: Doing) {
        // The words of the server's log: whoever has both logs can lay them side by side.
        let sentence = sentence(doing);
        match doing {
            // How much it will be is worth a line of its own.
            Doing::NewKeys(_) => tracing::info!("{sentence}"),
            _ => tracing::debug!("{sentence}"),
        }
        self.0.say(sentence);
        match doing {
            Doing::Keys(done, all) => self.0.at(done / MEGABYTE, all.div_ceil(MEGABYTE)),
            _ => self.0.spin(),
        }
    }
}

/// What a session does, in words.
pub fn sentence(doing: Doing) -> String {
    match doing {
        Doing::Handshake => "agreeing on the terms".into(),
        Doing::Setup(bytes) => format!("the model's public part, {:.1} MB", bytes as f64 / 1e6),
        Doing::Schedule => "laying out the run".into(),
        Doing::Correlations => "setting up correlations".into(),
        Doing::NewKeys(bytes) => {
            format!("keys for this plan and length are made: {:.1} MB go to the server", bytes as f64 / 1e6)
        }
        Doing::KeptKeys => "keys that both sides have kept serve again".into(),
        Doing::Keys(done, all) => format!("keys, {:.0} of {:.0} MB", done as f64 / 1e6, all as f64 / 1e6),
        Doing::Stage(name, Some(layer), segment) => format!("layer {layer}, segment {segment}: {name}"),
        Doing::Stage(name, None, segment) => format!("segment {segment}: {name}"),
        Doing::Preparing(number, of) => format!("correlations of session {number} of {of}"),
        Doing::Verifying => "comparing with the twin".into(),
    }
}
