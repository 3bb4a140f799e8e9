//! What a server has: evaluation keys and a public key. Nothing here leads to a secret key.

mod keys;
mod public;

pub use keys::{
    EvaluationKeyPlan, EvaluationKeys, KeyPurpose, SeededKey, SwitchingKey, conjugation_element, rotation_element,
};
pub use public::PublicKey;
