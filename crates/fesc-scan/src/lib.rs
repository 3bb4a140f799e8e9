//! The scan contract: a packet in, the contracted output out.
#![forbid(unsafe_code)]
