//! Base OT over Ristretto: 128 transfers of 128-bit keys.
//!
//! Chou and Orlandi (2015/267), in the semi-honest model: the key sender publishes `A = aG`; the key receiver
//! with bits `c_i` answers `B_i = b_i G + c_i A`; the keys are `k_i^0 = H(i, a B_i)` and
//! `k_i^1 = H(i, a (B_i - A))`, of which the receiver computes `H(i, b_i A)`. `B_i` is uniform whatever `c_i`
//! is; the other key needs the Diffie-Hellman value of `A` (gap CDH, random oracle). `H` is SHA-256 bound to
//! the session, the index and `B_i`.
//!
//! Cost: 64 bytes (with header) one way, 4128 the other, 2 rounds, about 128 x 3 scalar products.
//! Not guaranteed: malicious security in the UC sense; post-quantum security.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use fesc_net::Channel;
use fesc_ring::Prg;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

use crate::messages::{TAG_BASE_A, TAG_BASE_B};
use crate::session::{NONCE_BYTES, Session};
use crate::{OtCost, OtError};

/// Transfers of a set-up: the bits of the global correlation.
pub(crate) const COUNT: usize = 128;
const POINT: usize = 32;
const FIRST: usize = POINT + NONCE_BYTES;
const SECOND: usize = COUNT * POINT + NONCE_BYTES;

/// What set-up costs up to the base OTs. The key sender is the OT *receiver*: extension turns the roles
/// round.
pub(crate) fn cost() -> OtCost {
    OtCost::from_receiver(FIRST).then(OtCost::from_sender(SECOND))
}

fn scalar(prg: &mut Prg) -> Scalar {
    let mut wide = [0u8; 64];
    prg.fill_bytes(&mut wide);
    let s = Scalar::from_bytes_mod_order_wide(&wide);
    wide.zeroize();
    s
}

/// Reads a point; refuses non-canonical encodings and the identity.
pub(crate) fn point(bytes: &[u8], index: usize) -> Result<(RistrettoPoint, [u8; POINT]), OtError> {
    let fault = |what| OtError::Point { index, what };
    let compressed = CompressedRistretto::from_slice(bytes).map_err(|_| fault("of the wrong length"))?;
    let p = compressed.decompress().ok_or(fault("not a Ristretto point"))?;
    if p.is_identity() {
        return Err(fault("the identity"));
    }
    Ok((p, compressed.to_bytes()))
}

fn key(session: &Session, index: usize, b: &[u8; POINT], shared: &RistrettoPoint) -> u128 {
    let mut bytes = shared.compress().to_bytes();
    let k = session.hash(b"base", &[&(index as u64).to_le_bytes(), b, &bytes]);
    bytes.zeroize();
    k
}

/// The key sender's part; returns both keys of every transfer.
pub(crate) fn send(ch: &mut Channel, kind: u8, prg: &mut Prg) -> Result<(Session, Vec<[u128; 2]>), OtError> {
    let mut a = scalar(prg);
    let big_a = RISTRETTO_BASEPOINT_TABLE * &a;
    let a_bytes = big_a.compress().to_bytes();
    let nonce: [u8; NONCE_BYTES] = prg.public_bytes();
    ch.send(TAG_BASE_A, [&a_bytes[..], &nonce].concat())?;
    let answer = ch.recv(TAG_BASE_B, SECOND)?;
    let (points, their_nonce) = answer.split_at(COUNT * POINT);
    let session = Session::new(kind, &nonce, their_nonce, &a_bytes);
    let mut a_times_a = big_a * a;
    let keys = points
        .chunks_exact(POINT)
        .enumerate()
        .map(|(i, bytes)| {
            let (b, encoded) = point(bytes, i)?;
            if b == big_a {
                return Err(OtError::Point { index: i, what: "the sender's own point" });
            }
            let mut shared = b * a;
            let pair = [key(&session, i, &encoded, &shared), key(&session, i, &encoded, &(shared - a_times_a))];
            shared.zeroize();
            Ok(pair)
        })
        .collect::<Result<Vec<_>, _>>();
    a.zeroize();
    a_times_a.zeroize();
    Ok((session, keys?))
}

/// The key receiver's part; returns the key of bit `i` of `choices` for every transfer.
pub(crate) fn receive(
    ch: &mut Channel,
    kind: u8,
    choices: u128,
    prg: &mut Prg,
) -> Result<(Session, Vec<u128>), OtError> {
    let first = ch.recv(TAG_BASE_A, FIRST)?;
    let (point_bytes, their_nonce) = first.split_at(POINT);
    let (big_a, a_bytes) = point(point_bytes, 0)?;
    let mut secrets = Vec::with_capacity(COUNT);
    let mut answer = Vec::with_capacity(SECOND);
    let mut encoded = Vec::with_capacity(COUNT);
    for i in 0..COUNT {
        let b = scalar(prg);
        let zero_choice = RISTRETTO_BASEPOINT_TABLE * &b;
        let chosen = Choice::from((choices >> i & 1) as u8);
        let p = RistrettoPoint::conditional_select(&zero_choice, &(zero_choice + big_a), chosen);
        let bytes = p.compress().to_bytes();
        answer.extend_from_slice(&bytes);
        encoded.push(bytes);
        secrets.push(b);
    }
    let nonce: [u8; NONCE_BYTES] = prg.public_bytes();
    answer.extend_from_slice(&nonce);
    ch.send(TAG_BASE_B, answer)?;
    let session = Session::new(kind, their_nonce, &nonce, &a_bytes);
    let keys = secrets
        .iter_mut()
        .zip(&encoded)
        .enumerate()
        .map(|(i, (b, bytes))| {
            let mut shared = big_a * *b;
            let k = key(&session, i, bytes, &shared);
            shared.zeroize();
            b.zeroize();
            k
        })
        .collect();
    Ok((session, keys))
}
