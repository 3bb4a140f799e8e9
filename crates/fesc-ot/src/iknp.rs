//! IKNP extension: correlated OT from 128 base keys.
//!
//! Ishai, Kilian, Nissim, Petrank (2003), semi-honest. The OT receiver holds key pairs `(k_j^0, k_j^1)`, the
//! OT sender `k_j^{Delta_j}`. Column `j` of the receiver's matrix is `T_j = G(k_j^0)`; it sends
//! `U_j = G(k_j^0) ^ G(k_j^1) ^ c`; the sender's column is
//! `Q_j = G(k_j^{Delta_j}) ^ Delta_j U_j = T_j ^ Delta_j c`. So row `i` has `q_i = t_i ^ c_i Delta`.
//!
//! The choices are random, so column 0 is free: `Delta_0 = 1` always, the receiver takes `c = T_0` (unknown
//! to the sender, who holds `k_0^1` only), hence `Q_0 = 0`, and nothing is sent for it. That is the crate's
//! convention: `lsb(q) = 0` and `lsb(t) = c`.
//!
//! Cost: 127 bits per COT, one way (receiver to sender). `U_j` hides `c` under the stream of the key that the
//! sender lacks.

use fesc_ring::Prg;
use fesc_ring::block::transpose_128;
use zeroize::Zeroize;

use crate::{OtCost, base};

/// COTs per message, and the unit below it.
const BATCH: usize = 1 << 14;
const UNIT: usize = 64;
const COLUMNS: usize = base::COUNT - 1;

/// COTs of the next message when `missing` are still needed.
pub(crate) fn batch(missing: usize) -> usize {
    missing.clamp(1, BATCH).next_multiple_of(UNIT)
}

/// Bytes of the message of a batch.
pub(crate) fn message_len(batch: usize) -> usize {
    COLUMNS * batch / 8
}

/// What `missing` COTs cost.
pub(crate) fn cost(missing: usize) -> OtCost {
    let mut cost = OtCost::default();
    let full = missing / BATCH;
    let frame = OtCost::from_receiver(message_len(BATCH));
    if full > 0 {
        cost.receiver_to_sender = frame.receiver_to_sender.saturating_mul(full as u64);
        cost.rounds = 1;
    }
    match missing % BATCH {
        0 => cost,
        rest => cost.with(OtCost::from_receiver(message_len(batch(rest)))),
    }
}

fn seed(key: u128) -> Prg {
    Prg::from_seed(key.to_le_bytes())
}

/// The OT sender's columns.
pub(crate) struct IknpSender {
    delta: u128,
    columns: Vec<Prg>,
}

impl IknpSender {
    pub(crate) fn new(delta: u128, keys: &[u128]) -> Self {
        Self { delta, columns: keys.iter().map(|&k| seed(k)).collect() }
    }

    /// Overwrites the global secret; the columns do so by themselves.
    pub(crate) fn wipe(&mut self) {
        self.delta.zeroize();
    }

    /// Appends `batch` values `q_i`, given the receiver's message of `message_len(batch)` bytes.
    pub(crate) fn extend(&mut self, batch: usize, message: &[u8], out: &mut Vec<u128>) {
        let stride = batch / UNIT;
        let mut rows = vec![0u64; base::COUNT * stride];
        let messages = message.chunks_exact((stride * 8).max(1));
        for (j, ((row, prg), u)) in
            rows.chunks_exact_mut(stride.max(1)).zip(&mut self.columns).skip(1).zip(messages).enumerate()
        {
            prg.fill_u64(row);
            let mask = 0u64.wrapping_sub((self.delta >> (j + 1) & 1) as u64);
            for (q, word) in row.iter_mut().zip(u.as_chunks::<8>().0) {
                *q ^= u64::from_le_bytes(*word) & mask;
            }
        }
        append(&rows, stride, batch, out);
    }
}

/// The OT receiver's columns.
pub(crate) struct IknpReceiver {
    columns: Vec<[Prg; 2]>,
}

impl IknpReceiver {
    pub(crate) fn new(keys: &[[u128; 2]]) -> Self {
        Self { columns: keys.iter().map(|k| k.map(seed)).collect() }
    }

    /// Appends `batch` values `t_i` and returns the message for the sender.
    pub(crate) fn extend(&mut self, batch: usize, out: &mut Vec<u128>) -> Vec<u8> {
        let stride = batch / UNIT;
        let mut rows = vec![0u64; base::COUNT * stride];
        let mut message = Vec::with_capacity(message_len(batch));
        let (choices, rest) = rows.split_at_mut(stride);
        let mut other = vec![0u64; stride];
        let mut columns = self.columns.iter_mut();
        if let Some([own, _]) = columns.next() {
            own.fill_u64(choices);
        }
        for (row, [zero, one]) in rest.chunks_exact_mut(stride.max(1)).zip(columns) {
            zero.fill_u64(row);
            one.fill_u64(&mut other);
            for ((o, t), c) in other.iter_mut().zip(row.iter()).zip(choices.iter()) {
                *o ^= t ^ c;
            }
            message.extend_from_slice(bytemuck::cast_slice(&other));
        }
        append(&rows, stride, batch, out);
        message
    }
}

fn append(rows: &[u64], stride: usize, batch: usize, out: &mut Vec<u128>) {
    let start = out.len();
    out.resize(start + batch, 0);
    transpose_128(rows, stride, &mut out[start..]);
}
