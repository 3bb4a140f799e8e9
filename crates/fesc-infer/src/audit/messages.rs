//! The lists of [`super`]: those of the crates below, the program's measurements, and this crate's own.

use fesc_net::message::MessagePhase::{Measurement, Offline, Online, Setup, Verify};
use fesc_net::message::ways::{DOWN, TALKING, UP};
use fesc_net::message::{Cover, Message, Size};

/// By crate; the tags ascend.
const LISTS: [&[Message]; 7] = [
    fesc_net::MESSAGES,
    fesc_ot::MESSAGES,
    fesc_mpc::MESSAGES,
    fesc_rlwe::MESSAGES,
    MEASUREMENTS,
    OWN,
    fesc_hybrid::MESSAGES,
];

/// All messages that the program can send, by tag.
pub fn messages() -> impl Iterator<Item = &'static Message> + Clone {
    LISTS.into_iter().flatten()
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

const ONLINE: Message = Message::masked("fesc-infer", &[Online]);
const PUBLIC: Message = Message { cover: Cover::Public, ..Message::masked("fesc-infer", &[Setup]) };

/// The messages of this crate: stages from 0x0601 on, sessions from 0x0680 on.
const OWN: &[Message] = &[
    Message {
        tag: 0x0601,
        name: "blocks of linear layers",
        ways: UP,
        size: Size::Multiple { of: 6, plus: 6 * 2048, most: Size::MOST },
        formula: "6 (N + m T), N = 2048, m features, T tokens of the block",
        mask: "RLWE: a s + e under a fresh secret for each block and matrix",
        tests: &["blocks_without_pads_give_the_input_away", "one_secret_for_two_blocks_gives_their_difference_away"],
        ..ONLINE
    },
    Message {
        tag: 0x0602,
        name: "queries to the table",
        ways: UP,
        size: Size::Multiple { of: 6, plus: 0, most: Size::MOST },
        formula: "6 n (N + d), N = 2048, n tokens (at most 64), d values of a row",
        mask: "a fresh encryption of zero for each token, and a uniform mask on the row",
        tests: &[
            "a_query_without_its_encryption_of_zero_names_the_token",
            "a_row_without_its_mask_is_recognised",
            "a_mask_on_the_message_alone_is_not_enough",
            "one_r_for_two_tokens_names_the_pair",
        ],
        ..ONLINE
    },
    Message {
        tag: 0x0680,
        name: "length of a message of the handshake",
        ways: TALKING,
        size: Size::Exact(4),
        formula: "4",
        mask: "public, as the message is",
        tests: &["both_ends_hash_what_was_said"],
        ..PUBLIC
    },
    Message {
        tag: 0x0681,
        name: "message of the handshake",
        ways: TALKING,
        size: Size::AtMost(65_536),
        formula: "as the message before says, at most 64 KiB",
        mask: "public: nonces, model id, digest of the outline, bucket, what is revealed, provider, limits, names and digests of keys, refusals",
        tests: &["both_ends_hash_what_was_said", "another_handshake_is_refused"],
        ..PUBLIC
    },
    Message {
        tag: 0x0682,
        name: "hash of the handshake",
        size: Size::Exact(32),
        formula: "32",
        mask: "public, as the handshake is",
        tests: &["both_ends_hash_what_was_said", "another_handshake_is_refused"],
        ..PUBLIC
    },
    Message {
        tag: 0x0683,
        name: "pieces of the model's public part",
        ways: DOWN,
        size: Size::AtMost(1 << 20),
        formula: "2^20, the last piece less",
        cover: Cover::CardThenUniform,
        mask: "card public (outline, tokenizer); hints and table: RLWE under the server's secrets; a table that its operator made public: none",
        tests: &["hint_without_its_mask_gives_the_weights_away", "one_mask_for_two_models_gives_their_difference_away"],
        ..PUBLIC
    },
    Message {
        tag: 0x0684,
        name: "pieces were taken",
        ways: UP,
        size: Size::Exact(0),
        formula: "0, after every 32 pieces",
        mask: "empty",
        ..PUBLIC
    },
    Message {
        tag: 0x0685,
        name: "a store is whole",
        phases: &[Offline],
        size: Size::Exact(32),
        formula: "32",
        mask: "public: the store's id, a hash of model id, bucket and nonces",
        tests: &["prepared_sessions_have_names_of_their_own"],
        ..PUBLIC
    },
    Message {
        tag: 0x0686,
        name: "shares for --verify",
        ways: DOWN,
        phases: &[Verify],
        formula: "6 n; the stream of each layer and of the end, all that enters and leaves circuits under CKKS",
        cover: Cover::GivenAway,
        mask: "none: the server runs with --insecure-verify, for an operator who has both sides",
        tests: &["a_server_refuses_what_it_does_not_offer"],
        ..ONLINE
    },
    Message {
        tag: 0x0687,
        name: "a store is kept",
        phases: &[Offline],
        size: Size::Exact(0),
        formula: "0",
        mask: "empty",
        ..PUBLIC
    },
    Message {
        tag: 0x0688,
        name: "the session's keys are ready, or kept",
        size: Size::Exact(0),
        formula: "0, from the server when it has them; each way when a session has ended well, if they are kept",
        mask: "empty",
        tests: &["keys_go_up_once_and_serve_the_next_session"],
        ..PUBLIC
    },
];
