//! The lists of [`super`]: those of the crates below, the program's measurements, and this crate's own, which
//! are beside the code that sends.

use fesc_net::message::MessagePhase::Measurement;
use fesc_net::message::{Cover, Message, Size};

use crate::kernels::fast::linear;
use crate::session;
use crate::stage::embed;

/// By crate, but for sessions.
const LISTS: [&[Message]; 8] = [
    fesc_net::MESSAGES,
    fesc_ot::MESSAGES,
    fesc_mpc::MESSAGES,
    fesc_rlwe::MESSAGES,
    fesc_hybrid::MESSAGES,
    MEASUREMENTS,
    linear::MESSAGES,
    embed::MESSAGES,
];

/// All messages that the program can send, by tag.
pub fn messages() -> impl Iterator<Item = &'static Message> + Clone {
    let mut all: Vec<_> = LISTS.into_iter().chain(session::MESSAGES).flatten().collect();
    all.sort_by_key(|message| message.tag);
    all.into_iter()
}

/// A message that only measurements and self-tests send: no user's data is in it.
const fn measured(tag: u16, name: &'static str, size: Size, formula: &'static str, mask: &'static str) -> Message {
    Message { tag, name, size, formula, cover: Cover::TestData, mask, ..Message::masked("fesc", &[Measurement]) }
}

/// The messages of `fesc bench` and `fesc doctor`.
const MEASUREMENTS: &[Message] = &[
    measured(0x0501, "barrier", Size::ANY, "a few bytes", "none: a measurement"),
    measured(0x0502, "opened results", Size::ANY, "ceil(n l / 8)", "none: random inputs, opened to be compared"),
    measured(0x0503, "bulk", Size::ANY, "as asked for", "none: a measurement"),
    measured(0x0504, "ping", Size::ANY, "a few bytes", "none: a measurement"),
    measured(0x0505, "self-test", Size::Exact(1000), "1000", "none: constants between two threads of `fesc doctor`"),
];
