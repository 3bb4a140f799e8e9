//! Many-threshold comparison on one digit decomposition.
//!
//! `b_k = [x >= tau_k]` for signed `x` in `Z_2^n`. The sender subtracts `tau_k` from its share, so thresholds
//! may be its secret. With low parts `a_k` (sender) and `c` (receiver) of `n - 1` bits, the sign of
//! `x - tau_k` is `msb_s xor msb_r xor [c > 2^(n-1) - 1 - a_k]`; the last bit is a comparison of private
//! numbers, by leaves of three bits ([`super::leaf`]) and a tree of ANDs ([`super::and_tree`]).
//!
//! Right when `x - tau_k` does not leave `-2^(n-1) .. 2^(n-1)`: the width must cover `|x| + max |tau|`.
//! Outside, the result is silently wrong, which is why the plan states ranges and the twin checks them.
//!
//! With public thresholds the elements are split: each party is the sender for half of them, so that both
//! directions of the link and both processors carry the same load. Elements are padded to whole words of 64.

use fesc_ring::Ring;
use zeroize::Zeroizing;

use super::leaf::{self, BLOCK, Node};
use super::{and_tree, tag};
use crate::correlation::{Leaves, MAX_ELEMENTS, Material};
use crate::error::{MpcError, check_len, check_range};
use crate::share::words_for;
use crate::{Ledger, Party, Request, Role, Shared, SharedBits};

/// Who sends the leaves, and so whose thresholds are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Both, half of the elements each: thresholds are public.
    Split,
    /// One party: thresholds may be its secret.
    Only(Role),
}

/// The thresholds, in the ring of the comparison.
#[derive(Clone, Copy)]
pub enum Thresholds<'a> {
    /// The same `K` for all elements.
    Same(&'a [u64]),
    /// `K` for each element, one element after the other.
    Each(&'a [u64]),
    /// Known to the peer only, who is the sender.
    Peer,
}

/// `K` comparisons on each of `count` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    ring: Ring,
    count: usize,
    thresholds: usize,
    sender: Sender,
}

/// Digits travel three bits each.
const DIGIT: Ring = match Ring::new(3) {
    Ok(r) => r,
    Err(_) => unreachable!(),
};

impl Compare {
    /// `ring` has 2..=64 bits, `thresholds` is 1..=64.
    pub fn new(ring: Ring, count: usize, thresholds: usize, sender: Sender) -> Result<Self, MpcError> {
        check_range("width of a comparison", ring.bits().into(), 2, 64)?;
        check_range("thresholds of a comparison", thresholds as u64, 1, 64)?;
        check_range("elements of a comparison", count as u64, 0, MAX_ELEMENTS as u64)?;
        Ok(Self { ring, count, thresholds, sender })
    }

    fn digits(&self) -> usize {
        (self.ring.bits() as usize - 1).div_ceil(3)
    }

    /// Words of elements for which `role` is the sender; P0's come first.
    fn words_sent_by(&self, role: Role) -> usize {
        let all = words_for(self.count);
        let first = match self.sender {
            Sender::Split => all / 2,
            Sender::Only(Role::P0) => all,
            Sender::Only(Role::P1) => 0,
        };
        match role {
            Role::P0 => first,
            Role::P1 => all - first,
        }
    }

    /// The leaves sent by `role`: those with `eq`, and those of the lowest digit.
    fn leaves(&self, role: Role) -> [Leaves; 2] {
        let elements = BLOCK * self.words_sent_by(role);
        let upper = (self.digits() - 1) * elements;
        [(upper, 2 * self.thresholds), (elements, self.thresholds)].map(|(count, planes)| Leaves {
            sender: role,
            count,
            planes,
        })
    }

    /// Bytes of the masked digits that go *to* the sender `role`.
    fn digit_bytes(&self, role: Role) -> usize {
        DIGIT.packed_len(self.digits() * BLOCK * self.words_sent_by(role))
    }

    fn leaf_bytes(&self, role: Role) -> usize {
        leaf::wire_bytes(self.leaves(role).iter().map(|l| l.count * l.planes).sum())
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.declare_with(0, ledger);
    }

    /// Writes the cost when `extra` bytes ride on the first message each way.
    pub(crate) fn declare_with(&self, extra: usize, ledger: &mut Ledger) {
        for role in [Role::P0, Role::P1] {
            for leaves in self.leaves(role) {
                if leaves.count > 0 {
                    ledger.need(Request::Leaves(leaves));
                }
            }
        }
        ledger.exchange(self.digit_bytes(Role::P1) + extra, self.digit_bytes(Role::P0) + extra);
        ledger.exchange(self.leaf_bytes(Role::P0), self.leaf_bytes(Role::P1));
        and_tree::declare(self.digits(), self.thresholds * words_for(self.count), ledger);
    }

    /// Shares of `b_k`, one bit vector per threshold.
    pub fn run(&self, party: &mut Party, x: &Shared, tau: Thresholds<'_>) -> Result<Vec<SharedBits>, MpcError> {
        Ok(self.run_with(party, x, tau, &[])?.0)
    }

    /// As [`Self::run`], with `extra` bytes on the first message; the peer's extra bytes (as many) come back.
    pub(crate) fn run_with(
        &self,
        party: &mut Party,
        x: &Shared,
        tau: Thresholds<'_>,
        extra: &[u8],
    ) -> Result<(Vec<SharedBits>, Vec<u8>), MpcError> {
        check_len("elements to compare", self.count, x.len())?;
        check_len("ring width of a comparison", self.ring.bits() as usize, x.ring().bits() as usize)?;
        let role = party.role();
        self.check_thresholds(role, tau)?;
        let mut padded = Zeroizing::new(x.values().to_vec());
        padded.resize(BLOCK * words_for(self.count), 0);
        let split = BLOCK * self.words_sent_by(Role::P0);
        let (head, tail) = padded.split_at(split);
        let (sent, received) = if role == Role::P0 { (head, tail) } else { (tail, head) };
        let first_sent = if role == Role::P0 { 0 } else { split };

        let mut halves = [None, None];
        for sender in [Role::P0, Role::P1] {
            let mut taken = Vec::new();
            for leaves in self.leaves(sender) {
                taken.push(if leaves.count > 0 { Some(party.take(Request::Leaves(leaves))?) } else { None });
            }
            halves[sender.index()] = Some(taken);
        }
        let [send_leaves, receive_leaves] = [role, role.other()].map(|r| halves[r.index()].take().unwrap_or_default());

        let mut message = DIGIT.pack(&self.masked_digits(received, &receive_leaves));
        message.extend_from_slice(extra);
        let expected = self.digit_bytes(role);
        let mut reply = party.channel().exchange(tag::DIGITS, message, expected + extra.len())?;
        let peer_extra = reply.split_off(expected);
        let corrections = DIGIT.unpack(&reply, self.digits() * sent.len())?;

        let shifted = Zeroizing::new(self.subtract(sent, first_sent, tau));
        let (message, sent_nodes) = self.build_leaves(&shifted, &corrections, send_leaves);
        let reply = party.channel().exchange(tag::LEAVES, message, self.leaf_bytes(role.other()))?;
        let received_nodes = self.read_leaves(received, &reply, &receive_leaves);

        let (first, second) =
            if role == Role::P0 { (sent_nodes, received_nodes) } else { (received_nodes, sent_nodes) };
        let nodes = first.into_iter().zip(second).map(|(mut a, b)| {
            a.gt.extend_from_slice(&b.gt);
            a.eq.extend_from_slice(&b.eq);
            a
        });
        let carry = and_tree::run(party, nodes.collect())?;
        Ok((self.signs(role, &carry, &shifted, received)?, peer_extra))
    }

    /// The receiver's digits under its random ones, most significant digit first.
    fn masked_digits(&self, received: &[u64], leaves: &[Option<Material>]) -> Vec<u64> {
        let digits = self.digits();
        let mut out = Vec::with_capacity(digits * received.len());
        for d in 0..digits {
            let shift = self.shift(d);
            let random = self.digit_field(d, received.len(), leaves, Leaves::DIGITS, 1);
            out.extend(self.lows(received).zip(random).map(|(low, &r)| (low >> shift ^ u64::from(r)) & 7));
        }
        out
    }

    /// Where the digit `d`, counted from the top, starts.
    fn shift(&self, d: usize) -> u32 {
        3 * (self.digits() - 1 - d) as u32
    }

    fn lows<'a>(&self, values: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let mask = self.ring.mask() >> 1;
        values.iter().map(move |&v| v & mask)
    }

    /// The part of a leaf field that belongs to digit `d`.
    fn digit_field<'a>(
        &self,
        d: usize,
        elements: usize,
        leaves: &'a [Option<Material>],
        field: usize,
        stride: usize,
    ) -> &'a [u8] {
        let lowest = d + 1 == self.digits();
        let bytes = leaves.get(usize::from(lowest)).and_then(Option::as_ref).map_or(&[][..], |m| m.bytes(field));
        let start = if lowest { 0 } else { d * elements * stride };
        bytes.get(start..start + elements * stride).unwrap_or(&[])
    }

    /// Refuses a wrong number of thresholds before the first byte.
    fn check_thresholds(&self, role: Role, tau: Thresholds<'_>) -> Result<(), MpcError> {
        match tau {
            Thresholds::Same(tau) => check_len("thresholds", self.thresholds, tau.len()),
            Thresholds::Each(tau) => check_len("thresholds of all elements", self.thresholds * self.count, tau.len()),
            Thresholds::Peer => check_len("words to compare with thresholds unknown here", 0, self.words_sent_by(role)),
        }
    }

    /// The sender's `x - tau_k`, `K` per element; `first` is the number of its first element.
    fn subtract(&self, sent: &[u64], first: usize, tau: Thresholds<'_>) -> Vec<u64> {
        let k = self.thresholds;
        let mut out = Vec::with_capacity(k * sent.len());
        for (i, &x) in sent.iter().enumerate() {
            let own = match tau {
                Thresholds::Same(tau) => tau,
                Thresholds::Each(tau) => tau.get((first + i) * k..(first + i + 1) * k).unwrap_or(&[]),
                Thresholds::Peer => &[],
            };
            // Elements of the padding have no threshold of their own.
            out.extend((0..k).map(|j| self.ring.sub(x, own.get(j).copied().unwrap_or(0))));
        }
        out
    }

    /// The sender's message and its shares, digit by digit.
    fn build_leaves(
        &self,
        shifted: &[u64],
        corrections: &[u64],
        mut leaves: Vec<Option<Material>>,
    ) -> (Vec<u8>, Vec<Node>) {
        let (k, digits) = (self.thresholds, self.digits());
        let mask = self.ring.mask() >> 1;
        let ys: Zeroizing<Vec<u64>> = Zeroizing::new(shifted.iter().map(|&a| !a & mask).collect());
        let elements = shifted.len() / k;
        let mut message = Vec::with_capacity(leaf::wire_bytes(elements * k * (2 * digits - 1)));
        let mut nodes = Vec::with_capacity(digits);
        for d in 0..digits {
            let lowest = d + 1 == digits;
            let mut node = Node::zeros(elements / BLOCK * k, !lowest);
            if let Some(Some(material)) = leaves.get_mut(usize::from(lowest)) {
                let per = elements * if lowest { k } else { 2 * k };
                let start = if lowest { 0 } else { d * per };
                let planes = &mut material.bytes_mut(Leaves::PLANES)[start..start + per];
                let corrections = &corrections[d * elements..(d + 1) * elements];
                leaf::send_digit(k, &ys, self.shift(d), corrections, planes, &mut node);
                leaf::compress(planes, &mut message);
            }
            nodes.push(node);
        }
        (message, nodes)
    }

    /// The receiver's shares, digit by digit.
    fn read_leaves(&self, received: &[u64], wire: &[u8], leaves: &[Option<Material>]) -> Vec<Node> {
        let (k, digits) = (self.thresholds, self.digits());
        let lows: Zeroizing<Vec<u64>> = Zeroizing::new(self.lows(received).collect());
        let message = leaf::expand(wire);
        let mut rest = message.as_slice();
        let mut nodes = Vec::with_capacity(digits);
        for d in 0..digits {
            let lowest = d + 1 == digits;
            let per = if lowest { k } else { 2 * k };
            let (planes, tail) = rest.split_at(per * lows.len());
            rest = tail;
            let pads = self.digit_field(d, lows.len(), leaves, Leaves::PADS, per.div_ceil(8));
            let mut node = Node::zeros(lows.len() / BLOCK * k, !lowest);
            leaf::receive_digit(k, &lows, self.shift(d), planes, pads, &mut node);
            nodes.push(node);
        }
        nodes
    }

    /// `b_k = not (msb_s xor msb_r xor carry_k)`, from each party's own top bits.
    fn signs(&self, role: Role, carry: &[u64], shifted: &[u64], received: &[u64]) -> Result<Vec<SharedBits>, MpcError> {
        let (k, top) = (self.thresholds, self.ring.bits() - 1);
        let own_sent: Vec<u64> = shifted
            .chunks(BLOCK * k)
            .flat_map(|block| (0..k).map(|j| pack_top(block.iter().skip(j).step_by(k), top)))
            .collect();
        let own_received: Vec<u64> =
            received.chunks(BLOCK).flat_map(|block| std::iter::repeat_n(pack_top(block.iter(), top), k)).collect();
        let (first, second) = if role == Role::P0 { (&own_sent, &own_received) } else { (&own_received, &own_sent) };
        let flip = role.at_p0(u64::MAX);
        let all: Vec<u64> = first.iter().chain(second).zip(carry).map(|(&m, &c)| m ^ c ^ flip).collect();
        (0..k).map(|j| SharedBits::new(self.count, all.iter().skip(j).step_by(k).copied().collect())).collect()
    }
}

/// Bit `top` of up to 64 values, as one word.
fn pack_top<'a>(values: impl Iterator<Item = &'a u64>, top: u32) -> u64 {
    values.enumerate().fold(0, |acc, (i, &v)| acc | (v >> top & 1) << i)
}
