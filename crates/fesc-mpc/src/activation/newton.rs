//! Inverse square roots: a start chosen by bucket bits, then Newton's `y (3 - v y^2) / 2`.
//!
//! Ours ([`Rsqrt`]) starts from a line per bucket; the paper's NeRMS ([`NeRms`]) from a constant, with its
//! square from the same bits. All products of all steps belong to one bundle: `v` is opened once.

use fesc_approx::paper::nerms::NeRmsFixed;
use fesc_approx::rsqrt::Rsqrt as Form;
use fesc_ring::Ring;

use super::{Activation, Piecewise, steps};
use crate::correlation::Bundle;
use crate::protocol::{BitToArithmetic, Compare, Convert, Opened, Rescale, Thresholds};
use crate::{Ledger, MpcError, Party, Request, Shared, SharedBits};

/// Our inverse square root on shares; the twin is `Rsqrt::eval`.
#[derive(Debug, Clone)]
pub struct Rsqrt {
    form: Form,
}

impl Rsqrt {
    /// From a fixed-point form.
    pub fn new(form: Form) -> Self {
        Self { form }
    }

    /// Mask 0 is `v`; step `s` has `y`, `t`, `3 - w` at `1 + 3 s ..` and the products `v y`, `t y`,
    /// `y (3 - w)`.
    fn bundle(&self, count: usize) -> Bundle {
        let steps = self.form.steps() as usize;
        let pairs: Vec<_> = (0..steps).map(|s| 1 + 3 * s).flat_map(|y| [(0, y), (y + 1, y), (y, y + 2)]).collect();
        Bundle::elementwise(self.ring(), count, 1 + 3 * steps, &pairs)
    }
}

impl Activation for Rsqrt {
    fn ring(&self) -> Ring {
        self.form.start().ring()
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        Piecewise::new(self.form.start()).declare(count, ledger)?;
        let bundle = self.bundle(count);
        ledger.need(Request::Bundle(bundle.clone()));
        for s in 0..self.form.steps() as usize {
            let y = 1 + 3 * s;
            let opened: [&[usize]; 3] = [if s == 0 { &[0, 1] } else { &[y] }, &[y + 1], &[y + 2]];
            for (which, shift) in opened.into_iter().zip(self.form.shifts()) {
                Opened::declare_open(&bundle, which, ledger);
                Rescale::new(self.ring(), shift, 0, count).declare(ledger)?;
            }
        }
        Ok(())
    }

    fn run(&self, party: &mut Party, v: &Shared) -> Result<Shared, MpcError> {
        let (ring, role, [by_t, by_w, by_y]) = (self.ring(), party.role(), self.form.shifts());
        let mut y = Piecewise::new(self.form.start()).run(party, v)?;
        let mut opened = Opened::start(party, &self.bundle(v.len()))?;
        let round = |shift| Rescale::new(ring, shift, 0, v.len());
        for s in 0..self.form.steps() as usize {
            let at = 1 + 3 * s;
            if s == 0 {
                opened.open(party, &[(0, v), (1, &y)])?
            } else {
                opened.open(party, &[(at, &y)])?
            }
            let t = round(by_t).run(party, opened.product(3 * s)?)?;
            opened.open(party, &[(at + 1, &t)])?;
            let w = round(by_w).run(party, opened.product(3 * s + 1)?)?;
            let rest = three_minus(ring, role, &w, self.form.w_frac());
            opened.open(party, &[(at + 2, &rest)])?;
            y = round(by_y).run(party, opened.product(3 * s + 2)?)?;
        }
        Ok(y)
    }
}

/// The paper's NeRMS on shares (section "Split Inverse-RMS Normalization"); the twin is `NeRmsFixed::eval`.
#[derive(Debug, Clone)]
pub struct NeRms {
    form: NeRmsFixed,
}

impl NeRms {
    /// From a fixed-point form.
    pub fn new(form: NeRmsFixed) -> Self {
        Self { form }
    }

    /// Mask 0 is `v`; step `i` has `s`, `y`, `3 - w` at `1 + 3 i ..`, the products `v s`, `y (3 - w)` and,
    /// but for the first step, before them the square of `y` that gives `s`.
    fn bundle(&self, count: usize) -> Bundle {
        let mut pairs = Vec::new();
        for i in 0..self.form.steps() as usize {
            let s = 1 + 3 * i;
            if i > 0 {
                pairs.push((s + 1, s + 1));
            }
            pairs.extend([(0, s), (s + 1, s + 2)]);
        }
        Bundle::elementwise(self.ring(), count, 1 + 3 * self.form.steps() as usize, &pairs)
    }

    fn comparison(&self, count: usize) -> Result<(Convert, Compare, BitToArithmetic), MpcError> {
        let t = self.form.start();
        let k = t.thresholds().len();
        let (reduce, compare) = steps::comparison(t.ring(), t.cmp_bits(), t.cmp_shift(), count, k)?;
        Ok((reduce, compare, BitToArithmetic { ring: t.ring(), count: k * count }))
    }
}

impl Activation for NeRms {
    fn ring(&self) -> Ring {
        self.form.start().ring()
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let (_, compare, lift) = self.comparison(count)?;
        compare.declare(ledger);
        lift.declare(ledger);
        let bundle = self.bundle(count);
        ledger.need(Request::Bundle(bundle.clone()));
        let [by_w, by_y, by_s] = self.form.shifts();
        for i in 0..self.form.steps() as usize {
            let s = 1 + 3 * i;
            if i == 0 {
                Opened::declare_open(&bundle, &[0, 1, 2], ledger);
            } else {
                Opened::declare_open(&bundle, &[s + 1], ledger);
                Rescale::new(self.ring(), by_s, 0, count).declare(ledger)?;
                Opened::declare_open(&bundle, &[s], ledger);
            }
            Rescale::new(self.ring(), by_w, 0, count).declare(ledger)?;
            Opened::declare_open(&bundle, &[s + 2], ledger);
            Rescale::new(self.ring(), by_y, 0, count).declare(ledger)?;
        }
        Ok(())
    }

    fn run(&self, party: &mut Party, v: &Shared) -> Result<Shared, MpcError> {
        let (ring, role, n) = (self.ring(), party.role(), v.len());
        let (reduce, compare, lift) = self.comparison(n)?;
        let reduced = reduce.run(party, v)?;
        let bits = compare.run(party, &reduced, Thresholds::Same(self.form.start().thresholds()))?;
        let lifted = lift.run(party, &SharedBits::concat(&bits.iter().collect::<Vec<_>>()))?;
        let table = |t: &fesc_approx::FixedPiecewise| {
            let element = |i: usize| {
                let terms = t.steps().iter().enumerate().map(|(k, s)| s[0].wrapping_mul(lifted.values()[k * n + i]));
                terms.fold(role.at_p0(t.base()[0]), u64::wrapping_add)
            };
            Shared::new(ring, (0..n).map(element).collect())
        };
        let (mut y, mut square) = (table(self.form.start()), table(self.form.square()));
        let mut opened = Opened::start(party, &self.bundle(n))?;
        let round = |shift| Rescale::new(ring, shift, 0, n);
        let [by_w, by_y, by_s] = self.form.shifts();
        let mut product = 0;
        for i in 0..self.form.steps() as usize {
            let s = 1 + 3 * i;
            if i == 0 {
                opened.open(party, &[(0, v), (1, &square), (2, &y)])?;
            } else {
                opened.open(party, &[(s + 1, &y)])?;
                square = round(by_s).run(party, opened.product(product)?)?;
                opened.open(party, &[(s, &square)])?;
                product += 1;
            }
            let w = round(by_w).run(party, opened.product(product)?)?;
            let rest = three_minus(ring, role, &w, self.form.w_frac());
            opened.open(party, &[(s + 2, &rest)])?;
            y = round(by_y).run(party, opened.product(product + 1)?)?;
            product += 2;
        }
        Ok(y)
    }
}

/// `3 - w` at the scale of `w`.
fn three_minus(ring: Ring, role: crate::Role, w: &Shared, frac: u32) -> Shared {
    w.scale(ring.neg(1)).add_public(role, 3 << frac)
}
