//! `fesc prepare`: correlations for later sessions, on both sides.

use anyhow::Result;
use fesc_infer::session::CancelHandle;

use super::connect;
use crate::cli::PrepareArgs;
use crate::interrupt;
use crate::report::{Format, Report, Row};

/// Makes them and says what they cost.
pub fn run(args: &PrepareArgs, format: Format) -> Result<()> {
    let cancel = CancelHandle::default();
    let dial = connect::server(&args.connect.reach, &cancel)?;
    let place = connect::place(&args.prepared, &args.connect.reach)?;
    interrupt::on_first(move || cancel.cut())?;
    let mut shown = connect::Shown::new();
    let visit = connect::visit(&dial, &args.connect, &mut shown)?;
    let (id, bucket) = (visit.known().id, visit.bucket(args.length as usize)?);
    let (made, cost) = visit.prepare(bucket, args.reveal, args.sessions, &place, &mut shown)?;
    drop(shown);
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("sessions", made.len())
            .with("bucket", bucket)
            .with("offline_s", cost.offline.seconds)
            .with("offline_bytes", cost.offline.bytes())
            .with("setup_bytes", cost.setup.bytes())
            .with("prepared", args.prepared.display().to_string())
            .detail("reveal", args.reveal.name())
            .detail("model_id", id.to_string()),
    )?;
    report.finish()
}
