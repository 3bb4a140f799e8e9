//! The pseudorandom generator of the workspace: AES-128 in counter mode, seeded from the operating system.
//!
//! All randomness in FESC comes through an explicit `&mut Prg` argument; there is no hidden generator.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use zeroize::Zeroize;

/// AES-128-CTR stream. Not `Clone`: two copies would give the same "random" values twice.
pub struct Prg {
    cipher: aes::Aes128,
    counter: u128,
    buffer: [u64; 16],
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
        Self { cipher: aes::Aes128::new(&seed.into()), counter: 0, buffer: [0; 16], used: 16 }
    }

    /// A child generator with an independent seed drawn from this stream.
    pub fn fork(&mut self) -> Self {
        let mut seed = self.next_u128().to_le_bytes();
        let child = Self::from_seed(seed);
        seed.zeroize();
        child
    }

    fn refill(&mut self) {
        let mut blocks = [aes::Block::default(); 8];
        for b in &mut blocks {
            *b = self.counter.to_le_bytes().into();
            self.counter = self.counter.wrapping_add(1);
        }
        self.cipher.encrypt_blocks(&mut blocks);
        for (i, b) in blocks.iter().enumerate() {
            let v = u128::from_le_bytes((*b).into());
            self.buffer[2 * i] = v as u64;
            self.buffer[2 * i + 1] = (v >> 64) as u64;
        }
        self.used = 0;
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        if self.used == self.buffer.len() {
            self.refill();
        }
        let v = self.buffer[self.used];
        self.used += 1;
        v
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) | u128::from(self.next_u64()) << 64
    }

    /// Fills a slice with uniform words.
    pub fn fill_u64(&mut self, out: &mut [u64]) {
        for o in out {
            *o = self.next_u64();
        }
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
