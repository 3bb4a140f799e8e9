//! A client's CKKS keys for one set of parameters: made for the rotations of a plan alone, sent once, and
//! held by a server under the id of the public key that came with them. Either party may keep its half and
//! take it up again: [`ClientKeys::keep`], [`ServerKeys::take`].
//!
//! | who | what |
//! |---|---|
//! | both | [`KeyShape`]: the set and which keys; its bytes are known before a key is made |
//! | client | [`ClientKeys`]: the secret key. Never copied, wiped when dropped |
//! | server | [`ServerKeys`]: public key and evaluation keys, ready to compute |
//!
//! Cost: one message with the public key, one for each evaluation key ([`KeyShape::bytes`]). Keys are
//! generated and sent one by one, so that a client holds one at a time.
//!
//! # What is not guaranteed
//! That a client sent keys of one secret: keys that do not fit make its own results wrong, and nobody else's.

mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::ClientKeys;
pub use server::ServerKeys;

use fesc_ckks::server::EvaluationKeyPlan;
use fesc_ckks::{Params, wire};
use fesc_mpc::{Ledger, Role};
use fesc_net::HEADER_BYTES;

/// Which keys of which set: public, and the same for both parties.
#[derive(Clone)]
pub struct KeyShape {
    params: Params,
    plan: EvaluationKeyPlan,
}

/// What a party has of the keys.
pub enum Keys<'a> {
    /// The client's.
    Client(&'a mut ClientKeys),
    /// The server's.
    Server(&'a ServerKeys),
}

impl Keys<'_> {
    /// The same for one of several uses.
    pub fn again(&mut self) -> Keys<'_> {
        match self {
            Self::Client(keys) => Keys::Client(keys),
            Self::Server(keys) => Keys::Server(keys),
        }
    }
}

/// Told how many bytes of how many have gone.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

impl KeyShape {
    /// The keys of a plan.
    pub fn new(params: Params, plan: EvaluationKeyPlan) -> Self {
        Self { params, plan }
    }

    /// The set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Which evaluation keys.
    pub fn plan(&self) -> &EvaluationKeyPlan {
        &self.plan
    }

    /// Evaluation keys.
    pub fn count(&self) -> usize {
        self.plan.purposes(&self.params).len()
    }

    /// Bytes that travel, with frames.
    pub fn bytes(&self) -> u64 {
        self.payload() + (HEADER_BYTES * (1 + self.count())) as u64
    }

    /// Bytes of all payloads: what a server keeps of them.
    pub fn payload(&self) -> u64 {
        (wire::public_key_bytes(&self.params) + self.plan.bytes(&self.params)) as u64
    }

    /// Bytes in the server's memory.
    pub fn memory(&self) -> u64 {
        // The public key has two polynomials over all primes, in words.
        let public = 16 * self.params.degree() * self.params.primes();
        (self.plan.memory(&self.params) + public) as u64
    }

    /// Writes the cost: once for a client and plan, before any run.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.setup(Role::P0, self.bytes());
    }
}
