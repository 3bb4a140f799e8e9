//! The channel over real sockets: behaviour, faults, security, shaping, and the fuzz corpora on the stable
//! toolchain.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod clients;
mod corpus;
mod faults;
mod foreign;
mod pair;
mod proxy;
mod security;
mod shaping;
mod tickets;
mod transport;
