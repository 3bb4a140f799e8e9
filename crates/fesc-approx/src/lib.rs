//! Part of FESC.
#![forbid(unsafe_code)]
