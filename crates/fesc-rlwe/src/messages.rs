//! The messages of this crate: their tags, and what each is. Blocks of linear layers and queries to a table
//! are sent by whoever runs those protocols.

use fesc_net::message::MessagePhase::{Offline, Setup};
use fesc_net::message::{Message, Sessions, Size};

/// Tags of the two-party generation of products.
pub(crate) mod tag {
    use fesc_net::Tag;

    pub const SLOTS_KEY: Tag = Tag(0x0420);
    pub const SLOTS_UPLOAD: Tag = Tag(0x0421);
    pub const SLOTS_ANSWER: Tag = Tag(0x0422);
    pub const SCALAR_KEY: Tag = Tag(0x0423);
    pub const SCALAR_UPLOAD: Tag = Tag(0x0424);
    pub const SCALAR_ANSWER: Tag = Tag(0x0425);
}

/// A seed and 16384 residues of so many bits as the parameters have, at most 430 at this degree.
const SLOTS: Size = Size::Multiple { of: 2048, plus: 16, most: 16 + 2048 * 430 };

const MASKED: Message = Message { sessions: Sessions::Generator, ..Message::masked("fesc-rlwe", &[Offline]) };

/// All messages of this crate, by tag.
pub const MESSAGES: &[Message] = &[
    Message {
        tag: tag::SLOTS_KEY.0,
        name: "public key of the slots engine",
        phases: &[Setup],
        size: SLOTS,
        formula: "16 + N log2(q) / 8, N = 16384",
        mask: "RLWE: a s + e, the seed of a before it",
        tests: &["nothing_is_reused"],
        ..MASKED
    },
    Message {
        tag: tag::SLOTS_UPLOAD.0,
        name: "encrypted operands, slots engine",
        size: SLOTS,
        formula: "16 + N log2(q) / 8, N = 16384",
        mask: "RLWE: a s + e under a fresh a; what is under it is a share of a mask",
        tests: &["nothing_is_reused"],
        ..MASKED
    },
    Message {
        tag: tag::SLOTS_ANSWER.0,
        name: "answers, slots engine",
        size: SLOTS,
        formula: "16 + N log2(q') / 8, N = 16384",
        mask: "a fresh encryption of zero, and a uniform mask on every slot",
        tests: &[
            "without_the_encryption_of_zero_the_multiplier_is_found",
            "without_the_mask_the_operand_is_read",
            "a_mask_on_the_message_alone_shows_the_noise",
            "the_phase_is_uniform",
            "nothing_is_reused",
        ],
        ..MASKED
    },
    Message {
        tag: tag::SCALAR_KEY.0,
        name: "public keys of the coefficients engine",
        phases: &[Setup],
        size: Size::Exact(crate::coefficients::KEY_BYTES),
        formula: "16 + 8 N, N = 4096, and the automorphism keys",
        mask: "RLWE: a s + e under fresh a, for every automorphism too (circular security)",
        tests: &["keys_look_uniform", "keys_have_errors_of_the_stated_size"],
        ..MASKED
    },
    Message {
        tag: tag::SCALAR_UPLOAD.0,
        name: "encrypted random vectors, coefficients engine",
        size: Size::Multiple { of: 16, plus: 0, most: Size::MOST },
        formula: "16 + N (52 - log2 f) / 8 for each ciphertext, N = 4096, f results to an answer",
        mask: "RLWE: the low bits of a fresh a s + e; its high bits are the message, a share of a mask",
        tests: &["random_messages_are_uniform_beside_what_is_sent", "two_encryptions_share_nothing"],
        ..MASKED
    },
    Message {
        tag: tag::SCALAR_ANSWER.0,
        name: "answers, coefficients engine",
        size: Size::Multiple { of: crate::coefficients::RESPONSE_BYTES, plus: 0, most: Size::MOST },
        formula: "16 + 7 N for each ciphertext, N = 4096",
        mask: "a fresh encryption of zero, and a uniform mask on every coefficient, after packing",
        tests: &[
            "without_the_zero_encryption_the_scalars_are_read_off",
            "without_the_mask_the_phase_tells_the_operand",
            "packed_answers_tell_no_more_than_others",
        ],
        ..MASKED
    },
];
