//! One party's part: correlations first, then the protocol, then the check.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fesc_mpc::correlation::Material;
use fesc_mpc::protocol::Open;
use fesc_mpc::provider::{Correlations, Dealer, Queue, TwoParty, dealer_cost};
use fesc_mpc::{Ledger, MpcError, Party, Request, Role, SharedBits};
use fesc_net::{Channel, Phase};
use fesc_ot::CotKind;
use fesc_ring::Ring;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Task;
use super::operation::{Operation, Output, Plain};
use crate::parties::child::tell;
use crate::parties::wire::{Event, Seat};
use crate::parties::{barrier, tag};
use crate::random::os_random;

/// What one party measured. Bytes "sent" are from this party; the others are to be added up over both.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    pub elements: usize,
    pub setup_s: f64,
    /// Sent to the peer.
    pub setup_bytes: u64,
    pub offline_s: f64,
    /// Sent to the peer, and exchanged with the dealer.
    pub offline_bytes: u64,
    pub online_s: f64,
    pub online_sent_bytes: u64,
    pub rounds: u64,
    /// Both directions.
    pub declared_online_bytes: u64,
    pub declared_rounds: u64,
    pub max_error: f64,
}

/// Runs a task. Fails if any declared cost differs from the counted one.
pub fn run(seat: Seat, mut channel: Channel, dealer: Option<Channel>, task: &Task) -> Result<Value> {
    let role = match seat {
        Seat::P0 => Role::P0,
        Seat::P1 => Role::P1,
        Seat::Dealer => bail!("the dealer computes nothing"),
    };
    let operation = Operation::new(task, role)?;
    let mut ledger = Ledger::new();
    (operation.declare)(&mut ledger)?;

    tell(&Event::Phase("set-up".into()));
    barrier(&mut channel)?;
    channel.phase("set-up");
    let start = Instant::now();
    let mut source = Source::new(role, &mut channel, dealer)?;
    let (setup_s, setup) = (start.elapsed().as_secs_f64(), channel.stats().phase("set-up"));

    tell(&Event::Phase("offline".into()));
    barrier(&mut channel)?;
    channel.phase("offline");
    let start = Instant::now();
    let queue = Queue::prepare(&mut source, &mut channel, ledger.demand())?;
    let offline_s = start.elapsed().as_secs_f64();
    let offline_bytes = source.check(&channel)?;

    tell(&Event::Phase("online".into()));
    barrier(&mut channel)?;
    channel.phase("online");
    let mut party = Party::new(role, channel, Box::new(queue));
    let start = Instant::now();
    let output = (operation.run)(&mut party)?;
    let online_s = start.elapsed().as_secs_f64();
    let online = party.channel().stats().phase("online");
    check_online(role, &ledger, &online)?;

    tell(&Event::Phase("check".into()));
    party.channel().phase("check");
    let plain = open(&mut party, &output)?;
    let max_error = (operation.error)(&plain);
    ensure!(max_error.is_finite(), "the result has not the shape that was asked for, or is no number");
    let declared = ledger.cost();
    Ok(serde_json::to_value(Measured {
        elements: operation.elements,
        setup_s,
        setup_bytes: setup.sent_bytes,
        offline_s,
        offline_bytes,
        online_s,
        online_sent_bytes: online.sent_bytes,
        rounds: online.rounds,
        declared_online_bytes: declared.total_bytes(),
        declared_rounds: declared.rounds,
        max_error,
    })?)
}

/// Declared and counted must be equal, to the last byte, in both directions.
fn check_online(role: Role, ledger: &Ledger, counted: &Phase) -> Result<()> {
    let cost = ledger.cost();
    let (sent, received) = match role {
        Role::P0 => (cost.p0_to_p1_bytes, cost.p1_to_p0_bytes),
        Role::P1 => (cost.p1_to_p0_bytes, cost.p0_to_p1_bytes),
    };
    ensure!(
        (sent, received, cost.rounds) == (counted.sent_bytes, counted.received_bytes, counted.rounds),
        "online cost: declared {sent} bytes sent, {received} received, {} rounds; counted {}, {}, {}; \
         this is a fault of the protocol's declaration, please report it",
        cost.rounds,
        counted.sent_bytes,
        counted.received_bytes,
        counted.rounds
    );
    Ok(())
}

/// A provider that adds up what it declares.
struct Source {
    role: Role,
    maker: Maker,
    /// From P0 to P1 and back; or from this party to the dealer and back.
    declared: (u64, u64),
}

enum Maker {
    TwoParty(Box<TwoParty>),
    /// And its counts before the first request.
    Dealer(Box<Dealer>, Phase),
}

impl Source {
    fn new(role: Role, channel: &mut Channel, dealer: Option<Channel>) -> Result<Self> {
        let maker = match dealer {
            Some(dealer) => {
                let before = dealer.stats().total;
                Maker::Dealer(Box::new(Dealer::new(role, dealer)), before)
            }
            None => Maker::TwoParty(Box::new(TwoParty::setup(role, channel, CotKind::Silent, os_random()?)?)),
        };
        Ok(Self { role, maker, declared: (0, 0) })
    }

    /// Compares the declared bytes with the counted ones; returns those that this party accounts for.
    fn check(&self, channel: &Channel) -> Result<u64> {
        let peer = channel.stats().phase("offline");
        let (counted, bytes) = match (&self.maker, self.role) {
            (Maker::TwoParty(_), Role::P0) => ((peer.sent_bytes, peer.received_bytes), peer.sent_bytes),
            (Maker::TwoParty(_), Role::P1) => ((peer.received_bytes, peer.sent_bytes), peer.sent_bytes),
            (Maker::Dealer(dealer, before), _) => {
                let c = dealer.channel().stats().total.since(*before);
                ensure!(peer == Phase::default(), "with a dealer the parties must not talk offline");
                ((c.sent_bytes, c.received_bytes), c.sent_bytes + c.received_bytes)
            }
        };
        ensure!(
            self.declared == counted,
            "offline cost: declared {:?} bytes, counted {counted:?}; this is a fault of the provider's declaration, \
             please report it",
            self.declared
        );
        Ok(bytes)
    }
}

impl Correlations for Source {
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        let (first, second) = match &self.maker {
            Maker::TwoParty(m) => m.declared(request),
            Maker::Dealer(..) => dealer_cost(request, self.role),
        };
        self.declared.0 += first;
        self.declared.1 += second;
        match &mut self.maker {
            Maker::TwoParty(m) => m.take(channel, request),
            Maker::Dealer(m, _) => m.take(channel, request),
        }
    }
}

fn open(party: &mut Party, output: &Output) -> Result<Plain> {
    Ok(match output {
        Output::Numbers(x) => {
            let opened = Open { ring: x.ring(), count: x.len(), to: None }.run(party, x)?;
            Plain::Numbers(opened.context("both parties learn the result of a measurement")?)
        }
        Output::Bits(all) => Plain::Bits(all.iter().map(|b| open_bits(party, b)).collect::<Result<_>>()?),
    })
}

fn open_bits(party: &mut Party, bits: &SharedBits) -> Result<Vec<bool>> {
    let words = Ring::new(64)?;
    let count = bits.words().len();
    let reply = party.channel().exchange(tag::CHECK, words.pack(bits.words()), words.packed_len(count))?;
    let theirs = SharedBits::new(bits.len(), words.unpack(&reply, count)?)?;
    Ok(bits.join(&theirs)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_byte_or_round_off_is_an_error() {
        let mut ledger = Ledger::new();
        ledger.exchange(100, 50);
        ledger.send(Role::P1, 7);
        let cost = ledger.cost();
        let right = |role| {
            let (sent_bytes, received_bytes) = match role {
                Role::P0 => (cost.p0_to_p1_bytes, cost.p1_to_p0_bytes),
                Role::P1 => (cost.p1_to_p0_bytes, cost.p0_to_p1_bytes),
            };
            Phase { sent_bytes, received_bytes, rounds: cost.rounds, ..Phase::default() }
        };
        for role in [Role::P0, Role::P1] {
            check_online(role, &ledger, &right(role)).unwrap();
            let wrong = [
                Phase { sent_bytes: right(role).sent_bytes + 1, ..right(role) },
                Phase { received_bytes: right(role).received_bytes - 1, ..right(role) },
                Phase { rounds: right(role).rounds + 1, ..right(role) },
                right(role.other()),
            ];
            for counted in wrong {
                let message = check_online(role, &ledger, &counted).unwrap_err().to_string();
                assert!(message.contains("declared") && message.contains("please report"), "{message}");
            }
        }
    }
}
