//! Public parameters as numbers, for the parties to compare.
//!
//! Every integer form can list all numbers that its protocol depends on, in a fixed order that starts with a
//! tag and the counts. Two parties that hash the same words run the same protocol; a session should refuse to
//! start otherwise (fits made at run time may differ in the last bit between machines).

use crate::exp_square::ExpSquare;
use crate::fixed::FixedPiecewise;
use crate::folded::Folded;
use crate::paper::even::EvenFixed;
use crate::paper::mmexp::MinimaxExpFixed;
use crate::paper::nerms::NeRmsFixed;
use crate::rsqrt::Rsqrt;

/// All public numbers of a form.
pub trait Transcript {
    /// Appends the numbers to `out`; injective over the forms of one type.
    fn write(&self, out: &mut Vec<u64>);

    /// The numbers alone.
    fn words(&self) -> Vec<u64> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

impl Transcript for FixedPiecewise {
    fn write(&self, out: &mut Vec<u64>) {
        let widths =
            [self.ring().bits(), self.in_frac(), self.out_frac(), self.sum_frac(), self.cmp_shift(), self.cmp_bits()];
        out.extend([1, self.thresholds().len() as u64]);
        out.extend(widths.map(u64::from));
        out.extend(self.thresholds());
        out.extend(self.base());
        out.extend(self.steps().iter().flatten());
    }
}

impl Transcript for ExpSquare {
    fn write(&self, out: &mut Vec<u64>) {
        out.extend([2, self.k().into(), self.frac().into()]);
        self.clamp().write(out);
    }
}

impl Transcript for Rsqrt {
    fn write(&self, out: &mut Vec<u64>) {
        out.extend([3, self.steps().into(), self.t_frac().into(), self.w_frac().into()]);
        self.start().write(out);
    }
}

impl Transcript for EvenFixed {
    fn write(&self, out: &mut Vec<u64>) {
        let plan = self.plan();
        let widths = [plan.ring.bits(), plan.frac, plan.cmp_shift, plan.cmp_bits, self.square_trunc()];
        out.extend([4, self.rest().len() as u64]);
        out.extend(widths.map(u64::from));
        out.extend([self.square_centre(), self.lead()]);
        out.extend(self.rest());
        out.extend(self.thresholds());
    }
}

impl Transcript for MinimaxExpFixed {
    fn write(&self, out: &mut Vec<u64>) {
        let plan = self.plan();
        let widths = [plan.ring.bits(), plan.frac, plan.cmp_shift, plan.cmp_bits, self.product_trunc()];
        out.extend([5, self.rest().len() as u64]);
        out.extend(widths.map(u64::from));
        out.push(self.lead());
        out.extend(self.rest());
        out.push(self.threshold());
    }
}

impl Transcript for NeRmsFixed {
    fn write(&self, out: &mut Vec<u64>) {
        out.extend([6, self.steps().into(), self.w_frac().into()]);
        self.start().write(out);
        self.square().write(out);
    }
}

impl Transcript for Folded {
    fn write(&self, out: &mut Vec<u64>) {
        let widths =
            [self.ring().bits(), self.in_frac(), self.out_frac(), self.sum_frac(), self.cmp_shift(), self.cmp_bits()];
        out.push(7);
        out.extend(widths.map(u64::from));
        out.extend(self.numbers());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::paper::PaperPlan;
    use crate::paper::even::{EvenResidual, Residual};
    use crate::paper::mmexp::MinimaxExp;
    use crate::paper::nerms::NeRms;
    use crate::{RING48, exp, silu, softplus};
    use std::collections::BTreeSet;

    /// Different forms have different words, equal forms equal ones.
    #[test]
    fn words_tell_forms_apart() {
        let even = |f, d| EvenResidual::paper(f, d).unwrap().fixed(&PaperPlan::DEFAULT).unwrap().words();
        let mm = |d| MinimaxExp::paper(d).unwrap().fixed(&PaperPlan::DEFAULT).unwrap().words();
        let nerms = |n| NeRms::calibrate(0.01, 2.56, 8, n).unwrap().fixed(RING48, 20, 8, 30).unwrap().words();
        let all = || {
            [
                silu::preset().unwrap().words(),
                silu::preset_fine().unwrap().words(),
                softplus::preset().unwrap().words(),
                exp::preset().unwrap().words(),
                exp::fit(&exp::PLAN_CHUNK, exp::TARGET).unwrap().fixed.words(),
                ExpSquare::preset().unwrap().words(),
                Rsqrt::preset(0.01, 20).unwrap().words(),
                Rsqrt::preset(0.01, 19).unwrap().words(),
                Rsqrt::preset(0.0100001, 20).unwrap().words(),
                even(Residual::Silu, 4),
                even(Residual::Softplus, 4),
                even(Residual::Silu, 6),
                mm(4),
                mm(5),
                nerms(1),
                nerms(2),
                Folded::new(16).unwrap().words(),
                Folded::new(12).unwrap().words(),
            ]
        };
        assert_eq!(all(), all());
        assert_eq!(BTreeSet::from(all()).len(), 18);
    }
}
