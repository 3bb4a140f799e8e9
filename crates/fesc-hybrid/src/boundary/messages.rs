//! The messages of the share boundary and of its keys: their tags, and what each is.

use fesc_net::message::MessagePhase::{self, Online, Setup};
use fesc_net::message::ways::{DOWN, UP};
use fesc_net::message::{Cover, Message, Sessions, Size};

/// Tags of the share boundary.
pub(crate) mod tag {
    use fesc_net::Tag;

    pub const MASKED: Tag = Tag(0x0701);
    pub const UPLOADS: Tag = Tag(0x0702);
    pub const AHEAD: Tag = Tag(0x0703);
    pub const DELTA: Tag = Tag(0x0704);
    pub const PUBLIC_KEY: Tag = Tag(0x0705);
    pub const EVALUATION_KEY: Tag = Tag(0x0706);
    pub const NAME: Tag = Tag(0x0707);
}

/// Of a batch of ciphertexts or of a key: the header has what both parties know, and a fresh seed.
const fn ciphertexts(phases: &'static [MessagePhase]) -> Message {
    let sessions = Sessions::Ckks;
    Message { ways: UP, cover: Cover::Ciphertexts, sessions, ..Message::masked("fesc-hybrid", phases) }
}

/// All messages of this crate, by tag. Sessions whose plan has kernels under encryption send them, as does
/// `fesc bench boundary`; uploads made ahead (the third, fourth and last) no command sends so far.
pub const MESSAGES: &[Message] = &[
    Message {
        tag: tag::MASKED.0,
        name: "masked ciphertexts",
        ways: DOWN,
        formula: "72 + N log2(q) / 4 for each of at most 16 ciphertexts",
        mask: "a fresh encryption of zero (RLWE), and on every coefficient a bounded mask, within 2^-40 an inference; headers are the plan's",
        tests: &[
            "a_boundary_without_the_fresh_zero_gives_the_weights_away_and_with_it_not",
            "a_zero_that_is_used_again_gives_the_weights_away_and_a_fresh_one_does_not",
            "a_narrow_mask_is_noticed_at_the_boundary",
            "headers_have_the_scale_of_the_plan_whatever_was_computed",
            "what_comes_back_encrypted_is_rerandomised_by_the_server",
        ],
        ..ciphertexts(&[Online])
    },
    Message {
        tag: tag::UPLOADS.0,
        name: "encrypted parts of shared values",
        formula: "72 + N log2(q) / 8 for each of at most 16 ciphertexts",
        mask: "RLWE: a s + e under a fresh a; what is under it is a share, which may depend on s by what was decrypted before (KDM); headers are the plan's",
        tests: &[
            "uploads_without_noise_or_key_are_noticed",
            "a_phase_out_of_range_changes_nothing_that_the_client_sends",
        ],
        ..ciphertexts(&[Online])
    },
    Message {
        tag: tag::AHEAD.0,
        name: "encrypted parts, made ahead",
        formula: "72 + N log2(q) / 8 for each of at most 16 ciphertexts",
        mask: "RLWE: a s + e under a fresh a; what is under it is random; headers are the plan's",
        tests: &["one_random_part_for_two_values_gives_their_difference_away"],
        ..ciphertexts(&[])
    },
    Message {
        tag: tag::DELTA.0,
        name: "shares less the parts made ahead",
        ways: UP,
        formula: "16 + 8 n + ceil(n (k - 64) / 8), integers modulo 2^k",
        mask: "a random integer modulo 2^k for each value, used once; before them the name of the uploads",
        tests: &[
            "differences_are_uniform_for_extreme_shares_and_integer_differences_are_not",
            "one_random_part_for_two_values_gives_their_difference_away",
            "halves_of_two_pairs_are_refused_and_would_leave_every_bound",
        ],
        ..Message::masked("fesc-hybrid", &[])
    },
    Message {
        tag: tag::PUBLIC_KEY.0,
        name: "the client's public key",
        formula: "72 + N log2(Q P) / 8",
        mask: "RLWE: a s + e under a fresh a; the header is public",
        tests: &["keys_arrive_and_their_bytes_are_those_declared"],
        ..ciphertexts(&[Setup])
    },
    Message {
        tag: tag::EVALUATION_KEY.0,
        name: "an evaluation key of the client's",
        formula: "72 + digits N log2(Q P) / 8",
        mask: "RLWE with circular security: a s + e under a fresh a, plus a multiple of s^2 or of a rotated s; the header is public",
        tests: &["keys_arrive_and_their_bytes_are_those_declared", "keys_of_another_plan_are_refused"],
        ..ciphertexts(&[Setup])
    },
    Message {
        tag: tag::NAME.0,
        name: "name of uploads made ahead",
        ways: UP,
        size: Size::Exact(16),
        formula: "16",
        cover: Cover::Public,
        mask: "public: a nonce",
        tests: &["halves_of_two_pairs_are_refused_and_would_leave_every_bound"],
        ..Message::masked("fesc-hybrid", &[])
    },
];
