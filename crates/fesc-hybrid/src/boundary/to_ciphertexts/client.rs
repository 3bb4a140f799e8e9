//! The client's half: extend, encode, encrypt, send.

use fesc_ckks::client::{SecretEncryptor, SecretKey};
use fesc_ckks::wire;
use fesc_mpc::{Party, Role, Shared};
use fesc_net::{Channel, Tag};
use fesc_ring::Prg;
use rayon::prelude::*;

use super::ahead::Name;
use super::{ClientUploads, ToCiphertexts};
use crate::boundary::{check_role, messages::tag};
use crate::{HybridError, Result};

impl ToCiphertexts {
    /// Sends the client's part of `x`, encrypted. `prg` must be seeded by the operating system.
    ///
    /// # Errors
    /// A role or shape that is not the plan's, and those of channel and correlations.
    pub fn run_client(&self, party: &mut Party, secret: &SecretKey, x: &Shared, prg: &mut Prg) -> Result<()> {
        check_role(party, Role::P0)?;
        let part = self.extend.run(party, x)?;
        self.send(party.channel(), tag::UPLOADS, secret, &part, prg)
    }

    /// Draws and sends a random part for every value, before there is an input.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn prepare_client(&self, channel: &mut Channel, secret: &SecretKey, prg: &mut Prg) -> Result<ClientUploads> {
        let random = self.extend.ring().sample(prg, self.layout.values());
        let name = Name::new(prg.public_bytes());
        channel.send(tag::NAME, name.bytes().to_vec())?;
        self.send(channel, tag::AHEAD, secret, &random, prg)?;
        Ok(ClientUploads::new(self.clone(), name, random))
    }

    /// Sends what the client's part of `x` is more than the random part that was uploaded ahead.
    ///
    /// # Errors
    /// As [`ToCiphertexts::run_client`], [`HybridError::OtherUploads`], and [`HybridError::Mark`].
    pub fn run_client_ahead(&self, party: &mut Party, x: &Shared, ahead: ClientUploads) -> Result<()> {
        check_role(party, Role::P0)?;
        let (name, random) = ahead.spend(self)?;
        let part = self.extend.run(party, x)?;
        let ring = self.extend.ring();
        let delta = super::ahead::differences(ring, &part, &random);
        Ok(party.channel().send(tag::DELTA, [&name.bytes()[..], &ring.pack(&delta)].concat())?)
    }

    /// Encrypts and sends batch by batch.
    fn send(&self, channel: &mut Channel, tag: Tag, secret: &SecretKey, parts: &[u128], prg: &mut Prg) -> Result<()> {
        let encryptor = SecretEncryptor::new(secret);
        for batch in self.batches() {
            // One generator for each: threads do not change a bit.
            let work: Vec<(usize, Prg)> = batch.clone().map(|i| (i, prg.fork())).collect();
            let upload = |(i, mut prg): (usize, Prg)| {
                let upload = encryptor.encrypt(&self.encode(i, parts)?, &mut prg)?;
                let mut bytes = Vec::with_capacity(wire::upload_bytes(&self.params, self.encoding(i).level));
                upload.write(&mut bytes).map_err(HybridError::Write)?;
                Ok(bytes)
            };
            let uploads = work.into_par_iter().map(upload).collect::<Result<Vec<_>>>()?;
            channel.send(tag, uploads.concat())?;
        }
        Ok(())
    }
}
