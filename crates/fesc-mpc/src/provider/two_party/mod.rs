//! Correlations made by the two parties themselves, by oblivious transfer: no third party.
//!
//! Each party is the OT sender of one instance and the receiver of the other. Random choice bits and random
//! pads become the free parts of a correlation wherever possible, so that most kinds need only *corrections*
//! in one direction, and some nothing at all:
//!
//! | kind | OTs per item | correction bits per item |
//! |---|---|---|
//! | leaf (1 of 8) | 3 | 0 |
//! | AND triple, any width | 1 each way | 0 |
//! | transfer of a ring element each way | 1 each way | 0 |
//! | bit product mod `2^s`, long ones too | 1 | s |
//! | daBit mod `2^l` | 1 | l - 1, at least 1 |
//! | selection by K bits, degree d | K each way | K (l - 1) + 2 (K d - 1) l, and at d = 2 a product |
//! | product of two private numbers (Gilboa) | l | l + l (l + 1) / 2 per element of the vector |
//!
//! Products by Gilboa are the plain way; where they are many, a generator of [`CrossTerms`] over RLWE is
//! cheaper ([`TwoParty::with_products`]). Work is done in chunks, so memory beyond the result itself stays
//! small.

mod bits;
mod ole;
mod select;

use fesc_net::Channel;
use fesc_ot::{CotKind, OtReceiver, OtSender};
use fesc_ring::{Prg, Ring};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{Correlations, CrossTerms};
use crate::correlation::{Bundle, Field, Material, ProductShape, Request};
use crate::error::{MpcError, check_len};
use crate::messages::tag::{CHOICES, CORRECTION};
use crate::{Role, bilinear};

/// OTs per chunk: 1-of-8 pads of a chunk are 2 MB, about the size of a second-level cache.
const CHUNK: usize = 1 << 14;

/// Chunks whose messages are sent before the first answer is awaited. It saves rounds. A window holds the
/// pads of its chunks (13 MB for selections, 130 MB at most for Gilboa's products on 64 bits) and up to 7 MB
/// of messages, which the channel's queue must be able to take.
const WINDOW: usize = 16;

/// This party's end of the generator.
pub struct TwoParty {
    role: Role,
    sender: OtSender,
    receiver: OtReceiver,
    prg: Prg,
    products: Option<Box<dyn CrossTerms>>,
}

/// What a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Bytes of corrections, or of the generator of products, from P0 to P1 and back.
    pub bytes: (u64, u64),
    /// Correlated transfers with P0 and with P1 as the sender.
    pub transfers: [usize; 2],
}

/// One chunk of random OTs in both directions: both pads of those that this party sent, its choices and pads
/// in the others.
#[derive(Zeroize, ZeroizeOnDrop)]
struct BothWays {
    sent: Vec<[u128; 2]>,
    choices: Vec<u64>,
    received: Vec<u128>,
}

impl TwoParty {
    /// Base OTs and set-up of both instances with the peer. `prg` must be seeded by the operating system.
    pub fn setup(role: Role, channel: &mut Channel, kind: CotKind, mut prg: Prg) -> Result<Self, MpcError> {
        // The instance in which P0 sends comes first on both sides.
        let (sender, receiver) = match role {
            Role::P0 => {
                let sender = OtSender::setup(channel, kind, &mut prg)?;
                (sender, OtReceiver::setup(channel, kind, &mut prg)?)
            }
            Role::P1 => {
                let receiver = OtReceiver::setup(channel, kind, &mut prg)?;
                (OtSender::setup(channel, kind, &mut prg)?, receiver)
            }
        };
        Ok(Self { role, sender, receiver, prg, products: None })
    }

    /// Leaves the products of those bundles that `generator` takes to it. Both parties must do so with
    /// generators that decide alike.
    pub fn with_products(self, generator: Box<dyn CrossTerms>) -> Self {
        Self { products: Some(generator), ..self }
    }

    /// Bytes of Gilboa's corrections for all products of a bundle, from P0 to P1 and back, the OTs apart:
    /// what a generator of cross terms competes with. The bundle must be valid.
    pub fn gilboa_bytes(bundle: &Bundle) -> (u64, u64) {
        let mut bytes = [0; 2];
        ole::add_corrections(bundle, &mut bytes);
        (bytes[0], bytes[1])
    }

    /// Makes `ots[i]` COTs with party `i` as the sender available, so that taking them sends nothing: a
    /// refill in the middle of a window would meet messages that are not its own.
    fn reserve(&mut self, channel: &mut Channel, ots: [usize; 2]) -> Result<(), MpcError> {
        for sender in [Role::P0, Role::P1] {
            if sender == self.role {
                self.sender.reserve(channel, ots[sender.index()])?;
            } else {
                self.receiver.reserve(channel, ots[sender.index()])?;
            }
        }
        Ok(())
    }

    /// `count` random OTs in each direction.
    fn both_ways(&mut self, channel: &mut Channel, count: usize) -> Result<BothWays, MpcError> {
        let ((choices, received), sent) = match self.role {
            Role::P0 => {
                let sent = self.sender.random(channel, count)?;
                (self.receiver.random(channel, count)?, sent)
            }
            Role::P1 => (self.receiver.random(channel, count)?, self.sender.random(channel, count)?),
        };
        Ok(BothWays { sent, choices, received })
    }

    /// Bytes that generating `request` will send from P0 to P1 and from P1 to P0, exactly for silent OT, from
    /// the present state of the instances (a refill falls on whoever meets it). With IKNP every chunk is an
    /// extension of its own and costs a few frame headers more.
    pub fn declared(&self, request: &Request) -> (u64, u64) {
        let Price { bytes, transfers } = self.price(request);
        let refills = self.refill_bytes(transfers);
        (bytes.0 + refills.0, bytes.1 + refills.1)
    }

    /// What a request takes, whatever the state of the instances is.
    pub fn price(&self, request: &Request) -> Price {
        if let (Request::Bundle(bundle), Some(generator)) = (request, &self.products)
            && let Some(bytes) = generator.declared(bundle)
        {
            return Price { bytes, transfers: [0; 2] };
        }
        Price { bytes: corrections(request), transfers: transfers(request) }
    }

    /// Bytes from P0 to P1 and back of the refills that so many transfers need from the present state. For
    /// many requests add up their transfers first: what one refill leaves over is there for the next request.
    pub fn refill_bytes(&self, transfers: [usize; 2]) -> (u64, u64) {
        let (mine, theirs) = (self.role.index(), self.role.other().index());
        let (sent, received) = (self.sender.declared(transfers[mine]), self.receiver.declared(transfers[theirs]));
        let up = sent.sender_to_receiver + received.receiver_to_sender;
        let down = sent.receiver_to_sender + received.sender_to_receiver;
        match self.role {
            Role::P0 => (up, down),
            Role::P1 => (down, up),
        }
    }

    fn bundle(&mut self, channel: &mut Channel, bundle: &Bundle, request: &Request) -> Result<Material, MpcError> {
        let masks = bundle.masks.len();
        // Masks only: the products' fields are filled below, and zeros here would be memory for nothing.
        let layout = request.layout(self.role);
        let mut half = Material::sample(layout.get(..masks).unwrap_or_default(), &mut self.prg);
        let mut crosses = match &mut self.products {
            Some(generator) if generator.declared(bundle).is_some() => {
                // Taken out and put back: the generator may choose some of them.
                let mut shares: Zeroizing<Vec<Vec<u64>>> =
                    Zeroizing::new((0..masks).map(|i| std::mem::take(half.ring_mut(i))).collect());
                let crosses = generator.run(self.role, channel, bundle, &mut shares)?;
                check_len("cross terms of a bundle", bundle.products.len(), crosses.len())?;
                for (i, share) in shares.iter_mut().enumerate() {
                    check_len("a mask that a generator chose", bundle.mask_len(i), share.len())?;
                    *half.ring_mut(i) = std::mem::take(share);
                }
                Some(crosses.into_iter())
            }
            _ => None,
        };
        for (p, product) in bundle.products.iter().enumerate() {
            let (left, right) = (half.ring(product.left), half.ring(product.right));
            let mut share = match &mut crosses {
                Some(made) => made.next().unwrap_or_default(),
                None => ole::cross_terms(self, channel, bundle, product, left, right)?,
            };
            check_len("cross terms of a product", bundle.product_len(p), share.len())?;
            bilinear::accumulate(bundle.ring, &ProductShape::new(bundle, product)?, &[(left, right)], &mut share)?;
            half.fields.push(ring_field(share));
        }
        Ok(half)
    }
}

impl Correlations for TwoParty {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        request.validate()?;
        match request {
            Request::Bundle(b) => self.bundle(channel, b, request),
            Request::Select(s) => select::generate(self, channel, s),
            Request::BitTriples(t) => bits::triples(self, channel, t),
            Request::BitProducts(b) => bits::products(self, channel, b.ring, b.words),
            Request::DaBits(d) => bits::dabits(self, channel, d),
            Request::Leaves(l) => bits::leaves(self, channel, l),
            Request::LongBitProducts(b) => bits::long_products(self, channel, b),
            Request::Transfers(t) => bits::transfers(self, channel, t),
        }
    }
}

/// COTs that a request takes with P0 and with P1 as the OT sender.
fn transfers(request: &Request) -> [usize; 2] {
    match request {
        Request::Bundle(b) => {
            let mut ots = [0; 2];
            ole::add_transfers(b, &mut ots);
            ots
        }
        Request::Select(s) => select::transfers(s),
        Request::BitTriples(t) => [64 * t.words; 2],
        Request::Transfers(t) => [64 * t.words; 2],
        Request::BitProducts(b) => [64 * b.words, 0],
        Request::LongBitProducts(b) => [64 * b.words, 0],
        Request::DaBits(d) => [64 * d.words, 0],
        Request::Leaves(l) => {
            let mut ots = [0; 2];
            ots[l.sender.index()] = 3 * l.count;
            ots
        }
    }
}

/// Bytes of corrections from P0 and from P1.
fn corrections(request: &Request) -> (u64, u64) {
    let mut bytes = [0u64; 2];
    match request {
        Request::Bundle(b) => ole::add_corrections(b, &mut bytes),
        Request::Select(s) => select::add_corrections(s, &mut bytes),
        Request::BitProducts(b) => bytes[0] += bits::product_bytes(b.ring, b.words),
        Request::LongBitProducts(b) => bytes[0] += bits::long_product_bytes(b.ring, b.words),
        Request::DaBits(d) => bytes[0] += bits::product_bytes(bits::half_ring(d.ring), d.words),
        Request::BitTriples(_) | Request::Leaves(_) | Request::Transfers(_) => {}
    }
    (bytes[0], bytes[1])
}

/// Lengths of the chunks that cover `total` items, at most `size` each.
fn chunks(total: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..total).step_by(size.max(1)).map(move |start| (start, size.min(total - start)))
}

/// Wire bytes of one frame.
fn frame(payload: usize) -> u64 {
    (payload + fesc_net::HEADER_BYTES) as u64
}

fn ring_field(values: Vec<u64>) -> Field {
    Field::Ring(values.into())
}

/// Bit `i` of packed bits.
fn bit(words: &[u64], i: usize) -> u64 {
    words[i / 64] >> (i % 64) & 1
}

/// What the OT sender of a correlated transfer sends: `value + m0 - m1`.
fn correct(ring: Ring, value: u64, m0: u64, m1: u64) -> u64 {
    ring.reduce(value.wrapping_add(m0).wrapping_sub(m1))
}

/// What the receiver makes of it: `m_c + c (value + m0 - m1) = m0 + c value`.
fn corrected(pad: u64, choice: u64, correction: u64) -> u64 {
    pad.wrapping_add(choice.wrapping_neg() & correction)
}

#[cfg(test)]
mod tests;
