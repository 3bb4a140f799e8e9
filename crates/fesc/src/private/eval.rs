//! `fesc eval --private`: labelled documents through private runs, a process for the server and one for each
//! document, beside the twin.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fesc_infer::session::bucket::bucket;
use fesc_model::data::{Document, Documents};
use fesc_model::metrics::Confusion;
use fesc_model::twin::{Plan, Rounding, Twin};
use fesc_model::{Classifier, ModelError};
use fesc_net::Identity;
use serde_json::{Value, json};

use super::side::{Children, Side};
use crate::classifier;
use crate::cli::{EvalArgs, Provider};
use crate::corpus;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// The least that a server takes as --max-tokens.
const SHORTEST: usize = 128;

/// Classifies every document by every plan at every length.
pub fn run(args: &EvalArgs, format: Format) -> Result<()> {
    let classifier = classifier::load(args.model.model.as_deref())?;
    let limit = args.limit.map_or(usize::MAX, |n| n as usize);
    let documents = Documents::open(&args.data)?.take(limit).collect::<Result<Vec<_>, ModelError>>()?;
    if documents.is_empty() {
        return Err(corpus::at(&args.data, 1, "there is no document").into());
    }
    let children = Children::until_interrupted()?;
    let place = Place::new(args, &children)?;
    let mut report = Report::new(format);
    for &plan in &args.private {
        let twin = classifier.twin(plan)?;
        let mut server = place.serve(args, &children, plan)?;
        let at = server.object("server")?;
        for &length in &args.length {
            let progress = Progress::counted(format!("{} at {length} tokens", plan.name()), documents.len() as u64);
            let start = Instant::now();
            let mut sums = Sums::new(&classifier);
            for document in &documents {
                let found = place.classify(&children, &at, &document.text, length)?;
                sums.add(document, &found, label(&twin, &classifier, &document.text, length as usize)?)?;
                progress.step();
            }
            report.add(sums.row(args, &classifier, plan, length, start.elapsed().as_secs_f64())?)?;
        }
    }
    report.finish()
}

/// The twin's label.
fn label(twin: &Twin, classifier: &Classifier, text: &str, length: usize) -> Result<usize> {
    let ids = classifier.tokenizer().encode(text, length)?.ids;
    Ok(twin.classify(&ids, &mut Rounding::nearest())?.class)
}

fn text(row: &Value, key: &str) -> Result<String> {
    Ok(row.get(key).and_then(Value::as_str).with_context(|| format!("{key} of a side"))?.into())
}

fn number(row: &Value, key: &str) -> Result<f64> {
    row.get(key).and_then(Value::as_f64).with_context(|| format!("{key} of a side"))
}

/// Files of all sides, deleted at the end, and what every client is told.
struct Place {
    directory: tempfile::TempDir,
    /// Where the dealer is, if there is one.
    dealer: Vec<String>,
    _dealer: Option<Side>,
}

impl Place {
    /// With an identity of the client, so that the server keeps its keys from document to document.
    fn new(args: &EvalArgs, children: &Children) -> Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the sides")?;
        let path = |name: &str| directory.path().join(name);
        let identity = Identity::generate()?;
        identity.save(&path("client.key"), &path("client.crt"))?;
        let line = format!("eval {} sessions=unlimited\n", identity.fingerprint());
        std::fs::write(path("clients"), line).context("writing the list of clients")?;
        let (mut dealer, mut process) = (Vec::new(), None);
        if args.provider == Provider::Dealer {
            let call = ["dealer", "--json", "--quiet", "--listen", "127.0.0.1:0", "--stop-with-stdin"];
            let mut side = Side::start(children, &call)?;
            let at = side.object("dealer")?;
            dealer = vec!["--dealer".into(), text(&at, "listening")?, "--dealer-pin".into(), text(&at, "fingerprint")?];
            process = Some(side);
        }
        Ok(Self { directory, dealer, _dealer: process })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn serve(&self, args: &EvalArgs, children: &Children, plan: Plan) -> Result<Side> {
        let (name, state, clients) = (plan.name(), self.path("state"), self.path("clients"));
        let longest = args.length.iter().max().map_or(SHORTEST, |l| *l as usize);
        let tokens = bucket(longest).unwrap_or(longest).to_string();
        let model = args.model.model.as_deref().unwrap_or_else(|| Path::new("built-in")).display().to_string();
        // A seat for the next client while the last one's is not free yet.
        let call =
            ["serve", "--json", "--quiet", "--listen", "127.0.0.1:0", "--stop-with-stdin", "--max-sessions", "2"];
        let own =
            ["--plan", &name, "--state", &state, "--clients", &clients, "--max-tokens", &tokens, "--model", &model];
        let dealer = self.dealer.iter().map(String::as_str);
        Side::start(children, &call.into_iter().chain(own).chain(dealer).collect::<Vec<_>>())
    }

    fn classify(&self, children: &Children, server: &Value, document: &str, length: u32) -> Result<Value> {
        let (file, key, cert, cache) =
            (self.path("document.txt"), self.path("client.key"), self.path("client.crt"), self.path("cache"));
        std::fs::write(&file, document).context("writing a document for its client")?;
        let (address, pin, state) =
            (text(server, "listening")?, text(server, "fingerprint")?, self.path("client-state"));
        let length = length.to_string();
        let call = ["classify", &file, "--json", "--quiet", "--length", &length, "--server", &address, "--pin", &pin];
        let own = ["--key", &key, "--cert", &cert, "--cache", &cache, "--state", &state];
        let who = if self.dealer.is_empty() { "two-party" } else { "dealer" };
        let third = ["--provider", who].into_iter().chain(self.dealer.iter().map(String::as_str));
        let mut client = Side::start(children, &call.into_iter().chain(own).chain(third).collect::<Vec<_>>())?;
        let found = client.object("client")?;
        if !client.wait()?.success() {
            bail!("a client failed after it had printed a result");
        }
        Ok(found)
    }
}

/// What the documents of one plan and length gave.
struct Sums {
    confusion: Confusion,
    /// Of every document.
    truth: Vec<usize>,
    predicted: Vec<u64>,
    agree: usize,
    seconds: f64,
    online: f64,
    online_bytes: u64,
    key_bytes: u64,
}

impl Sums {
    fn new(classifier: &Classifier) -> Self {
        Self {
            confusion: Confusion::new(classifier.classes()),
            truth: Vec::new(),
            predicted: Vec::new(),
            agree: 0,
            seconds: 0.0,
            online: 0.0,
            online_bytes: 0,
            key_bytes: 0,
        }
    }

    fn add(&mut self, document: &Document, found: &Value, twin: usize) -> Result<()> {
        let class = number(found, "label")? as usize;
        self.confusion.add(document.label, class)?;
        self.truth.push(document.label);
        self.predicted.push(class as u64);
        self.agree += usize::from(class == twin);
        self.seconds += number(found, "seconds")?;
        self.online += number(found, "online_s")?;
        self.online_bytes = self.online_bytes.max(number(found, "online_bytes")? as u64);
        self.key_bytes += number(found, "key_bytes")? as u64;
        Ok(())
    }

    fn row(self, args: &EvalArgs, classifier: &Classifier, plan: Plan, length: u32, seconds: f64) -> Result<Row> {
        let documents = self.truth.len() as f64;
        Ok(Row::new()
            .with("accuracy", self.confusion.accuracy())
            .with("macro_f1", self.confusion.macro_f1())
            .with("documents", self.confusion.total())
            .with("length", length)
            .with("model", classifier.name())
            .with("mode", "private")
            .with("preset", plan.name())
            .with("seconds", seconds)
            .with("twin_agreement", self.agree as f64 / documents)
            .with("seconds_per_document", self.seconds / documents)
            .with("online_s_per_document", self.online / documents)
            .detail("confusion", serde_json::to_value(&self.confusion)?)
            .detail("truth", json!(self.truth))
            .detail("predicted", json!(self.predicted))
            .detail("online_bytes", self.online_bytes)
            .detail("key_bytes", self.key_bytes)
            .detail("provider", if args.provider == Provider::Dealer { "dealer" } else { "two-party" }))
    }
}
