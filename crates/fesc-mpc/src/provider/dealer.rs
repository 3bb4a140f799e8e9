//! A third process that hands out correlations (what most papers assume).
//!
//! Each party asks with the request's byte form; the dealer compares the two, draws one seed per party,
//! computes the determined fields and sends each party its seed and its determined fields. P0's half of an
//! additive correlation is all seed. The dealer sees shapes, never inputs; a dealer that colludes with one
//! party breaks the other's privacy.

use fesc_net::Channel;
use fesc_ring::Prg;
use zeroize::Zeroizing;

use super::{Budget, Correlations};
use crate::Role;
use crate::correlation::{FieldSpec, MAX_ENCODED_BYTES, Material, Request, packed_len};
use crate::error::{MpcError, check_range};
use crate::messages::tag::{ASK, ASK_LENGTH, HALF};

const SEED_BYTES: usize = 16;

/// A party's connection to the dealer.
pub struct Dealer {
    role: Role,
    channel: Channel,
}

impl Dealer {
    /// `channel` leads to the dealer, not to the peer.
    pub fn new(role: Role, channel: Channel) -> Self {
        Self { role, channel }
    }

    /// The channel to the dealer, for its counts.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl Correlations for Dealer {
    fn take(&mut self, _peer: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        request.validate()?;
        let ask = request.encode();
        self.channel.send(ASK_LENGTH, (ask.len() as u32).to_le_bytes().to_vec())?;
        self.channel.send(ASK, ask)?;
        let layout = request.layout(self.role);
        let reply = Zeroizing::new(self.channel.recv(HALF, SEED_BYTES + packed_len(&layout, |s| !s.free))?);
        let (seed, determined) = reply.split_at(SEED_BYTES);
        let mut key = Zeroizing::new([0u8; SEED_BYTES]);
        key.copy_from_slice(seed);
        let mut half = Material::sample(&layout, &mut Prg::from_seed(*key));
        half.read(&layout, |s| !s.free, determined)?;
        Ok(half)
    }
}

/// Bytes between a party and the dealer for one request, asking included: `(to dealer, from dealer)`.
pub fn dealer_cost(request: &Request, role: Role) -> (u64, u64) {
    let header = fesc_net::HEADER_BYTES;
    let up = 2 * header + 4 + request.encode().len();
    let down = header + SEED_BYTES + packed_len(&request.layout(role), |s| !s.free);
    (up as u64, down as u64)
}

/// Serves correlations until either party closes its channel, within what `budget` allows. Returns the number
/// of correlations dealt.
pub fn serve(p0: Channel, p1: Channel, prg: &mut Prg, budget: &Budget) -> Result<u64, MpcError> {
    let mut dealt = 0;
    let mut before = None;
    // Declared after the room, so that they go first: a channel that is dropped still holds what it could not
    // send.
    let (mut p0, mut p1) = (p0, p1);
    loop {
        let first = match read_request(&mut p0) {
            Ok(r) => r,
            Err(e) if closed(&e) => return Ok(dealt),
            Err(e) => return Err(e),
        };
        let second = match read_request(&mut p1) {
            Ok(r) => r,
            Err(e) if closed(&e) => return Ok(dealt),
            Err(e) => return Err(e),
        };
        if first != second {
            return Err(MpcError::DealerDisagreement { p0: first.to_string(), p1: second.to_string() });
        }
        // Who asks again has the replies to what it asked before.
        drop(before.take());
        let room = before.insert(budget.take([Role::P0, Role::P1].map(|role| first.half_bytes(role)))?);
        let [mut d0, mut d1] = [Role::P0, Role::P1].map(|role| Draw::new(first.layout(role), prg));
        first.complete(&mut d0.half, &mut d1.half)?;
        let mut replies = 0;
        for (channel, draw) in [(&mut p0, d0), (&mut p1, d1)] {
            let mut reply = draw.seed.to_vec();
            reply.extend_from_slice(&Zeroizing::new(draw.half.write(&draw.layout, |s| !s.free)));
            replies += reply.len();
            channel.send(HALF, reply)?;
        }
        room.keep(replies);
        dealt += 1;
    }
}

fn closed(error: &MpcError) -> bool {
    matches!(error, MpcError::Net(fesc_net::NetError::Closed { .. }))
}

/// One party's half while it is being dealt.
struct Draw {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    layout: Vec<FieldSpec>,
    half: Material,
}

impl Draw {
    fn new(layout: Vec<FieldSpec>, prg: &mut Prg) -> Self {
        let seed = Zeroizing::new(prg.public_bytes());
        let half = Material::sample(&layout, &mut Prg::from_seed(*seed));
        Self { seed, layout, half }
    }
}

fn read_request(channel: &mut Channel) -> Result<Request, MpcError> {
    let length = channel.recv(ASK_LENGTH, 4)?;
    let length = length.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
    check_range("length of a correlation request", u64::from(length), 1, MAX_ENCODED_BYTES as u64)?;
    Request::decode(&channel.recv(ASK, length as usize)?)
}
