//! The steps of [`Encrypted`], in the order in which they are declared.

use fesc_hybrid::backend::{Backend, Plain};
use fesc_hybrid::circuit::gather;
use fesc_hybrid::keys::Keys;
use fesc_hybrid::verify::{Deviation, Witness, most_lanes};
use fesc_hybrid::work::Work;
use fesc_model::outline::scale::RING;
use fesc_mpc::activation::{Activation, Piecewise};
use fesc_mpc::{Ledger, Party, Shared};

use super::geometry::Kind;
use super::{Encrypted, packet};
use crate::contract::{Carry, Packet, Scan, Sizes};
use crate::error::check_presence;
use crate::exponential::{declare_exponential, exponential};
use crate::hescan::HeScan;
use crate::{Result, ScanError};

impl Scan for Encrypted {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        let ranges = self.geometry.ranges();
        for (form, count) in self.forms.iter().zip(packet::counts(ranges)) {
            declare_exponential(RING, form, count, ledger)?;
        }
        self.clamp.iter().try_for_each(|form| Piecewise::new(form).declare(ranges.len(), ledger))?;
        self.product.declare(ledger);
        self.pushed.declare(ledger)?;
        self.skipped.declare(ledger)?;
        Ok(self.conversions.circuit.declare(ledger)?)
    }

    fn works(&self) -> Vec<Work> {
        Work::new(&self.conversions.circuit, self.geometry.count()).into_iter().collect()
    }

    fn deviations(&self, witnesses: &mut dyn Iterator<Item = &Witness>) -> Result<Vec<Deviation>> {
        let none = ScanError::Size { what: "circuits of a run", expected: 1, got: 0 };
        let witness = witnesses.next().ok_or(none)?;
        let evaluate = |plain: &Plain, input: &(dyn Fn(usize) -> _ + Sync)| self.evaluate(plain, input);
        let deviation = self.conversions.circuit.deviation(witness, evaluate)?;
        let g = &self.geometry;
        let ((outputs, states), shape) = (g.results_by_kind(), g.shape());
        let lanes = [
            most_lanes(g.tensor(Kind::X), (0..outputs).map(|i| g.outputs(i))),
            most_lanes(shape.state * shape.channels(), (0..states).map(|i| g.states(i))),
        ];
        Ok(vec![deviation.of_values(self.conversions.divided.map(|g| f64::from(g).exp2()), lanes)])
    }

    fn run(
        &self,
        party: &mut Party,
        keys: Option<Keys<'_>>,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)> {
        self.sizes().check(party.role(), packet, skip, carry)?;
        check_presence("keys of the scan", true, keys.is_some())?;
        let Some(keys) = keys else {
            return Err(ScanError::Presence { what: "keys of the scan", given: false });
        };
        let decays = self.decays(party, packet)?;
        let (pushed, skipped) = self.products(party, packet, skip)?;
        let mut tensors = vec![&pushed, &decays, &packet.b, &packet.c];
        tensors.extend(carry.map(|carry| &carry.state));
        let circuit = &self.conversions.circuit;
        let mut lanes =
            circuit.run(party, keys, &tensors, |ckks, inputs| self.evaluate(ckks, |i| inputs.get(i)))?.into_iter();
        drop((pushed, decays));
        let (slots, values) = (self.geometry.params().slots(), self.geometry.tensor(Kind::X));
        let missing = ScanError::Size { what: "kinds of results of a scan", expected: 1, got: 0 };
        let m = gather(RING, &lanes.next().ok_or(missing)?, slots, values, |i| self.geometry.outputs(i))?;
        let m = m.scale(1 << (self.scales.scanned - self.conversions.outputs));
        let state = match lanes.next() {
            Some(lanes) => {
                let shape = self.geometry.shape();
                let all = shape.state * shape.channels();
                let state = gather(RING, &lanes, slots, all, |i| self.geometry.states(i))?;
                Some(Carry { state: state.scale(1 << (self.scales.state - self.conversions.states)) })
            }
            None => None,
        };
        Ok((m.add(&skipped)?, state))
    }
}

impl Encrypted {
    /// The server's part: outputs first, then states.
    fn evaluate<B: Backend>(
        &self,
        backend: &B,
        input: impl Fn(usize) -> fesc_hybrid::Result<B::Ct> + Sync,
    ) -> fesc_hybrid::Result<Vec<B::Ct>> {
        let kernel = &self.geometry.chosen().kernel;
        let results = kernel.run(backend, &|i| input(self.geometry.place(i)))?;
        let (states, outputs): (Vec<_>, Vec<_>) =
            results.into_iter().enumerate().partition(|(i, _)| kernel.holds_state(*i));
        Ok(outputs.into_iter().chain(states).map(|(_, c)| c).collect())
    }

    /// All products of decays in `[0, 1]`, at s.exp.
    fn decays(&self, party: &mut Party, packet: &Packet) -> Result<Shared> {
        let ranges = self.geometry.ranges();
        let sums = packet::sums(ranges, &packet.z, self.geometry.shape().heads);
        let mut all = vec![0u64; ranges.len()];
        for ((form, part), places) in self.forms.iter().zip(sums.parts).zip(&sums.places) {
            let exps = exponential(party, form, part)?;
            places.iter().zip(exps.values()).for_each(|(&place, &exp)| all[place] = exp);
        }
        let one = party.role().at_p0(1 << self.scales.exp);
        sums.ones.iter().for_each(|&place| all[place] = one);
        let mut all = Shared::new(RING, all);
        for form in &self.clamp {
            all = Piecewise::new(form).run(party, &all)?;
        }
        Ok(all)
    }

    /// Delta x at PUSHED bits, and D x at s.scanned.
    fn products(&self, party: &mut Party, packet: &Packet, skip: Option<&[i64]>) -> Result<(Shared, Shared)> {
        let mut own = vec![0; self.geometry.shape().heads];
        own.iter_mut().zip(skip.unwrap_or_default()).for_each(|(to, &d)| *to = RING.from_signed(d));
        let own = Shared::new(RING, own);
        let mut products = self.product.run(party, &[&own, &packet.delta, &packet.x])?.into_iter();
        let mut next = || products.next().unwrap_or_else(|| Shared::new(RING, Vec::new()));
        let pushed = self.pushed.run(party, next())?;
        Ok((pushed, self.skipped.run(party, next())?))
    }

    fn sizes(&self) -> Sizes {
        let s = self.geometry.shape();
        let (inner, width, carried) = (s.channels(), s.groups * s.state, self.geometry.carried()[0]);
        Sizes { tokens: s.tokens, heads: s.heads, inner, width, state: s.state, carried }
    }
}
