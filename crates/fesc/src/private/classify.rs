//! `fesc classify --server`: one document, without showing it.

use std::time::Instant;

use anyhow::Result;
use fesc_infer::session::client::{Finished, Place, RunOptions};
use fesc_infer::session::{CancelHandle, Dial, Provider};
use fesc_infer::{Answer, MAX_TOKENS, Schedule};
use fesc_model::metrics::softmax;
use fesc_model::outline::scale::REVEAL;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{connect, trust, verify};
use crate::cli::{self, ClassifyArgs, KeysArg, WhenArg};
use crate::exit::Refusal;
use crate::interrupt;
use crate::report::{Format, Report, Row, line};

/// Classifies a text on a server. The text is read when the command line makes sense, and before anybody is
/// called.
pub fn run(args: &ClassifyArgs, text: impl FnOnce() -> Result<String>, format: Format, verbose: bool) -> Result<()> {
    let private = &args.private;
    let cancel = CancelHandle::default();
    let dial = connect::server(&private.connect.reach, &cancel)?;
    let provider = provider(args, &cancel)?;
    let options = RunOptions {
        reveal: private.reveal,
        provider,
        ready_bytes: (private.ready as usize) << 20,
        verify: private.verify,
        // Without a home there is nowhere to keep them, and nothing else is lost.
        keys: connect::state(&private.connect.reach).ok().filter(|_| private.keys == KeysArg::Keep),
    };
    let text = Zeroizing::new(text()?);
    let check = private.verify.then(|| verify::Check::load(&args.model)).transpose()?;
    interrupt::on_first(move || cancel.cut())?;
    let start = Instant::now();
    let mut shown = connect::Shown::new();
    let visit = connect::visit(&dial, &private.connect, &mut shown)?;
    let twin = check.map(|check| check.twin(visit.known())).transpose()?;
    let encoded = visit.known().tokenizer()?.encode(&text, args.length.map_or(MAX_TOKENS, |l| l as usize))?;
    let finished = visit.classify(&encoded.ids, &options, &mut shown)?;
    drop(shown);
    let seconds = start.elapsed().as_secs_f64();
    let mut report = Report::new(format);
    let schedule = Schedule::new(&finished.known.outline, finished.bucket, private.reveal)?;
    let (plan, rests_on) = (finished.known.outline.plan().name(), trust::rests_on(&schedule)?);
    if format == Format::Table {
        answer(&finished, encoded.ids.len(), seconds)?;
        line(&format!("plan {plan}; rests on {rests_on}"))?;
    }
    let row = row(&finished, encoded.ids.len(), seconds);
    let row = row
        .detail("cut", encoded.truncated())
        .detail("document_tokens", encoded.total)
        .detail("reveal", private.reveal.name())
        .detail("provider", who(&options.provider))
        .detail("plan", plan)
        .detail("rests_on", rests_on);
    if format == Format::Json || verbose {
        report.add(row)?;
    }
    let compared = twin.map(|twin| verify::compare(&twin, &schedule, &finished, &encoded.ids, &mut report));
    // What was found before an error is printed all the same.
    report.finish()?;
    compared.unwrap_or(Ok(()))
}

/// The class, then one line of what it took.
fn answer(finished: &Finished, tokens: usize, seconds: f64) -> Result<()> {
    let Finished { answer, bucket, report, known, keys, .. } = finished;
    let class = answer.class();
    let of_keys = match keys.sent_bytes {
        0 => String::new(),
        bytes => format!(", {:.1} MB of it keys", bytes as f64 / 1e6),
    };
    line(&known.label(class).map_or_else(|| class.to_string(), String::from))?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    line(&format!(
        "{tokens} tokens in a run of {bucket}; {seconds:.1} s, {:.1} s of it online; {:.1} MB online in {} rounds, {:.1} MB of \
         correlations, {:.1} MB of set-up{of_keys}",
        report.online.seconds,
        mb(report.online.bytes()),
        report.online.rounds,
        mb(report.offline.bytes()),
        mb(report.setup.bytes()),
    ))
}

fn who(provider: &Provider<Dial, Place>) -> String {
    match provider {
        Provider::Dealer(_) => provider.name().into(),
        made_by_both => format!("two-party, {}", made_by_both.name()),
    }
}

fn provider(args: &ClassifyArgs, cancel: &CancelHandle) -> Result<Provider<Dial, Place>> {
    use cli::Provider as Who;
    let private = &args.private;
    let reach = &private.connect.reach;
    let third = connect::third(&private.third, &reach.line, reach.insecure_plaintext, Some(cancel))?;
    match (&private.prepared, private.provider, third, private.when) {
        (Some(directory), Who::TwoParty, None, _) => Ok(Provider::Prepared(connect::place(directory, reach)?)),
        (None, Who::Dealer, Some(dial), _) => Ok(Provider::Dealer(dial)),
        (None, Who::TwoParty, None, WhenArg::Ahead) => Ok(Provider::Ahead),
        (None, Who::TwoParty, None, WhenArg::Inline) => Ok(Provider::Inline),
        (None, Who::Dealer, None, _) => Err(Refusal::Usage("--provider dealer needs --dealer ADDRESS".into()).into()),
        (None, Who::TwoParty, Some(_), _) => {
            Err(Refusal::Usage("--dealer is for --provider dealer: give both, or neither".into()).into())
        }
        (Some(_), ..) => {
            Err(Refusal::Usage("prepared correlations are there already: --prepared takes no dealer".into()).into())
        }
    }
}

fn row(finished: &Finished, tokens: usize, seconds: f64) -> Row {
    let Finished { answer, bucket, report, known, keys, .. } = finished;
    let class = answer.class();
    let probabilities = match answer {
        Answer::Label(_) => None,
        Answer::Logits { integers, .. } => {
            let logits: Vec<f64> = integers.iter().map(|&v| v as f64 / f64::from(1u32 << REVEAL)).collect();
            Some((softmax(&logits), logits))
        }
    };
    Row::new()
        .with("label", class)
        .with("class", known.label(class).map_or(Value::Null, Value::from))
        .with("probability", probabilities.as_ref().and_then(|(p, _)| p.get(class).copied()))
        .with("tokens", tokens)
        .with("bucket", *bucket)
        .with("seconds", seconds)
        .with("online_s", report.online.seconds)
        .with("online_bytes", report.online.bytes())
        .with("offline_bytes", report.offline.bytes())
        .with("setup_bytes", report.setup.bytes())
        .with("rounds", report.online.rounds)
        .detail("offline_s", report.offline.seconds)
        .detail("setup_s", report.setup.seconds)
        .detail("waited_s", report.waited_s)
        .detail("offline_rounds", report.offline.rounds)
        .detail("logits", probabilities.map_or(Value::Null, |(_, logits)| json!(logits)))
        .detail("model_id", known.id.to_string())
        .detail("key_bytes", keys.sent_bytes)
        .detail("kept_keys_used", keys.reused)
        .detail("keys_kept", keys.kept)
}

/// Before anything else: what is at stake.
pub fn explain(args: &ClassifyArgs) -> Option<Result<()>> {
    args.private.explain_trust.then(trust::explain)
}
