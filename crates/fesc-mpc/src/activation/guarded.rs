//! A piecewise form with one more threshold per element, which only P1 knows.
//!
//! `(f(x), [x >= t])` for a public table `f` and P1's secret `t`, from one comparison of `K + 1` thresholds
//! in which P1 is the sender: the sender subtracts thresholds from its own share, so none of them is ever
//! sent ([`crate::protocol::Compare`]). Softplus uses it: the bit says that `A Delta` must be clamped, and
//! `A` is the server's.
//!
//! Cost: that of the form with `K + 1` thresholds, all leaves from P1. The comparison's width must cover
//! `|x| + |t|`.

use fesc_approx::FixedPiecewise;
use fesc_ring::Ring;
use zeroize::Zeroizing;

use super::Piecewise;
use crate::error::check_len;
use crate::protocol::{Sender, Thresholds};
use crate::{Ledger, MpcError, Party, Role, Shared, SharedBits};

/// A piecewise form and a secret threshold on shares.
#[derive(Debug, Clone)]
pub struct Guarded<'a> {
    form: Piecewise<'a>,
}

const SENDER: Sender = Sender::Only(Role::P1);

impl<'a> Guarded<'a> {
    /// From a fixed-point table.
    pub fn new(table: &'a FixedPiecewise) -> Self {
        Self { form: Piecewise::new(table) }
    }

    /// Writes the cost for `count` elements.
    pub fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        self.form.declare_comparing(&self.form.comparison(count, 1, SENDER)?, count, ledger)
    }

    /// `f(x)` and `[x >= t]`. P1 gives `t` for every element, in units of the table's comparison; what P0
    /// gives is not used.
    ///
    /// # Errors
    /// If P1 gives not one threshold per element, or the protocol fails.
    pub fn run(&self, party: &mut Party, x: &Shared, secret: &[i64]) -> Result<(Shared, SharedBits), MpcError> {
        let compare = self.form.comparison(x.len(), 1, SENDER)?;
        let table = self.form.table();
        let (value, mut bits) = match party.role() {
            Role::P0 => self.form.run_comparing(party, x, &compare, Thresholds::Peer)?,
            Role::P1 => {
                check_len("secret thresholds", x.len(), secret.len())?;
                let (ring, public) = (Ring::new(table.cmp_bits())?, table.thresholds());
                let each = |&t: &i64| public.iter().copied().chain([ring.from_signed(t)]);
                let all: Zeroizing<Vec<u64>> = Zeroizing::new(secret.iter().flat_map(each).collect());
                self.form.run_comparing(party, x, &compare, Thresholds::Each(&all))?
            }
        };
        let bit = bits.pop().ok_or(MpcError::Shape { what: "bits of a secret threshold", expected: 1, got: 0 })?;
        Ok((value, bit))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use fesc_approx::{softplus, trunc};
    use fesc_ring::Prg;

    use super::*;
    use crate::testing::both;

    #[test]
    fn values_are_the_forms_and_bits_are_the_secret_thresholds() {
        let table = softplus::preset().unwrap();
        let (ring, shift) = (table.ring(), table.cmp_shift());
        for n in [1usize, 64, 200] {
            let values: Vec<i64> = (0..n as i64).map(|i| (i * 977) % (30 << table.in_frac()) - (12 << 10)).collect();
            let secret: Vec<i64> = (0..n as i64).map(|i| (i * 31) % 400 - 200).collect();
            let integers: Vec<u64> = values.iter().map(|&v| ring.from_signed(v)).collect();
            let (a, b) = Shared::split(ring, &integers, &mut Prg::from_seed([4; 16]));
            let step = Guarded::new(table);
            let got = both(|p| match p.role() {
                Role::P0 => step.run(p, &a, &[]),
                Role::P1 => step.run(p, &b, &secret),
            });
            got.assert_declared(|l| step.declare(n, l).unwrap());
            let [(v0, b0), (v1, b1)] = &got.out;
            let (out, bits) = (v0.join(v1).unwrap(), b0.join(b1).unwrap());
            for i in 0..n {
                let x = integers[i];
                let may = [(false, false), (false, true), (true, false), (true, true)];
                assert!(may.map(|(j, c)| table.eval_jitter(x, j, c)).contains(&out[i]), "value {i}");
                let reduced = [false, true].map(|high| ring.to_signed(trunc::trunc(ring, x, shift, high)));
                assert!(reduced.map(|r| r >= secret[i]).contains(&bits[i]), "bit {i}");
            }
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
