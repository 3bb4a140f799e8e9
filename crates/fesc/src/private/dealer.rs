//! `fesc dealer`: a third process that hands out correlations.

use anyhow::Result;
use fesc_infer::session;
use fesc_net::{Identity, Listener, ServerSecurity};

use super::{connect, serve};
use crate::cli::DealerArgs;
use crate::report::{Format, Report, Row};

/// Deals until it is told to stop.
pub fn run(args: &DealerArgs, format: Format) -> Result<()> {
    let identity = match (&args.key, &args.cert) {
        (Some(key), Some(cert)) => Identity::load(key, cert)?,
        _ => Identity::generate()?,
    };
    let pin = identity.fingerprint().to_string();
    let listener = Listener::bind(&args.listen, ServerSecurity::Tls(identity), connect::config(&args.line))?;
    let stop = serve::told_to_stop(args.stop_with_stdin)?;
    let mut report = Report::new(format);
    report.add(Row::new().with("listening", listener.address().to_string()).with("fingerprint", pin))?;
    report.finish()?;
    let told = |ended: session::Result<u64>| match ended {
        Ok(dealt) => tracing::info!(dealt, "a session is over"),
        Err(error) => tracing::warn!("{error}"),
    };
    Ok(session::dealer::serve(&listener, &session::Randomness::os(), &stop, &told)?)
}
