//! Products of private numbers by Gilboa's method: the receiver's number is taken bit by bit as OT choices,
//! the sender's number (or vector) is what a set bit adds, and bit `b` is worked out modulo `2^(l - b)` only.
//!
//! Cost of a number times a vector of `w` numbers: `l` OTs, `l` bits up (choices against the random ones),
//! `w l (l + 1) / 2` bits down.

use fesc_net::Channel;
use fesc_ring::{Prg, Ring};
use zeroize::Zeroizing;

use super::{CHOICES, CORRECTION, TwoParty, WINDOW, chunks, correct, corrected, frame};
use crate::Role;
use crate::correlation::{Bundle, Product, ProductShape};
use crate::error::MpcError;

/// OTs times vector elements per chunk.
const CHUNK_WORDS: usize = 1 << 18;

/// Numbers per chunk.
fn chunk_len(ring: Ring, width: usize) -> usize {
    (CHUNK_WORDS / (ring.bits() as usize * width.max(1))).clamp(1, 1 << 12)
}

/// A product as numbers times vectors: every stored entry of one operand, the *numbers*, meets the entries of
/// the other along the axes that only the other has.
struct Numbers {
    /// The numbers are the right operand's.
    right: bool,
    count: usize,
    width: usize,
}

/// The cheaper of the two ways, in bytes of corrections.
fn numbers(bundle: &Bundle, product: &Product, shape: &ProductShape) -> Numbers {
    let left = Numbers { right: false, count: bundle.mask_len(product.left), width: shape.right() };
    let right = Numbers { right: true, count: bundle.mask_len(product.right), width: shape.left() };
    let bytes = |n: &Numbers| {
        let mut bytes = [0; 2];
        add_corrections_of(bundle.ring, n.count, n.width, Role::P0, &mut bytes);
        bytes[0] + bytes[1]
    };
    let empty = Numbers { right: false, count: 0, width: 0 };
    match shape.out_len() * shape.sum() {
        0 => empty,
        _ if bytes(&right) < bytes(&left) => right,
        _ => left,
    }
}

/// The cross terms as `(who has the numbers, are they counted twice)`. A mask times itself is symmetric and
/// needs only one: both operands have the same axes, so neither has one of its own.
fn directions(product: &Product) -> &'static [(Role, bool)] {
    if product.left == product.right { &[(Role::P0, true)] } else { &[(Role::P0, false), (Role::P1, false)] }
}

/// COTs for all products of a bundle with each party as sender. The bundle has been validated.
pub(super) fn add_transfers(bundle: &Bundle, ots: &mut [usize; 2]) {
    for product in &bundle.products {
        let Ok(shape) = ProductShape::new(bundle, product) else { continue };
        let n = numbers(bundle, product, &shape);
        directions(product).iter().for_each(|&(role, _)| add_transfers_of(bundle.ring, n.count, role, ots));
    }
}

/// Bytes of corrections for them.
pub(super) fn add_corrections(bundle: &Bundle, bytes: &mut [u64; 2]) {
    for product in &bundle.products {
        let Ok(shape) = ProductShape::new(bundle, product) else { continue };
        let n = numbers(bundle, product, &shape);
        directions(product).iter().for_each(|&(r, _)| add_corrections_of(bundle.ring, n.count, n.width, r, bytes));
    }
}

/// COTs for `count` products whose numbers `chooser` has.
pub(super) fn add_transfers_of(ring: Ring, count: usize, chooser: Role, ots: &mut [usize; 2]) {
    ots[chooser.other().index()] += count * ring.bits() as usize;
}

/// Bytes for them.
pub(super) fn add_corrections_of(ring: Ring, count: usize, width: usize, chooser: Role, bytes: &mut [u64; 2]) {
    for (_, len) in chunks(count, chunk_len(ring, width)) {
        bytes[chooser.index()] += frame(ring.packed_len(len));
        bytes[chooser.other().index()] += frame(down_bytes(ring, len * width));
    }
}

/// Bytes of the corrections of `n` vector elements, all bit positions.
fn down_bytes(ring: Ring, n: usize) -> usize {
    levels(ring).map(|r| r.packed_len(n)).sum()
}

/// The rings `Z_2^l, Z_2^(l-1), .., Z_2`.
fn levels(ring: Ring) -> impl Iterator<Item = Ring> {
    (1..=ring.bits()).rev().filter_map(|b| Ring::new(b).ok())
}

/// This party's share of the cross terms of a product, given its shares of the two masks.
pub(super) fn cross_terms(
    tp: &mut TwoParty,
    channel: &mut Channel,
    bundle: &Bundle,
    product: &Product,
    left: &[u64],
    right: &[u64],
) -> Result<Vec<u64>, MpcError> {
    let (ring, shape) = (bundle.ring, ProductShape::new(bundle, product)?);
    let n = numbers(bundle, product, &shape);
    let mut out = vec![0u64; shape.out_len()];
    if n.count * n.width == 0 {
        return Ok(out);
    }
    let (mut mine, mut other) = ((left, shape.left_index()), (right, shape.right_index()));
    if n.right {
        std::mem::swap(&mut mine, &mut other);
    }
    let places = shape.out_index();
    let (target_free, target_run) = if n.right { (&places.sum, &places.free) } else { (&places.free, &places.sum) };
    // For the entry stored at each place: its batch, free and sum indices.
    let mut meets = vec![[0u32; 3]; n.count];
    for (b, _) in mine.1.batch.iter().enumerate() {
        for (f, _) in mine.1.free.iter().enumerate() {
            for (s, _) in mine.1.sum.iter().enumerate() {
                if let Some(at) = mine.1.at(b, f, s) {
                    meets[at] = [b as u32, f as u32, s as u32];
                }
            }
        }
    }
    let vector = |i: usize, to: &mut Vec<u64>| {
        let [b, _, s] = meets[i].map(|v| v as usize);
        to.extend((0..n.width).map(|w| other.1.at(b, w, s).map_or(0, |at| other.0[at])));
    };
    for &(chooser, twice) in directions(product) {
        products(tp, channel, ring, chooser, mine.0, vector, n.width, |i, part| {
            let [b, f, _] = meets[i].map(|v| v as usize);
            let base = places.batch[b] as usize + target_free[f] as usize;
            for (&w, &v) in target_run.iter().zip(part) {
                let o = &mut out[base + w as usize];
                *o = ring.reduce(o.wrapping_add(v << u32::from(twice)));
            }
        })?;
    }
    Ok(out)
}

/// Shares of `numbers[i] * vector(i)`: `chooser`'s numbers, the other party's vectors of `width` elements,
/// which `vector` appends to its argument. Each share goes to `add(i, share)` as soon as its chunk is done,
/// so that no more than a window is held.
#[allow(clippy::too_many_arguments)]
pub(super) fn products(
    tp: &mut TwoParty,
    channel: &mut Channel,
    ring: Ring,
    chooser: Role,
    numbers: &[u64],
    vector: impl Fn(usize, &mut Vec<u64>),
    width: usize,
    mut add: impl FnMut(usize, &[u64]),
) -> Result<(), MpcError> {
    let mut done = |start: usize, share: Vec<u64>| {
        share.chunks_exact(width).enumerate().for_each(|(i, part)| add(start + i, part));
    };
    let all: Vec<_> = chunks(numbers.len(), chunk_len(ring, width)).collect();
    for window in all.chunks(WINDOW) {
        let mut ots = [0; 2];
        window.iter().for_each(|&(_, len)| add_transfers_of(ring, len, chooser, &mut ots));
        tp.reserve(channel, ots)?;
        if tp.role == chooser {
            // All choices of the window leave before the first answer is awaited.
            let mut pads = Vec::with_capacity(window.len());
            for &(start, len) in window {
                pads.push(choose(tp, channel, ring, &numbers[start..start + len])?);
            }
            for (&(start, len), pads) in window.iter().zip(pads) {
                done(start, collect(channel, ring, &numbers[start..start + len], &pads, width)?);
            }
        } else {
            for &(start, len) in window {
                let mut vectors = Zeroizing::new(Vec::with_capacity(len * width));
                (start..start + len).for_each(|s| vector(s, &mut vectors));
                done(start, offer(tp, channel, ring, &vectors, width)?);
            }
        }
    }
    Ok(())
}

/// Sends the bits of the numbers against random choices; returns the pads.
fn choose(
    tp: &mut TwoParty,
    channel: &mut Channel,
    ring: Ring,
    numbers: &[u64],
) -> Result<Zeroizing<Vec<u128>>, MpcError> {
    let l = ring.bits() as usize;
    let (random, pads) = tp.receiver.random(channel, numbers.len() * l)?;
    let chosen = |i: usize| (0..l).fold(0, |acc, b| acc | super::bit(&random, i * l + b) << b);
    let up: Vec<u64> = numbers.iter().enumerate().map(|(i, &x)| x ^ chosen(i)).collect();
    channel.send(CHOICES, ring.pack(&up))?;
    Ok(pads.into())
}

/// Adds up what the chosen bits give.
fn collect(
    channel: &mut Channel,
    ring: Ring,
    numbers: &[u64],
    pads: &[u128],
    width: usize,
) -> Result<Vec<u64>, MpcError> {
    let (l, n) = (ring.bits() as usize, numbers.len() * width);
    let bytes = channel.recv(CORRECTION, down_bytes(ring, n))?;
    let mut rest = bytes.as_slice();
    let mut words = Zeroizing::new(vec![0u64; width]);
    let mut out = vec![0u64; n];
    for (b, level) in levels(ring).enumerate() {
        let (head, tail) = rest.split_at(level.packed_len(n));
        rest = tail;
        let down = level.unpack(head, n)?;
        for (i, &x) in numbers.iter().enumerate() {
            pad_words(pads[i * l + b], &mut words);
            for (j, &w) in words.iter().enumerate() {
                let share = level.reduce(corrected(w, x >> b & 1, down[i * width + j]));
                out[i * width + j] = ring.reduce(out[i * width + j].wrapping_add(share << b));
            }
        }
    }
    Ok(out)
}

fn offer(
    tp: &mut TwoParty,
    channel: &mut Channel,
    ring: Ring,
    vectors: &[u64],
    width: usize,
) -> Result<Vec<u64>, MpcError> {
    let l = ring.bits() as usize;
    let count = vectors.len() / width;
    let pads = Zeroizing::new(tp.sender.random(channel, count * l)?);
    let swaps = ring.unpack(&channel.recv(CHOICES, ring.packed_len(count))?, count)?;
    let mut out = vec![0u64; vectors.len()];
    let mut message = Vec::with_capacity(down_bytes(ring, vectors.len()));
    let [mut zero, mut one] = [0, 1].map(|_| Zeroizing::new(vec![0u64; width]));
    for (b, level) in levels(ring).enumerate() {
        let mut down = Vec::with_capacity(vectors.len());
        for (i, vector) in vectors.chunks_exact(width).enumerate() {
            let swap = (swaps[i] >> b & 1) as usize;
            let pair = pads[i * l + b];
            pad_words(pair[swap], &mut zero);
            pad_words(pair[1 - swap], &mut one);
            for (j, &v) in vector.iter().enumerate() {
                down.push(correct(level, v, zero[j], one[j]));
                out[i * width + j] = ring.reduce(out[i * width + j].wrapping_sub(level.reduce(zero[j]) << b));
            }
        }
        level.pack_into(&mut message, &down);
    }
    channel.send(CORRECTION, message)?;
    Ok(out)
}

/// One word per vector element from a pad: the pad itself for up to two, a stream seeded by it for more,
/// never both.
fn pad_words(pad: u128, out: &mut [u64]) {
    match out {
        [one] => *one = pad as u64,
        [one, two] => (*one, *two) = (pad as u64, (pad >> 64) as u64),
        _ => Prg::from_seed(pad.to_le_bytes()).fill_u64(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_pad_are_unrelated() {
        for width in [2, 3, 8] {
            let mut words = vec![0; width];
            pad_words(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978, &mut words);
            let distinct: std::collections::HashSet<_> = words.iter().collect();
            assert_eq!(distinct.len(), width);
        }
    }
}
