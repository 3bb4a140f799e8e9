//! Leveled RNS-CKKS for the paper's kernels.
#![forbid(unsafe_code)]
