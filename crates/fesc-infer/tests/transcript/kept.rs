//! The same of two sessions under one client's kept keys: the one that uploads them, and the one that uses
//! them again.

use std::collections::BTreeSet;

use fesc_infer::audit::Cover;
use fesc_infer::{Reveal, Schedule};

use super::wire::{Mode, kept_sessions};
use super::{ENCRYPTED, TOKENS, bytes, check_kinds, check_masks, check_sizes, documents, independent, known, model_of};

/// Keys: the public one, evaluation keys.
const KEYS: [u16; 2] = [0x0705, 0x0706];

/// The tags of the first session, or of a later one: no keys, nor the model's public part.
fn expected(session: usize) -> BTreeSet<u16> {
    let mut tags = super::expected(Mode::Dealer, Reveal::Label, false, &ENCRYPTED);
    if session > 0 {
        tags.retain(|tag| !KEYS.contains(tag) && *tag != 0x0683);
    }
    tags
}

#[test]
fn every_message_is_known_and_masked_with_kept_keys() {
    let setup = model_of(5, ENCRYPTED);
    let schedule = Schedule::new(setup.outline().unwrap(), TOKENS, Reveal::Label).unwrap();
    let [first, second] = documents().map(|ids| {
        let sessions = kept_sessions(model_of(5, ENCRYPTED), &ids, Reveal::Label);
        assert_eq!(
            sessions.each_ref().map(|s| (s.finished.keys.reused, s.finished.keys.kept)),
            [(false, true), (true, true)]
        );
        for (n, session) in sessions.iter().enumerate() {
            let frames = &session.frames;
            check_kinds(Mode::Dealer, frames, &expected(n));
            check_sizes(Mode::Dealer, session, &schedule);
            check_masks(Mode::Dealer, frames);
            assert_eq!(frames.iter().filter(|f| known(f).cover == Cover::Answer).count(), 1);
            // Declared and counted: all keys in the first session, none in the second.
            let keys = bytes(frames.iter().filter(|f| KEYS.contains(&f.tag)));
            assert_eq!([keys, session.finished.keys.sent_bytes], [(1 - n as u64) * schedule.keys().bytes(); 2]);
        }
        // Both sessions encrypt under one secret key: never with the same randomness.
        let all: Vec<_> = sessions.iter().flat_map(|s| s.frames.clone()).collect();
        let covered = |tag: u16| KEYS.contains(&tag) || (0x0701..=0x0704).contains(&tag);
        let ciphertexts: Vec<_> = all.iter().filter(|f| covered(f.tag)).map(|f| &f.payload).collect();
        let distinct: BTreeSet<_> = ciphertexts.iter().collect();
        assert_eq!(distinct.len(), ciphertexts.len(), "a ciphertext or key comes twice");
        sessions
    });
    for (first, second) in first.iter().zip(&second) {
        independent(Mode::Dealer, &first.frames, &second.frames);
    }
}
