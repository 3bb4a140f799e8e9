//! Known answers: what two parties with fixed seeds say to each other, in all four ways of making
//! correlations.
//!
//! A change of the code that is meant to leave the protocol alone leaves these digests alone. One that
//! changes what is sent changes them, knowingly: prepared correlations of older builds do not fit then, so
//! `session::hello` must change too. Left out are the handshake and what carries a session's name: they say
//! which session it is, not what it computes.

use fesc_infer::Reveal;
use fesc_infer::session::Randomness;
use fesc_ring::Prg;
use sha2::{Digest, Sha256};

use super::common::document;
use super::wire::{Mode, session_with};
use super::{lines, model};

/// The agreement of two stores has the session's name in it.
const AGREEMENT: u16 = 0x0404;
/// Tags of sessions, from here on.
const SESSION: u16 = 0x0680;

/// Every connection gets the same generator, in whichever order connections come.
fn same(seed: u8) -> Randomness {
    Randomness::from_source(move || Ok(Prg::from_seed([seed; 16])))
}

fn digest(mode: Mode, reveal: Reveal) -> String {
    let transcript = session_with(model(5), &document(77, 3), reveal, mode, false, &[21, 22, 23].map(same));
    let of_protocol = |tag: u16| tag != 0x0100 && tag != AGREEMENT && tag < SESSION;
    let mut hash = Sha256::new();
    for (((from, to), connection), sent) in lines(&transcript.frames, |kind| of_protocol(kind.tag)) {
        hash.update(format!("{from:?} to {to:?} on {connection}: {} messages", sent.len()));
        for (tag, payload) in sent {
            hash.update(tag.to_le_bytes());
            hash.update((payload.len() as u64).to_le_bytes());
            hash.update(payload);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn transcripts_with_fixed_seeds_are_what_they_were() {
    for (mode, reveal, known) in [
        (Mode::Inline, Reveal::Label, "95ca9401fe50b6a017fbf086ca48f0088a95e32575e08714e71d9b4b2d6a0b8d"),
        (Mode::Ahead, Reveal::Logits, "77433205c196cf597fdb3e7335cc2a504c72f59958efd01868c83dcb43187d37"),
        (Mode::Prepared, Reveal::Label, "833a9244df5d8f733ef540afdfdf1ade9eb21a528aaf4cd9dde8c73004841fd7"),
        (Mode::Dealer, Reveal::Logits, "e6961422109f6892354181d91fdd674648c6e9a8754d6b98e6606f6e55f7c9c7"),
    ] {
        assert_eq!(digest(mode, reveal), known, "{mode:?}");
    }
}
