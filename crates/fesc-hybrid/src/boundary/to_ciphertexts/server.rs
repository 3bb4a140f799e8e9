//! The server's half: extend, receive, add its own part.

use fesc_ckks::server::KeyId;
use fesc_ckks::{Ciphertext, Kept, Upload, wire};
use fesc_mpc::{Party, Role, Shared};
use fesc_net::{Channel, Tag};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::ahead::Name;
use super::{ServerUploads, ToCiphertexts};
use crate::boundary::{check_role, messages::tag};
use crate::error::check_len;
use crate::{HybridError, Result};

/// Encryptions of a conversion as they came, the server's part added: half of each is a seed.
pub struct Held(Vec<Kept>);

impl Held {
    /// A ciphertext, expanded whenever it is asked for.
    ///
    /// # Errors
    /// [`HybridError::Length`] if there are fewer.
    pub fn get(&self, i: usize) -> Result<Ciphertext> {
        let missing = HybridError::Length { what: "uploads", expected: i + 1, got: self.len() };
        self.0.get(i).map(Kept::expand).ok_or(missing)
    }

    /// All of them, each expanded once.
    fn expand(self) -> Vec<Ciphertext> {
        self.0.into_par_iter().map(Kept::into_ciphertext).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ToCiphertexts {
    /// Encryptions of `x` in the layout, kept as they came. `owner` is the id of the client's public key.
    ///
    /// # Errors
    /// A role, shape, level or scale that is not the plan's, and those of channel and correlations.
    pub fn hold_server(&self, party: &mut Party, owner: KeyId, x: &Shared) -> Result<Held> {
        check_role(party, Role::P1)?;
        let part = self.extend.run(party, x)?;
        let add = |i: usize, upload: Upload| {
            let mut kept = upload.keep(owner);
            kept.add_plain(&self.encode(i, &part)?)?;
            Ok(kept)
        };
        Ok(Held(self.receive(party.channel(), tag::UPLOADS, add)?))
    }

    /// Encryptions of `x` in the layout. `owner` is the id of the client's public key.
    ///
    /// # Errors
    /// As [`ToCiphertexts::hold_server`].
    pub fn run_server(&self, party: &mut Party, owner: KeyId, x: &Shared) -> Result<Vec<Ciphertext>> {
        Ok(self.hold_server(party, owner, x)?.expand())
    }

    /// Receives encryptions of random parts, before there is an input.
    ///
    /// # Errors
    /// A level or scale that is not the plan's, and those of the channel.
    pub fn prepare_server(&self, channel: &mut Channel, owner: KeyId) -> Result<ServerUploads> {
        let name = Name::read(&channel.recv(tag::NAME, Name::BYTES)?);
        let kept = self.receive(channel, tag::AHEAD, |_, upload| Ok(upload.keep(owner)))?;
        Ok(ServerUploads::new(self.clone(), name, kept))
    }

    /// Encryptions of `x` in the layout, from random parts that were uploaded ahead, kept as they came.
    ///
    /// # Errors
    /// As [`ToCiphertexts::hold_server`], [`HybridError::OtherUploads`] also if the client took others, and
    /// [`HybridError::Mark`].
    pub fn hold_server_ahead(&self, party: &mut Party, x: &Shared, ahead: ServerUploads) -> Result<Held> {
        check_role(party, Role::P1)?;
        // Marked before the bits below leave, without which the client has no difference to send.
        let (name, mut kept) = ahead.spend(self)?;
        let part = self.extend.run(party, x)?;
        let (ring, count) = (self.extend.ring(), self.layout.values());
        let message = party.channel().recv(tag::DELTA, self.delta_bytes())?;
        let (theirs, delta) = message.split_at(Name::BYTES);
        // Under other random parts the sums would be far out of range, and the next mask too narrow for them.
        if Name::read(theirs) != name {
            return Err(HybridError::OtherUploads);
        }
        let delta = ring.unpack(delta, count)?;
        let sums = delta.iter().zip(part.iter()).map(|(&d, &x)| ring.add(d, x));
        let sums = Zeroizing::new(sums.collect::<Vec<u128>>());
        let add = |(i, kept): (usize, &mut Kept)| Ok::<(), HybridError>(kept.add_plain(&self.encode(i, &sums)?)?);
        kept.par_iter_mut().enumerate().try_for_each(add)?;
        Ok(Held(kept))
    }

    /// Encryptions of `x` in the layout, from random parts that were uploaded ahead.
    ///
    /// # Errors
    /// As [`ToCiphertexts::hold_server_ahead`].
    pub fn run_server_ahead(&self, party: &mut Party, x: &Shared, ahead: ServerUploads) -> Result<Vec<Ciphertext>> {
        Ok(self.hold_server_ahead(party, x, ahead)?.expand())
    }

    /// Receives batch by batch, and makes something of each upload.
    fn receive<T: Send>(
        &self,
        channel: &mut Channel,
        tag: Tag,
        make: impl Fn(usize, Upload) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let mut made = Vec::with_capacity(self.layout.ciphertexts());
        for batch in self.batches() {
            let bytes = channel.recv(tag, self.batch_bytes(batch.clone()))?;
            let mut rest = &bytes[..];
            let mut parts = Vec::with_capacity(batch.len());
            for i in batch {
                let (part, after) = rest.split_at(wire::upload_bytes(&self.params, self.encoding(i).level));
                parts.push((i, part));
                rest = after;
            }
            let read = |(i, bytes): (usize, &[u8])| make(i, self.read(i, bytes)?);
            made.extend(parts.into_par_iter().map(read).collect::<Result<Vec<T>>>()?);
        }
        Ok(made)
    }

    /// An upload with the level and scale of its place.
    fn read(&self, i: usize, bytes: &[u8]) -> Result<Upload> {
        let upload = Upload::read(&self.params, bytes)?;
        let encoding = self.encoding(i);
        check_len("level of an upload", encoding.level, upload.level())?;
        let (expected, got) = (encoding.sent_scale(), upload.scale());
        if expected != got {
            return Err(HybridError::OtherScale { expected, got });
        }
        Ok(upload)
    }
}
