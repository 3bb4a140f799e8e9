//! What the two ends say before they compute, and what each checks of it.
//!
//! ```text
//! client   Greeting   version, nonce, purpose
//! server   Offer      version, nonce, terms, limits                       (or a refusal)
//! client   Step       Setup: send me the public part; as often as wanted
//! client   Step       Run: terms, bucket, reveal, provider, keys  |  Prepare: terms, bucket, reveal, count
//! server   Granted    the token of a second connection, if one is needed; which keys  (or a refusal)
//! both     SHA-256 of all of it, compared
//! ```
//!
//! Or, after the offer, an order that concerns the client's kept keys alone ([`Step::Keys`]), and its answer.
//!
//! The terms are repeated by the client and compared by the server, so that a change of the model between the
//! two messages is seen. Nothing here depends on the document but the bucket.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::VERSION;
use super::bucket::is_bucket;
use super::error::{RefusalKind, Result, SessionError, clean};
use super::hex::Hex32;
use super::keyring::{Grant, Order, Wish};
use super::provider::Provider;
use crate::kernels;
use crate::schedule::{MAX_TOKENS, Reveal};
use crate::stage::Embedding;

/// Most sessions that one visit of `prepare` makes.
pub const MAX_PREPARED: u32 = 1024;

/// Why a client comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To classify or to prepare.
    Session,
    /// As the second connection of the session with this token.
    Join(Hex32),
}

/// The client's first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// [`VERSION`].
    pub version: u64,
    /// Randomness for every visit.
    pub nonce: Hex32,
    /// Why it comes.
    pub purpose: Purpose,
}

/// What both ends must have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Names the model and everything that a client downloads of it.
    pub model: Hex32,
    /// The plan's name, one of [`kernels::known`].
    pub plan: String,
    /// Digest of the outline: shapes, scales, forms.
    pub outline: Hex32,
    /// Digest of the parameters of the plan's kernels.
    pub kernels: Hex32,
    /// How the embedding is protected.
    pub embedding: Embedding,
}

/// What the server offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// [`VERSION`].
    pub version: u64,
    /// Randomness for every visit.
    pub nonce: Hex32,
    /// What both must have in common.
    pub terms: Terms,
    /// Bytes of the public part.
    pub setup_bytes: u64,
    /// The largest bucket it takes.
    pub max_tokens: usize,
    /// What it lets clients learn.
    pub reveals: Vec<Reveal>,
    /// Names of the providers it takes.
    pub providers: Vec<String>,
    /// It gives away its shares of hidden values, for checks of the program only.
    pub insecure_verify: bool,
    /// Seconds for which it keeps CKKS keys.
    pub keys_s: u64,
}

/// What the client chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// As offered.
    pub terms: Terms,
    /// Tokens of the run.
    pub bucket: usize,
    /// What the client learns.
    pub reveal: Reveal,
    /// Where correlations come from.
    pub provider: Provider,
    /// The server is to give away its shares afterwards.
    pub verify: bool,
    /// CKKS keys, where the plan has kernels under encryption.
    pub keys: Option<Wish>,
}

/// Correlations for later sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// As offered.
    pub terms: Terms,
    /// Tokens of each run.
    pub bucket: usize,
    /// What the client will learn.
    pub reveal: Reveal,
    /// Sessions.
    pub count: u32,
}

/// What the client wants next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The public part.
    Setup,
    /// To classify.
    Run(Accept),
    /// To make correlations for later.
    Prepare(Batch),
    /// To see or delete its kept keys.
    Keys(Order),
}

/// The server agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    /// With which the second connection joins.
    pub token: Option<Hex32>,
    /// CKKS keys, where the client needs some.
    pub keys: Option<Grant>,
}

/// The server says no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// As a word.
    pub kind: RefusalKind,
    /// As a sentence.
    pub message: String,
}

/// An answer of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply<T> {
    /// Yes.
    Ok(T),
    /// No.
    Refused(Refusal),
}

impl<T> Reply<T> {
    /// The content, or the refusal as an error. A hostile peer's sentence is cut and cleaned before anybody
    /// reads it.
    pub fn granted(self) -> Result<T> {
        match self {
            Reply::Ok(content) => Ok(content),
            Reply::Refused(Refusal { kind, message }) => Err(SessionError::Refused { kind, message: clean(&message) }),
        }
    }
}

fn refuse(kind: RefusalKind, message: String) -> Refusal {
    Refusal { kind, message }
}

impl Offer {
    /// The client's check: everything that it can judge without the public part.
    pub fn check(&self, setup_limit: u64) -> Result<()> {
        let differs = |what, ours: &str, theirs: &str| {
            Err(SessionError::Mismatch { what, ours: ours.into(), theirs: clean(theirs) })
        };
        if self.version != VERSION {
            return Err(SessionError::Version { ours: VERSION, theirs: self.version });
        }
        let Ok(plan) = kernels::private_plan(&self.terms.plan) else {
            return differs("the plan", &kernels::known(), &self.terms.plan);
        };
        let ours = Hex32(kernels::digest(&plan)?);
        if self.terms.kernels != ours {
            let (ours, theirs) = (ours.to_string(), self.terms.kernels.to_string());
            return Err(SessionError::Parameters { ours, theirs });
        }
        if self.setup_bytes > setup_limit {
            let (value, limit) = (self.setup_bytes, setup_limit);
            return Err(SessionError::TooLarge { what: "a model's public part", value, limit });
        }
        if self.max_tokens == 0 || self.max_tokens > MAX_TOKENS {
            let problem = format!("a limit of {} tokens", self.max_tokens);
            return Err(SessionError::Malformed { what: "offer", problem });
        }
        Ok(())
    }

    /// The server's check of a run.
    pub fn admits(&self, accept: &Accept) -> Result<(), Refusal> {
        self.admits_terms(&accept.terms, accept.bucket, accept.reveal)?;
        let name = accept.provider.name();
        if !self.providers.iter().any(|p| p == name) {
            let message = format!("this server does not take correlations from {name}");
            return Err(refuse(RefusalKind::NotOffered, message));
        }
        if accept.verify && !self.insecure_verify {
            let message = "this server gives no shares away; it would have to run with --insecure-verify";
            return Err(refuse(RefusalKind::NotOffered, message.into()));
        }
        Ok(())
    }

    /// The server's check of a batch.
    pub fn admits_batch(&self, batch: &Batch) -> Result<(), Refusal> {
        self.admits_terms(&batch.terms, batch.bucket, batch.reveal)?;
        if !self.providers.iter().any(|p| p == "prepared") {
            let message = "this server keeps no correlations; it would have to run with --store";
            return Err(refuse(RefusalKind::NotOffered, message.into()));
        }
        if batch.count == 0 || batch.count > MAX_PREPARED {
            let message = format!("{} sessions at once; 1 to {MAX_PREPARED} are taken", batch.count);
            return Err(refuse(RefusalKind::NotOffered, message));
        }
        Ok(())
    }

    fn admits_terms(&self, terms: &Terms, bucket: usize, reveal: Reveal) -> Result<(), Refusal> {
        if terms.kernels != self.terms.kernels {
            let (theirs, ours) = (terms.kernels, self.terms.kernels);
            let message = format!("the client's kernels have parameters {theirs}; this server takes only {ours}");
            return Err(refuse(RefusalKind::Parameters, message));
        }
        if *terms != self.terms {
            let plan = &self.terms.plan;
            let message =
                format!("the client has another model, plan or parameters than this server, whose plan is {plan}");
            return Err(refuse(RefusalKind::Mismatch, message));
        }
        if !is_bucket(bucket) || bucket > self.max_tokens {
            let message = format!("a run of {bucket} tokens; this server takes at most {}", self.max_tokens);
            return Err(refuse(RefusalKind::Tokens, message));
        }
        if !self.reveals.contains(&reveal) {
            let message = "this server does not reveal that".to_string();
            return Err(refuse(RefusalKind::NotOffered, message));
        }
        Ok(())
    }
}

/// The session id of store `index` of a batch: both stores carry it, and it names model, plan, length,
/// output and this visit.
pub fn prepared_id(batch: &Batch, nonces: [Hex32; 2], index: u32) -> Hex32 {
    let mut hash = Sha256::new_with_prefix(b"fesc prepared 2\0");
    hash.update(batch.terms.model.0);
    hash.update(batch.terms.kernels.0);
    hash.update((batch.bucket as u64).to_le_bytes());
    hash.update([batch.reveal as u8]);
    nonces.iter().for_each(|n| hash.update(n.0));
    hash.update(index.to_le_bytes());
    Hex32(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn offer() -> Offer {
        Offer {
            version: VERSION,
            nonce: Hex32([1; 32]),
            terms: Terms {
                model: Hex32([2; 32]),
                plan: "fast".into(),
                outline: Hex32([3; 32]),
                kernels: Hex32(kernels::digest(&fesc_model::Plan::FAST).unwrap()),
                embedding: Embedding::Encrypted,
            },
            setup_bytes: 100,
            max_tokens: 512,
            reveals: vec![Reveal::Label],
            providers: vec!["ahead".into()],
            insecure_verify: false,
            keys_s: 86_400,
        }
    }

    #[test]
    fn a_client_refuses_each_bad_field_with_its_own_error() {
        offer().check(100).unwrap();
        let refused = |change: fn(&mut Offer)| {
            let mut bad = offer();
            change(&mut bad);
            bad.check(100).unwrap_err()
        };
        assert!(matches!(refused(|o| o.version = 2), SessionError::Version { ours: VERSION, theirs: 2 }));
        assert!(matches!(
            refused(|o| o.terms.plan = "paper-44".into()),
            SessionError::Mismatch { what: "the plan", .. }
        ));
        assert!(matches!(refused(|o| o.terms.plan = "slow".into()), SessionError::Mismatch { what: "the plan", .. }));
        assert!(matches!(refused(|o| o.terms.kernels = Hex32([1; 32])), SessionError::Parameters { .. }));
        assert!(matches!(refused(|o| o.setup_bytes = 101), SessionError::TooLarge { value: 101, .. }));
        assert!(matches!(refused(|o| o.max_tokens = 0), SessionError::Malformed { .. }));
    }

    #[test]
    fn a_server_refuses_what_it_does_not_offer() {
        let terms = offer().terms;
        let (reveal, provider) = (Reveal::Label, Provider::Ahead);
        let good = Accept { terms, bucket: 256, reveal, provider, verify: false, keys: None };
        offer().admits(&good).unwrap();
        let refused = |change: fn(&mut Accept)| {
            let mut bad = good.clone();
            change(&mut bad);
            offer().admits(&bad).unwrap_err().kind
        };
        assert_eq!(refused(|a| a.terms.model = Hex32([9; 32])), RefusalKind::Mismatch);
        assert_eq!(refused(|a| a.terms.outline = Hex32([9; 32])), RefusalKind::Mismatch);
        assert_eq!(refused(|a| a.bucket = 1024), RefusalKind::Tokens);
        assert_eq!(refused(|a| a.bucket = 200), RefusalKind::Tokens);
        assert_eq!(refused(|a| a.reveal = Reveal::Logits), RefusalKind::NotOffered);
        assert_eq!(refused(|a| a.provider = Provider::Dealer(())), RefusalKind::NotOffered);
        assert_eq!(refused(|a| a.terms.kernels = Hex32([9; 32])), RefusalKind::Parameters);
        assert_eq!(refused(|a| a.verify = true), RefusalKind::NotOffered);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = serde_json::to_string(&offer()).unwrap();
        assert_eq!(serde_json::from_str::<Offer>(&text).unwrap(), offer());
        let more = text.replacen('{', "{\"extra\":1,", 1);
        assert!(serde_json::from_str::<Offer>(&more).is_err());
    }

    #[test]
    fn a_refusal_is_cleaned_before_it_is_shown() {
        let hostile = Refusal { kind: RefusalKind::Busy, message: "\u{1b}[2Jgone\n".repeat(1000) };
        let SessionError::Refused { message, .. } = Reply::<()>::Refused(hostile).granted().unwrap_err() else {
            unreachable!("a refusal is an error of its own")
        };
        assert!(message.len() <= 500 && !message.contains('\u{1b}') && !message.contains('\n'));
    }

    #[test]
    fn prepared_sessions_have_names_of_their_own() {
        let batch = Batch { terms: offer().terms, bucket: 128, reveal: Reveal::Label, count: 2 };
        let nonces = [Hex32([4; 32]), Hex32([5; 32])];
        let id = |b: &Batch, n, i| prepared_id(b, n, i);
        let first = id(&batch, nonces, 0);
        let mut other_model = batch.clone();
        other_model.terms.model = Hex32([6; 32]);
        let mut other_plan = batch.clone();
        other_plan.terms.kernels = Hex32([6; 32]);
        for other in [
            id(&batch, nonces, 1),
            id(&batch, [nonces[1], nonces[0]], 0),
            id(&Batch { bucket: 256, ..batch.clone() }, nonces, 0),
            id(&Batch { reveal: Reveal::Logits, ..batch.clone() }, nonces, 0),
            id(&other_model, nonces, 0),
            id(&other_plan, nonces, 0),
        ] {
            assert_ne!(first, other);
        }
    }
}
