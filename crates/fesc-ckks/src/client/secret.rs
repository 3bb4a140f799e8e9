//! The secret key.

use fesc_ring::Prg;

use crate::Params;
use crate::poly::Poly;
use crate::small::Small;

/// A uniform ternary secret. Wiped on drop; no `Clone`, `Debug` or wire form.
pub struct SecretKey {
    pub(crate) params: Params,
    pub(crate) small: Small,
    /// Transformed, over all primes. In memory of its own, never the pool's.
    pub(crate) poly: Poly,
}

impl SecretKey {
    /// A fresh key.
    pub fn generate(params: &Params, prg: &mut Prg) -> Self {
        let small = Small::ternary(params, prg);
        let mut poly = Poly::owned(params, params.primes());
        poly.for_each_limb(|i, limb| small.lift(params, i, limb));
        Self { params: params.clone(), small, poly }
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.poly.wipe();
    }
}
