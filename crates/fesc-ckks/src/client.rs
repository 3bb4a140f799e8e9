//! What a client has: the secret key, and what is done with it.
//!
//! Everything fresh that goes up is seeded: the uniform half is 16 bytes ([`Upload`](crate::Upload),
//! [`SeededKey`](crate::server::SeededKey), [`PublicKey`](crate::server::PublicKey)).
//!
//! The secret key cannot be copied, printed or serialised; its owner's private file has a form of its own
//! ([`SecretKey::keep`]):
//!
//! ```compile_fail,E0308
//! fn copy(k: &fesc_ckks::client::SecretKey) -> fesc_ckks::client::SecretKey { k.clone() }
//! ```
//! ```compile_fail,E0277
//! fn show(k: &fesc_ckks::client::SecretKey) { println!("{k:?}"); }
//! ```
//! ```compile_fail,E0277
//! fn store<T: serde::Serialize>(_: T) {}
//! fn keep(k: fesc_ckks::client::SecretKey) { store(k); }
//! ```

mod decrypt;
mod encrypt;
mod generator;
mod secret;

pub use decrypt::{Decryptable, Decryptor};
pub use encrypt::SecretEncryptor;
pub use generator::KeyGenerator;
pub use secret::SecretKey;

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;
