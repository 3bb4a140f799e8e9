//! Where the correlations of a session come from.
//!
//! | provider | made by | where | when |
//! |---|---|---|---|
//! | inline | the two parties | on the session's own channel | at the moment of use |
//! | ahead | the two parties | on a second channel, a thread on each side | meanwhile ([`mod@ahead`]) |
//! | dealer | a third process | on a channel to it, a thread on each side | meanwhile |
//! | prepared | the two parties | on disk | before ([`stores`]) |

pub mod ahead;
pub mod stores;
mod timed;

use std::sync::Arc;

use fesc_mpc::correlation::Material;
use fesc_mpc::provider::{Correlations, Dealer, Prepared, TwoParty};
use fesc_mpc::{MpcError, Request, Role};
use fesc_net::{Channel, Stats};
use fesc_ot::CotKind;
use fesc_ring::Prg;
use fesc_rlwe::products::Rlwe;

use super::error::Result;
use super::phase;
use crate::schedule::Schedule;
use ahead::{Generated, Generator, Maker};
use stores::{UsedDirectory, UsedStore};
pub use timed::{Clock, Timed};

/// The two parties' generator: oblivious transfer, and RLWE for products.
pub fn two_party(role: Role, channel: &mut Channel, prg: &mut Prg) -> Result<TwoParty> {
    let transfers = TwoParty::setup(role, channel, CotKind::Silent, prg.fork())?;
    let products = Rlwe::setup(role, channel, prg.fork())?;
    Ok(transfers.with_products(Box::new(products)))
}

/// A source, with what must be kept or read until the run is over.
pub struct Source {
    correlations: Option<Box<dyn Correlations + Send>>,
    maker: Option<Maker>,
    /// The store behind it, if there is one; deleted when dropped.
    _burnt: Option<UsedDirectory>,
}

impl Source {
    /// The part for the party. Empty when taken twice.
    pub fn take(&mut self) -> Box<dyn Correlations + Send> {
        self.correlations.take().unwrap_or_else(|| Box::new(fesc_mpc::provider::Queue::default()))
    }

    /// A party whose maker failed ran out of correlations: the maker's error is the one to name.
    pub fn explain<T>(&mut self, result: Result<T>) -> Result<T> {
        match (result, self.maker.take_if(|m| m.failed())) {
            (Err(e), Some(maker)) => Err(maker.finish().err().unwrap_or(e)),
            (result, _) => result,
        }
    }

    /// Waits for the maker, after a run, and says what it did.
    pub fn finish(mut self) -> Result<Option<Generated>> {
        self.maker.take().map(Maker::finish).transpose()
    }
}

/// On the session's own channel. Sets up now.
pub fn inline(role: Role, channel: &mut Channel, prg: &mut Prg) -> Result<Source> {
    let maker = two_party(role, channel, prg)?;
    Ok(Source { correlations: Some(Box::new(maker)), maker: None, _burnt: None })
}

/// On a second channel, by a thread, which has a generator of its own.
pub fn ahead(role: Role, channel: Channel, schedule: Arc<Schedule>, limit: usize, mut prg: Prg) -> Result<Source> {
    let hangup = channel.hangup()?;
    let set_up = move || {
        let mut channel = channel;
        channel.phase(phase::SETUP);
        let maker = two_party(role, &mut channel, &mut prg)?;
        Ok(Pair { maker, channel })
    };
    let (correlations, maker) = ahead::start(role, schedule, limit, hangup, set_up)?;
    Ok(Source { correlations: Some(Box::new(correlations)), maker: Some(maker), _burnt: None })
}

/// From a third process, by a thread.
pub fn dealer(role: Role, mut channel: Channel, schedule: Arc<Schedule>, limit: usize) -> Result<Source> {
    let hangup = channel.hangup()?;
    let set_up = move || {
        channel.phase(phase::OFFLINE);
        Ok(Third { dealer: Dealer::new(role, channel), nobody: Channel::memory_pair().0 })
    };
    let (correlations, maker) = ahead::start(role, schedule, limit, hangup, set_up)?;
    Ok(Source { correlations: Some(Box::new(correlations)), maker: Some(maker), _burnt: None })
}

/// From a store that is already marked as used.
pub fn prepared(used: UsedStore, channel: &mut Channel) -> Result<Source> {
    let UsedStore { store, directory } = used;
    let correlations = Prepared::start(store, channel)?;
    Ok(Source { correlations: Some(Box::new(correlations)), maker: None, _burnt: Some(directory) })
}

struct Pair {
    maker: TwoParty,
    channel: Channel,
}

impl Generator for Pair {
    type Half = Material;

    fn begin(&mut self) {
        self.channel.phase(phase::OFFLINE);
    }

    fn stats(&self) -> Stats {
        self.channel.stats().clone()
    }

    fn make(&mut self, request: &Request) -> Result<Material, MpcError> {
        self.maker.take(&mut self.channel, request)
    }
}

struct Third {
    dealer: Dealer,
    /// A dealer's party asks for a channel to the peer and does not use it.
    nobody: Channel,
}

impl Generator for Third {
    type Half = Material;

    fn begin(&mut self) {}

    fn stats(&self) -> Stats {
        self.dealer.channel().stats().clone()
    }

    fn make(&mut self, request: &Request) -> Result<Material, MpcError> {
        self.dealer.take(&mut self.nobody, request)
    }
}
