//! `fesc keys`: a client's CKKS keys at a server.

use anyhow::Result;
use fesc_infer::session::client::{MyKeys, order};
use fesc_infer::session::keyring::{Kept, Listing, Order, SetNote};
use fesc_infer::session::{CancelHandle, Hex32, Randomness};
use serde_json::{Value, json};

use super::connect;
use crate::cli::{Keys, ReachArgs};
use crate::interrupt;
use crate::report::{Format, Report, Row};

/// Does what it says.
pub fn run(command: &Keys, format: Format) -> Result<()> {
    match command {
        Keys::List(args) => list(&give(&args.reach, &Order::List)?, format),
        Keys::Delete(args) if args.all => deleted(&give(&args.reach, &Order::DeleteAll)?.listing, &[], format),
        Keys::Delete(args) => {
            let keys = give(&args.reach, &Order::Delete(args.names.clone()))?;
            deleted(&keys.listing, &args.names, format)
        }
    }
}

fn give(reach: &ReachArgs, what: &Order) -> Result<MyKeys> {
    let cancel = CancelHandle::default();
    let (dial, state) = (connect::server(reach, &cancel)?, connect::state(reach)?);
    interrupt::on_first(move || cancel.cut())?;
    Ok(order(&dial, &state, what, &Randomness::os())?)
}

fn list(keys: &MyKeys, format: Format) -> Result<()> {
    if keys.listing.kept.is_empty() {
        eprintln!("fesc: the server keeps no keys of this client");
    }
    let mut report = Report::new(format);
    for Kept { name, plan, bucket, sets, bytes, age_s, left_s, in_use } in &keys.listing.kept {
        let each = |of: fn(&SetNote) -> Value| Value::from(sets.iter().map(of).collect::<Vec<_>>());
        let names: Vec<&str> = sets.iter().map(|set| set.set.as_str()).collect();
        report.add(
            Row::new()
                .with("name", name.to_string())
                .with("sets", names.join(","))
                .with("bucket", *bucket)
                .with("bytes", *bytes)
                .with("age_s", *age_s)
                .with("left_s", *left_s)
                .with("usable", keys.here.contains(name))
                .with("in_use", *in_use)
                .detail("plan", plan.as_str())
                .detail("degrees", each(|set| json!(set.degree)))
                .detail("keys", each(|set| json!(set.keys))),
        )?;
    }
    report.finish()
}

/// What became of the keys that were named, or of all.
fn deleted(listing: &Listing, names: &[Hex32], format: Format) -> Result<()> {
    let in_use = |name: &Hex32| listing.kept.iter().any(|kept| kept.name == *name);
    let rest = |name: &Hex32| if in_use(name) { "in use" } else { "not there" };
    let kept = listing.kept.iter().map(|kept| kept.name).filter(|_| names.is_empty());
    let others = names.iter().filter(|name| !listing.deleted.contains(name)).copied().chain(kept);
    let mut report = Report::new(format);
    let gone = listing.deleted.iter().map(|name| (*name, "deleted"));
    for (name, result) in gone.chain(others.map(|name| (name, rest(&name)))) {
        report.add(Row::new().with("name", name.to_string()).with("result", result))?;
    }
    report.finish()
}
