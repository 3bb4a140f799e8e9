//! Cross terms of products from RLWE: a [`CrossTerms`] generator over the [`crate::slots`] engine, for OLEs
//! and matrix triples.
//!
//! Both parties hold additive shares of the operands' masks and want shares of `left0 right1 + left1 right0`.
//! One encrypts its share of an operand slot by slot, the other multiplies by its own share of the other
//! operand, adds up over the sum, masks and answers. `plan.rs` says which operand and layout, the cheapest in
//! bytes for every product; `run.rs` how the messages go. Products that need not be exact
//! ([`Product::exact`](fesc_mpc::correlation::Product::exact)) go to the [`coefficients`] engine where that
//! is cheaper still (`scalars.rs`): it chooses this party's share of one mask, and its cross terms may be off
//! by one in the last place, by a few units where it packs. All others are exact, but for the failures of
//! [`crate::slots`], which [`failures`] counts.
//!
//! Shares are lifted to centred integers below `2^47`, results are modulo `2^48`: only bundles over that ring
//! are taken, and only where they are cheaper than Gilboa's method ([`TwoParty::gilboa_bytes`]). Views are
//! those of the engines; every slot of an answer is masked, used or not. One key pair per party and session;
//! the secret key never leaves. A bundle is planned when it is first met: a run asks for the same ones layer
//! by layer.

mod failures;
mod layout;
mod plan;
mod run;
mod scalars;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::Arc;

use fesc_mpc::correlation::Bundle;
use fesc_mpc::provider::{CrossTerms, TwoParty};
use fesc_mpc::{MpcError, Role};
use fesc_net::Channel;
use fesc_ring::Prg;

use crate::messages::tag;
use crate::slots::{Evaluator, KeyHolder, SlotParams};
use crate::{RlweError, coefficients};
pub use failures::{Failures, failures};
use layout::Places;
use plan::{Prices, ProductPlan};
use scalars::Scaled;

/// The ring of the shares.
const BITS: u32 = 48;

/// Ciphertexts that an evaluator holds at once: 268 MB. Few in tests, so that these see more than one group.
const HELD: usize = if cfg!(test) { 10 } else { 128 };

/// Plans that are kept. A run has a few dozen bundles.
const PLANS: usize = 64;

impl From<RlweError> for MpcError {
    fn from(error: RlweError) -> Self {
        MpcError::Generator(Box::new(error))
    }
}

/// One party's end of the generator: its own keys, the peer's public keys. No `Debug`: it holds secret keys.
pub struct Rlwe {
    holder: KeyHolder,
    evaluator: Evaluator,
    scalar_holder: coefficients::KeyHolder,
    scalar_evaluator: coefficients::Evaluator,
    prices: Prices,
    plans: RefCell<Vec<(Bundle, Arc<Whole>)>>,
    prg: Prg,
}

/// How a bundle is made: by slots, but for some products by scalars.
struct Whole {
    plan: ProductPlan,
    scaled: Vec<Scaled>,
    places: Vec<Places>,
    /// Bytes from P0 and from P1.
    bytes: (u64, u64),
    /// Whether there is nothing cheaper.
    taken: bool,
}

impl Whole {
    fn new(bundle: &Bundle, prices: &Prices) -> Result<Self, MpcError> {
        let mut plan = ProductPlan::new(bundle, prices)?;
        let scaled = scalars::choose(bundle, &plan, prices);
        scaled.iter().for_each(|s| plan.leave(s.product));
        let places = plan.shapes.iter().map(Places::new).collect();
        let ((p0, p1), each) = (plan.bytes(prices), scalars::bytes(&scaled));
        let bytes = (p0 + each, p1 + each);
        let total = |(a, b): (u64, u64)| a + b;
        let taken = bundle.ring.bits() == BITS && total(bytes) < total(TwoParty::gilboa_bytes(bundle));
        Ok(Self { plan, scaled, places, bytes, taken })
    }
}

impl Rlwe {
    /// Draws a key pair for each engine and exchanges public keys: two messages each way. `prg` must be
    /// seeded by the operating system.
    ///
    /// # Errors
    /// A failed channel or a malformed key.
    pub fn setup(role: Role, channel: &mut Channel, mut prg: Prg) -> Result<Self, MpcError> {
        // Both keys travel at once, so the role does not matter here.
        let _ = role;
        let params = SlotParams::standard()?;
        let (holder, public) = KeyHolder::new(params.clone(), &mut prg);
        let theirs = channel.exchange(tag::SLOTS_KEY, public, params.upload_bytes())?;
        let (scalar_holder, public) = coefficients::KeyHolder::new(&mut prg)?;
        let their_scalars = channel.exchange(tag::SCALAR_KEY, public, coefficients::KEY_BYTES)?;
        let prices = Prices::new(&params, HELD);
        let evaluator = Evaluator::new(params, &theirs)?;
        let scalar_evaluator = coefficients::Evaluator::new(&their_scalars)?;
        let plans = RefCell::default();
        Ok(Self { holder, evaluator, scalar_holder, scalar_evaluator, prices, plans, prg })
    }

    /// The plan of a bundle, made once.
    fn whole(&self, bundle: &Bundle) -> Result<Arc<Whole>, MpcError> {
        let mut plans = self.plans.borrow_mut();
        if let Some((_, whole)) = plans.iter().find(|(known, _)| known == bundle) {
            return Ok(Arc::clone(whole));
        }
        let whole = Arc::new(Whole::new(bundle, &self.prices)?);
        if plans.len() == PLANS {
            plans.remove(0);
        }
        plans.push((bundle.clone(), Arc::clone(&whole)));
        Ok(whole)
    }
}

impl CrossTerms for Rlwe {
    fn declared(&self, bundle: &Bundle) -> Option<(u64, u64)> {
        self.whole(bundle).ok().filter(|whole| whole.taken).map(|whole| whole.bytes)
    }

    fn run(
        &mut self,
        role: Role,
        channel: &mut Channel,
        bundle: &Bundle,
        masks: &mut [Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        let whole = self.whole(bundle)?;
        let Whole { plan, scaled, places, .. } = &*whole;
        if masks.len() != bundle.masks.len() {
            return Err(MpcError::Shape { what: "masks of a bundle", expected: bundle.masks.len(), got: masks.len() });
        }
        let mut out: Vec<Vec<u64>> = plan.shapes.iter().map(|f| vec![0; f.out_len()]).collect();
        let engine = scalars::Engine { holder: &self.scalar_holder, evaluator: &self.scalar_evaluator, bundle, places };
        // Masks are final from here on: an operand of one product may be what another one chooses.
        let uploads = engine.draw(scaled, masks, &mut self.prg)?;
        for (scaled, uploads) in scaled.iter().zip(uploads) {
            engine.exchange(channel, scaled, uploads, masks, &mut out[scaled.product], &mut self.prg)?;
        }
        let work = run::Work {
            holder: &self.holder,
            evaluator: &self.evaluator,
            bundle,
            masks,
            plan,
            places,
            held: self.prices.held,
        };
        run::Session { role, channel, prg: &mut self.prg, work, out }.run()
    }
}
