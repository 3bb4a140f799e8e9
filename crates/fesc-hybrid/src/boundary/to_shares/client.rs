//! The client's half: decrypt its part and decode it. It sends nothing, and nothing that it decrypts makes
//! an error.

use fesc_ckks::client::{Decryptor, SecretKey};
use fesc_ckks::{Ciphertext, Masked, wire};
use fesc_mpc::{Party, Role};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Lanes, ToShares};
use crate::boundary::{check_role, messages::tag};
use crate::error::check_len;
use crate::{HybridError, Result};

impl ToShares {
    /// The client's shares.
    ///
    /// # Errors
    /// A role, level, scale or byte that is not the plan's, and those of the channel. None depends on a
    /// decrypted value.
    pub fn run_client(&self, party: &mut Party, secret: &SecretKey) -> Result<Lanes> {
        check_role(party, Role::P0)?;
        let each = wire::masked_bytes(&self.params, self.level);
        let decryptor = Decryptor::new(secret);
        let mut parts = Vec::with_capacity(self.ciphertexts);
        for batch in self.batches() {
            let bytes = party.channel().recv(tag::MASKED, self.bytes(batch.len()))?;
            let opened = bytes.par_chunks_exact(each).map(|bytes| self.open(&decryptor, bytes));
            parts.extend(opened.collect::<Result<Vec<_>>>()?);
        }
        Ok(self.lanes(&parts))
    }

    fn open(&self, decryptor: &Decryptor<'_>, bytes: &[u8]) -> Result<Zeroizing<Vec<[u64; 2]>>> {
        let masked = Masked::<Ciphertext>::read(&self.params, bytes)?;
        check_len("level of a masked ciphertext", self.level, masked.level())?;
        let (expected, got) = (self.scale, masked.scale());
        if expected != got {
            return Err(HybridError::OtherScale { expected, got });
        }
        self.decode(&Zeroizing::new(decryptor.decrypt_share(&masked)?))
    }
}
