//! Small insecure sets for unit tests.

use crate::{Params, ParamsLiteral};

/// Degree `2^log_n`, `levels` rescalings at scale `2^40`, two special primes.
#[allow(clippy::unwrap_used)]
pub(crate) fn tiny(log_n: u32, levels: usize) -> Params {
    let q_bits = std::iter::once(50).chain(std::iter::repeat_n(40, levels)).collect();
    Params::insecure_for_tests(&ParamsLiteral { log_n, q_bits, p_bits: vec![48, 48], log_scale: 40 }).unwrap()
}
