//! The messages of oblivious transfer: their tags, and what each is.

use fesc_net::Tag;
use fesc_net::message::MessagePhase::{Offline, Setup};
use fesc_net::message::{Cover, Message, Sessions, Size};

pub(crate) const TAG_BASE_A: Tag = Tag(0x0200);
pub(crate) const TAG_BASE_B: Tag = Tag(0x0201);
pub(crate) const TAG_IKNP: Tag = Tag(0x0202);
pub(crate) const TAG_TREES: Tag = Tag(0x0203);
pub(crate) const TAG_FLIPS: Tag = Tag(0x0204);
pub(crate) const TAG_CHOSEN: Tag = Tag(0x0205);
pub(crate) const TAG_CORRELATED: Tag = Tag(0x0206);

const MASKED: Message = Message { sessions: Sessions::Generator, ..Message::masked("fesc-ot", &[Setup]) };

/// All messages of this crate, by tag.
pub const MESSAGES: &[Message] = &[
    Message {
        tag: TAG_BASE_A.0,
        name: "base transfers, first point",
        size: Size::Exact(48),
        formula: "32 + 16",
        cover: Cover::Points,
        mask: "a fresh scalar: a random point; a nonce",
        tests: &["bad_first_points_are_refused"],
        ..MASKED
    },
    Message {
        tag: TAG_BASE_B.0,
        name: "base transfers, 128 points",
        size: Size::Exact(4112),
        formula: "128 32 + 16",
        cover: Cover::Points,
        mask: "a fresh scalar each: a random point whatever the bit is; a nonce",
        tests: &["base_points_hide_the_choices"],
        ..MASKED
    },
    Message {
        tag: TAG_IKNP.0,
        name: "IKNP columns",
        size: Size::Multiple { of: 1016, plus: 0, most: 260_096 },
        formula: "127 n / 8, n = 64, 128, .. 16384 transfers",
        mask: "the stream of the base key that the OT sender lacks",
        tests: &["iknp_message_hides_the_choices"],
        ..MASKED
    },
    Message {
        tag: TAG_TREES.0,
        name: "trees of silent OT",
        phases: &[Setup, Offline],
        size: Size::Multiple { of: 16, plus: 0, most: 9216 },
        formula: "16 h for each tree of h levels (8 or 9), at most 64 trees",
        mask: "hashes of correlated OT, one for each level",
        tests: &["tree_messages_are_balanced"],
        ..MASKED
    },
    Message {
        tag: TAG_FLIPS.0,
        name: "choices of chosen OT",
        phases: &[],
        formula: "ceil(n / 8)",
        mask: "the random choices of the transfers",
        tests: &["corrections_hide_the_choices"],
        ..MASKED
    },
    Message {
        tag: TAG_CHOSEN.0,
        name: "messages of chosen OT",
        phases: &[],
        formula: "ceil(2 n l / 8)",
        mask: "both pads of the transfer, of which the receiver has one",
        tests: &["delta_is_recovered_from_raw_pads_and_not_from_hashed_ones"],
        ..MASKED
    },
    Message {
        tag: TAG_CORRELATED.0,
        name: "corrections of correlated OT",
        phases: &[],
        formula: "ceil(n l / 8)",
        mask: "the pad of the transfer that the receiver lacks",
        tests: &["delta_is_recovered_from_raw_pads_and_not_from_hashed_ones"],
        ..MASKED
    },
];
