//! Kernels by plan: the ways to compute the stages that a plan chooses. [`crate::kernels`] picks them.

pub mod fast;
