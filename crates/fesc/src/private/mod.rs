//! The private run: a client with a document, a server with a model.

mod classify;
mod connect;
mod dealer;
pub mod demo;
mod eval;
mod keys;
mod prepare;
mod queues;
mod serve;
mod side;
pub mod trust;
mod verify;

pub use classify::{explain, run as classify};
pub use dealer::run as dealer;
pub use eval::run as eval;
pub use keys::run as keys;
pub use prepare::run as prepare;
pub use serve::run as serve;
