#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cost;
mod dual;
mod refresh;
pub(crate) mod support;
