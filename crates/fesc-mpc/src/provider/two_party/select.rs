//! Selections. With XOR shares `rho_i` taken from the choice bits,
//!
//! ```text
//! rho r = rho_0 r_0 + rho_1 r_1 + rho_1 (1 - 2 rho_0) r_0 + rho_0 (1 - 2 rho_1) r_1
//! ```
//!
//! One transfer each way, in which the OT sender's value is `(1 - 2 rho_i) r_i`. The transfer from P0 also
//! carries the daBit (`rho_0`, modulo `2^(l-1)`), and at degree 2 both carry `(1 - 2 rho_i) q_i` with
//! `[q] = [r^2]`.
//!
//! # The first bit's pads choose the mask
//! A transfer with pads `m0, m1` and no correction is one of the value `m1 - m0`. `r_i` is free, so it is
//! *defined* as `(1 - 2 rho_i) (m1 - m0)` of the transfer that party `i` sends for bit 0, and that transfer
//! needs no correction of `r`. The others correct to the same `r_i`. `q` is determined by `r`, so it is
//! corrected for every bit. Bits per element of `K` bits: `K (l - 1) + 2 (K d - 1) l`, and at degree 2 one
//! product of private numbers.
//!
//! *View of the OT receiver.* It has `m_c`. Given that and all else that it holds, the other pad of bit 0 is
//! uniform, hence so are `m1 - m0` and `r_i`, whatever `rho_i` is: its `r_i` is distributed as one drawn by
//! party `i`. That pad enters nothing else: the daBit and `q` have bits of their own ([`pad_words`]), and no
//! correction of `r` for bit 0 exists. The corrections of the other bits are masked by their own transfers'
//! other pads. Each transfer, hence each `r`, is used once.

use std::ops::Range;

use fesc_net::Channel;
use fesc_ring::{Prg, Ring};

use super::bits::half_ring;
use super::{BothWays, CHUNK, CORRECTION, TwoParty, WINDOW, bit, chunks, correct, corrected, frame, ole, ring_field};
use crate::Role;
use crate::correlation::{Material, Select};
use crate::error::MpcError;
use crate::share::words_for;

/// Elements per chunk: whole words, so that choice bits of each threshold start at a word.
fn chunk_len(shape: &Select) -> usize {
    (CHUNK / shape.thresholds).next_multiple_of(64)
}

/// `(start, elements, padded elements)` of the chunks.
fn element_chunks(shape: &Select) -> impl Iterator<Item = (usize, usize, usize)> {
    chunks(shape.count, chunk_len(shape)).map(|(start, len)| (start, len, len.next_multiple_of(64)))
}

pub(super) fn transfers(shape: &Select) -> [usize; 2] {
    let ots: usize = element_chunks(shape).map(|(_, _, padded)| padded * shape.thresholds).sum();
    let mut both = [ots; 2];
    if shape.degree == 2 {
        ole::add_transfers_of(shape.ring, shape.count, Role::P0, &mut both);
    }
    both
}

pub(super) fn add_corrections(shape: &Select, bytes: &mut [u64; 2]) {
    let all: Vec<_> = element_chunks(shape).collect();
    for window in all.chunks(WINDOW) {
        if shape.degree == 2 {
            ole::add_corrections_of(shape.ring, elements(window).len(), 1, Role::P0, bytes);
        }
        for &(_, len, _) in window {
            for from in [Role::P0, Role::P1] {
                let payload = payload(shape, from, len);
                bytes[from.index()] += if payload == 0 { 0 } else { frame(payload) };
            }
        }
    }
}

/// The elements of a window of chunks.
fn elements(window: &[(usize, usize, usize)]) -> Range<usize> {
    let start = window.first().map_or(0, |&(start, _, _)| start);
    start..window.last().map_or(start, |&(start, len, _)| start + len)
}

/// Ring and number of the corrections of a chunk that `from` sends: daBits (P0 only), `r` (all bits but the
/// first), `q` (degree 2 only).
fn runs(shape: &Select, from: Role, len: usize) -> [(Ring, usize); 3] {
    let n = len * shape.thresholds;
    [
        (half_ring(shape.ring), if from == Role::P0 { n } else { 0 }),
        (shape.ring, n - len),
        (shape.ring, if shape.degree == 2 { n } else { 0 }),
    ]
}

/// Bytes of these corrections. If there are none, no message is sent.
fn payload(shape: &Select, from: Role, len: usize) -> usize {
    runs(shape, from, len).iter().map(|&(ring, n)| ring.packed_len(n)).sum()
}

/// The pads of one transfer, one word per field: daBit, `r`, `q`.
///
/// Up to 128 bits come from the pad itself; for more it becomes the seed of a stream, never both.
fn pad_words(pad: u128, ring: Ring, degree: usize) -> [u64; 3] {
    if degree == 1 {
        // Disjoint bits for the two fields; at l = 1 the daBit field still has one bit.
        return [pad as u64, (pad >> half_ring(ring).bits()) as u64, 0];
    }
    let mut words = [0; 3];
    Prg::from_seed(pad.to_le_bytes()).fill_u64(&mut words);
    words
}

/// `(1 - 2 rho) value`.
fn signed(rho: u64, value: u64) -> u64 {
    (value ^ rho.wrapping_neg()).wrapping_add(rho)
}

pub(super) fn generate(tp: &mut TwoParty, channel: &mut Channel, shape: &Select) -> Result<Material, MpcError> {
    let (n, k, ring, role) = (shape.count, shape.thresholds, shape.ring, tp.role);
    let words = words_for(n);
    // r, and [r^2] at degree 2.
    let mut tensors = vec![vec![0u64; n]; shape.degree];
    let mut bits = vec![0u64; k * words];
    let mut dabits = vec![0u64; k * n];
    let mut times = vec![vec![0u64; k * n]; shape.degree];
    let all: Vec<_> = element_chunks(shape).collect();
    for window in all.chunks(WINDOW) {
        let needed = window.iter().map(|&(_, _, padded)| k * padded).sum();
        tp.reserve(channel, [needed; 2])?;
        let mut pending = Vec::with_capacity(window.len());
        for &(start, len, padded) in window {
            let ots = tp.both_ways(channel, k * padded)?;
            own_masks(shape, &ots, &mut tensors[0][start..start + len]);
            pending.push(ots);
        }
        if let [mask, square] = &mut tensors[..] {
            let range = elements(window);
            own_squares(tp, channel, ring, &mask[range.clone()], &mut square[range])?;
        }
        for (&(start, len, padded), ots) in window.iter().zip(&pending) {
            let message = own_corrections(role, shape, ots, &tensors, start, len, padded);
            if !message.is_empty() {
                channel.send(CORRECTION, message)?;
            }
        }
        for (&(start, len, padded), ots) in window.iter().zip(pending) {
            let received = receive_corrections(channel, role.other(), shape, len)?;
            for j in 0..k {
                let own = &ots.choices[j * padded / 64..(j + 1) * padded / 64];
                bits[j * words + start / 64..][..own.len()].copy_from_slice(own);
                for i in 0..len {
                    let (ot, at) = (j * padded + i, j * n + start + i);
                    let rho = bit(own, i);
                    let mine = pad_words(ots.sent[ot][0], ring, shape.degree);
                    let theirs = pad_words(ots.received[ot], ring, shape.degree);
                    // As receiver. There is no correction of P1's daBit, nor of `r` for bit 0.
                    let get = |f: usize| {
                        let at = (j * len + i).checked_sub(if f == 1 { len } else { 0 });
                        let correction = at.and_then(|at| received[f].get(at)).copied().unwrap_or(0);
                        corrected(theirs[f], rho, correction)
                    };
                    let product = if role == Role::P0 { mine[0].wrapping_neg() } else { get(0) };
                    dabits[at] = ring.reduce(rho.wrapping_sub(product << 1));
                    for (d, tensor) in tensors.iter().enumerate() {
                        let local = rho.wrapping_neg() & tensor[start + i];
                        times[d][at] = ring.reduce(local.wrapping_add(get(d + 1)).wrapping_sub(mine[d + 1]));
                    }
                }
            }
        }
    }
    let mut tensors = tensors.into_iter();
    let mut times = times.into_iter();
    let mut fields = vec![tensors.next().unwrap_or_default(), bits, dabits, times.next().unwrap_or_default()];
    fields.extend(tensors.chain(times));
    Ok(Material { fields: fields.into_iter().map(ring_field).collect() })
}

/// This party's `r` of a chunk: what its transfers for bit 0 carry as they are.
fn own_masks(shape: &Select, ots: &BothWays, out: &mut [u64]) {
    for (i, r) in out.iter_mut().enumerate() {
        let [m0, m1] = ots.sent[i].map(|pad| pad_words(pad, shape.ring, shape.degree)[1]);
        *r = shape.ring.reduce(signed(bit(&ots.choices, i), m1.wrapping_sub(m0)));
    }
}

/// `[r^2] = r_i^2 + 2 [r_0 r_1]_i`.
fn own_squares(
    tp: &mut TwoParty,
    channel: &mut Channel,
    ring: Ring,
    r: &[u64],
    out: &mut [u64],
) -> Result<(), MpcError> {
    ole::products(
        tp,
        channel,
        ring,
        Role::P0,
        r,
        |i, to| to.push(r[i]),
        1,
        |i, cross| out[i] = ring.reduce(r[i].wrapping_mul(r[i]).wrapping_add(cross[0] << 1)),
    )
}

/// This party's corrections of one chunk, as [`runs`] has them.
fn own_corrections(
    role: Role,
    shape: &Select,
    ots: &BothWays,
    tensors: &[Vec<u64>],
    start: usize,
    len: usize,
    padded: usize,
) -> Vec<u8> {
    let layout = runs(shape, role, len);
    let mut values = layout.map(|(_, n)| Vec::with_capacity(n));
    for j in 0..shape.thresholds {
        for i in 0..len {
            let ot = j * padded + i;
            let rho = bit(&ots.choices, ot);
            let [m0, m1] = ots.sent[ot].map(|p| pad_words(p, shape.ring, shape.degree));
            let mut push = |f: usize, value: u64| values[f].push(correct(layout[f].0, value, m0[f], m1[f]));
            if role == Role::P0 {
                push(0, rho);
            }
            for (d, tensor) in tensors.iter().enumerate() {
                // The mask is what the first bit's pads make it.
                if j > 0 || d > 0 {
                    push(d + 1, signed(rho, tensor[start + i]));
                }
            }
        }
    }
    let mut out = Vec::with_capacity(payload(shape, role, len));
    layout.iter().zip(&values).for_each(|((ring, _), values)| ring.pack_into(&mut out, values));
    out
}

/// The corrections of one chunk that `from` sent.
fn receive_corrections(
    channel: &mut Channel,
    from: Role,
    shape: &Select,
    len: usize,
) -> Result<[Vec<u64>; 3], MpcError> {
    let mut fields: [Vec<u64>; 3] = Default::default();
    let bytes = payload(shape, from, len);
    if bytes == 0 {
        return Ok(fields);
    }
    let message = channel.recv(CORRECTION, bytes)?;
    let mut rest = message.as_slice();
    for (field, (ring, n)) in fields.iter_mut().zip(runs(shape, from, len)) {
        let (head, tail) = rest.split_at(ring.packed_len(n));
        *field = ring.unpack(head, n)?;
        rest = tail;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// To a peer that knows one pad of each transfer, and even `rho`, every mask is equally likely: over all
    /// values of the other pad each one comes up equally often, with the daBit's bits of that pad fixed.
    #[test]
    fn the_unknown_pad_makes_the_mask_uniform() {
        let shape = Select { ring: Ring::new(4).unwrap(), count: 1, thresholds: 1, degree: 1 };
        let dabit = half_ring(shape.ring).bits();
        for (known, choice, rho) in [(0x35u128, 0, 0u64), (0x35, 1, 0), (0x5a, 0, 1), (0x5a, 1, 1)] {
            for low in 0..1u128 << dabit {
                let mut seen = [0; 16];
                for high in 0..16u128 {
                    let mut pads = [known; 2];
                    pads[1 - choice] = high << dabit | low;
                    let ots = BothWays { sent: vec![pads], choices: vec![rho], received: vec![0] };
                    let mut r = [0];
                    own_masks(&shape, &ots, &mut r);
                    seen[r[0] as usize] += 1;
                }
                assert_eq!(seen, [1; 16], "known pad {known}, choice {choice}, rho {rho}");
            }
        }
    }

    /// No bit of a pad enters two fields, for any ring: two corrections under one bit show the sum of two
    /// masks.
    #[test]
    fn fields_use_disjoint_bits_of_a_pad() {
        for l in 1..=64 {
            let ring = Ring::new(l).unwrap();
            let fields = |pad: u128| {
                let w = pad_words(pad, ring, 1);
                [half_ring(ring).reduce(w[0]), ring.reduce(w[1])]
            };
            for bit in 0..128 {
                let (a, b) = (fields(0), fields(1 << bit));
                assert!(a[0] == b[0] || a[1] == b[1], "l = {l}, bit {bit}");
            }
        }
    }
}
