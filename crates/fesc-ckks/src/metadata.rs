//! What every object at a level tells of itself.

/// Getters of types with fields `params`, `level` and `scale`.
macro_rules! metadata {
    ($($type:ty),*) => {$(
        impl $type {
            /// The level: primes `q_0 .. q_level` are kept, and as many rescalings are left.
            pub fn level(&self) -> usize {
                self.level
            }

            /// The scale: a coefficient is the number times this.
            pub fn scale(&self) -> f64 {
                self.scale
            }

            /// The parameter set.
            pub fn params(&self) -> &$crate::Params {
                &self.params
            }
        }
    )*};
}
