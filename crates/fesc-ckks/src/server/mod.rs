//! What a server has: evaluation keys and a public key. Nothing here leads to a secret key.

mod keys;

pub use keys::{
    EvaluationKeyPlan, EvaluationKeys, KeyPurpose, SeededKey, SwitchingKey, conjugation_element, rotation_element,
};
