//! Private inference: the block protocol over stages, client and server sessions, the cost estimator.
#![forbid(unsafe_code)]
