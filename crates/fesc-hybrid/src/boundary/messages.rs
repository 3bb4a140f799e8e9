//! The messages of the share boundary: their tags, and what each is.

use fesc_net::message::ways::{DOWN, UP};
use fesc_net::message::{Cover, Message, Size};

/// Tags of the share boundary.
pub(crate) mod tag {
    use fesc_net::Tag;

    pub const MASKED: Tag = Tag(0x0701);
    pub const UPLOADS: Tag = Tag(0x0702);
    pub const AHEAD: Tag = Tag(0x0703);
    pub const DELTA: Tag = Tag(0x0704);
}

/// All messages of this crate, by tag. No command sends them yet.
pub const MESSAGES: &[Message] = &[
    Message {
        tag: tag::MASKED.0,
        name: "masked ciphertexts",
        owner: "fesc-hybrid",
        ways: DOWN,
        phases: &[],
        size: Size::ANY,
        formula: "72 + N log2(q) / 4 for each ciphertext",
        cover: Cover::Uniform,
        mask: "a fresh encryption of zero, and a bounded mask on every coefficient; headers are public",
        tests: &[
            "a_zero_that_is_used_again_gives_the_weights_away_and_a_fresh_one_does_not",
            "a_narrow_mask_is_noticed_at_the_boundary",
        ],
    },
    Message {
        tag: tag::UPLOADS.0,
        name: "encrypted parts of shared values",
        owner: "fesc-hybrid",
        ways: UP,
        phases: &[],
        size: Size::ANY,
        formula: "72 + N log2(q) / 8 for each ciphertext",
        cover: Cover::Uniform,
        mask: "RLWE: a s + e under a fresh a; what is under it is a share; headers are public",
        tests: &["a_phase_out_of_range_changes_nothing_that_the_client_sends"],
    },
    Message {
        tag: tag::AHEAD.0,
        name: "encrypted parts, made ahead",
        owner: "fesc-hybrid",
        ways: UP,
        phases: &[],
        size: Size::ANY,
        formula: "72 + N log2(q) / 8 for each ciphertext",
        cover: Cover::Uniform,
        mask: "RLWE: a s + e under a fresh a; what is under it is random; headers are public",
        tests: &["one_random_part_for_two_values_gives_their_difference_away"],
    },
    Message {
        tag: tag::DELTA.0,
        name: "shares less the parts made ahead",
        owner: "fesc-hybrid",
        ways: UP,
        phases: &[],
        size: Size::ANY,
        formula: "8 n + ceil(n (k - 64) / 8), integers modulo 2^k",
        cover: Cover::Uniform,
        mask: "a random integer modulo 2^k for each value, used once",
        tests: &[
            "differences_are_uniform_for_extreme_shares_and_integer_differences_are_not",
            "one_random_part_for_two_values_gives_their_difference_away",
        ],
    },
];
