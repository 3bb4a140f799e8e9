//! Transforms of polynomials in `Y = X^(N / 2p)`: those whose slots have period `p`.
//!
//! `Y` is a root of `Y^(2p) + 1`. Slot `j` of the whole ring is the value at `Y = exp(i pi 5^j / 2p)`, so the
//! slots are those of the small ring, again and again. Place `i` of a transformed limb is the value at
//! `psi^(2 brv(i) + 1)`; there `Y = (psi^(N / 2p))^(2 brv(i) + 1)` depends on `brv(i) mod 2p`, the upper bits
//! of `i`: a run of `N / 2p` neighbours has the value of one place of the small transform with root `psi^(N /
//! 2p)`.

use fesc_ring::fft::Fft;
use fesc_ring::ntt::Ntt;

use super::Params;
use crate::Result;

/// The transforms of one period.
pub(crate) struct Subring {
    /// Between slots and coefficients.
    pub(crate) fft: Fft,
    /// Of degree `2p`, by index of the data prime.
    pub(crate) ntts: Vec<Ntt>,
}

impl Subring {
    /// `period` is a power of two, at most the slots of the set.
    pub(super) fn new(params: &Params, period: usize) -> Result<Self> {
        let power = (params.degree() / (2 * period)) as u64;
        let ntt = |i: usize| {
            let m = params.modulus(i);
            Ok(Ntt::with_root(m, 2 * period, m.pow(params.ntt(i).root(), power))?)
        };
        Ok(Self { fft: Fft::new(period)?, ntts: (0..params.first_special()).map(ntt).collect::<Result<_>>()? })
    }
}
