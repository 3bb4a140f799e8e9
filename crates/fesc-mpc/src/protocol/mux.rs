//! Selection: shared bits times shared values, on one opened tensor.
//!
//! With `x^ = x - r` and `c = b xor rho` open (see [`crate::correlation::Select`]), everything is linear.
//! [`combine`] evaluates `base(x) + sum_k b_k steps_k(x)` for polynomials of degree at most 2; a mux is the
//! case of one bit and the step `x`.

use fesc_ring::Ring;
use rayon::prelude::*;

use super::tag;
use crate::correlation::select::field;
use crate::correlation::{Material, Select};
use crate::error::{MpcError, check_len};
use crate::party::WORDS;
use crate::share::words_for;
use crate::{Ledger, Party, Request, Role, Shared, SharedBits};

/// A selection whose tensor and bits are open under their masks.
pub(crate) struct Selected<'a> {
    pub role: Role,
    pub shape: &'a Select,
    pub material: &'a Material,
    /// `x - r`, known to both.
    pub hat: &'a [u64],
    /// `b_k xor rho_k`, `K` runs of words, known to both.
    pub open_bits: &'a [u64],
}

/// This party's share of `base(x) + sum_k b_k steps_k(x)`; coefficients of `1, x, x^2`.
pub(crate) fn combine(sel: &Selected<'_>, x: &[u64], base: &[u64; 3], steps: &[[u64; 3]]) -> Vec<u64> {
    let (n, ring, role) = (sel.shape.count, sel.shape.ring, sel.role);
    let words = words_for(n);
    let m = sel.material;
    let (mask, rho, rho_r) = (m.ring(field::MASK), m.ring(field::ARITHMETIC), m.ring(field::TIMES_MASK));
    let (square, rho_sq) = (m.ring(field::SQUARE), m.ring(field::TIMES_SQUARE));
    let quadratic = sel.shape.degree == 2;
    // (1 - 2c) v
    let signed = |v: u64, c: u64| (v ^ c.wrapping_neg()).wrapping_add(c);
    let element = |i: usize| {
        let (hat, r) = (sel.hat[i], mask[i]);
        let mut sum = role.at_p0(base[0]).wrapping_add(base[1].wrapping_mul(x[i]));
        if quadratic {
            let sq = role.at_p0(hat.wrapping_mul(hat)).wrapping_add(hat.wrapping_mul(r) << 1).wrapping_add(square[i]);
            sum = sum.wrapping_add(base[2].wrapping_mul(sq));
        }
        for (k, step) in steps.iter().enumerate() {
            let c = sel.open_bits[k * words + i / 64] >> (i % 64) & 1;
            let b = role.at_p0(c).wrapping_add(signed(rho[k * n + i], c));
            let br = (c.wrapping_neg() & r).wrapping_add(signed(rho_r[k * n + i], c));
            let bx = hat.wrapping_mul(b).wrapping_add(br);
            sum = sum.wrapping_add(step[0].wrapping_mul(b)).wrapping_add(step[1].wrapping_mul(bx));
            if quadratic {
                let bsq = (c.wrapping_neg() & square[i]).wrapping_add(signed(rho_sq[k * n + i], c));
                let bxx =
                    hat.wrapping_mul(hat).wrapping_mul(b).wrapping_add(hat.wrapping_mul(br) << 1).wrapping_add(bsq);
                sum = sum.wrapping_add(step[2].wrapping_mul(bxx));
            }
        }
        ring.reduce(sum)
    };
    (0..n).into_par_iter().with_min_len(4096).map(element).collect()
}

/// `[b x]` for `count` bits and values. Cost: `2 l + 2` bits each, one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mux {
    /// The ring of the values.
    pub ring: Ring,
    /// Elements.
    pub count: usize,
}

impl Mux {
    fn shape(&self) -> Select {
        Select { ring: self.ring, count: self.count, thresholds: 1, degree: 1 }
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.need(Request::Select(self.shape()));
        let bytes = self.ring.packed_len(self.count) + 8 * words_for(self.count);
        ledger.exchange(bytes, bytes);
    }

    /// The selected values.
    pub fn run(&self, party: &mut Party, bits: &SharedBits, x: &Shared) -> Result<Shared, MpcError> {
        check_len("bits of a mux", self.count, bits.len())?;
        check_len("values of a mux", self.count, x.len())?;
        check_len("ring width of a mux", self.ring.bits() as usize, x.ring().bits() as usize)?;
        let (shape, ring) = (self.shape(), self.ring);
        let material = party.take(Request::Select(shape.clone()))?;
        let mut hat: Vec<u64> =
            x.values().iter().zip(material.ring(field::MASK)).map(|(&v, &r)| ring.sub(v, r)).collect();
        let mut open: Vec<u64> = bits.words().iter().zip(material.ring(field::BITS)).map(|(&b, &r)| b ^ r).collect();
        let split = ring.packed_len(self.count);
        let mut message = ring.pack(&hat);
        message.extend_from_slice(&WORDS.pack(&open));
        let total = message.len();
        let reply = party.channel().exchange(tag::SELECT, message, total)?;
        let (values, words) = reply.split_at(split);
        hat.iter_mut().zip(ring.unpack(values, self.count)?).for_each(|(h, t)| *h = ring.add(*h, t));
        open.iter_mut().zip(WORDS.unpack(words, words_for(self.count))?).for_each(|(o, t)| *o ^= t);
        let sel = Selected { role: party.role(), shape: &shape, material: &material, hat: &hat, open_bits: &open };
        Ok(Shared::new(ring, combine(&sel, x.values(), &[0; 3], &[[0, 1, 0]])))
    }
}
