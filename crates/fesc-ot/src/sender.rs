//! The OT sender.

use fesc_net::Channel;
use fesc_ring::Prg;
use fesc_ring::block::double;
use zeroize::Zeroize;

use crate::pads::{self, Pads};
use crate::params::SilentParams;
use crate::source::SenderSource;
use crate::stock::Stock;
use crate::{CotKind, OtCost, OtError, times};

/// The party that knows all pads of every OT. Holds the base OTs, the source of correlations and the tweak
/// counters.
///
/// Neither `Debug` nor `Clone`:
/// ```compile_fail
/// fn show<T: std::fmt::Debug>() {}
/// show::<fesc_ot::OtSender>();
/// ```
/// ```compile_fail
/// fn copy<T: Clone>() {}
/// copy::<fesc_ot::OtSender>();
/// ```
pub struct OtSender {
    delta: u128,
    stock: Stock<SenderSource>,
    pads: Pads,
    pads_of_8: Pads,
}

impl OtSender {
    /// Sets up with the peer's [`OtReceiver::setup`](crate::OtReceiver::setup) of the same kind.
    pub fn setup(ch: &mut Channel, kind: CotKind, prg: &mut Prg) -> Result<Self, OtError> {
        Self::setup_with(ch, kind, &SilentParams::standard()?, prg)
    }

    /// The same with given silent parameters (unused by IKNP); both parties must pass the same ones.
    pub fn setup_with(ch: &mut Channel, kind: CotKind, params: &SilentParams, prg: &mut Prg) -> Result<Self, OtError> {
        let delta = prg.next_u128() | 1;
        let (session, source) = SenderSource::setup(ch, kind, params, delta, prg)?;
        let (pads, pads_of_8) = pads::streams(&session);
        Ok(Self { delta, stock: Stock::new(source), pads, pads_of_8 })
    }

    /// The global correlation. Its low bit is 1; the other 127 bits are secret and uniform.
    pub fn delta(&self) -> u128 {
        self.delta
    }

    /// Spreads the silent source's trees over rayon's threads from now on; off at first. Changes no output.
    pub fn set_parallel(&mut self, on: bool) {
        self.stock.set_parallel(on);
    }

    /// COTs buffered: that many need no communication.
    pub fn available(&self) -> usize {
        self.stock.len()
    }

    /// What obtaining `m` COTs will cost from the present state, exactly.
    pub fn declared(&self, m: usize) -> OtCost {
        self.stock.cost(m)
    }

    /// Makes at least `m` COTs available; communicates only if needed.
    pub fn reserve(&mut self, ch: &mut Channel, m: usize) -> Result<(), OtError> {
        self.stock.ensure(ch, m, m)
    }

    /// Correlated OT: the values `q_i` (low bit 0); the receiver gets `t_i = q_i ^ c_i delta()`,
    /// `c_i = lsb(t_i)`.
    pub fn correlated(&mut self, ch: &mut Channel, m: usize) -> Result<Vec<u128>, OtError> {
        self.stock.take_all(ch, m)
    }

    /// `m` random OTs: both pads of each. Uses one COT each.
    pub fn random(&mut self, ch: &mut Channel, m: usize) -> Result<Vec<[u128; 2]>, OtError> {
        let mut out = vec![[0u128; 2]; m];
        let mut rest = &mut out[..];
        while !rest.is_empty() {
            self.stock.ensure(ch, 1, rest.len())?;
            let run = self.pads.run(rest.len().min(self.stock.len()));
            let (now, later) = rest.split_at_mut(run);
            for (pair, &q) in now.iter_mut().zip(self.stock.take(run)) {
                *pair = [q, q ^ self.delta];
            }
            self.pads.hash_all(now.as_flattened_mut());
            rest = later;
        }
        Ok(out)
    }

    /// `m` random 1-of-8 OTs: the pads of `v = 0..8`. Uses three COTs each.
    ///
    /// With `Q = q_1 ^ x q_2 ^ x^2 q_3` in GF(2^128) and the digit's element `a_v = v_0 ^ v_1 x ^ v_2 x^2`,
    /// the pad is `H(Q ^ a_v Delta)`; the receiver of digit `d` holds
    /// `T = t_1 ^ x t_2 ^ x^2 t_3 = Q ^ a_d Delta`. Any other pad is `H(T ^ (a_d ^ a_v) Delta)` with
    /// `a_d ^ a_v != 0`. Multiplying by a non-zero field element is a bijection, so the offset keeps all 127
    /// bits of Delta's entropy, and seven different offsets are linear functions of one Delta: correlation
    /// robustness of `H` for such offsets (an ideal permutation has it, the proof for one offset carries over
    /// term by term) makes the seven pads look uniform.
    pub fn random_1of8(&mut self, ch: &mut Channel, m: usize) -> Result<Vec<[u128; 8]>, OtError> {
        let mut missing = times(m, 3)?;
        let mut offsets = digit_offsets(self.delta);
        let mut out = vec![[0u128; 8]; m];
        let mut rest = &mut out[..];
        while !rest.is_empty() {
            self.stock.ensure(ch, 3, missing)?;
            let run = self.pads_of_8.run(rest.len().min(self.stock.len() / 3));
            let (now, later) = rest.split_at_mut(run);
            for (pads, q) in now.iter_mut().zip(self.stock.take(3 * run).as_chunks::<3>().0) {
                let first = q[0] ^ double(q[1] ^ double(q[2]));
                *pads = offsets.map(|a| first ^ a);
            }
            self.pads_of_8.hash_all(now.as_flattened_mut());
            missing -= 3 * run;
            rest = later;
        }
        offsets.zeroize();
        Ok(out)
    }
}

/// `a_v Delta` for `v = 0..8`.
fn digit_offsets(delta: u128) -> [u128; 8] {
    let powers = [delta, double(delta), double(double(delta))];
    std::array::from_fn(|v| (0..3).filter(|b| v >> b & 1 == 1).fold(0, |a, b| a ^ powers[b]))
}

impl Drop for OtSender {
    fn drop(&mut self) {
        self.delta.zeroize();
    }
}
