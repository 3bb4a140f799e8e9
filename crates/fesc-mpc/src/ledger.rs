//! Declared costs: what a protocol sends, how deep its messages chain, what correlations it uses.
//!
//! Every protocol of this crate has a `declare` function that writes its message schedule to a [`Ledger`]:
//! the same sends in the same order, without data. The ledger keeps the two parties' causal clocks exactly as
//! [`fesc_net::Channel`] does, so that declared rounds and bytes equal the counted ones to the last byte
//! (tested for every protocol). The estimator is the sum of these declarations.

use fesc_net::HEADER_BYTES;

use crate::{Request, Role};

/// Bytes each way (frame headers included) and rounds (one-way message delays on the longest chain).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// Bytes from P0 to P1.
    pub p0_to_p1_bytes: u64,
    /// Bytes from P1 to P0.
    pub p1_to_p0_bytes: u64,
    /// Causal depth.
    pub rounds: u64,
}

impl Cost {
    /// Both directions together.
    pub fn total_bytes(&self) -> u64 {
        self.p0_to_p1_bytes + self.p1_to_p0_bytes
    }
}

/// A message schedule without data.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    cost: Cost,
    received_depth: [u64; 2],
    demand: Vec<Request>,
    /// Once per model, by sender.
    setup: [u64; 2],
}

impl Ledger {
    /// An empty schedule.
    pub fn new() -> Self {
        Self::default()
    }

    /// One message of `bytes` payload from one party to the other.
    pub fn send(&mut self, from: Role, bytes: usize) {
        let depth = self.post(from, bytes);
        self.arrive(from.other(), depth);
    }

    /// Both parties send before they receive: one round.
    pub fn exchange(&mut self, p0_bytes: usize, p1_bytes: usize) {
        let d0 = self.post(Role::P0, p0_bytes);
        let d1 = self.post(Role::P1, p1_bytes);
        self.arrive(Role::P1, d0);
        self.arrive(Role::P0, d1);
    }

    /// One correlation is consumed here.
    pub fn need(&mut self, request: Request) {
        self.demand.push(request);
    }

    /// `bytes` from `from` once per model, before any run: a public part that clients download, keys that
    /// they upload. Not a part of [`Ledger::cost`].
    pub fn setup(&mut self, from: Role, bytes: u64) {
        self.setup[from.index()] += bytes;
    }

    /// Bytes once per model, both directions.
    pub fn setup_bytes(&self) -> u64 {
        self.setup.iter().sum()
    }

    /// The cost so far.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The correlations consumed so far, in order.
    pub fn demand(&self) -> &[Request] {
        &self.demand
    }

    fn post(&mut self, from: Role, bytes: usize) -> u64 {
        let wire = bytes.saturating_add(HEADER_BYTES) as u64;
        let sum = match from {
            Role::P0 => &mut self.cost.p0_to_p1_bytes,
            Role::P1 => &mut self.cost.p1_to_p0_bytes,
        };
        *sum = sum.saturating_add(wire);
        let depth = self.received_depth[from.index()] + 1;
        self.cost.rounds = self.cost.rounds.max(depth);
        depth
    }

    fn arrive(&mut self, at: Role, depth: u64) {
        let d = &mut self.received_depth[at.index()];
        *d = (*d).max(depth);
    }
}
