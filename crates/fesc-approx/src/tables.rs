//! The default forms as integers.
//!
//! Both parties must use the same numbers, and a fit goes through the platform's `exp` and `ln`, whose last
//! bit may differ between machines. So the defaults are stored, not fitted. A test fits them again and
//! compares; forms fitted at run time (another plan, the rsqrt of a calibrated range) must be compared
//! between the parties: [`crate::transcript`].

use crate::error::ApproxError;
use crate::fixed::FixedPiecewise;
use crate::plan::Plan;

/// Thresholds and pieces of one form, `[1, x, x^2]` at scales `S`, `S - in_frac`, `S - 2 in_frac`.
pub(crate) struct Table {
    /// Signed thresholds.
    pub thresholds: &'static [i64],
    /// One row per piece.
    pub pieces: &'static [[i64; 3]],
}

impl Table {
    /// The checked form under the plan that the table was made for.
    pub(crate) fn build(&self, plan: &Plan, limit: Option<(f64, f64)>) -> Result<FixedPiecewise, ApproxError> {
        FixedPiecewise::from_integers(plan, self.thresholds, self.pieces.to_vec(), limit)
    }
}

/// `silu::fit(&silu::PLAN, 5)`.
pub(crate) const SILU: Table = Table {
    thresholds: &[-169, -29, 1, 31, 170],
    pieces: &[[0, 0, 0], [-11390881, -31, 0], [-637624, 148, 0], [-857112, 371, 0], [-11684456, 545, 0], [0, 512, 0]],
};

/// `silu::fit(&silu::PLAN, 10)`.
pub(crate) const SILU_FINE: Table = Table {
    thresholds: &[-216, -130, -43, -23, -7, 8, 24, 44, 131, 217],
    pieces: &[
        [0, 0, 0],
        [-4969181, -11, 0],
        [-13269901, -42, 0],
        [-6601196, 33, 0],
        [-1553134, 138, 0],
        [260787, 256, 0],
        [-1553134, 374, 0],
        [-6601196, 479, 0],
        [-13269901, 554, 0],
        [-4969181, 523, 0],
        [0, 512, 0],
    ],
};

/// `softplus::fit(&softplus::PLAN, 0.003)`.
pub(crate) const SOFTPLUS: Table = Table {
    thresholds: &[-873, -744, -681, -612, -571, -540, -493, -445, -395, -343, -291, -238, -184, -126, -58, 102, 279],
    pieces: &[
        [262144, 0, 0],
        [57655358, 1026, 0],
        [202186433, 4059, 0],
        [2235434431, 94293, 1],
        [5418774400, 253903, 3],
        [8139816560, 401450, 5],
        [14092049734, 746459, 10],
        [25025747577, 1440008, 21],
        [44442305419, 2805164, 45],
        [79426222405, 5579020, 100],
        [138912024429, 11009777, 224],
        [233709598674, 21218615, 499],
        [373418031984, 39613040, 1105],
        [550931881388, 69889176, 2398],
        [714237268981, 110502920, 4934],
        [764117911804, 133824110, 7597],
        [523813787097, 206500581, 1897],
        [0, 268435456, 0],
    ],
};

/// `exp::fit(&exp::PLAN, 0.004997)`.
pub(crate) const EXP: Table = Table {
    thresholds: &[-340, -202, -136, -93, -61, -36, -15],
    pieces: &[
        [0, 0, 0],
        [1629052875264, 291471, 0],
        [4780972216337, 1242144, 0],
        [8349261704558, 2837047, 0],
        [11745532977458, 5053786, 0],
        [14572544390588, 7855893, 0],
        [16589898514252, 11231142, 0],
        [17592186044416, 15164796, 0],
    ],
};

/// `exp::fit(&exp::PLAN_FINE, 0.00099)`.
pub(crate) const EXP_FINE: Table = Table {
    thresholds: &[-1771, -1215, -953, -780, -652, -550, -465, -392, -328, -272, -221, -175, -133, -94, -58, -27],
    pieces: &[
        [0, 0, 0],
        [430943682504, 59371, 0],
        [1397137841608, 253419, 0],
        [2666216144553, 578382, 0],
        [4117556901690, 1032261, 0],
        [5665681630911, 1611472, 0],
        [7256903316351, 2317165, 0],
        [8846686966540, 3150999, 0],
        [10395510512575, 4114443, 0],
        [11853885517267, 5197920, 0],
        [13199504478967, 6403832, 0],
        [14409444336832, 7737164, 0],
        [15451084806630, 9186008, 0],
        [16310948712932, 10758825, 0],
        [16967405567373, 12454274, 0],
        [17386285872838, 14192363, 0],
        [17592186044416, 16041825, 0],
    ],
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{FixedPiecewise, exp, silu, softplus};

    /// A new fit gives the stored numbers, but for the last bit of the platform's functions.
    #[test]
    fn stored_forms_are_the_fits() {
        let pairs: [(&FixedPiecewise, FixedPiecewise); 5] = [
            (silu::preset().unwrap(), silu::fit(&silu::PLAN, 5).unwrap().fixed),
            (silu::preset_fine().unwrap(), silu::fit(&silu::PLAN, 10).unwrap().fixed),
            (softplus::preset().unwrap(), softplus::fit(&softplus::PLAN, softplus::TARGET).unwrap().fixed),
            (exp::preset().unwrap(), exp::fit(&exp::PLAN, exp::TARGET).unwrap().fixed),
            (exp::preset_fine().unwrap(), exp::fit(&exp::PLAN_FINE, exp::TARGET_FINE).unwrap().fixed),
        ];
        for (stored, fitted) in &pairs {
            assert_eq!(stored.thresholds(), fitted.thresholds());
            assert_eq!(stored.input_range_int(), fitted.input_range_int());
            // The square's grid is coarse, and so is SiLU's slope: equal. A finer line may move in its last
            // few units.
            let (slope, constant) = if stored.ring() == silu::PLAN.ring { (0, 8) } else { (4, 1 << 20) };
            for (a, b) in stored.pieces_int().iter().zip(fitted.pieces_int()) {
                assert_eq!(a[2], b[2]);
                assert!((a[1] - b[1]).abs() <= slope && (a[0] - b[0]).abs() <= constant, "{a:?} {b:?}");
            }
        }
    }
}
