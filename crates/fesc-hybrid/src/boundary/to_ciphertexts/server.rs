//! The server's half: extend, receive, add its own part.

use fesc_ckks::server::{Evaluator, KeyId};
use fesc_ckks::{Ciphertext, Upload, wire};
use fesc_mpc::{Party, Role, Shared};
use fesc_net::{Channel, Tag};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{ServerUploads, ToCiphertexts};
use crate::boundary::{check_role, messages::tag};
use crate::error::check_len;
use crate::{HybridError, Result};

impl ToCiphertexts {
    /// Encryptions of `x` in the layout. `owner` is the id of the client's public key.
    ///
    /// # Errors
    /// A role, shape, level or scale that is not the plan's, and those of channel and correlations.
    pub fn run_server(
        &self,
        party: &mut Party,
        evaluator: &Evaluator,
        owner: KeyId,
        x: &Shared,
    ) -> Result<Vec<Ciphertext>> {
        check_role(party, Role::P1)?;
        let part = self.extend.run(party, x)?;
        let uploads = self.receive(party.channel(), tag::UPLOADS, owner)?;
        self.add(evaluator, uploads, &part)
    }

    /// Receives encryptions of random parts, before there is an input.
    ///
    /// # Errors
    /// A level or scale that is not the plan's, and those of the channel.
    pub fn prepare_server(&self, channel: &mut Channel, owner: KeyId) -> Result<ServerUploads> {
        Ok(ServerUploads::new(self.clone(), self.receive(channel, tag::AHEAD, owner)?))
    }

    /// Encryptions of `x` in the layout, from random parts that were uploaded ahead.
    ///
    /// # Errors
    /// As [`ToCiphertexts::run_server`], [`HybridError::OtherUploads`], and [`HybridError::Mark`].
    pub fn run_server_ahead(
        &self,
        party: &mut Party,
        evaluator: &Evaluator,
        x: &Shared,
        ahead: ServerUploads,
    ) -> Result<Vec<Ciphertext>> {
        check_role(party, Role::P1)?;
        // Marked before the bits below leave, without which the client has no difference to send.
        let uploads = ahead.spend(self)?;
        let part = self.extend.run(party, x)?;
        let (ring, count) = (self.extend.ring(), self.layout.values());
        let delta = ring.unpack(&party.channel().recv(tag::DELTA, ring.packed_len(count))?, count)?;
        let sums = delta.iter().zip(part.iter()).map(|(&d, &x)| ring.add(d, x));
        self.add(evaluator, uploads, &Zeroizing::new(sums.collect::<Vec<u128>>()))
    }

    fn receive(&self, channel: &mut Channel, tag: Tag, owner: KeyId) -> Result<Vec<Ciphertext>> {
        let bytes = channel.recv(tag, self.upload_bytes())?;
        let each = wire::upload_bytes(&self.params, self.encoding.level);
        let read = |bytes: &[u8]| {
            let upload = Upload::read(&self.params, bytes)?;
            check_len("level of an upload", self.encoding.level, upload.level())?;
            let (expected, got) = (self.encoding.scale, upload.scale());
            if expected != got {
                return Err(HybridError::OtherScale { expected, got });
            }
            Ok(upload.expand(owner))
        };
        bytes.par_chunks_exact(each).map(read).collect()
    }

    fn add(&self, evaluator: &Evaluator, mut uploads: Vec<Ciphertext>, part: &[u128]) -> Result<Vec<Ciphertext>> {
        let own = uploads.par_iter_mut().enumerate();
        own.try_for_each(|(i, c)| Ok::<(), HybridError>(evaluator.add_plain_assign(c, &self.encode(i, part)?)?))?;
        Ok(uploads)
    }
}
