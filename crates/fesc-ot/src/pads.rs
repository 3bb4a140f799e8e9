//! From correlated to random OT: pads by a tweaked hash.
//!
//! `pad = H(block, tweak)` with TMMO ([`Aes::hash`]). The tweak is `width * index + v`: unique per (stream,
//! OT, value). Each stream (1-of-2, 1-of-8) has its own AES key, derived from the session id, and the key
//! changes every [`PER_KEY`] pads. The security loss of TMMO grows with the hashes under one key
//! (`p q / 2^127` for `p` AES calls; Guo, Katz, Wang, Yu 2020, the multi-instance argument): one AES call
//! tests a guess against all `q` unchosen pads under its key, if they are known in full. With `q <= 448` that
//! search takes `2^119` AES calls, about `2^128` bit operations or more, whatever the session's length.

use fesc_ring::block::Aes;

use crate::session::Session;

/// Pads under one AES key: 256 OTs of two, 64 of eight.
const PER_KEY: u64 = 512;

/// The streams of 1-of-2 and of 1-of-8 pads of a session.
pub(crate) fn streams(session: &Session) -> (Pads, Pads) {
    (Pads::new(session.hash(b"pads", &[]), 2), Pads::new(session.hash(b"pads of 8", &[]), 8))
}

/// The pads of one stream.
pub(crate) struct Pads {
    key: u128,
    width: u64,
    index: u64,
    aes: Aes,
}

impl Pads {
    fn new(key: u128, width: u64) -> Self {
        Self { key, width, index: 0, aes: Aes::new(key) }
    }

    /// OTs under one AES key.
    fn per_key(&self) -> u64 {
        PER_KEY / self.width
    }

    /// How many OTs the next call may cover: at most `wanted`, all under one key.
    pub(crate) fn run(&self, wanted: usize) -> usize {
        wanted.min((self.per_key() - self.index % self.per_key()) as usize)
    }

    /// Hashes all `width` values of each OT of a run in place.
    pub(crate) fn hash_all(&mut self, blocks: &mut [u128]) {
        self.aes.hash(blocks, self.index.wrapping_mul(self.width));
        self.advance(blocks.len() as u64 / self.width);
    }

    /// Hashes the chosen value of each OT of a run in place.
    pub(crate) fn hash_chosen(&mut self, blocks: &mut [u128], choices: impl Iterator<Item = u64>) {
        let mut tweaks = [0u64; PER_KEY as usize];
        let first = self.index;
        for (i, (t, v)) in tweaks.iter_mut().zip(choices).enumerate() {
            *t = first.wrapping_add(i as u64).wrapping_mul(self.width).wrapping_add(v);
        }
        self.aes.hash_tweaked(blocks, &tweaks);
        self.advance(blocks.len() as u64);
    }

    fn advance(&mut self, by: u64) {
        self.index += by;
        if self.index.is_multiple_of(self.per_key()) {
            self.aes = Aes::new(self.key ^ u128::from(self.index / self.per_key()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same block hashed at every index and value, over several keys: no two pads agree, in either
    /// stream, and the chosen pad is the one of the full list.
    #[test]
    fn no_tweak_repeats() {
        let session = Session::new(1, &[1; 16], &[2; 16], &[3; 32]);
        let (mut two, mut eight) = streams(&session);
        let (mut chosen, _) = streams(&session);
        let mut seen = std::collections::HashSet::new();
        let mut done = 0;
        while done < 3 * PER_KEY as usize {
            let run = two.run(700);
            let mut all = vec![5u128; 2 * run];
            two.hash_all(&mut all);
            let mut ones = vec![5u128; run];
            chosen.hash_chosen(&mut ones, std::iter::repeat_n(1, run));
            assert!(all.as_chunks::<2>().0.iter().zip(&ones).all(|(pair, one)| pair[1] == *one));
            assert!(all.iter().all(|p| seen.insert(*p)));
            done += run;
        }
        let run = eight.run(usize::MAX);
        let mut all = vec![5u128; 8 * run];
        eight.hash_all(&mut all);
        assert!(all.iter().all(|p| seen.insert(*p)));
    }
}
