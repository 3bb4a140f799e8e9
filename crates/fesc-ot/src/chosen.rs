//! Chosen 1-of-2 OT and correlated OT over `Z_2^l`, from random OT.
//!
//! The receiver corrects its random bit `r` to its choice `c` by sending `d = c ^ r` (Beaver 1995): `d` is
//! uniform, since `r` is. The sender swaps its pads by `d`, so that the receiver holds the pad of `c`.
//! - Chosen: the sender sends `m_0 + p_0`, `m_1 + p_1`: `2 l` bits.
//! - Correlated, for the sender's correlation `w`: it keeps `x = p_0` and sends `p_0 + w - p_1`; the receiver
//!   gets `y = x + c w`: `l` bits.
//!
//! Cost on top of `m` COTs: `ceil(m / 8)` bytes to the sender, then the packed elements to the receiver; 2
//! rounds.

use fesc_net::Channel;
use fesc_ring::Ring;

use crate::messages::{TAG_CHOSEN, TAG_CORRELATED, TAG_FLIPS};
use crate::{OtError, OtReceiver, OtSender};

impl OtSender {
    /// Sends one of two ring elements per OT.
    pub fn send_chosen(&mut self, ch: &mut Channel, ring: Ring, messages: &[[u64; 2]]) -> Result<(), OtError> {
        let pads = self.corrected(ch, messages.len())?;
        let masked: Vec<u64> = messages
            .iter()
            .zip(&pads)
            .flat_map(|(m, p)| [ring.add(m[0], p[0] as u64), ring.add(m[1], p[1] as u64)])
            .collect();
        ch.send(TAG_CHOSEN, ring.pack(&masked))?;
        Ok(())
    }

    /// For correlations `w_i` returns `x_i`, uniform; the receiver with choice `c_i` gets `x_i + c_i w_i`.
    pub fn send_correlated(&mut self, ch: &mut Channel, ring: Ring, w: &[u64]) -> Result<Vec<u64>, OtError> {
        let pads = self.corrected(ch, w.len())?;
        let x: Vec<u64> = pads.iter().map(|p| ring.reduce(p[0] as u64)).collect();
        let masked: Vec<u64> =
            w.iter().zip(&x).zip(&pads).map(|((&w, &x), p)| ring.sub(ring.add(x, w), p[1] as u64)).collect();
        ch.send(TAG_CORRELATED, ring.pack(&masked))?;
        Ok(x)
    }

    /// Pads in the order of the receiver's chosen bits.
    fn corrected(&mut self, ch: &mut Channel, m: usize) -> Result<Vec<[u128; 2]>, OtError> {
        let mut pads = self.random(ch, m)?;
        let bytes = ch.recv(TAG_FLIPS, bits().packed_len(m))?;
        for (p, flip) in pads.iter_mut().zip(bits().unpack(&bytes, m)?) {
            let t = (p[0] ^ p[1]) & 0u128.wrapping_sub(u128::from(flip));
            *p = [p[0] ^ t, p[1] ^ t];
        }
        Ok(pads)
    }
}

impl OtReceiver {
    /// Receives the element of its choice per OT; `choices` are packed least significant bit first.
    pub fn receive_chosen(
        &mut self,
        ch: &mut Channel,
        ring: Ring,
        choices: &[u64],
        m: usize,
    ) -> Result<Vec<u64>, OtError> {
        let pads = self.correct(ch, choices, m)?;
        let count = crate::times(m, 2)?;
        let masked = ring.unpack(&ch.recv(TAG_CHOSEN, ring.packed_len(count))?, count)?;
        let pairs = masked.as_chunks::<2>().0.iter();
        let pick = |i: usize, pair: &[u64; 2]| pair[0] ^ ((pair[0] ^ pair[1]) & mask(choices, i));
        Ok(pairs.zip(&pads).enumerate().map(|(i, (pair, &p))| ring.sub(pick(i, pair), p as u64)).collect())
    }

    /// Receives `x_i + c_i w_i`; `choices` are packed least significant bit first.
    pub fn receive_correlated(
        &mut self,
        ch: &mut Channel,
        ring: Ring,
        choices: &[u64],
        m: usize,
    ) -> Result<Vec<u64>, OtError> {
        let pads = self.correct(ch, choices, m)?;
        let masked = ring.unpack(&ch.recv(TAG_CORRELATED, ring.packed_len(m))?, m)?;
        let add = |i: usize, (&e, &p): (&u64, &u128)| ring.add(p as u64, e & mask(choices, i));
        Ok(masked.iter().zip(&pads).enumerate().map(|(i, ep)| add(i, ep)).collect())
    }

    fn correct(&mut self, ch: &mut Channel, choices: &[u64], m: usize) -> Result<Vec<u128>, OtError> {
        if choices.len() != m.div_ceil(64) {
            return Err(OtError::Length { what: "words of choice bits", got: choices.len(), expected: m.div_ceil(64) });
        }
        let (random, pads) = self.random(ch, m)?;
        let flips: Vec<u64> = (0..m).map(|i| (mask(choices, i) ^ mask(&random, i)) & 1).collect();
        ch.send(TAG_FLIPS, bits().pack(&flips))?;
        Ok(pads)
    }
}

/// All ones if bit `i` is set, else zero.
fn mask(bits: &[u64], i: usize) -> u64 {
    0u64.wrapping_sub(bits.get(i / 64).map_or(0, |w| w >> (i % 64) & 1))
}

/// The ring of single bits.
const fn bits() -> Ring {
    match Ring::new(1) {
        Ok(r) => r,
        Err(_) => unreachable!(),
    }
}
