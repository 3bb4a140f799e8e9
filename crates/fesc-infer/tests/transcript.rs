//! An audit of everything that either party receives in a whole run.
//!
//! | tag | what | to | masked by |
//! |---|---|---|---|
//! | 0x0601 | blocks of the linear layers | server | RLWE: `a s + e` under a fresh secret for each block |
//! | 0x0602 | queries to the table | server | RLWE: a fresh encryption of zero, and a uniform vector on every coefficient of the row |
//! | 0x0302 | tensors of a bundle | both | a uniform mask of the bundle, used for this tensor alone |
//! | 0x0303 | top bits of truncations | both | random bits of the correlation |
//! | 0x0304 | digits of comparisons, and the tensor that is selected on | both | random digits; a uniform mask |
//! | 0x0305 | leaves of comparisons | both | pads of oblivious transfers |
//! | 0x0306 | bits of AND triples | both | random bits of the triple |
//! | 0x0307 | bits of selections, and their tensor | both | daBits; a uniform mask |
//! | 0x0308 | bits to be made arithmetic | both | daBits |
//! | 0x0301 | the answer | client | nothing: it is the output, and this message goes to the client alone |
//!
//! The test: no other message exists, and the bytes of every kind are uniform, for a document of one repeated token and for a
//! random one. The statistic is chi-square over bytes; its control is values without a mask, or with one that is too narrow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::*;
use fesc_infer::{Flow, Reveal, ServerSetup, Unwatched, run_client, run_server};
use fesc_mpc::Party;
use fesc_ring::{Prg, Ring};

type Heard = Arc<Mutex<BTreeMap<u16, Vec<u8>>>>;

/// Keeps all that a party receives, by tag.
fn listen(party: &mut Party, heard: &Heard) {
    let heard = Arc::clone(heard);
    party.channel().set_tap(Box::new(move |tag, payload| {
        heard.lock().unwrap().entry(tag.0).or_default().extend_from_slice(payload);
    }));
}

/// How many deviations the chi-square of the bytes lies above its mean (255 degrees of freedom).
fn excess(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1);
    let mean = bytes.len() as f64 / 256.0;
    let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
    (chi - 255.0) / 510f64.sqrt()
}

/// Below this a chi-square says nothing.
const ENOUGH: usize = 4096;
/// Chance of one such excess: 1e-7 at the tail of chi-square with 255 degrees of freedom.
const LIMIT: f64 = 6.0;

#[test]
fn every_message_is_known_and_masked() {
    let setup = ServerSetup::new(twin(shape(), 60, 3), [9; 32]).unwrap();
    let both_ways = [0x0302, 0x0303, 0x0304, 0x0305, 0x0306, 0x0307];
    for reveal in [Reveal::Label, Reveal::Logits] {
        let flow = Flow::new(setup.outline().unwrap(), 60, reveal).unwrap();
        let mut sizes = Vec::new();
        for ids in [vec![7; 5], document(60, 9)] {
            let (at_client, at_server) = (Heard::default(), Heard::default());
            both(
                |p| {
                    listen(p, &at_client);
                    let client = setup.client_setup();
                    run_client(p, &flow, client, &ids, &mut Prg::from_seed([2; 16]), &mut Unwatched)
                },
                |p| {
                    listen(p, &at_server);
                    run_server(p, &flow, &setup, &mut Unwatched)
                },
            );
            let mut expected: [Vec<u16>; 2] = [both_ways.to_vec(), both_ways.to_vec()];
            expected[0].push(0x0301);
            expected[1].extend([0x0601, 0x0602]);
            if reveal == Reveal::Logits {
                expected.iter_mut().for_each(|tags| tags.push(0x0308));
            }
            let mut lengths = Vec::new();
            for ((who, heard), mut expected) in [("client", at_client), ("server", at_server)].into_iter().zip(expected)
            {
                let heard = heard.lock().unwrap();
                expected.sort_unstable();
                assert_eq!(heard.keys().copied().collect::<Vec<_>>(), expected, "what the {who} receives");
                for (tag, bytes) in heard.iter() {
                    lengths.push((who, *tag, bytes.len()));
                    let excess = excess(bytes);
                    let told = bytes.len() < ENOUGH || excess.abs() < LIMIT;
                    assert!(told, "{who}, tag {tag:#06x}: {excess:.1} deviations over {} bytes", bytes.len());
                }
            }
            sizes.push(lengths);
        }
        assert_eq!(sizes[0], sizes[1], "sizes depend on the schedule alone, not on five or sixty tokens");
    }
}

/// The statistic finds what has no mask: a stream in clear, or with a mask of 44 of its 48 bits.
#[test]
fn without_a_mask_the_test_fails() {
    let ring = Ring::new(48).unwrap();
    let values: Vec<u64> = integers(2000, 1 << 17, 1).into_iter().map(|v| ring.from_signed(v)).collect();
    assert!(excess(&ring.pack(&values)) > 10.0 * LIMIT);
    let mask = Prg::from_seed([1; 16]).ring_vec(Ring::new(44).unwrap(), values.len());
    let narrow: Vec<u64> = values.iter().zip(&mask).map(|(v, m)| ring.add(v & ring.mask() >> 30, *m)).collect();
    assert!(excess(&ring.pack(&narrow)) > LIMIT);
    let mask = Prg::from_seed([1; 16]).ring_vec(ring, values.len());
    let masked: Vec<u64> = values.iter().zip(&mask).map(|(v, m)| ring.add(*v, *m)).collect();
    assert!(excess(&ring.pack(&masked)).abs() < LIMIT);
}
