//! Threshold-shared piecewise polynomials: SiLU, softplus, exp.
//!
//! One comparison step for all `K` thresholds on the truncate-reduced input, one opened tensor for all
//! pieces, one truncation. The masked input rides on the first message of the comparison, so an activation
//! takes `4 + ceil(log2 D)` rounds (6 for SiLU). Pieces may be quadratic: that costs correlations, no online
//! byte.
//!
//! A table may have a small ring of its own (SiLU: 34 bits); [`Piecewise::into_ring`] then makes the last
//! truncation lead into the ring of the stages at no more than the wider wrap's correlations. The sum's sign
//! is known in the *table's* ring: `FixedPiecewise` refuses pieces that leave `|sum| < 2^(l-2) - 2^shift`
//! there.

use std::borrow::Cow;

use fesc_approx::FixedPiecewise;
use fesc_ring::Ring;

use super::Activation;
use crate::correlation::Select;
use crate::correlation::select::field;
use crate::error::check_len;
use crate::protocol::{Compare, Convert, Selected, Sender, Thresholds, combine, tag};
use crate::{Ledger, MpcError, Party, Request, Shared, SharedBits};

/// A piecewise polynomial on shares; the twin is `FixedPiecewise::eval_jitter`.
#[derive(Debug, Clone)]
pub struct Piecewise<'a> {
    table: Cow<'a, FixedPiecewise>,
    result: Ring,
}

impl<'a> Piecewise<'a> {
    /// From a fixed-point table.
    pub fn new(table: &'a FixedPiecewise) -> Self {
        Self { table: Cow::Borrowed(table), result: table.ring() }
    }

    /// From a table of its own.
    pub fn owned(table: FixedPiecewise) -> Piecewise<'static> {
        let result = table.ring();
        Piecewise { table: Cow::Owned(table), result }
    }

    /// Gives the result in another ring, which must hold it.
    pub fn into_ring(self, ring: Ring) -> Self {
        Self { result: ring, ..self }
    }

    /// The table.
    pub fn table(&self) -> &FixedPiecewise {
        &self.table
    }

    /// Truncate-reduce, selection and last truncation of `count` elements.
    fn steps(&self, count: usize) -> Result<(Convert, Select, Option<Convert>), MpcError> {
        let t = &self.table;
        let ring = t.ring();
        let reduce = Convert::reduce(ring, t.cmp_bits(), t.cmp_shift(), count)?;
        let select = Select { ring, count, thresholds: t.thresholds().len(), degree: t.degree().max(1) };
        let truncate = match t.trunc_bits() {
            0 if self.result == ring => None,
            shift => Some(Convert::new(ring, self.result, shift, count)?),
        };
        Ok((reduce, select, truncate))
    }

    /// The comparison with the table's thresholds, and `more`.
    pub(super) fn comparison(&self, count: usize, more: usize, sender: Sender) -> Result<Compare, MpcError> {
        Compare::new(Ring::new(self.table.cmp_bits())?, count, self.table.thresholds().len() + more, sender)
    }

    /// The cost when the form's bits come from `compare`.
    pub(super) fn declare_comparing(
        &self,
        compare: &Compare,
        count: usize,
        ledger: &mut Ledger,
    ) -> Result<(), MpcError> {
        let (_, select, truncate) = self.steps(count)?;
        let bits = 8 * select.thresholds * count.div_ceil(64);
        ledger.need(Request::Select(select));
        compare.declare_with(self.table.ring().packed_len(count), ledger);
        ledger.exchange(bits, bits);
        if let Some(truncate) = truncate {
            truncate.declare(ledger);
        }
        Ok(())
    }

    /// The form with the first bits of `compare`; what it gave beyond them comes back.
    pub(super) fn run_comparing(
        &self,
        party: &mut Party,
        x: &Shared,
        compare: &Compare,
        tau: Thresholds<'_>,
    ) -> Result<(Shared, Vec<SharedBits>), MpcError> {
        let (table, ring, n) = (&*self.table, self.table.ring(), x.len());
        check_len("ring width of an activation's input", ring.bits() as usize, x.ring().bits() as usize)?;
        let (reduce, shape, truncate) = self.steps(n)?;
        let material = party.take(Request::Select(shape.clone()))?;

        let mut hat: Vec<u64> =
            x.values().iter().zip(material.ring(field::MASK)).map(|(&v, &r)| ring.sub(v, r)).collect();
        let reduced = reduce.run(party, x)?;
        let (mut bits, peer) = compare.run_with(party, &reduced, tau, &ring.pack(&hat))?;
        ring.add_assign(&mut hat, &ring.unpack(&peer, n)?)?;
        let more = bits.split_off(shape.thresholds.min(bits.len()));

        let words = bits.iter().flat_map(|b| b.words().iter().copied());
        let masked: Vec<u64> = words.zip(material.ring(field::BITS)).map(|(b, &r)| b ^ r).collect();
        let mut open = party.exchange_words(tag::SELECT, &masked)?;
        open.iter_mut().zip(&masked).for_each(|(o, &m)| *o ^= m);

        let selected = Selected { role: party.role(), shape: &shape, material: &material, hat: &hat, open_bits: &open };
        let sum = Shared::new(ring, combine(&selected, x.values(), table.base(), table.steps()));
        let value = match truncate {
            Some(truncate) => truncate.run(party, &sum)?,
            None => sum,
        };
        Ok((value, more))
    }
}

impl Activation for Piecewise<'_> {
    fn ring(&self) -> Ring {
        self.table.ring()
    }

    fn result(&self) -> Ring {
        self.result
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        self.declare_comparing(&self.comparison(count, 0, Sender::Split)?, count, ledger)
    }

    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        let compare = self.comparison(x.len(), 0, Sender::Split)?;
        Ok(self.run_comparing(party, x, &compare, Thresholds::Same(self.table.thresholds()))?.0)
    }
}
