//! `fesc demo`: both sides on this machine, as two processes of this program with TLS between them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fesc_model::Classifier;
use fesc_model::twin::{Plan, Rounding};
use serde_json::Value;

use super::side::{Children, Side};
use super::trust;
use crate::cli::DemoArgs;
use crate::progress::Progress;
use crate::report::{Format, Report, Row, line};

/// The sample: a text that was written for this program.
const SAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/samples/search-of-a-car.txt"));
const SAMPLE_NAME: &str = "samples/search-of-a-car.txt";

/// Runs it and says what happened.
pub fn run(args: &DemoArgs, format: Format) -> Result<()> {
    if args.explain_trust {
        return trust::explain();
    }
    let place = tempfile::tempdir().context("a directory for the demo")?;
    let path = |name: &str| place.path().join(name).display().to_string();
    let (file, name) = match &args.file {
        Some(file) => (file.display().to_string(), file.display().to_string()),
        None => {
            std::fs::write(place.path().join("sample.txt"), SAMPLE).context("writing the sample")?;
            (path("sample.txt"), SAMPLE_NAME.to_string())
        }
    };
    let children = Children::until_interrupted()?;
    let start = Instant::now();
    let progress = Progress::start("starting the server");
    let (state, cache) = (path("state"), path("cache"));
    let plan = args.plan.name();
    let call = ["serve", "--json", "--quiet", "--state", &state, "--listen", "127.0.0.1:0", "--stop-with-stdin"];
    let call = [&call[..], &["--plan", &plan]].concat();
    let mut server = Side::start(&children, &call)?;
    let listening = server.object("server")?;
    let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let (address, pin) = (text(&listening, "listening"), text(&listening, "fingerprint"));
    let ready = start.elapsed().as_secs_f64();
    drop(progress);
    let mut call = vec!["classify", &file, "--json", "--server", &address, "--pin", &pin, "--cache", &cache];
    let length = args.length.map(|l| l.to_string());
    call.extend(length.as_deref().map(|l| ["--length", l]).into_iter().flatten());
    let mut client = Side::start(&children, &call)?;
    let result = client.object("client")?;
    let seconds = start.elapsed().as_secs_f64();
    if !client.wait()?.success() {
        bail!("the client failed after it had printed a result");
    }
    let agrees = agrees(Path::new(&file), args.plan, &result)?;
    match format {
        Format::Json => {
            let mut report = Report::new(format);
            let copy = |row: Row, key: &'static str| row.with(key, result.get(key).cloned().unwrap_or(Value::Null));
            let keys = [
                "label",
                "class",
                "tokens",
                "bucket",
                "online_s",
                "offline_s",
                "setup_s",
                "online_bytes",
                "offline_bytes",
                "setup_bytes",
                "rounds",
                "plan",
                "rests_on",
            ];
            let row = keys.into_iter().fold(Row::new(), copy);
            report.add(
                row.with("seconds", seconds)
                    .with("server_start_s", ready)
                    .with("agrees", agrees)
                    .with("client_learned", trust::CLIENT_LEARNS)
                    .with("server_learned", trust::SERVER_LEARNS),
            )?;
            report.finish()
        }
        Format::Table => tell(&name, args.plan.encrypts(), &listening, &result, seconds, ready, agrees),
    }
}

/// Whether the model in the clear, which this process may run since it has both, says the same.
fn agrees(file: &Path, plan: Plan, result: &Value) -> Result<bool> {
    let shipped = Classifier::shipped()?;
    let text = std::fs::read_to_string(file).context("reading the document again")?;
    let tokens = result.get("tokens").and_then(Value::as_u64).context("tokens")? as usize;
    let ids = shipped.tokenizer().encode(&text, tokens)?.ids;
    let class = shipped.twin(plan)?.classify(&ids, &mut Rounding::nearest())?.class;
    Ok(result.get("label").and_then(Value::as_u64) == Some(class as u64))
}

fn tell(
    name: &str,
    encrypts: bool,
    server: &Value,
    result: &Value,
    seconds: f64,
    ready: f64,
    agrees: bool,
) -> Result<()> {
    let number = |key: &str| result.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let megabytes = |key: &str| number(key) / 1e6;
    let word = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or("?").to_string();
    line(&format!(
        "\
Two processes of this program, TLS 1.3 between them, no third party.
  server  has the model {}; listens on {}
  client  has the document {name}, {} tokens

  label   {} (class {})
  check   the model in the clear says {}

  time    {seconds:.1} s in all, of which {ready:.1} s to start the server
          online {:.1} s; making correlations {:.1} s beside it; set-up {:.1} s
  bytes   online {:.1} MB in {} rounds; correlations {:.1} MB; set-up {:.1} MB (the model's public part, kept by the client{})
  plan    {}; rests on {}

  The client learned the label, and the model's outline: shapes, scales, forms.
  The server learned that a document of at most {} tokens came now; not the label, nor any word.
  `fesc demo --explain-trust` says whom each side trusts.",
        word(server, "model"),
        word(server, "listening"),
        number("tokens"),
        word(result, "class"),
        number("label"),
        if agrees { "the same" } else { "SOMETHING ELSE" },
        number("online_s"),
        number("offline_s"),
        number("setup_s"),
        megabytes("online_bytes"),
        number("rounds"),
        megabytes("offline_bytes"),
        megabytes("setup_bytes"),
        if encrypts { ", and keys of this client" } else { "" },
        word(result, "plan"),
        word(result, "rests_on"),
        number("bucket"),
    ))
}
