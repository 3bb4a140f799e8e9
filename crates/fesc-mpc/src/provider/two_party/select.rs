//! Selections. With XOR shares `rho_i` taken from the choice bits,
//! `rho r = rho_0 r_0 + rho_1 r_1 + rho_1 (1 - 2 rho_0) r_0 + rho_0 (1 - 2 rho_1) r_1`:
//! one transfer each way, in which the OT sender's value is `(1 - 2 rho_i) r_i`. The transfer from P0 also carries the daBit
//! (`rho_0`, modulo `2^(l-1)`), and at degree 2 both carry `(1 - 2 rho_i) q_i` with `[q] = [r^2]`.

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
    if shape.degree == 2 {
        ole::add_corrections_of(shape.ring, shape.count, 1, Role::P0, bytes);
    }
    for (_, len, _) in element_chunks(shape) {
        let n = len * shape.thresholds;
        let products = shape.degree * shape.ring.packed_len(n);
        bytes[0] += frame(half_ring(shape.ring).packed_len(n) + products);
        bytes[1] += frame(products);
    }
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

pub(super) fn generate(tp: &mut TwoParty, channel: &mut Channel, shape: &Select) -> Result<Material, MpcError> {
    let (n, k, ring, role) = (shape.count, shape.thresholds, shape.ring, tp.role);
    let words = words_for(n);
    let mask = tp.prg.ring_vec(ring, n);
    let mut tensors = vec![mask];
    if shape.degree == 2 {
        // [r^2] = r_i^2 + 2 [r_0 r_1]_i
        let r = &tensors[0];
        let mut cross = vec![0u64; n];
        ole::products(tp, channel, ring, Role::P0, r, |i, to| to.push(r[i]), 1, |i, part| cross[i] = part[0])?;
        let square = r.iter().zip(&cross).map(|(&r, &c)| ring.reduce(r.wrapping_mul(r).wrapping_add(c << 1))).collect();
        tensors.push(square);
    }
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
            channel.send(CORRECTION, own_corrections(role, shape, &ots, &tensors, start, len, padded))?;
            pending.push(ots);
        }
        for (&(start, len, padded), ots) in window.iter().zip(pending) {
            let received = receive_corrections(channel, role, shape, len)?;
            for j in 0..k {
                let own = &ots.choices[j * padded / 64..(j + 1) * padded / 64];
                bits[j * words + start / 64..][..own.len()].copy_from_slice(own);
                for i in 0..len {
                    let (ot, at) = (j * padded + i, j * n + start + i);
                    let rho = bit(own, i);
                    let mine = pad_words(ots.sent[ot][0], ring, shape.degree);
                    let theirs = pad_words(ots.received[ot], ring, shape.degree);
                    // As receiver; the peer's corrections have no daBit field when P1 sent them.
                    let get = |f: usize| corrected(theirs[f], rho, received[f].get(j * len + i).copied().unwrap_or(0));
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

/// This party's corrections of one chunk: daBits (P0 only), then one run per tensor.
fn own_corrections(
    role: Role,
    shape: &Select,
    ots: &BothWays,
    tensors: &[Vec<u64>],
    start: usize,
    len: usize,
    padded: usize,
) -> Vec<u8> {
    let (ring, k) = (shape.ring, shape.thresholds);
    let mut runs = vec![Vec::with_capacity(k * len); 1 + tensors.len()];
    for j in 0..k {
        for i in 0..len {
            let ot = j * padded + i;
            let rho = bit(&ots.choices, ot);
            let [m0, m1] = ots.sent[ot].map(|p| pad_words(p, ring, shape.degree));
            runs[0].push(correct(half_ring(ring), rho, m0[0], m1[0]));
            for (d, tensor) in tensors.iter().enumerate() {
                let value = (tensor[start + i] ^ rho.wrapping_neg()).wrapping_add(rho);
                runs[d + 1].push(correct(ring, value, m0[d + 1], m1[d + 1]));
            }
        }
    }
    let mut out = if role == Role::P0 { half_ring(ring).pack(&runs[0]) } else { Vec::new() };
    runs[1..].iter().for_each(|run| ring.pack_into(&mut out, run));
    out
}

/// The peer's corrections of one chunk; field 0 is empty at P0.
fn receive_corrections(
    channel: &mut Channel,
    role: Role,
    shape: &Select,
    len: usize,
) -> Result<Vec<Vec<u64>>, MpcError> {
    let n = len * shape.thresholds;
    let (ring, first) = (shape.ring, half_ring(shape.ring));
    let first_len = if role == Role::P1 { first.packed_len(n) } else { 0 };
    let each = ring.packed_len(n);
    let reply = channel.recv(CORRECTION, first_len + shape.degree * each)?;
    let (head, tail) = reply.split_at(first_len);
    let mut fields = vec![if role == Role::P1 { first.unpack(head, n)? } else { Vec::new() }];
    for part in tail.chunks_exact(each.max(1)) {
        fields.push(ring.unpack(part, n)?);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// No bit of a pad enters two fields, for any ring: two corrections under one bit show the sum of two masks.
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
