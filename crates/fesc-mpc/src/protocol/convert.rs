//! Truncation and change of ring, in one protocol.
//!
//! [`Convert`] maps a share of `x` in `Z_2^l` to a share of `x / 2^s` in `Z_2^t`, with
//! `y = (x0 >> s) + (x1 >> s) - w 2^(l-s)`, where `w` is the wrap of the two shares, needed only modulo
//! `2^(t - l + s)`:
//!
//! - `t <= l - s`: no wrap needed. *Truncate-reduce*: local, free, right for every `x`.
//! - otherwise the sign must be known: P0 adds `2^(l-2)`, so `w = m0 + m1 - m0 m1` of the shares' top bits.
//!   One bit each way and one round. Right for `-2^(l-2) - 2^s <= x < 2^(l-2) - 2^s`. `t = l` is *known-sign
//!   truncation*, `s = 0` is *ring extension*.
//!
//! For `s > 0` one ulp (`2^s`) is added first: the result is `floor((x + 1) / 2^s)` or `floor(x / 2^s) + 1`,
//! unbiased up to one unit of the *input* (the twin is `fesc_approx::trunc`). At `s = 0` the result is exact.
//!
//! Which of the two results comes out depends on the shares, so a truncation may never be the last step
//! before an output is opened to a party that can repeat the computation: averages would show the bits that
//! were cut.

use fesc_ring::Ring;

use super::tag;
use crate::correlation::BitProducts;
use crate::error::{MpcError, check_len, check_range};
use crate::share::words_for;
use crate::{Ledger, Party, Request, Role, Shared};

/// Truncation by `shift` bits from one ring to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convert {
    from: Ring,
    to: Ring,
    shift: u32,
    count: usize,
}

impl Convert {
    /// General form; `shift` at most `l - 2`.
    pub fn new(from: Ring, to: Ring, shift: u32, count: usize) -> Result<Self, MpcError> {
        check_range("width of the ring to convert from", from.bits().into(), 3, 64)?;
        check_range("bits to truncate", shift.into(), 0, u64::from(from.bits()) - 2)?;
        Ok(Self { from, to, shift, count })
    }

    /// Known-sign truncation inside one ring.
    pub fn truncate(ring: Ring, shift: u32, count: usize) -> Result<Self, MpcError> {
        Self::new(ring, ring, shift, count)
    }

    /// Truncate-reduce to `bits <= l - shift` bits: local.
    pub fn reduce(from: Ring, bits: u32, shift: u32, count: usize) -> Result<Self, MpcError> {
        check_range("width after truncate-reduce", bits.into(), 1, u64::from(from.bits().saturating_sub(shift)))?;
        Self::new(from, Ring::new(bits)?, shift, count)
    }

    /// The correlation, if a wrap is needed.
    fn request(&self) -> Option<BitProducts> {
        let kept = self.from.bits() - self.shift;
        let ring = Ring::new(self.to.bits().checked_sub(kept)?).ok()?;
        Some(BitProducts { ring, words: words_for(self.count) })
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        if let Some(request) = self.request() {
            let bytes = 8 * request.words;
            ledger.need(Request::BitProducts(request));
            ledger.exchange(bytes, bytes);
        }
    }

    /// The converted share.
    pub fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        check_len("elements to convert", self.count, x.len())?;
        check_len("ring width to convert from", self.from.bits() as usize, x.ring().bits() as usize)?;
        let (from, to, shift, role) = (self.from, self.to, self.shift, party.role());
        let ulp = if shift == 0 { 0 } else { 1u64 << shift };
        let Some(request) = self.request() else {
            let ulp = role.at_p0(ulp);
            return Ok(Shared::new(to, x.values().iter().map(|&v| from.add(v, ulp) >> shift).collect()));
        };
        let offset = 1u64 << (from.bits() - 2);
        let lift = role.at_p0(from.add(offset, ulp));
        let lifted: Vec<u64> = x.values().iter().map(|&v| from.add(v, lift)).collect();
        let wraps = wrap_bits(party, &request, from, &lifted)?;
        let kept = from.bits() - shift;
        let undo = role.at_p0(offset >> shift);
        let values =
            lifted.iter().zip(&wraps).map(|(&v, &w)| (v >> shift).wrapping_sub(w << kept).wrapping_sub(undo)).collect();
        Ok(Shared::new(to, values))
    }
}

/// Shares of `w = m0 + m1 - m0 m1` modulo the request's ring, `m_i` the top bit of this party's share.
fn wrap_bits(party: &mut Party, request: &BitProducts, from: Ring, lifted: &[u64]) -> Result<Vec<u64>, MpcError> {
    let material = party.take(Request::BitProducts(request.clone()))?;
    let tops = Tops::exchange(party, from, lifted, material.ring(BitProducts::BITS))?;
    let shares = material.ring(BitProducts::SHARES).iter().take(lifted.len()).enumerate();
    // What is above the ring is dropped, so the upper word of the arithmetic is never computed.
    Ok(shares.map(|(i, &share)| request.ring.reduce(tops.wrap(i, share.into()) as u64)).collect())
}

/// The top bits of shares, opened under the random bits of a correlation. For truncation and for extension.
pub(super) struct Tops<'a> {
    role: Role,
    /// This party's top bits.
    tops: Vec<u64>,
    /// This party's random bits.
    own: &'a [u64],
    /// Top bits under random bits: mine, and the peer's.
    masked: Vec<u64>,
    theirs: Vec<u64>,
}

impl<'a> Tops<'a> {
    /// One bit each way for every share.
    pub(super) fn exchange(party: &mut Party, from: Ring, lifted: &[u64], own: &'a [u64]) -> Result<Self, MpcError> {
        let top = from.bits() - 1;
        let mut tops = vec![0u64; own.len()];
        for (word, chunk) in tops.iter_mut().zip(lifted.chunks(64)) {
            *word = chunk.iter().enumerate().fold(0, |acc, (i, &v)| acc | (v >> top) << i);
        }
        let masked: Vec<u64> = tops.iter().zip(own).map(|(&m, &u)| m ^ u).collect();
        let theirs = party.exchange_words(tag::WRAP, &masked)?;
        Ok(Self { role: party.role(), tops, own, masked, theirs })
    }

    /// A share of `w = m0 + m1 - m0 m1` of element `i`, modulo whatever `share`, of `u v`, is modulo.
    ///
    /// With `d_i = m_i xor (own random bit)` open,
    /// `m0 m1 = d0 d1 + d0 (1-2 d1) v + d1 (1-2 d0) u + (1-2 d0)(1-2 d1) u v`; the first and third terms
    /// together are `d1 m0`, which P0 knows.
    #[inline(always)]
    pub(super) fn wrap(&self, i: usize, share: u128) -> u128 {
        let bit = |words: &[u64]| u128::from(words[i / 64] >> (i % 64) & 1);
        let (mine, peer, m) = (bit(&self.masked), bit(&self.theirs), bit(&self.tops));
        // (1 - 2 d0)(1 - 2 d1) is -1 where exactly one of the opened bits is set.
        let flip = (mine ^ peer).wrapping_neg();
        let product = (share ^ flip).wrapping_sub(flip);
        let local = match self.role {
            Role::P0 => peer & m,
            Role::P1 => ((peer & bit(self.own)) ^ mine.wrapping_neg()).wrapping_add(mine),
        };
        m.wrapping_sub(product).wrapping_sub(local)
    }
}
