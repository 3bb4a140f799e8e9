//! Single-point COT from the correlated GGM tree (half-tree).
//!
//! Guo, Yang, Wang, Zhang, Xie, Liu, Zhao (2022/1431), section 4. The sender's tree has the first level
//! `(r, r ^ Delta)` and a node `x` has the children `H(x)` and `x ^ H(x)`, so the nodes of *every* level XOR
//! to `Delta`. Child `b` of node `i` of a level with `P` nodes has index `b P + i`: level `l` decides bit `l`
//! of a leaf's index.
//!
//! For level `l` the parties hold one COT, `t_l = q_l ^ r_l Delta`. The sender sends `m_l = K_l ^ q_l` with
//! `K_l` the XOR of the *left* nodes of that level; the receiver gets `m_l ^ t_l = K_l ^ r_l Delta`: the XOR
//! of the nodes on side `r_l`. It sets bit `l` of its hidden leaf to `1 ^ r_l`, so it learns every leaf but
//! one, with no message of its own: the position is as uniform and as hidden as the COT's choice bits. The
//! missing leaf enters as the XOR of all others, which is `leaf ^ Delta`. Result: `w = v ^ e Delta` with `e`
//! the unit vector of the hidden place.
//!
//! Security for the sender: on the hidden path the receiver sees `H(s ^ Delta) ^ b Delta` with `s` known to
//! it and random: exactly the circular-correlation-robustness game, so each `m_l` is pseudorandom. The AES
//! key of `H` changes with every tree, so the number of hashes under one key is `l`, not all of the session.
//! Security for the receiver: it sends nothing. Cost: 16 bytes and one COT per level, about one AES call per
//! leaf.
//!
//! Not guaranteed: the receiver touches memory at places that depend on its own hidden position (within a 16
//! KB to 128 KB buffer); a co-resident cache attacker is outside the model.

use fesc_ring::block::Aes;

/// Low bits are cleared in the sender's leaves; the receiver's low bits are its choice bits.
const CLEAR: u128 = !1;

/// Fills `leaves` (length `2^levels`, `levels = paths.len()`) and `message`, one block per level.
pub(crate) fn send(aes: &Aes, delta: u128, root: u128, paths: &[u128], leaves: &mut [u128], message: &mut [[u8; 16]]) {
    if let [first, second, ..] = leaves {
        *first = root;
        *second = root ^ delta;
    }
    for (level, (q, m)) in paths.iter().zip(message).enumerate() {
        let left = if level == 0 { root } else { grow(aes, level, leaves) };
        *m = (left ^ q).to_le_bytes();
    }
    for l in leaves {
        *l &= CLEAR;
    }
}

/// The receiver's twin of [`send`], with its `t` values in `paths` and one message block per level.
pub(crate) fn receive(aes: &Aes, paths: &[u128], message: &[[u8; 16]], leaves: &mut [u128]) {
    let (mut hole, mut known) = (0usize, 0u128);
    for (level, (t, m)) in paths.iter().zip(message).enumerate() {
        let side = (t & 1) as usize;
        let mask = 0u128.wrapping_sub(t & 1);
        let sum = u128::from_le_bytes(*m) ^ t;
        let width = 1 << level;
        // The hole holds zero, so its two children are equal: take them out of the sums.
        let left = if level == 0 { 0 } else { grow(aes, level, leaves) ^ leaves[hole] };
        let right = known ^ left;
        let sibling = sum ^ (left & !mask) ^ (right & mask);
        leaves[hole] = sibling & !mask;
        leaves[hole + width] = sibling & mask;
        hole += (side ^ 1) * width;
        known ^= sibling;
    }
    for l in leaves.iter_mut() {
        *l &= CLEAR;
    }
    if let Some(l) = leaves.get_mut(hole) {
        *l = known | 1;
    }
}

/// Turns the `2^level` nodes of a level into the next one; returns the XOR of the left children.
fn grow(aes: &Aes, level: usize, leaves: &mut [u128]) -> u128 {
    let width = 1 << level;
    let (left, rest) = leaves.split_at_mut(width);
    aes.expand_level(left, &mut rest[..width])
}
