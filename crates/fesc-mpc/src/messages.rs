//! The messages of this crate: their tags, and what each is.

use fesc_net::message::MessagePhase::{Offline, Online, Setup};
use fesc_net::message::ways::{ASKING, DEALING, DOWN};
use fesc_net::message::{Cover, Message, Sessions, Size};

/// Tags: from 0x0301 on those of the online protocols, from 0x0401 on those of the dealer and of stores, from
/// 0x0410 on those of the two-party generator.
pub(crate) mod tag {
    use fesc_net::Tag;

    pub const OPEN: Tag = Tag(0x0301);
    pub const MASKED: Tag = Tag(0x0302);
    pub const WRAP: Tag = Tag(0x0303);
    pub const DIGITS: Tag = Tag(0x0304);
    pub const LEAVES: Tag = Tag(0x0305);
    pub const AND: Tag = Tag(0x0306);
    pub const SELECT: Tag = Tag(0x0307);
    pub const DABIT: Tag = Tag(0x0308);
    pub const CHOICE: Tag = Tag(0x0309);
    pub const CHOSEN: Tag = Tag(0x030a);

    pub const ASK_LENGTH: Tag = Tag(0x0401);
    pub const ASK: Tag = Tag(0x0402);
    pub const HALF: Tag = Tag(0x0403);
    pub const SYNC: Tag = Tag(0x0404);

    pub const CORRECTION: Tag = Tag(0x0410);
    pub const CHOICES: Tag = Tag(0x0411);
}

const ONLINE: Message = Message::masked("fesc-mpc", &[Online]);
const OFFLINE: Message = Message::masked("fesc-mpc", &[Offline]);
const DEALT: Message = Message { sessions: Sessions::Dealer, ..OFFLINE };
const MADE: Message = Message { sessions: Sessions::Generator, ..OFFLINE };

/// All messages of this crate, by tag.
pub const MESSAGES: &[Message] = &[
    Message {
        tag: tag::OPEN.0,
        name: "the answer",
        ways: DOWN,
        formula: "6 (label), or ceil(n l / 8) for n logits of l bits",
        cover: Cover::Answer,
        mask: "none: a share of the output, which the client alone learns; exactly floored",
        tests: &[
            "the_exact_floor_gives_nothing_away_from_a_border",
            "a_share_rounded_by_its_owner_gives_the_head_away",
        ],
        ..ONLINE
    },
    Message {
        tag: tag::MASKED.0,
        name: "operands of products",
        formula: "ceil(n l / 8)",
        mask: "a mask of the bundle, for this tensor alone",
        tests: &["multiply", "square_and_matmul", "a_product_of_a_product", "a_mask_used_twice_shows_the_difference"],
        ..ONLINE
    },
    Message {
        tag: tag::WRAP.0,
        name: "top bits of truncations",
        size: Size::WORDS,
        formula: "8 ceil(n / 64)",
        mask: "random bits of the bit products",
        tests: &["truncate_and_extend"],
        ..ONLINE
    },
    Message {
        tag: tag::DIGITS.0,
        name: "digits of comparisons, and the tensor that is selected on",
        formula: "24 w for each digit of w words of 64 elements, and ceil(n l / 8)",
        mask: "random digits of the leaves; the mask of the selection",
        tests: &["compare", "arg_max_and_silu"],
        ..ONLINE
    },
    Message {
        tag: tag::LEAVES.0,
        name: "leaves of comparisons",
        size: Size::Multiple { of: 7, plus: 0, most: Size::MOST },
        formula: "7/8 byte for each leaf and plane",
        mask: "pads of 1-of-8 transfers, of which the receiver has one",
        tests: &["compare", "arg_max_and_silu"],
        ..ONLINE
    },
    Message {
        tag: tag::AND.0,
        name: "operands of ANDs",
        size: Size::WORDS,
        formula: "8 bytes for each operand and word of 64 elements",
        mask: "random bits of the AND triples",
        tests: &["compare", "arg_max_and_silu"],
        ..ONLINE
    },
    Message {
        tag: tag::SELECT.0,
        name: "bits of selections, and the tensor of a mux",
        formula: "8 k ceil(n / 64), and ceil(n l / 8) for a mux",
        mask: "daBits; the mask of the selection",
        tests: &["mux_and_dabit", "arg_max_and_silu"],
        ..ONLINE
    },
    Message {
        tag: tag::DABIT.0,
        name: "bits to be made arithmetic",
        sessions: Sessions::Logits,
        size: Size::WORDS,
        formula: "8 ceil(n / 64)",
        mask: "daBits",
        tests: &["mux_and_dabit"],
        ..ONLINE
    },
    Message {
        tag: tag::CHOICE.0,
        name: "bits of muxes by transfers",
        sessions: Sessions::Folded,
        size: Size::WORDS,
        formula: "8 k ceil(n / 64)",
        mask: "random choices of transfers, one for each use of a bit",
        tests: &["mux_by_transfers", "folded_silu", "a_transfer_for_two_muxes_shows_their_difference"],
        ..ONLINE
    },
    Message {
        tag: tag::CHOSEN.0,
        name: "values of muxes by transfers",
        sessions: Sessions::Folded,
        formula: "ceil(k n l / 8)",
        mask: "offsets of transfers: the receiver knows the pad of one choice, and nothing of the offset",
        tests: &["mux_by_transfers", "folded_silu", "a_transfer_for_two_muxes_shows_their_difference"],
        ..ONLINE
    },
    Message {
        tag: tag::ASK_LENGTH.0,
        name: "length of a request",
        ways: ASKING,
        size: Size::Exact(4),
        formula: "4",
        cover: Cover::Public,
        mask: "public: the schedule",
        tests: &["the_dealer_and_its_clients_survive_garbage"],
        ..DEALT
    },
    Message {
        tag: tag::ASK.0,
        name: "request for a correlation",
        ways: ASKING,
        formula: "as the message before says",
        cover: Cover::Public,
        mask: "public: kind and shape of the next correlation, as the schedule has it",
        tests: &["the_dealer_and_its_clients_survive_garbage"],
        ..DEALT
    },
    Message {
        tag: tag::HALF.0,
        name: "half of a correlation",
        ways: DEALING,
        formula: "16 + the fields that no seed gives",
        cover: Cover::Dealt,
        mask: "none needed: a fresh seed, and what goes with the other half; no input goes in",
        tests: &["masks_of_real_providers_are_random_and_unrelated"],
        ..DEALT
    },
    Message {
        tag: tag::SYNC.0,
        name: "where two stores stand",
        sessions: Sessions::Prepared,
        phases: &[Setup],
        size: Size::Exact(48),
        formula: "32 + 8 + 8",
        cover: Cover::Public,
        mask: "public: the store's id, how many correlations it has and how many are used",
        tests: &["stores_refuse_strangers_damage_and_a_second_user"],
        ..ONLINE
    },
    Message {
        tag: tag::CORRECTION.0,
        name: "corrections of correlations",
        formula: "l - 1 bits (daBits), l bits (bit products, selections), l (l + 1) / 2 bits (products) for each element",
        mask: "the pad of a random OT that the receiver lacks",
        tests: &["the_unknown_pad_makes_the_mask_uniform", "masks_of_real_providers_are_random_and_unrelated"],
        ..MADE
    },
    Message {
        tag: tag::CHOICES.0,
        name: "choices of products",
        formula: "ceil(n l / 8)",
        mask: "the random choices of OT; what is under them is a share of a mask",
        tests: &["masks_of_real_providers_are_random_and_unrelated"],
        ..MADE
    },
];
