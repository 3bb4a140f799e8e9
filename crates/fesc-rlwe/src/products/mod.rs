//! Cross terms of products from RLWE: a [`CrossTerms`] generator over the [`crate::slots`] engine, for OLEs and matrix triples (design 5, review G).
//!
//! Both parties hold additive shares of the operands' masks and want shares of `left0 right1 + left1 right0`. One encrypts its share of an operand slot by
//! slot, the other multiplies by its own share of the other operand, adds up over the sum, masks and answers. `plan.rs` says which operand and
//! layout, the cheapest in bytes for every product; `run.rs` how the messages go.
//!
//! Shares are lifted to centred integers below `2^47`, results are modulo `2^48`: only bundles over that ring are taken, and only where they are cheaper
//! than Gilboa's method ([`TwoParty::gilboa_bytes`]). Views and failures are those of [`crate::slots`]; every slot of an answer is masked, used or not.
//! One key pair per party and session; the secret key never leaves.

mod layout;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use fesc_mpc::correlation::Bundle;
use fesc_mpc::provider::{CrossTerms, TwoParty};
use fesc_mpc::{MpcError, Role};
use fesc_net::{Channel, Tag};
use fesc_ring::Prg;

use crate::RlweError;
use crate::slots::{Evaluator, KeyHolder, SlotParams};
use layout::Places;
use plan::{Plan, Prices};

/// The ring of the shares.
const BITS: u32 = 48;

/// Ciphertexts that an evaluator holds at once: 235 MB. Few in tests, so that these see more than one group.
const HELD: usize = if cfg!(test) { 10 } else { 128 };

const KEY: Tag = Tag(0x0420);

impl From<RlweError> for MpcError {
    fn from(error: RlweError) -> Self {
        MpcError::Generator(Box::new(error))
    }
}

/// One party's end of the generator: its own key, the peer's public key. No `Debug`: it holds a secret key.
pub struct Rlwe {
    holder: KeyHolder,
    evaluator: Evaluator,
    prices: Prices,
    prg: Prg,
}

impl Rlwe {
    /// Draws a key pair and exchanges public keys: one message each way. `prg` must be seeded by the operating system.
    ///
    /// # Errors
    /// A failed channel or a malformed key.
    pub fn setup(role: Role, channel: &mut Channel, mut prg: Prg) -> Result<Self, MpcError> {
        // Both keys travel at once, so the role does not matter here.
        let _ = role;
        let params = SlotParams::standard()?;
        let (holder, public) = KeyHolder::new(params.clone(), &mut prg);
        let theirs = channel.exchange(KEY, public, params.upload_bytes())?;
        let prices = Prices::new(&params, HELD);
        Ok(Self { holder, evaluator: Evaluator::new(params, &theirs)?, prices, prg })
    }
}

impl CrossTerms for Rlwe {
    fn takes(&self, bundle: &Bundle) -> bool {
        let total = |(a, b): (u64, u64)| a + b;
        bundle.ring.bits() == BITS
            && Plan::new(bundle, &self.prices)
                .is_ok_and(|plan| total(plan.bytes(&self.prices)) < total(TwoParty::gilboa_bytes(bundle)))
    }

    fn declared(&self, bundle: &Bundle) -> (u64, u64) {
        Plan::new(bundle, &self.prices).map_or((0, 0), |plan| plan.bytes(&self.prices))
    }

    fn run(
        &mut self,
        role: Role,
        channel: &mut Channel,
        bundle: &Bundle,
        masks: &[&[u64]],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        let plan = Plan::new(bundle, &self.prices)?;
        if masks.len() != bundle.masks.len() {
            return Err(MpcError::Shape { what: "masks of a bundle", expected: bundle.masks.len(), got: masks.len() });
        }
        let places: Vec<Places> = plan.forms.iter().map(Places::new).collect();
        let work = run::Work {
            holder: &self.holder,
            evaluator: &self.evaluator,
            bundle,
            masks,
            plan: &plan,
            places: &places,
            held: self.prices.held,
        };
        let out = plan.forms.iter().map(|f| vec![0; f.out_len()]).collect();
        run::Session { role, channel, prg: &mut self.prg, work, out }.run()
    }
}
