#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod correctness;
mod cost;
mod few_columns;
mod hostile;
mod linearisation;
mod published;
mod security;
mod support;
mod views;
