//! The operations that are measured, and what each of them costs in transforms.

use clap::ValueEnum;
use fesc_ckks::Params;
use fesc_ckks::server::{EvaluationKeyPlan, SwitchCost};

/// The rotations of `hoisted8`; the first one is that of `rotate`.
pub const STEPS: [i64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum CkksOp {
    /// Slots to a plaintext with all primes.
    Encode,
    /// Slots to integer coefficients.
    EncodeCoefficients,
    /// By the public key.
    Encrypt,
    /// By the secret key; the result is half as long.
    EncryptSecret,
    /// At the top level.
    Decrypt,
    /// At the top level.
    Decode,
    /// With two primes.
    DecodeBoundary,
    /// Of two ciphertexts.
    Add,
    /// Ciphertext by plaintext.
    MultiplyPlain,
    /// Of two ciphertexts, relinearised.
    Multiply,
    /// Of two ciphertexts, relinearised and rescaled.
    MultiplyRescale,
    /// Of a product.
    Rescale,
    /// By one slot.
    Rotate,
    /// Of all slots.
    Conjugate,
    /// Eight rotations.
    Hoisted8,
}

impl CkksOp {
    /// The name in JSON and on the command line.
    pub fn name(self) -> String {
        crate::cli::name(self)
    }

    /// Transforms of one prime, both directions, at the top level.
    pub fn transforms(self, params: &Params) -> usize {
        let level = params.levels();
        let limbs = level + 1;
        let switch = |rescale| SwitchCost::new(params, level, rescale).transforms;
        match self {
            Self::EncodeCoefficients | Self::Decrypt | Self::Add | Self::MultiplyPlain => 0,
            Self::Encode | Self::EncryptSecret | Self::Decode => limbs,
            // Of the mask and both errors over all primes, and of the division by P.
            Self::Encrypt => 5 * (limbs + params.specials()),
            Self::DecodeBoundary => 2,
            Self::Multiply | Self::Rotate | Self::Conjugate => switch(false),
            Self::MultiplyRescale => switch(true),
            Self::Rescale => 2 * limbs,
            // The digits are shared, the divisions by P are not.
            Self::Hoisted8 => switch(false) + (STEPS.len() - 1) * 2 * (limbs + params.specials()),
        }
    }

    /// The keys that these operations need.
    pub fn plan(ops: &[Self]) -> EvaluationKeyPlan {
        let rotations = match (ops.contains(&Self::Hoisted8), ops.contains(&Self::Rotate)) {
            (true, _) => STEPS.to_vec(),
            (false, true) => STEPS[..1].to_vec(),
            (false, false) => Vec::new(),
        };
        let products = [Self::Multiply, Self::MultiplyRescale];
        EvaluationKeyPlan {
            rotations,
            conjugation: ops.contains(&Self::Conjugate),
            relinearisation: ops.iter().any(|op| products.contains(op)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_ckks::sets;

    #[test]
    fn counts_are_those_of_the_design_at_chain_3() {
        let params = sets::CHAIN_3.params().unwrap();
        // 18 back, 108 of digits, 6 back and 36 of the division.
        assert_eq!(CkksOp::Rotate.transforms(&params), 168);
        assert_eq!(CkksOp::Hoisted8.transforms(&params), 168 + 7 * 42);
        assert_eq!(CkksOp::Encrypt.transforms(&params), 105);
    }

    #[test]
    fn keys_are_made_for_what_is_measured() {
        let plan = |ops: &[CkksOp]| CkksOp::plan(ops);
        assert_eq!(plan(&[CkksOp::Add]), EvaluationKeyPlan::default());
        assert_eq!(plan(&[CkksOp::Rotate]).rotations, [1]);
        assert_eq!(plan(&[CkksOp::Rotate, CkksOp::Hoisted8]).rotations.len(), 8);
        assert!(plan(&[CkksOp::MultiplyRescale]).relinearisation && plan(&[CkksOp::Conjugate]).conjugation);
    }
}
