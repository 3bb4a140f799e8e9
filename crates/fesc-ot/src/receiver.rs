//! The OT receiver.

use fesc_net::Channel;
use fesc_ring::Prg;
use fesc_ring::block::double;

use crate::pads::{self, Pads};
use crate::params::SilentParams;
use crate::source::ReceiverSource;
use crate::stock::Stock;
use crate::{CotKind, OtCost, OtError, times};

/// The party that knows one pad of every OT, at a random choice that the sender does not learn.
///
/// Neither `Debug` nor `Clone`:
/// ```compile_fail
/// fn show<T: std::fmt::Debug>() {}
/// show::<fesc_ot::OtReceiver>();
/// ```
/// ```compile_fail
/// fn copy<T: Clone>() {}
/// copy::<fesc_ot::OtReceiver>();
/// ```
pub struct OtReceiver {
    stock: Stock<ReceiverSource>,
    pads: Pads,
    pads_of_8: Pads,
}

impl OtReceiver {
    /// Sets up with the peer's [`OtSender::setup`](crate::OtSender::setup) of the same kind.
    pub fn setup(ch: &mut Channel, kind: CotKind, prg: &mut Prg) -> Result<Self, OtError> {
        Self::setup_with(ch, kind, &SilentParams::standard()?, prg)
    }

    /// The same with given silent parameters (unused by IKNP); both parties must pass the same ones.
    pub fn setup_with(ch: &mut Channel, kind: CotKind, params: &SilentParams, prg: &mut Prg) -> Result<Self, OtError> {
        let (session, source) = ReceiverSource::setup(ch, kind, params, prg)?;
        let (pads, pads_of_8) = pads::streams(&session);
        Ok(Self { stock: Stock::new(source), pads, pads_of_8 })
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

    /// Correlated OT: the values `t_i = q_i ^ c_i Delta`; the choice bit is `c_i = lsb(t_i)`.
    pub fn correlated(&mut self, ch: &mut Channel, m: usize) -> Result<Vec<u128>, OtError> {
        self.stock.take_all(ch, m)
    }

    /// `m` random OTs: the choice bits, packed least significant bit first, and the pad of the chosen one.
    pub fn random(&mut self, ch: &mut Channel, m: usize) -> Result<(Vec<u64>, Vec<u128>), OtError> {
        let mut choices = vec![0u64; m.div_ceil(64)];
        let mut pads = vec![0u128; m];
        let (mut done, mut rest) = (0, &mut pads[..]);
        while !rest.is_empty() {
            self.stock.ensure(ch, 1, rest.len())?;
            let run = self.pads.run(rest.len().min(self.stock.len()));
            let (now, later) = rest.split_at_mut(run);
            let taken = self.stock.take(run);
            now.copy_from_slice(taken);
            self.pads.hash_chosen(now, taken.iter().map(|t| *t as u64 & 1));
            for (i, t) in (done..).zip(taken) {
                choices[i / 64] |= (*t as u64 & 1) << (i % 64);
            }
            done += run;
            rest = later;
        }
        Ok((choices, pads))
    }

    /// `m` random 1-of-8 OTs: the choice digits and the pad of the chosen one. Uses three COTs each.
    pub fn random_1of8(&mut self, ch: &mut Channel, m: usize) -> Result<(Vec<u8>, Vec<u128>), OtError> {
        let mut missing = times(m, 3)?;
        let mut digits = Vec::with_capacity(m);
        let mut pads = vec![0u128; m];
        let mut rest = &mut pads[..];
        while !rest.is_empty() {
            self.stock.ensure(ch, 3, missing)?;
            let run = self.pads_of_8.run(rest.len().min(self.stock.len() / 3));
            let (now, later) = rest.split_at_mut(run);
            for (pad, t) in now.iter_mut().zip(self.stock.take(3 * run).as_chunks::<3>().0) {
                digits.push((t[0] & 1 | (t[1] & 1) << 1 | (t[2] & 1) << 2) as u8);
                *pad = t[0] ^ double(t[1] ^ double(t[2]));
            }
            let done = digits.len() - run;
            self.pads_of_8.hash_chosen(now, digits[done..].iter().map(|&d| u64::from(d)));
            missing -= 3 * run;
            rest = later;
        }
        Ok((digits, pads))
    }
}
