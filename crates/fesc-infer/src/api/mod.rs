//! The library: [`Client`] and [`Server`], a private classification in a few lines.
//!
//! They stand on [`crate::session`], which has everything else that a session can do.

mod client;
mod server;

pub use client::{Classification, Client, SETUP_LIMIT};
pub use server::{Listening, Server, ServerBuilder};
