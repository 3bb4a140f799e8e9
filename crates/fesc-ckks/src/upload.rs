//! A fresh ciphertext as a client sends it: `c0`, and the seed of `c1`.

use crate::poly::Poly;
use crate::seed::{self, Label, Seed};
use crate::server::KeyId;
use crate::{Ciphertext, Params};

/// An encryption by the secret key, half of it a seed.
#[derive(Clone)]
pub struct Upload {
    pub(crate) params: Params,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    pub(crate) seed: Seed,
    /// `level + 1` transformed limbs.
    pub(crate) c0: Poly,
}

metadata!(Upload);

impl Upload {
    /// The whole ciphertext, ready for the evaluator. `owner` is the id of the public key that came from the
    /// same client as these bytes.
    pub fn expand(self, owner: KeyId) -> Ciphertext {
        let Self { params, level, scale, seed, c0 } = self;
        let mut c1 = Poly::scratch(&params, level + 1);
        seed::uniform(&params, &mut seed::stream(&params, Label::Upload, seed), &mut c1);
        Ciphertext { params, owner, level, scale, c0, c1 }
    }
}
