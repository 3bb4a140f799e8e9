//! A faulty or hostile peer: every case ends in an error, none in a panic or a hang.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use fesc_net::Channel;

use super::support::{both, prg};
use crate::messages::{TAG_BASE_A, TAG_BASE_B, TAG_IKNP};
use crate::{CotKind, OtError, OtReceiver, OtSender, SilentParams};

const FIRST: usize = 48;
const SECOND: usize = 128 * 32 + 16;

fn good_point() -> [u8; 32] {
    RISTRETTO_BASEPOINT_POINT.compress().to_bytes()
}

/// The OT sender's set-up against a peer that sends these bytes first.
fn sender_meets(first: Vec<u8>) -> Result<(), OtError> {
    both(
        |ch| OtSender::setup(ch, CotKind::Iknp, &mut prg(1)).map(drop),
        |ch: &mut Channel| {
            ch.send(TAG_BASE_A, first).unwrap();
            let _ = ch.recv(TAG_BASE_B, SECOND);
        },
    )
    .0
}

/// The OT receiver's set-up against a peer that answers with these bytes, made from the receiver's first
/// message.
fn receiver_meets(answer: impl FnOnce(&[u8]) -> Vec<u8> + Send) -> Result<(), OtError> {
    both(
        |ch| OtReceiver::setup(ch, CotKind::Iknp, &mut prg(1)).map(drop),
        |ch: &mut Channel| {
            let first = ch.recv(TAG_BASE_A, FIRST).unwrap();
            ch.send(TAG_BASE_B, answer(&first)).unwrap();
        },
    )
    .0
}

#[test]
fn bad_first_points_are_refused() {
    let with = |p: [u8; 32]| [&p[..], &[7; 16]].concat();
    assert!(sender_meets(with(good_point())).is_ok());
    for (bytes, what) in
        [([0u8; 32], "the identity"), ([0xff; 32], "not a Ristretto point"), ([1; 32], "not a Ristretto point")]
    {
        match sender_meets(with(bytes)) {
            Err(OtError::Point { index: 0, what: got }) => assert_eq!(got, what),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for len in [0, 1, FIRST - 1, FIRST + 1, 1 << 20] {
        assert!(matches!(sender_meets(vec![3; len]), Err(OtError::Net(_))), "{len}");
    }
    for len in [0, SECOND - 1, SECOND + 1] {
        assert!(matches!(receiver_meets(|_| vec![3; len]), Err(OtError::Net(_))), "{len}");
    }
}

#[test]
fn bad_answers_are_refused_with_their_index() {
    let good = || (0..128).flat_map(|_| good_point()).chain([9; 16]).collect::<Vec<u8>>();
    assert!(receiver_meets(|_| good()).is_ok());
    for index in [0usize, 1, 127] {
        for bad in [[0u8; 32], [0xff; 32]] {
            let mut bytes = good();
            bytes[32 * index..32 * index + 32].copy_from_slice(&bad);
            assert!(matches!(receiver_meets(|_| bytes), Err(OtError::Point { index: i, .. }) if i == index));
        }
        // The receiver's own point sent back would make one key public.
        let echo = |first: &[u8]| {
            let mut bytes = good();
            bytes[32 * index..32 * index + 32].copy_from_slice(&first[..32]);
            bytes
        };
        assert!(matches!(receiver_meets(echo), Err(OtError::Point { index: i, .. }) if i == index));
    }
}

/// Flipping any bit of a point either breaks the encoding or gives another point; neither panics.
#[test]
fn flipped_bits_never_panic() {
    let (mut refused, mut other) = (0, 0);
    for bit in 0..256 {
        let mut bytes = good_point();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match crate::base::point(&bytes, bit) {
            Err(OtError::Point { index, .. }) => {
                assert_eq!(index, bit);
                refused += 1;
            }
            Err(e) => panic!("{e}"),
            Ok(_) => other += 1,
        }
    }
    assert!(refused > 100 && other > 0, "{refused} refused, {other} other points");
    assert!(matches!(crate::base::point(&[0; 31], 5), Err(OtError::Point { index: 5, .. })));
}

#[test]
fn a_peer_that_leaves_ends_the_call() {
    let left = both(|ch| OtSender::setup(ch, CotKind::Silent, &mut prg(1)).map(drop), |_ch| ()).0;
    assert!(matches!(left, Err(OtError::Net(_))));
    let left = both(|ch| OtReceiver::setup(ch, CotKind::Silent, &mut prg(1)).map(drop), |_ch| ()).0;
    assert!(matches!(left, Err(OtError::Net(_))));
    // After the base OTs, in the middle of the bootstrap, and later in a refill.
    let left = both(
        |ch| OtReceiver::setup(ch, CotKind::Silent, &mut prg(1)).map(drop),
        |ch| OtSender::setup(ch, CotKind::Iknp, &mut prg(2)).map(drop),
    );
    assert!(left.1.is_ok());
    assert!(matches!(left.0, Err(OtError::Net(_))));
    let left = both(
        |ch| OtSender::setup(ch, CotKind::Iknp, &mut prg(1)).unwrap().random(ch, 10).map(drop),
        |ch| OtReceiver::setup(ch, CotKind::Iknp, &mut prg(2)).map(drop),
    );
    assert!(matches!(left.0, Err(OtError::Net(_))));
}

/// A build with the sets before they were raised: their frames have other lengths, so that set-up fails on
/// both sides. (No digest of the sets is exchanged here; sets with equal frames would have to be told apart
/// by the caller.)
#[test]
fn a_peer_with_the_former_sets_is_refused_at_set_up() {
    let former = SilentParams::former_for_tests();
    let ended = both(
        |ch| OtSender::setup(ch, CotKind::Silent, &mut prg(1)).map(drop),
        |ch| OtReceiver::setup_with(ch, CotKind::Silent, &former, &mut prg(2)).map(drop),
    );
    assert!(matches!(ended, (Err(OtError::Net(_)), Err(OtError::Net(_)))), "{ended:?}");
    let ended = both(
        |ch| OtSender::setup_with(ch, CotKind::Silent, &former, &mut prg(1)).map(drop),
        |ch| OtReceiver::setup(ch, CotKind::Silent, &mut prg(2)).map(drop),
    );
    assert!(matches!(ended, (Err(OtError::Net(_)), Err(OtError::Net(_)))), "{ended:?}");
}

#[test]
fn a_wrong_extension_message_is_refused() {
    let left = both(
        |ch| OtSender::setup(ch, CotKind::Iknp, &mut prg(1)).unwrap().random(ch, 64).map(drop),
        |ch| {
            let r = OtReceiver::setup(ch, CotKind::Iknp, &mut prg(2)).map(drop);
            ch.send(TAG_IKNP, vec![0; 127 * 8 - 1]).unwrap();
            r
        },
    );
    assert!(matches!(left.0, Err(OtError::Net(_))));
}

#[test]
fn absurd_counts_and_short_choices_are_refused() {
    let ring = fesc_ring::Ring::new(8).unwrap();
    both(
        |ch| {
            let mut s = OtSender::setup(ch, CotKind::Iknp, &mut prg(1)).unwrap();
            assert!(matches!(s.random_1of8(ch, usize::MAX), Err(OtError::TooMany { .. })));
        },
        |ch| {
            let mut r = OtReceiver::setup(ch, CotKind::Iknp, &mut prg(2)).unwrap();
            assert!(matches!(r.random_1of8(ch, usize::MAX / 2), Err(OtError::TooMany { .. })));
            assert!(matches!(r.receive_chosen(ch, ring, &[0], 65), Err(OtError::Length { got: 1, expected: 2, .. })));
        },
    );
}
