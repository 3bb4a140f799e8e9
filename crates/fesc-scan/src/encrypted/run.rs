//! The steps of [`Encrypted`], in the order in which they are declared.

use fesc_hybrid::circuit::gather;
use fesc_hybrid::keys::Keys;
use fesc_hybrid::verify::{Deviation, Witness};
use fesc_hybrid::work::Work;
use fesc_model::outline::scale::RING;
use fesc_mpc::activation::{Activation, Piecewise};
use fesc_mpc::{Ledger, Party, Role, Shared};

use super::geometry::Kind;
use super::{Encrypted, packet};
use crate::Result;
use crate::contract::{Carry, Packet, Scan};
use crate::error::{check, check_presence};
use crate::exponential::{declare_exponential, exponential};
use crate::hescan::HeScan;

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
        Ok(self.circuit.declare(ledger)?)
    }

    fn work(&self) -> Option<Work> {
        Some(Work::new(&self.circuit, self.geometry.count()))
    }

    fn deviation(&self, witness: &Witness) -> Result<Option<Deviation>> {
        let kernel = &self.geometry.chosen().kernel;
        let evaluate =
            |plain: &_, input: &(dyn Fn(usize) -> _ + Sync)| kernel.run(plain, &|i| input(self.geometry.place(i)));
        Ok(Some(self.circuit.deviation(witness, evaluate)?))
    }

    fn run(
        &self,
        party: &mut Party,
        keys: Option<Keys<'_>>,
        packet: &Packet,
        skip: Option<&[i64]>,
        carry: Option<&Carry>,
    ) -> Result<(Shared, Option<Carry>)> {
        self.check(party.role(), packet, skip, carry)?;
        check_presence("keys of the scan", true, keys.is_some())?;
        let Some(keys) = keys else {
            return Err(crate::ScanError::Presence { what: "keys of the scan", given: false });
        };
        let decays = self.decays(party, packet)?;
        let (pushed, skipped) = self.products(party, packet, skip)?;
        let kernel = &self.geometry.chosen().kernel;
        let tensors = [&pushed, &decays, &packet.b, &packet.c];
        let lanes = self
            .circuit
            .run(party, keys, &tensors, |ckks, inputs| kernel.run(ckks, &|i| inputs.get(self.geometry.place(i))))?;
        drop((pushed, decays));
        let (slots, values) = (self.geometry.params().slots(), self.geometry.tensor(Kind::X));
        let m = gather(RING, &lanes, slots, values, |i| kernel.outputs(i))?;
        let m = m.scale(1 << (self.scales.scanned - self.fraction));
        Ok((m.add(&skipped)?, None))
    }
}

impl Encrypted {
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

    fn check(&self, role: Role, packet: &Packet, skip: Option<&[i64]>, carry: Option<&Carry>) -> Result<()> {
        let s = self.geometry.shape();
        let sizes = [
            ("x of a packet", &packet.x, s.tokens * s.channels()),
            ("B of a packet", &packet.b, s.tokens * s.groups * s.state),
            ("C of a packet", &packet.c, s.tokens * s.groups * s.state),
            ("Delta of a packet", &packet.delta, s.tokens * s.heads),
            ("A Delta of a packet", &packet.z, s.tokens * s.heads),
        ];
        for (what, tensor, expected) in sizes {
            check(what, expected, tensor.len())?;
            check("ring width of a packet", RING.bits() as usize, tensor.ring().bits() as usize)?;
        }
        check_presence("the skip D", role == Role::P1, skip.is_some())?;
        check_presence("a carry", false, carry.is_some())?;
        check("skip D", s.heads, skip.map_or(s.heads, <[i64]>::len))
    }
}
