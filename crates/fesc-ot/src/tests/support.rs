//! Runs two parties over a memory channel.

use fesc_net::Channel;
use fesc_ring::Prg;

use crate::{CotKind, OtReceiver, OtSender, SilentParams};

pub(super) const KINDS: [CotKind; 2] = [CotKind::Iknp, CotKind::Silent];

pub(super) fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

/// Runs both closures on their own threads, each with its end of a channel.
pub(super) fn both<A: Send, B: Send>(
    a: impl FnOnce(&mut Channel) -> A + Send,
    b: impl FnOnce(&mut Channel) -> B + Send,
) -> (A, B) {
    let (mut ca, mut cb) = Channel::memory_pair();
    std::thread::scope(|s| {
        let other = s.spawn(move || b(&mut cb));
        let mine = a(&mut ca);
        // Closed before the wait: a party that expects more must get an error, not a timeout.
        drop(ca);
        (mine, other.join().unwrap())
    })
}

/// A sender and a receiver with tiny, insecure silent parameters.
pub(super) fn pair<A: Send, B: Send>(
    kind: CotKind,
    a: impl FnOnce(&mut OtSender, &mut Channel) -> A + Send,
    b: impl FnOnce(&mut OtReceiver, &mut Channel) -> B + Send,
) -> (A, B) {
    let params = SilentParams::insecure_for_tests();
    both(
        |ch| a(&mut OtSender::setup_with(ch, kind, &params, &mut prg(1)).unwrap(), ch),
        |ch| b(&mut OtReceiver::setup_with(ch, kind, &params, &mut prg(2)).unwrap(), ch),
    )
}

pub(super) fn bit(words: &[u64], i: usize) -> u64 {
    words[i / 64] >> (i % 64) & 1
}
