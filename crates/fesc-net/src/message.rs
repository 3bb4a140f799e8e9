//! What a message is, besides its tag: who sends it to whom, when, how long it may be, what hides it.
//!
//! Every crate that sends has a list `MESSAGES` beside the constants of its tags. In formulas of a list `n`
//! is a count of elements, `l` the bits of a ring, `k` thresholds. The lists are held to the sources and to
//! the wire by `fesc_infer::audit`, and printed by `fesc inspect --messages`. This crate itself refuses no
//! message by them: a receiver knows tag and exact length from its protocol.

/// Who sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// P0: has the document.
    Client,
    /// P1: has the model.
    Server,
    /// The third process, where there is one.
    Dealer,
}

impl End {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
            End::Dealer => "dealer",
        }
    }
}

/// From whom to whom: what the lists use.
pub mod ways {
    use super::End::{self, Client, Dealer, Server};

    /// From the client to the server.
    pub const UP: &[(End, End)] = &[(Client, Server)];
    /// From the server to the client.
    pub const DOWN: &[(End, End)] = &[(Server, Client)];
    /// Between client and server.
    pub const BOTH: &[(End, End)] = &[(Client, Server), (Server, Client)];
    /// From either party to the dealer.
    pub const ASKING: &[(End, End)] = &[(Client, Dealer), (Server, Dealer)];
    /// From the dealer to either party.
    pub const DEALING: &[(End, End)] = &[(Dealer, Client), (Dealer, Server)];
    /// Between client and server, and from either to the dealer.
    pub const TALKING: &[(End, End)] = &[(Client, Server), (Server, Client), (Client, Dealer), (Server, Dealer)];
    /// Between any two.
    pub const ALL: &[(End, End)] =
        &[(Client, Server), (Server, Client), (Client, Dealer), (Server, Dealer), (Dealer, Client), (Dealer, Server)];
}

/// When: the phases of a channel's counts, and what is no part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessagePhase {
    /// Handshake, public part, base transfers and keys.
    Setup,
    /// Making correlations: nothing of the document or the weights goes in.
    Offline,
    /// The protocol on the document.
    Online,
    /// Giving shares away for a check of the program, where both sides ask for it.
    Verify,
    /// `fesc bench` and `fesc doctor`: random data between processes of one machine.
    Measurement,
}

impl MessagePhase {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            MessagePhase::Setup => "setup",
            MessagePhase::Offline => "offline",
            MessagePhase::Online => "online",
            MessagePhase::Verify => "verify",
            MessagePhase::Measurement => "measurement",
        }
    }
}

/// In which sessions a message is sent, besides its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// In all.
    All,
    /// Where the client learns logits.
    Logits,
    /// Where the server gives its shares away.
    Verify,
    /// Where a dealer makes correlations.
    Dealer,
    /// Where the two parties make correlations.
    Generator,
    /// Where correlations are prepared.
    Prepared,
    /// Where the plan has RLWE linear layers.
    Rlwe,
    /// Where the plan has stages under CKKS.
    Ckks,
    /// Where SiLU is folded.
    Folded,
    /// Where the model's public part has more than 2^25 bytes.
    Large,
}

/// What lengths a payload may have. The exact one is fixed by the schedule before the message comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// These bytes.
    Exact(usize),
    /// `plus` and a multiple of `of`, at most `most`.
    Multiple {
        /// The unit.
        of: usize,
        /// What comes on top.
        plus: usize,
        /// With it.
        most: usize,
    },
    /// Any up to this.
    AtMost(usize),
}

impl Size {
    /// The length field of a frame.
    pub const MOST: usize = u32::MAX as usize;
    /// Any length of a frame.
    pub const ANY: Size = Size::AtMost(Self::MOST);
    /// Words of 64 bits.
    pub const WORDS: Size = Size::Multiple { of: 8, plus: 0, most: Self::MOST };

    /// Whether a payload may be so long.
    pub fn allows(self, bytes: usize) -> bool {
        match self {
            Size::Exact(n) => bytes == n,
            Size::Multiple { of, plus, most } => {
                bytes <= most && bytes.checked_sub(plus).is_some_and(|rest| rest.is_multiple_of(of))
            }
            Size::AtMost(most) => bytes <= most,
        }
    }
}

/// What hides the content, as far as a test can look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Nothing: it is public, and the same bytes for any document and any weights of the same outline.
    Public,
    /// A mask on every bit: all bytes are uniform. Residues are modulo the largest primes below a power of
    /// two, so their bits are, too.
    Uniform,
    /// A random group element each: compressed Ristretto points, whose encoding has two fixed bits, and a
    /// nonce.
    Points,
    /// The public card of a model first, then hints and table under masks: uniform.
    CardThenUniform,
    /// Ciphertexts or keys of CKKS. Their headers are public, but for the seeds in them, which are random;
    /// their residues are uniform modulo primes on either side of a power of two, so that bits are not.
    Ciphertexts,
    /// Made of the dealer's randomness alone; the dealer hears nothing that is not public.
    Dealt,
    /// A share of what the receiver is to learn.
    Answer,
    /// Nothing, on purpose: the operator asked for it with `--insecure-verify`.
    GivenAway,
    /// Random data of a measurement: no user's.
    TestData,
}

impl Cover {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Cover::Public => "public",
            Cover::Uniform | Cover::Points => "masked",
            Cover::Ciphertexts => "masked, public headers",
            Cover::CardThenUniform => "public card, masked rest",
            Cover::Dealt => "random",
            Cover::Answer => "the answer",
            Cover::GivenAway => "given away",
            Cover::TestData => "random data",
        }
    }
}

/// One kind of message.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Its tag on the wire.
    pub tag: u16,
    /// What it is.
    pub name: &'static str,
    /// The crate that sends it.
    pub owner: &'static str,
    /// From whom to whom.
    pub ways: &'static [(End, End)],
    /// When. Empty: no command sends it.
    pub phases: &'static [MessagePhase],
    /// In which sessions.
    pub sessions: Sessions,
    /// Lengths.
    pub size: Size,
    /// The length of a payload, as a formula.
    pub formula: &'static str,
    /// How it is hidden.
    pub cover: Cover,
    /// By what, or why it need not be.
    pub mask: &'static str,
    /// Tests of this message alone: views, and attacks that succeed when a mask is left out.
    pub tests: &'static [&'static str],
}

impl Message {
    /// What most messages of a crate have in common, for the entries of its list to begin with (`..`):
    /// between client and server, in all sessions, of any length, under masks. Tag, name, formula and mask
    /// are the entry's own.
    pub const fn masked(owner: &'static str, phases: &'static [MessagePhase]) -> Self {
        let (ways, sessions, size, cover) = (ways::BOTH, Sessions::All, Size::ANY, Cover::Uniform);
        Self { tag: 0, name: "", owner, ways, phases, sessions, size, formula: "", cover, mask: "", tests: &[] }
    }

    /// From whom to whom, with an arrow; with two heads where it goes both ways.
    pub fn way(&self) -> String {
        let one = |&(from, to): &(End, End)| match self.ways.contains(&(to, from)) {
            true if from > to => None,
            true => Some(format!("{} <-> {}", from.name(), to.name())),
            false => Some(format!("{} -> {}", from.name(), to.name())),
        };
        self.ways.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// When, in words.
    pub fn phase(&self) -> String {
        let names: Vec<_> = self.phases.iter().map(|p| p.name()).collect();
        if names.is_empty() { "never".into() } else { names.join(", ") }
    }
}
