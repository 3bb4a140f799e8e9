//! Leaves, AND triples, transfers each way, bit products and daBits.

use fesc_net::Channel;
use fesc_ring::{LongRing, Ring};

use zeroize::Zeroizing;

use super::{CHUNK, CORRECTION, TwoParty, bit, chunks, correct, corrected, frame, ring_field};
use crate::Role;
use crate::correlation::{BitTriples, DaBits, Field, Leaves, LongBitProducts, Material, Transfers};
use crate::error::MpcError;

/// Random 1-of-8 transfers, as they come; pads are cut to `planes` bits.
pub(super) fn leaves(tp: &mut TwoParty, channel: &mut Channel, shape: &Leaves) -> Result<Material, MpcError> {
    let (planes, pad_bytes) = (shape.planes, shape.pad_bytes());
    if tp.role == shape.sender {
        let mut out = vec![0u8; shape.count * planes];
        for (start, len) in chunks(shape.count, CHUNK) {
            let pads = tp.sender.random_1of8(channel, len)?;
            for (pads, out) in pads.iter().zip(out[start * planes..].chunks_exact_mut(planes)) {
                for (group, out) in out.chunks_mut(8).enumerate() {
                    let rows = std::array::from_fn(|v| (pads[v] >> (8 * group)) as u8);
                    out.copy_from_slice(&transpose8(rows)[..out.len()]);
                }
            }
        }
        return Ok(Material { fields: vec![Field::Bytes(out.into())] });
    }
    let mut digits = Vec::with_capacity(shape.count);
    let mut out = Vec::with_capacity(shape.count * pad_bytes);
    let mask = if planes == 128 { u128::MAX } else { (1 << planes) - 1 };
    for (_, len) in chunks(shape.count, CHUNK) {
        let (choices, pads) = tp.receiver.random_1of8(channel, len)?;
        digits.extend_from_slice(&choices);
        pads.iter().for_each(|p| out.extend_from_slice(&(p & mask).to_le_bytes()[..pad_bytes]));
    }
    Ok(Material { fields: vec![Field::Bytes(digits.into()), Field::Bytes(out.into())] })
}

/// Transposes an 8 x 8 bit matrix: bit `v` of byte `p` of the result is bit `p` of `rows[v]`.
fn transpose8(rows: [u8; 8]) -> [u8; 8] {
    let mut x = u64::from_le_bytes(rows);
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aau64), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    }
    x.to_le_bytes()
}

/// AND triples. As OT sender a party's operand is `m0 xor m1`, as receiver its common operand is its choice;
/// the two cross terms are the two transfers, and nothing is sent.
pub(super) fn triples(tp: &mut TwoParty, channel: &mut Channel, shape: &BitTriples) -> Result<Material, MpcError> {
    let mut fields = vec![vec![0u64; shape.words]; 1 + 2 * shape.width];
    for (start, len) in chunks(shape.words, CHUNK / 64) {
        let ots = tp.both_ways(channel, 64 * len)?;
        fields[BitTriples::COMMON][start..start + len].copy_from_slice(&ots.choices[..len]);
        for w in 0..len {
            let b = ots.choices[w];
            let (sent, received) = (&ots.sent[64 * w..64 * (w + 1)], &ots.received[64 * w..64 * (w + 1)]);
            for j in 0..shape.width {
                let pick = |f: &dyn Fn(usize) -> u128| (0..64).fold(0u64, |acc, i| acc | ((f(i) >> j) as u64 & 1) << i);
                let a = pick(&|i| sent[i][0] ^ sent[i][1]);
                let own = pick(&|i| sent[i][0] ^ received[i]);
                fields[BitTriples::operand(j)][start + w] = a;
                fields[BitTriples::product(j)][start + w] = a & b ^ own;
            }
        }
    }
    Ok(Material { fields: fields.into_iter().map(ring_field).collect() })
}

/// Transfers each way, as they come; pads are cut to the ring. Two independent pads are a pad and an offset.
pub(super) fn transfers(tp: &mut TwoParty, channel: &mut Channel, shape: &Transfers) -> Result<Material, MpcError> {
    let (ring, n) = (shape.ring, 64 * shape.words);
    let [mut pads, mut offsets, mut chosen] = [(); 3].map(|()| Zeroizing::new(Vec::with_capacity(n)));
    let mut choices = Zeroizing::new(Vec::with_capacity(shape.words));
    for (_, len) in chunks(shape.words, CHUNK / 64) {
        let ots = tp.both_ways(channel, 64 * len)?;
        pads.extend(ots.sent.iter().map(|p| ring.reduce(p[0] as u64)));
        offsets.extend(ots.sent.iter().map(|p| ring.sub(p[1] as u64, p[0] as u64)));
        choices.extend_from_slice(&ots.choices);
        chosen.extend(ots.received.iter().map(|&p| ring.reduce(p as u64)));
    }
    Ok(Material { fields: [pads, offsets, choices, chosen].map(Field::Ring).into() })
}

/// Bit products: P0 is the OT sender with its random bits `u`, P1's choices are `v`.
pub(super) fn products(
    tp: &mut TwoParty,
    channel: &mut Channel,
    ring: Ring,
    words: usize,
) -> Result<Material, MpcError> {
    let mut bits = Vec::with_capacity(words);
    let mut shares = Vec::with_capacity(64 * words);
    for (_, len) in chunks(words, CHUNK / 64) {
        let n = 64 * len;
        match tp.role {
            Role::P0 => {
                let pads = tp.sender.random(channel, n)?;
                let mut own = vec![0u64; len];
                tp.prg.fill_u64(&mut own);
                let corrections: Vec<u64> =
                    (0..n).map(|i| correct(ring, bit(&own, i), pads[i][0] as u64, pads[i][1] as u64)).collect();
                channel.send(CORRECTION, ring.pack(&corrections))?;
                shares.extend(pads.iter().map(|p| ring.neg(p[0] as u64)));
                bits.extend_from_slice(&own);
            }
            Role::P1 => {
                let (choices, pads) = tp.receiver.random(channel, n)?;
                let corrections = ring.unpack(&channel.recv(CORRECTION, ring.packed_len(n))?, n)?;
                shares.extend((0..n).map(|i| ring.reduce(corrected(pads[i] as u64, bit(&choices, i), corrections[i]))));
                bits.extend_from_slice(&choices[..len]);
            }
        }
    }
    Ok(Material { fields: vec![ring_field(bits), ring_field(shares)] })
}

/// Bytes of the corrections of [`products`].
pub(super) fn product_bytes(ring: Ring, words: usize) -> u64 {
    chunks(words, CHUNK / 64).map(|(_, len)| frame(ring.packed_len(64 * len))).sum()
}

/// [`products`] modulo more than `2^64`: a pad has 128 bits.
pub(super) fn long_products(
    tp: &mut TwoParty,
    channel: &mut Channel,
    shape: &LongBitProducts,
) -> Result<Material, MpcError> {
    let (ring, words) = (shape.ring, shape.words);
    let mut bits = Vec::with_capacity(words);
    let mut shares = Zeroizing::new(Vec::with_capacity(64 * words));
    for (_, len) in chunks(words, CHUNK / 64) {
        let n = 64 * len;
        match tp.role {
            Role::P0 => {
                let pads = tp.sender.random(channel, n)?;
                let mut own = vec![0u64; len];
                tp.prg.fill_u64(&mut own);
                let correct = |(i, p): (usize, &[u128; 2])| ring.sub(u128::from(bit(&own, i)).wrapping_add(p[0]), p[1]);
                let corrections: Vec<u128> = pads.iter().enumerate().map(correct).collect();
                channel.send(CORRECTION, ring.pack(&corrections))?;
                shares.extend(pads.iter().map(|p| ring.sub(0, p[0])));
                bits.extend_from_slice(&own);
            }
            Role::P1 => {
                let (choices, pads) = tp.receiver.random(channel, n)?;
                let corrections = ring.unpack(&channel.recv(CORRECTION, ring.packed_len(n))?, n)?;
                let chosen = |i: usize| u128::from(bit(&choices, i)).wrapping_neg() & corrections[i];
                shares.extend((0..n).map(|i| ring.add(pads[i], chosen(i))));
                bits.extend_from_slice(&choices[..len]);
            }
        }
    }
    let part = |shift: u32| ring_field(shares.iter().map(|&s| (s >> shift) as u64).collect());
    Ok(Material { fields: vec![ring_field(bits), part(0), part(64)] })
}

/// Bytes of the corrections of [`long_products`].
pub(super) fn long_product_bytes(ring: LongRing, words: usize) -> u64 {
    chunks(words, CHUNK / 64).map(|(_, len)| frame(ring.packed_len(64 * len))).sum()
}

/// The ring in which `rho0 rho1` is needed when only twice it enters: one bit less.
pub(super) fn half_ring(ring: Ring) -> Ring {
    Ring::new(ring.bits() - 1).unwrap_or(ring)
}

/// daBits: `[rho] = rho0 + rho1 - 2 rho0 rho1`.
pub(super) fn dabits(tp: &mut TwoParty, channel: &mut Channel, shape: &DaBits) -> Result<Material, MpcError> {
    let mut half = products(tp, channel, half_ring(shape.ring), shape.words)?;
    let own = half.ring(DaBits::BITS).to_vec();
    for (i, s) in half.ring_mut(DaBits::SHARES).iter_mut().enumerate() {
        *s = shape.ring.reduce(bit(&own, i).wrapping_sub(*s << 1));
    }
    Ok(half)
}

#[cfg(test)]
mod tests {
    use super::transpose8;

    #[test]
    fn transposition_of_bits() {
        let rows = [0x01, 0x82, 0x44, 0xff, 0x00, 0x10, 0xaa, 0x7e];
        let planes = transpose8(rows);
        for (v, row) in rows.iter().enumerate() {
            for (p, plane) in planes.iter().enumerate() {
                assert_eq!(plane >> v & 1, row >> p & 1);
            }
        }
    }
}
