//! The client's half: decrypt its part and decode it. It sends nothing, and nothing that it decrypts makes
//! an error.

use fesc_ckks::client::{Decryptor, SecretKey};
use fesc_ckks::{Ciphertext, Masked, wire};
use fesc_mpc::{Party, Role};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Lanes, ToShares};
use crate::Result;
use crate::boundary::{check_role, messages::tag};
use crate::error::check_len;

impl ToShares {
    /// The client's shares.
    ///
    /// # Errors
    /// A role, level, scale or byte that is not the plan's, and those of the channel. None depends on a
    /// decrypted value.
    pub fn run_client(&self, party: &mut Party, secret: &SecretKey) -> Result<Lanes> {
        check_role(party, Role::P0)?;
        let bytes = party.channel().recv(tag::MASKED, self.bytes())?;
        let each = wire::masked_bytes(&self.params, self.level);
        let decryptor = Decryptor::new(secret);
        let parts = bytes.par_chunks_exact(each).map(|bytes| self.open(&decryptor, bytes));
        Ok(self.lanes(&parts.collect::<Result<Vec<_>>>()?))
    }

    fn open(&self, decryptor: &Decryptor<'_>, bytes: &[u8]) -> Result<Zeroizing<Vec<[u64; 2]>>> {
        let masked = Masked::<Ciphertext>::read(&self.params, bytes)?;
        check_len("level of a masked ciphertext", self.level, masked.level())?;
        self.check_scale(masked.scale())?;
        let part = Zeroizing::new(decryptor.decrypt_share(&masked)?);
        self.decode(&part, masked.scale())
    }
}
