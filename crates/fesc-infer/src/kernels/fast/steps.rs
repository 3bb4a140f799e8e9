//! From dt to Delta and to the decay's exponent `z = A Delta` (docs/SECURITY-ARGUMENTS.md, E).
//!
//! 1. dt (its bias is in it) to the bits of softplus (12 by pieces); softplus, and in the same comparison
//!    `b = [dt >= t_h]`, `t_h` the server's.
//! 2. `w = |A| Delta`, a product of a tensor that the server knows (zero at the client) with the shared
//!    Delta, rounded to 22 bits. Where `b = 1` it may have wrapped: any class of the ring.
//! 3. `z = -(w + b (16 - w))`: the garbage cancels exactly.
//!
//! The client learns neither `A` nor `t`; the opened `A - r` is uniform.

use fesc_model::outline::scale::{CLAMP, DECAY, DELTA, RATE};
use fesc_model::outline::{LayerForms, Softplus};
use fesc_mpc::activation::Guarded;
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::{Bilinear, Mux};
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::Result;
use crate::error::check;
use crate::stage::{Rescale, Side, StepSecrets};

/// Delta and z of `tokens` tokens and `heads` heads.
pub struct Steps {
    ring: Ring,
    heads: usize,
    tokens: usize,
    softplus: Softplus,
    enter: Rescale,
    /// Softplus may have fewer bits than Delta.
    raise: Rescale,
    product: Bilinear,
    leave: Rescale,
    mux: Mux,
}

impl Steps {
    /// For `tokens` tokens of `heads` heads; dt comes at `frac + step_weight` bits.
    pub fn new(ring: Ring, forms: &LayerForms, frac: u32, heads: usize, tokens: usize) -> Self {
        let count = heads * tokens;
        let all = Tensor::new(&[0, 1]);
        let bundle = Bundle {
            ring,
            sizes: vec![tokens, heads],
            masks: vec![Tensor::new(&[1]), all.clone()],
            products: vec![Product::new(0, 1, all)],
        };
        Self {
            ring,
            heads,
            tokens,
            softplus: forms.softplus.clone(),
            enter: Rescale::new(ring, frac + forms.scales.step_weight, forms.softplus.in_frac(), count),
            raise: Rescale::new(ring, forms.softplus.out_frac(), DELTA, count),
            product: Bilinear { bundle },
            leave: Rescale::new(ring, DELTA + RATE, DECAY, count),
            mux: Mux { ring, count },
        }
    }

    fn guarded(&self) -> Guarded<'_> {
        match &self.softplus {
            Softplus::Piecewise(table) => Guarded::new(table),
            Softplus::Polynomial(form) => Guarded::even(form.clone()),
        }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.enter.declare(ledger)?;
        self.guarded().declare(self.heads * self.tokens, ledger)?;
        self.raise.declare(ledger)?;
        self.product.declare(ledger);
        self.leave.declare(ledger)?;
        self.mux.declare(ledger);
        Ok(())
    }

    /// Delta at DELTA bits and z at DECAY bits, rows of `heads`. `secrets` are the server's; the client has
    /// none.
    ///
    /// # Errors
    /// If the secrets have the wrong size, or the protocol fails.
    pub fn run(&self, party: &mut Party, secrets: Side<(), StepSecrets<'_>>, dt: Shared) -> Result<(Shared, Shared)> {
        let (ring, role) = (self.ring, party.role());
        let (rates, thresholds): (&[i64], &[i64]) = match secrets.of(role, "rates and thresholds of the clamp")? {
            Side::Client(()) => (&[], &[]),
            Side::Server(StepSecrets { rates, thresholds }) => {
                check("rates, one per head", self.heads, rates.len())?;
                check("thresholds, one per head", self.heads, thresholds.len())?;
                (rates, thresholds)
            }
        };
        let v = self.enter.run(party, dt)?;
        let each = zeroize::Zeroizing::new(match thresholds {
            [] => Vec::new(),
            some => some.repeat(self.tokens),
        });
        let (delta, clamped) = self.guarded().run(party, &v, &each)?;
        let delta = self.raise.run(party, delta)?;
        let mut shared = vec![0; self.heads];
        shared.iter_mut().zip(rates).for_each(|(o, &r)| *o = ring.from_signed(r));
        let rates = Shared::new(ring, shared);
        let product = self.product.run(party, &[&rates, &delta])?.swap_remove(0);
        let w = self.leave.run(party, product)?;
        let missing = w.scale(u64::MAX).add_public(role, (CLAMP << DECAY) as u64);
        let z = self.mux.run(party, &clamped, &missing)?.add(&w)?.scale(u64::MAX);
        Ok((delta, z))
    }
}
