//! What a schedule declares, by stage: the protocol's bytes and rounds, what its correlations cost to make,
//! and what is computed under encryption.

use std::time::Instant;

use anyhow::Result;
use fesc_hybrid::keys::KeyShape;
use fesc_hybrid::work::Work;
use fesc_infer::session::source::two_party;
use fesc_infer::{KeySets, Schedule, Stage};
use fesc_mpc::provider::{Price, TwoParty, dealer_cost};
use fesc_mpc::{Cost, Request, Role};
use fesc_net::Channel;

use crate::cli::Provider;
use crate::measured::encrypted::{Works, tally, works};
use crate::random::os_random;

/// What correlations cost.
pub enum Prices {
    /// A generator that is set up and never used: it declares.
    TwoParty {
        /// The generator.
        maker: Box<TwoParty>,
        /// Bytes of its set-up.
        setup_bytes: u64,
        /// Seconds of it, both parties on this machine.
        setup_s: f64,
    },
    /// A third process.
    Dealer,
}

impl Prices {
    pub fn new(provider: Provider) -> Result<Self> {
        if provider == Provider::Dealer {
            return Ok(Prices::Dealer);
        }
        let (mut near, mut far) = Channel::memory_pair();
        let (mut here, mut there) = (os_random()?, os_random()?);
        let start = Instant::now();
        let peer = std::thread::spawn(move || two_party(Role::P1, &mut far, &mut there).map(drop));
        let maker = Box::new(two_party(Role::P0, &mut near, &mut here)?);
        peer.join().map_err(|_| anyhow::anyhow!("the peer of a price list died"))??;
        let spent = near.stats().total;
        let setup_bytes = spent.sent_bytes + spent.received_bytes;
        Ok(Prices::TwoParty { maker, setup_bytes, setup_s: start.elapsed().as_secs_f64() })
    }

    /// Bytes to set the generator up.
    pub fn setup_bytes(&self) -> u64 {
        match self {
            Prices::TwoParty { setup_bytes, .. } => *setup_bytes,
            Prices::Dealer => 0,
        }
    }

    /// Seconds for that.
    pub fn setup_s(&self) -> f64 {
        match self {
            Prices::TwoParty { setup_s, .. } => *setup_s,
            Prices::Dealer => 0.0,
        }
    }

    /// A request by itself. With a dealer the two numbers are the two parties' links, else the two directions
    /// of one.
    fn of(&self, request: &Request) -> Price {
        match self {
            Prices::TwoParty { maker, .. } => maker.price(request),
            Prices::Dealer => {
                let [p0, p1] = [Role::P0, Role::P1].map(|role| dealer_cost(request, role)).map(|(up, down)| up + down);
                Price { bytes: (p0, p1), transfers: [0; 2] }
            }
        }
    }

    /// Refills for so many transfers since the set-up.
    fn refills(&self, transfers: [usize; 2]) -> (u64, u64) {
        match self {
            Prices::TwoParty { maker, .. } => maker.refill_bytes(transfers),
            Prices::Dealer => (0, 0),
        }
    }
}

/// A stage's declared cost, all its calls together.
pub struct StageCost {
    pub name: Stage,
    pub online: Cost,
    /// Of making its correlations, as [`Prices`] has them. A refill of transfers falls on the stage that
    /// meets it.
    pub offline: (u64, u64),
    /// How often it is called: once for each layer and segment.
    pub calls: u64,
}

pub struct Declared {
    /// In the order of their first use.
    pub stages: Vec<StageCost>,
    /// What the server computes under encryption.
    pub works: Works,
    /// The client's CKKS keys.
    pub keys: KeySets<KeyShape>,
    /// Correlations.
    pub requests: u64,
    /// The most memory that the correlations of one stage of one segment take: the larger half.
    pub largest: u64,
}

impl Declared {
    pub fn new(schedule: &Schedule, prices: &Prices) -> Result<Self> {
        let (works, keys) = (works(schedule)?, schedule.keys());
        let mut declared = Self { stages: Vec::new(), works, keys, requests: 0, largest: 0 };
        // Layers are alike, so a request is priced once.
        let mut known: Vec<(Request, Price)> = Vec::new();
        let mut taken = [0; 2];
        for cost in schedule.costs()? {
            let mut halves = 0;
            let mut offline = (0, 0);
            for request in &cost.demand {
                let price = known.iter().find(|(r, _)| r == request).map(|(_, p)| *p).unwrap_or_else(|| {
                    let price = prices.of(request);
                    known.push((request.clone(), price));
                    price
                });
                let before = prices.refills(taken);
                taken = [taken[0] + price.transfers[0], taken[1] + price.transfers[1]];
                let after = prices.refills(taken);
                offline.0 += price.bytes.0 + after.0 - before.0;
                offline.1 += price.bytes.1 + after.1 - before.1;
                halves += request.half_bytes(Role::P0).max(request.half_bytes(Role::P1)) as u64;
            }
            declared.requests += cost.demand.len() as u64;
            declared.largest = declared.largest.max(halves);
            let stage = declared.entry(cost.stage);
            stage.calls += 1;
            stage.online.p0_to_p1_bytes += cost.online.p0_to_p1_bytes;
            stage.online.p1_to_p0_bytes += cost.online.p1_to_p0_bytes;
            stage.online.rounds += cost.online.rounds;
            stage.offline.0 += offline.0;
            stage.offline.1 += offline.1;
        }
        Ok(declared)
    }

    fn entry(&mut self, name: Stage) -> &mut StageCost {
        let at = self.stages.iter().position(|s| s.name == name).unwrap_or_else(|| {
            self.stages.push(StageCost { name, online: Cost::default(), offline: (0, 0), calls: 0 });
            self.stages.len() - 1
        });
        &mut self.stages[at]
    }

    /// What the server computes under encryption in a stage, layer by layer.
    pub fn works(&self, stage: Stage) -> &[Work] {
        self.works.iter().find(|(s, _)| *s == stage).map_or(&[], |(_, works)| works)
    }

    /// Relinearisations, rotations and conjugations.
    pub fn key_switches(&self) -> u64 {
        self.works.iter().map(|(_, works)| tally(works).key_switches()).sum()
    }

    pub fn online_bytes(&self) -> u64 {
        self.stages.iter().map(|s| s.online.total_bytes()).sum()
    }

    pub fn offline_bytes(&self) -> u64 {
        self.stages.iter().map(|s| s.offline.0 + s.offline.1).sum()
    }

    pub fn rounds(&self) -> u64 {
        self.stages.iter().map(|s| s.online.rounds).sum()
    }
}
