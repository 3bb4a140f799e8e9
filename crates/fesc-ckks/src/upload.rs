//! A fresh ciphertext as a client sends it, `c0` and the seed of `c1`; and as a server keeps it.

use crate::evaluator::check_scales;
use crate::poly::Poly;
use crate::seed::{self, Label, Seed};
use crate::server::KeyId;
use crate::{Ciphertext, CkksError, Params, Plaintext, Result};

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

    /// To be expanded later, perhaps several times. `owner` as for [`Upload::expand`].
    pub fn keep(self, owner: KeyId) -> Kept {
        Kept { upload: self, owner }
    }
}

/// An upload as a server keeps it: half as large as a ciphertext. Like a [`Ciphertext`], and unlike an
/// [`Upload`], it has no wire form, since messages of the server's own may have been added to it:
///
/// ```compile_fail,E0599
/// # use fesc_ckks::Kept;
/// fn send(kept: &Kept, out: &mut Vec<u8>) {
///     kept.write(out).unwrap();
/// }
/// ```
#[derive(Clone)]
pub struct Kept {
    upload: Upload,
    owner: KeyId,
}

impl Kept {
    /// Adds a known message of the same level and scale.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`], [`CkksError::LevelMismatch`] or [`CkksError::ScaleMismatch`] for a
    /// message of another set, level or scale.
    pub fn add_plain(&mut self, message: &Plaintext) -> Result<()> {
        let Upload { params, level, scale, c0, .. } = &mut self.upload;
        params.check_same(&message.params)?;
        if message.level != *level {
            return Err(CkksError::LevelMismatch { left: *level, right: message.level });
        }
        check_scales(*scale, message.scale)?;
        c0.for_each_limb(|i, limb| params.prime(i).add_assign(limb, message.poly.limb(i)));
        Ok(())
    }

    /// The whole ciphertext.
    pub fn expand(&self) -> Ciphertext {
        self.upload.clone().expand(self.owner)
    }

    /// The whole ciphertext, once.
    pub fn into_ciphertext(self) -> Ciphertext {
        self.upload.expand(self.owner)
    }
}
