//! A form with one more threshold per element, which only P1 knows.
//!
//! `(f(x), [x >= t])` for a public form `f` and P1's secret `t`, from one comparison of `K + 1` thresholds in
//! which P1 is the sender: the sender subtracts thresholds from its own share, so none of them is ever sent
//! ([`crate::protocol::Compare`]). Softplus uses it, by pieces or by the paper's polynomial: the bit says
//! that `A Delta` must be clamped, and `A` is the server's.
//!
//! Cost: that of the form with `K + 1` thresholds, all leaves from P1. The comparison's width must cover
//! `|x| + |t|`.

use fesc_approx::FixedPiecewise;
use fesc_approx::paper::even::EvenFixed;
use fesc_ring::Ring;
use zeroize::Zeroizing;

use super::{EvenResidual, Piecewise};
use crate::error::check_len;
use crate::protocol::{Compare, Sender, Thresholds};
use crate::{Ledger, MpcError, Party, Role, Shared, SharedBits};

/// A form and a secret threshold on shares.
#[derive(Debug, Clone)]
pub struct Guarded<'a>(Form<'a>);

#[derive(Debug, Clone)]
enum Form<'a> {
    Piecewise(Piecewise<'a>),
    Even(EvenResidual),
}

const SENDER: Sender = Sender::Only(Role::P1);

impl<'a> Guarded<'a> {
    /// From a fixed-point table.
    pub fn new(table: &'a FixedPiecewise) -> Self {
        Self(Form::Piecewise(Piecewise::new(table)))
    }

    /// From the paper's polynomial.
    pub fn even(form: EvenFixed) -> Self {
        Self(Form::Even(EvenResidual::new(form)))
    }

    fn comparison(&self, count: usize) -> Result<Compare, MpcError> {
        match &self.0 {
            Form::Piecewise(form) => form.comparison(count, 1, SENDER),
            Form::Even(form) => form.comparison(count, 1, SENDER),
        }
    }

    /// Width of the comparison, and the public thresholds.
    fn public(&self) -> (u32, &[u64]) {
        match &self.0 {
            Form::Piecewise(form) => (form.table().cmp_bits(), form.table().thresholds()),
            Form::Even(form) => (form.form().plan().cmp_bits, form.form().thresholds()),
        }
    }

    /// Writes the cost for `count` elements.
    pub fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let compare = self.comparison(count)?;
        match &self.0 {
            Form::Piecewise(form) => form.declare_comparing(&compare, count, ledger),
            Form::Even(form) => form.declare_comparing(&compare, count, ledger),
        }
    }

    /// `f(x)` and `[x >= t]`. P1 gives `t` for every element, in units of the form's comparison; what P0
    /// gives is not used.
    ///
    /// # Errors
    /// If P1 gives not one threshold per element, or the protocol fails.
    pub fn run(&self, party: &mut Party, x: &Shared, secret: &[i64]) -> Result<(Shared, SharedBits), MpcError> {
        let compare = self.comparison(x.len())?;
        let mut all = Zeroizing::new(Vec::new());
        let tau = match party.role() {
            Role::P0 => Thresholds::Peer,
            Role::P1 => {
                check_len("secret thresholds", x.len(), secret.len())?;
                let (bits, public) = self.public();
                let ring = Ring::new(bits)?;
                // All of it at once: a vector that grows leaves copies behind.
                all.reserve_exact((public.len() + 1) * secret.len());
                all.extend(secret.iter().flat_map(|&t| public.iter().copied().chain([ring.from_signed(t)])));
                Thresholds::Each(&all)
            }
        };
        let (value, mut bits) = match &self.0 {
            Form::Piecewise(form) => form.run_comparing(party, x, &compare, tau)?,
            Form::Even(form) => form.run_comparing(party, x, &compare, tau)?,
        };
        let bit = bits.pop().ok_or(MpcError::Shape { what: "bits of a secret threshold", expected: 1, got: 0 })?;
        Ok((value, bit))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use fesc_approx::paper::PaperPlan;
    use fesc_approx::paper::even::{EvenResidual as EvenForm, Residual};
    use fesc_approx::{RING48, softplus, trunc};
    use fesc_ring::Prg;

    use super::*;
    use crate::testing::both;

    /// Runs a form on `n` inputs. `may(x, high)` are the values for one outcome of the comparison's carry:
    /// value and bit come from the same.
    fn check(step: &Guarded<'_>, ring: Ring, scale: (u32, u32), n: usize, may: &dyn Fn(u64, bool) -> Vec<u64>) {
        let (frac, shift) = scale;
        let one = 1i64 << frac;
        let values: Vec<i64> = (0..n as i64).map(|i| (i * 977 * one / 4096) % (30 * one) - 12 * one).collect();
        let secret: Vec<i64> = (0..n as i64).map(|i| (i * 31) % 2_000 - 800).collect();
        let integers: Vec<u64> = values.iter().map(|&v| ring.from_signed(v)).collect();
        let (a, b) = Shared::split(ring, &integers, &mut Prg::from_seed([4; 16]));
        let got = both(|p| match p.role() {
            Role::P0 => step.run(p, &a, &[]),
            Role::P1 => step.run(p, &b, &secret),
        });
        got.assert_declared(|l| step.declare(n, l).unwrap());
        let [(v0, b0), (v1, b1)] = &got.out;
        let (out, bits) = (v0.join(v1).unwrap(), b0.join(b1).unwrap());
        for i in 0..n {
            let x = integers[i];
            let right = |high| {
                let reduced = ring.to_signed(trunc::trunc(ring, x, shift, high));
                bits[i] == (reduced >= secret[i]) && may(x, high).contains(&out[i])
            };
            assert!(right(false) || right(true), "{}: {} and {}", values[i], ring.to_signed(out[i]), bits[i]);
        }
    }

    #[test]
    fn values_are_the_forms_and_bits_are_the_secret_thresholds() {
        let table = softplus::preset().unwrap();
        for n in [1usize, 64, 200] {
            let may = |x, high| [false, true].map(|c| table.eval_jitter(x, high, c)).to_vec();
            check(&Guarded::new(table), table.ring(), (table.in_frac(), table.cmp_shift()), n, &may);
        }
        for (degree, tau, frac, n) in [(4, 4.0, 21, 200), (2, 4.0, 21, 70), (6, 5.0, 21, 1), (4, 8.0, 20, 64)] {
            let plan = PaperPlan { ring: RING48, frac, cmp_shift: frac - 6, cmp_bits: 14 };
            let form = EvenForm::fit(Residual::Softplus, degree, tau).unwrap().fixed(&plan).unwrap().nonnegative();
            let may = |x, high| {
                let one = |mask: u32| {
                    let mut next = 0;
                    form.eval(x, &mut || {
                        next += 1;
                        if next == 1 { high } else { mask >> (next - 2) & 1 == 1 }
                    })
                };
                (0..1 << (1 + degree / 2)).map(one).collect()
            };
            check(&Guarded::even(form.clone()), RING48, (frac, plan.cmp_shift), n, &may);
        }
    }

    #[test]
    fn the_server_must_give_its_thresholds() {
        let table = softplus::preset().unwrap();
        let x = Shared::new(table.ring(), vec![0; 3]);
        let got = both(|p| {
            Ok(p.role() == Role::P0 || matches!(Guarded::new(table).run(p, &x, &[]), Err(MpcError::Shape { .. })))
        });
        assert_eq!(got.out, [true, true]);
    }
}
