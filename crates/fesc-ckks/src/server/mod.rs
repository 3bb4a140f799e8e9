//! What a server has: evaluation keys, a public key, and the evaluator that computes with them. Nothing here
//! leads to a secret key.

mod keys;
mod owner;
mod public;

pub use crate::evaluator::Evaluator;
pub use crate::hoist::Hoisted;
pub use crate::switch::SwitchCost;
pub(crate) use keys::Half;
pub use keys::{
    EvaluationKeyPlan, EvaluationKeys, KeyPurpose, SeededKey, SwitchingKey, conjugation_element, rotation_element,
};
pub use owner::KeyId;
pub use public::PublicKey;
