//! The leaves of a comparison: per digit of three bits, one 1-of-8 transfer of XOR shares of `(gt_k, eq_k)`
//! for all thresholds `k` at once.
//!
//! The receiver's digit `c` is its own, independent of `k`; the sender compares it with its digits `y_k`. A
//! transfer's message has one byte ("plane") per bit: bit `v` of a `gt` plane is `[v > y_k]`, of an `eq`
//! plane `[v = y_k]`, each XORed with the pad of `v`. The sender takes as its own share whatever makes bit 0
//! of the plane zero, so that bit is not sent: 7 bits per plane travel, and no fresh randomness is drawn. The
//! pad of `v` is unknown to the receiver for every `v` but its own, so it sees uniform bits; the sender sees
//! digits under a uniform mask.
//!
//! No branch or table index depends on a secret.

use rayon::prelude::*;

/// Transfers are processed in blocks of 64, one machine word per bit plane.
pub(super) const BLOCK: usize = 64;

/// Blocks per rayon task: enough work to hide the hand-over.
const BLOCKS_PER_TASK: usize = 64;

/// XOR shares of one digit of many elements: word `w * K + k` covers elements `64 w ..` of threshold `k`.
pub(super) struct Node {
    pub gt: Vec<u64>,
    /// Empty at the lowest digit, where equality decides nothing.
    pub eq: Vec<u64>,
}

impl Node {
    pub(super) fn zeros(words: usize, with_eq: bool) -> Self {
        Self { gt: vec![0; words], eq: if with_eq { vec![0; words] } else { Vec::new() } }
    }

    /// Planes of one transfer of this digit.
    fn planes(&self, k: usize) -> usize {
        if self.eq.is_empty() { k } else { 2 * k }
    }

    /// The `gt` and `eq` words of every block; `eq` is an empty slice where there is none.
    fn blocks(&mut self, k: usize) -> impl IndexedParallelIterator<Item = (&mut [u64], &mut [u64])> {
        let blocks = self.gt.len() / k;
        let mut eq: Vec<&mut [u64]> = self.eq.chunks_mut(k).collect();
        eq.resize_with(blocks, Default::default);
        self.gt.par_chunks_mut(k).zip(eq)
    }
}

/// Sender's side of one digit: turns pads into messages (in place, one byte per plane) and sets its shares.
///
/// `ys` has the sender's values, `K` per element; `shift` selects the digit; `corrections` are the receiver's
/// masked digits; `planes` holds the pads and becomes the message.
pub(super) fn send_digit(k: usize, ys: &[u64], shift: u32, corrections: &[u64], planes: &mut [u8], node: &mut Node) {
    let per = node.planes(k);
    planes
        .par_chunks_mut(BLOCK * per)
        .zip(ys.par_chunks(BLOCK * k))
        .zip(corrections.par_chunks(BLOCK))
        .zip(node.blocks(k))
        .with_min_len(BLOCKS_PER_TASK)
        .for_each(|(((planes, ys), corrections), (gt, eq))| {
            let transfers = planes.chunks_exact_mut(per).zip(ys.chunks_exact(k)).zip(corrections);
            for (i, ((planes, ys), &correction)) in transfers.enumerate() {
                permute(planes, correction);
                for (j, &y) in ys.iter().enumerate() {
                    let digit = (y >> shift & 7) as u32;
                    let bit = fix_plane(&mut planes[j], 0xfeu8 << digit);
                    gt[j] |= bit << i;
                    if per > k {
                        let bit = fix_plane(&mut planes[k + j], 1u8 << digit);
                        eq[j] |= bit << i;
                    }
                }
            }
        });
}

/// Adds the truth table to a plane of pads, flips it so that bit 0 is zero, and returns the flip: the
/// sender's share.
fn fix_plane(plane: &mut u8, table: u8) -> u64 {
    let masked = *plane ^ table;
    let share = masked & 1;
    *plane = masked ^ share.wrapping_neg();
    u64::from(share)
}

/// Reorders the pads of one transfer: position `v` gets the pad of `v xor correction`, in every plane.
fn permute(planes: &mut [u8], correction: u64) {
    for group in planes.chunks_mut(8) {
        let mut bytes = [0u8; 8];
        bytes[..group.len()].copy_from_slice(group);
        let mut x = u64::from_le_bytes(bytes);
        for (step, low) in [(0, 0x5555_5555_5555_5555u64), (1, 0x3333_3333_3333_3333), (2, 0x0f0f_0f0f_0f0f_0f0f)] {
            let distance = 1 << step;
            let swapped = (x >> distance & low) | (x & low) << distance;
            let take = (correction >> step & 1).wrapping_neg();
            x ^= (x ^ swapped) & take;
        }
        group.copy_from_slice(&x.to_le_bytes()[..group.len()]);
    }
}

/// Receiver's side of one digit: picks bit `c` of every plane and removes its pad.
///
/// `lows` has the receiver's values; `pads` its pads, packed to `ceil(planes / 8)` bytes per transfer.
pub(super) fn receive_digit(k: usize, lows: &[u64], shift: u32, message: &[u8], pads: &[u8], node: &mut Node) {
    let per = node.planes(k);
    let pad_bytes = per.div_ceil(8);
    message
        .par_chunks(BLOCK * per)
        .zip(lows.par_chunks(BLOCK))
        .zip(pads.par_chunks(BLOCK * pad_bytes))
        .zip(node.blocks(k))
        .with_min_len(BLOCKS_PER_TASK)
        .for_each(|(((message, lows), pads), (gt, eq))| {
            let transfers = message.chunks_exact(per).zip(lows).zip(pads.chunks_exact(pad_bytes));
            for (i, ((planes, &low), pad)) in transfers.enumerate() {
                let c = low >> shift & 7;
                for (p, &plane) in planes.iter().enumerate() {
                    let bit = u64::from(plane) >> c ^ u64::from(pad[p / 8] >> (p % 8));
                    let word = if p < k { &mut gt[p] } else { &mut eq[p - k] };
                    *word |= (bit & 1) << i;
                }
            }
        });
}

/// Wire bytes of `planes` planes (a multiple of 8).
pub(super) const fn wire_bytes(planes: usize) -> usize {
    planes / 8 * 7
}

/// Drops the zero bit 0 of every plane: 8 bytes become 7.
pub(super) fn compress(planes: &[u8], out: &mut Vec<u8>) {
    for group in planes.chunks_exact(8) {
        let mut x = group.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
        x = x >> 1 & 0x7f7f_7f7f_7f7f_7f7f;
        x = (x & 0x007f_007f_007f_007f) | (x & 0x7f00_7f00_7f00_7f00) >> 1;
        x = (x & 0x0000_3fff_0000_3fff) | (x & 0x3fff_0000_3fff_0000) >> 2;
        x = (x & 0x0fff_ffff) | (x >> 32) << 28;
        out.extend_from_slice(&x.to_le_bytes()[..7]);
    }
}

/// The inverse of [`compress`].
pub(super) fn expand(wire: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(wire.len() / 7 * 8);
    for group in wire.chunks_exact(7) {
        let mut bytes = [0u8; 8];
        bytes[..7].copy_from_slice(group);
        let mut x = u64::from_le_bytes(bytes);
        x = (x & 0x0fff_ffff) | (x >> 28) << 32;
        x = (x & 0x0000_3fff_0000_3fff) | (x & 0x0fff_c000_0fff_c000) << 2;
        x = (x & 0x007f_007f_007f_007f) | (x & 0x3f80_3f80_3f80_3f80) << 1;
        out.extend_from_slice(&(x << 1).to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fesc_ring::Prg;

    #[test]
    fn compression_is_lossless_on_planes_with_bit_zero_clear() {
        let mut prg = Prg::from_seed([3; 16]);
        let planes: Vec<u8> = (0..800).map(|_| prg.next_u64() as u8 & 0xfe).collect();
        let mut wire = Vec::new();
        compress(&planes, &mut wire);
        assert_eq!(wire.len(), wire_bytes(planes.len()));
        assert_eq!(expand(&wire), planes);
    }

    #[test]
    fn pads_move_by_xor_of_their_index() {
        let mut prg = Prg::from_seed([4; 16]);
        for correction in 0..8u64 {
            let before: Vec<u8> = (0..13).map(|_| prg.next_u64() as u8).collect();
            let mut after = before.clone();
            permute(&mut after, correction);
            for (b, a) in before.iter().zip(&after) {
                for v in 0..8u64 {
                    assert_eq!(a >> v & 1, b >> (v ^ correction) & 1);
                }
            }
        }
    }
}
