//! Projections, convolutions and sums of squares against direct sums, and counted.
#![allow(clippy::unwrap_used)]

mod clear;
mod counted;
mod encrypted;
mod weights;
