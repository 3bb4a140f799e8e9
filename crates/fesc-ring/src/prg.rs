//! The pseudorandom generator of the workspace: AES-128 in counter mode, seeded from the operating system.
//!
//! The stream is `AES_seed(0), AES_seed(1), ...` with little-endian counter blocks, read as little-endian
//! words. All randomness in FESC comes through an explicit `&mut Prg` argument; there is no hidden generator.

use zeroize::Zeroize;

use crate::block::Aes;

/// Words kept ahead: one batch of the AES kernels.
const BUFFER: usize = 64;

/// AES-128-CTR stream. Not `Clone`: two copies would give the same "random" values twice.
pub struct Prg {
    aes: Aes,
    counter: u128,
    buffer: [u64; BUFFER],
    used: usize,
}

impl Prg {
    /// A generator seeded by the operating system. The error is final: there is no fallback.
    pub fn from_os() -> Result<Self, getrandom::Error> {
        let mut seed = [0u8; 16];
        getrandom::fill(&mut seed)?;
        let prg = Self::from_seed(seed);
        seed.zeroize();
        Ok(prg)
    }

    /// A generator with a given seed: for seeds that a protocol agreed on, and for tests.
    pub fn from_seed(seed: [u8; 16]) -> Self {
        Self { aes: Aes::new(u128::from_le_bytes(seed)), counter: 0, buffer: [0; BUFFER], used: BUFFER }
    }

    /// A child generator with an independent seed drawn from this stream.
    pub fn fork(&mut self) -> Self {
        let mut seed = self.next_u128().to_le_bytes();
        let child = Self::from_seed(seed);
        seed.zeroize();
        child
    }

    /// Bytes that will be published: a nonce, or the seed of a public polynomial.
    ///
    /// They come from a generator of their own, made for them and dropped. A block of this stream itself
    /// would be `AES_seed` of a known counter: whoever collects such blocks of many generators tests a guess
    /// for all of their seeds at once, and a seed found is every secret drawn from it.
    pub fn public_bytes<const K: usize>(&mut self) -> [u8; K] {
        let mut bytes = [0; K];
        self.fork().fill_bytes(&mut bytes);
        bytes
    }

    fn stream(&mut self, out: &mut [u64]) {
        self.aes.ctr(self.counter, bytemuck::cast_slice_mut(out));
        self.counter = self.counter.wrapping_add(out.len() as u128 / 2);
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.used == BUFFER {
            let mut fresh = [0; BUFFER];
            self.stream(&mut fresh);
            self.buffer = fresh;
            self.used = 0;
        }
        let v = self.buffer[self.used];
        self.used += 1;
        v
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) | u128::from(self.next_u64()) << 64
    }

    /// Fills a slice with uniform words: the same words as repeated [`next_u64`](Self::next_u64), at the
    /// speed of AES.
    pub fn fill_u64(&mut self, out: &mut [u64]) {
        let kept = (BUFFER - self.used).min(out.len());
        let (head, rest) = out.split_at_mut(kept);
        head.copy_from_slice(&self.buffer[self.used..self.used + kept]);
        self.used += kept;
        // Whole batches go straight to the caller; the remainder goes through the buffer.
        let (bulk, tail) = rest.split_at_mut(rest.len() / BUFFER * BUFFER);
        self.stream(bulk);
        for o in tail {
            *o = self.next_u64();
        }
    }

    /// Fills a slice with uniform blocks: the same as repeated [`next_u128`](Self::next_u128).
    pub fn fill_u128(&mut self, out: &mut [u128]) {
        self.fill_u64(bytemuck::cast_slice_mut(out));
    }

    /// Fills a slice with uniform bytes. Takes `ceil(len / 8)` words of the stream, so that words stay whole.
    pub fn fill_bytes(&mut self, out: &mut [u8]) {
        let mut words = [0u64; BUFFER];
        for part in out.chunks_mut(8 * BUFFER) {
            let used = &mut words[..part.len().div_ceil(8)];
            self.fill_u64(used);
            let bytes: &[u8] = bytemuck::cast_slice(used);
            part.copy_from_slice(&bytes[..part.len()]);
        }
        words.zeroize();
    }

    /// `count` uniform elements of a ring.
    pub fn ring_vec(&mut self, ring: crate::Ring, count: usize) -> Vec<u64> {
        let mut out = vec![0; count];
        self.fill_u64(&mut out);
        for o in &mut out {
            *o = ring.reduce(*o);
        }
        out
    }
}

impl Drop for Prg {
    fn drop(&mut self) {
        self.buffer.zeroize();
        self.counter.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Block by block against the `aes` crate.
    #[test]
    fn stream_is_aes_ctr_with_little_endian_counters() {
        let seed = std::array::from_fn(|i| i as u8);
        let mut prg = Prg::from_seed(seed);
        let cipher = {
            use aes::cipher::KeyInit;
            aes::Aes128::new(&seed.into())
        };
        for counter in 0u128..200 {
            use aes::cipher::BlockCipherEncrypt;
            let mut block = counter.to_le_bytes().into();
            cipher.encrypt_block(&mut block);
            assert_eq!(prg.next_u128(), u128::from_le_bytes(block.into()), "counter {counter}");
        }
    }

    /// What is published is no block of the stream that secrets come from.
    #[test]
    fn public_bytes_are_not_of_this_stream() {
        let seed = [7; 16];
        let mut stream = Prg::from_seed(seed);
        let own: Vec<u128> = (0..8).map(|_| stream.next_u128()).collect();
        let mut prg = Prg::from_seed(seed);
        let (first, second): ([u8; 16], [u8; 16]) = (prg.public_bytes(), prg.public_bytes());
        assert!(
            first != second
                && !own.contains(&u128::from_le_bytes(first))
                && !own.contains(&u128::from_le_bytes(second))
        );
        // The child's seed is a block of this stream, and its first block is what is published.
        assert_eq!(u128::from_le_bytes(first), Prg::from_seed(own[0].to_le_bytes()).next_u128());
    }

    #[test]
    fn known_answer() {
        // AES-128, key 00..0f, block 00..00 (openssl enc -aes-128-ecb): c6a13b37878f5b826f4f8162a1c8d879.
        let mut prg = Prg::from_seed(std::array::from_fn(|i| i as u8));
        assert_eq!(prg.next_u128().to_be_bytes(), 0x79d8c8a162814f6f825b8f87373ba1c6u128.to_be_bytes());
    }

    #[test]
    fn bulk_equals_single_words() {
        for lens in [vec![1, 2, 3, 63, 64, 65, 1000], vec![0, 127, 1, 128, 0, 7], vec![640, 640, 1]] {
            let (mut a, mut b) = (Prg::from_seed([9; 16]), Prg::from_seed([9; 16]));
            for n in lens {
                let mut bulk = vec![0; n];
                a.fill_u64(&mut bulk);
                assert!(bulk.iter().all(|&w| w == b.next_u64()));
                let mut bytes = vec![0; n];
                a.fill_bytes(&mut bytes);
                for part in bytes.chunks(8) {
                    assert_eq!(part, &b.next_u64().to_le_bytes()[..part.len()]);
                }
                let mut blocks = vec![0; n];
                a.fill_u128(&mut blocks);
                assert!(blocks.iter().all(|&w| w == b.next_u128()));
            }
        }
    }
}
