//! The bytes of keys, uploads and masked ciphertexts.
//!
//! All integers are little endian. An object is a header of 72 bytes and a body:
//!
//! | offset | bytes | field | public key | switching key | upload | masked |
//! |---|---|---|---|---|---|---|
//! | 0 | 4 | magic `FCKS` | | | | |
//! | 4 | 2 | version, 1 | | | | |
//! | 6 | 1 | kind | 1 | 2 | 3 | 4 |
//! | 7 | 1 | zero | | | | |
//! | 8 | 32 | digest of the parameters | | | | |
//! | 40 | 4 | level | L | L | 0 to L | 0 to L |
//! | 44 | 4 | Galois element | 0 | 0 (relinearisation) or odd | 0 | 0 |
//! | 48 | 8 | scale, `f64` | 0 | 0 | yes | yes |
//! | 56 | 16 | seed | yes | yes | yes | 0 |
//! | 72 | | polynomials | b | b of every digit | c0 | c0, c1 |
//!
//! A polynomial is its limbs in order, transformed; a limb is `N` residues of as many bits as its prime has,
//! packed without gaps (`fesc_ring::Ring`). `N` is a multiple of 8, so a limb ends on a byte. Keys have one
//! limb per prime of the set, uploads and masked ciphertexts one per data prime of the level.
//!
//! Whoever reads knows the parameters and the kind it expects. Everything is checked: magic, version, kind,
//! digest, level, Galois element, scale, fields that must be zero, exact length, every residue below its
//! prime. The length is checked against the header before a body is allocated, so memory is at most 3.2 times
//! (64 bits for 20) what was received, besides what seeds expand to. A [`Ciphertext`] has no form here.

#[cfg(any(test, feature = "testing"))]
pub mod inspect;

use std::io::{self, Read, Write};

use crate::params::short;
use crate::poly::Poly;
use crate::seed::Seed;
use crate::server::{EvaluationKeys, Half, KeyId, KeyPurpose, PublicKey, SeededKey, SwitchingKey};
use crate::{Ciphertext, CkksError, Masked, Params, Result, Upload, WireError};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 72;
/// The version of this format.
pub const VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"FCKS";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ObjectKind {
    PublicKey = 1,
    SwitchingKey = 2,
    Upload = 3,
    Masked = 4,
}

impl ObjectKind {
    fn name(self) -> &'static str {
        match self {
            ObjectKind::PublicKey => "public key",
            ObjectKind::SwitchingKey => "switching key",
            ObjectKind::Upload => "upload",
            ObjectKind::Masked => "masked ciphertext",
        }
    }
}

struct Header {
    level: usize,
    element: u32,
    scale: f64,
    seed: Seed,
}

impl Header {
    fn encode(&self, params: &Params, kind: ObjectKind) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6] = kind as u8;
        out[8..40].copy_from_slice(params.digest());
        out[40..44].copy_from_slice(&(self.level as u32).to_le_bytes());
        out[44..48].copy_from_slice(&self.element.to_le_bytes());
        out[48..56].copy_from_slice(&self.scale.to_bits().to_le_bytes());
        out[56..].copy_from_slice(&self.seed);
        out
    }

    /// Parses and checks a header for the kind expected; returns it with the body.
    fn decode<'a>(
        params: &Params,
        kind: ObjectKind,
        bytes: &'a [u8],
    ) -> std::result::Result<(Self, &'a [u8]), WireError> {
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(WireError::Length { expected: HEADER_BYTES, got: bytes.len() });
        };
        if head[..4] != MAGIC {
            return Err(WireError::Magic);
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(WireError::Version { expected: VERSION, got: version });
        }
        if head[6] != kind as u8 {
            return Err(WireError::Kind { expected: kind as u8, got: head[6] });
        }
        if head[7] != 0 {
            return Err(WireError::NotZero { field: "reserved" });
        }
        let digest: [u8; 32] = take(head, 8);
        if digest != *params.digest() {
            return Err(WireError::Digest { expected: params.short_digest(), got: short(&digest) });
        }
        let (max, got) = (params.levels(), u32::from_le_bytes(take(head, 40)));
        let min = if matches!(kind, ObjectKind::PublicKey | ObjectKind::SwitchingKey) { max } else { 0 };
        let level = usize::try_from(got).ok().filter(|l| (min..=max).contains(l));
        let level = level.ok_or(WireError::Level { min, max, got })?;
        let header = Header {
            level,
            element: u32::from_le_bytes(take(head, 44)),
            scale: f64::from_bits(u64::from_le_bytes(take(head, 48))),
            seed: take(head, 56),
        };
        header.check(params, kind)?;
        Ok((header, body))
    }

    fn purpose(&self) -> KeyPurpose {
        match self.element {
            0 => KeyPurpose::Relinearisation,
            g => KeyPurpose::Galois(g),
        }
    }

    fn check(&self, params: &Params, kind: ObjectKind) -> std::result::Result<(), WireError> {
        let order = 2 * params.degree() as u32;
        let galois = self.element % 2 == 1 && self.element > 1 && self.element < order;
        match kind {
            ObjectKind::SwitchingKey if self.element != 0 && !galois => {
                return Err(WireError::Galois { element: self.element, max: order - 1 });
            }
            ObjectKind::SwitchingKey => {}
            _ if self.element != 0 => return Err(WireError::NotZero { field: "galois element" }),
            _ => {}
        }
        match kind {
            ObjectKind::PublicKey | ObjectKind::SwitchingKey if self.scale.to_bits() != 0 => {
                return Err(WireError::NotZero { field: "scale" });
            }
            ObjectKind::Upload | ObjectKind::Masked if params.check_scale(self.level, self.scale).is_err() => {
                return Err(WireError::Scale { scale: self.scale });
            }
            _ => {}
        }
        if kind == ObjectKind::Masked && self.seed != Seed::default() {
            return Err(WireError::NotZero { field: "seed" });
        }
        Ok(())
    }
}

/// `K` bytes at a fixed place of the header.
fn take<const K: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; K] {
    std::array::from_fn(|i| head[at + i])
}

/// Bytes of `polys` polynomials over the first `limbs` primes.
fn body_bytes(params: &Params, polys: usize, limbs: usize) -> usize {
    polys * (0..limbs).map(|i| params.limb_bytes(i)).sum::<usize>()
}

/// Bytes of a public key.
pub fn public_key_bytes(params: &Params) -> usize {
    HEADER_BYTES + body_bytes(params, 1, params.primes())
}

/// Bytes of a key-switching key.
pub fn switching_key_bytes(params: &Params) -> usize {
    HEADER_BYTES + body_bytes(params, params.digits(params.levels()), params.primes())
}

/// Bytes of an upload at `level`, or 0 if there is no such level.
pub fn upload_bytes(params: &Params, level: usize) -> usize {
    if level > params.levels() { 0 } else { HEADER_BYTES + body_bytes(params, 1, level + 1) }
}

/// Bytes of a masked ciphertext at `level`, or 0 if there is no such level.
pub fn masked_bytes(params: &Params, level: usize) -> usize {
    if level > params.levels() { 0 } else { HEADER_BYTES + body_bytes(params, 2, level + 1) }
}

/// Writes limb by limb: at no time is more than a limb packed.
fn write_polys<'a>(params: &Params, polys: impl IntoIterator<Item = &'a Poly>, out: &mut impl Write) -> io::Result<()> {
    let mut packed = Vec::new();
    for poly in polys {
        for (i, limb) in poly.limbs().enumerate() {
            packed.clear();
            params.packing(i).pack_into(&mut packed, limb);
            out.write_all(&packed)?;
        }
    }
    Ok(())
}

/// Unpacks a limb of prime `i`; the error is the prime that a residue is not below.
fn read_limb(params: &Params, i: usize, bytes: &[u8], limb: &mut [u64]) -> std::result::Result<(), u64> {
    let prime = params.modulus(i).value();
    // The length is exact and fills whole bytes, so unpacking cannot refuse.
    if params.packing(i).unpack_residues(bytes, prime, limb).unwrap_or(false) { Ok(()) } else { Err(prime) }
}

/// Reads `polys` polynomials over the first `limbs` primes from a body of exactly that length.
fn read_polys(
    params: &Params,
    mut body: &[u8],
    polys: usize,
    limbs: usize,
    make: impl Fn() -> Poly,
) -> std::result::Result<Vec<Poly>, WireError> {
    let expected = HEADER_BYTES + body_bytes(params, polys, limbs);
    let wrong_length = WireError::Length { expected, got: HEADER_BYTES + body.len() };
    if HEADER_BYTES + body.len() != expected {
        return Err(wrong_length);
    }
    let mut out = Vec::with_capacity(polys);
    for at in 0..polys {
        let mut poly = make();
        for i in 0..limbs {
            let bytes = body.split_off(..params.limb_bytes(i)).ok_or_else(|| wrong_length.clone())?;
            read_limb(params, i, bytes, poly.limb_mut(i))
                .map_err(|prime| WireError::Residue { limb: at * limbs + i, prime })?;
        }
        out.push(poly);
    }
    Ok(out)
}

/// Parses an object of one kind: header, then polynomials.
fn read(
    params: &Params,
    kind: ObjectKind,
    bytes: &[u8],
    shape: impl Fn(&Header) -> (usize, usize),
    make: impl Fn(&Params, usize) -> Poly,
) -> Result<(Header, Vec<Poly>)> {
    let parse = || {
        let (header, body) = Header::decode(params, kind, bytes)?;
        let (polys, limbs) = shape(&header);
        let polys = read_polys(params, body, polys, limbs, || make(params, limbs))?;
        Ok((header, polys))
    };
    parse().map_err(|cause| CkksError::Wire { what: kind.name(), cause })
}

/// As many polynomials as an object of this kind has.
fn exactly<const K: usize>(kind: ObjectKind, polys: Vec<Poly>) -> Result<[Poly; K]> {
    let cause = WireError::Length { expected: K, got: polys.len() };
    polys.try_into().map_err(|_| CkksError::Wire { what: kind.name(), cause })
}

impl PublicKey {
    /// Writes the key; [`public_key_bytes`] many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let header = Header { level: self.params.levels(), element: 0, scale: 0.0, seed: self.seed };
        out.write_all(&header.encode(&self.params, ObjectKind::PublicKey))?;
        write_polys(&self.params, [&self.b], out)
    }

    /// Parses and checks a received key.
    ///
    /// # Errors
    /// [`CkksError::Wire`] with the field that is wrong.
    pub fn read(params: &Params, bytes: &[u8]) -> Result<Self> {
        let (header, b) = read(params, ObjectKind::PublicKey, bytes, |_| (1, params.primes()), Poly::owned)?;
        let [b] = exactly(ObjectKind::PublicKey, b)?;
        Self::new(params, header.seed, b)
    }
}

impl SeededKey {
    /// Writes the key; [`switching_key_bytes`] many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let element = match self.purpose {
            KeyPurpose::Relinearisation => 0,
            KeyPurpose::Galois(g) => g,
        };
        let header = Header { level: self.params.levels(), element, scale: 0.0, seed: self.seed };
        out.write_all(&header.encode(&self.params, ObjectKind::SwitchingKey))?;
        write_polys(&self.params, &self.b, out)
    }

    /// Parses and checks a received key.
    ///
    /// # Errors
    /// [`CkksError::Wire`] with the field that is wrong.
    pub fn read(params: &Params, bytes: &[u8]) -> Result<Self> {
        let shape = |h: &Header| (params.digits(h.level), params.primes());
        let (header, b) = read(params, ObjectKind::SwitchingKey, bytes, shape, Poly::owned)?;
        Ok(Self { params: params.clone(), purpose: header.purpose(), seed: header.seed, b })
    }
}

impl EvaluationKeys {
    /// Takes a key from a stream, limb by limb: besides the key itself one limb is in memory. The header is
    /// checked, and that the key is in the plan, before anything is allocated.
    ///
    /// # Errors
    /// [`CkksError::Wire`] with the field that is wrong or the stream's error, [`CkksError::UnplannedKey`].
    pub fn receive(&mut self, input: &mut impl Read) -> Result<KeyPurpose> {
        let kind = ObjectKind::SwitchingKey;
        let wrong = |cause: WireError| CkksError::Wire { what: kind.name(), cause };
        let broken = |e: io::Error| wrong(WireError::Stream { kind: e.kind() });
        let params = self.params().clone();
        let mut head = [0; HEADER_BYTES];
        input.read_exact(&mut head).map_err(broken)?;
        let (header, _) = Header::decode(&params, kind, &head).map_err(wrong)?;
        let purpose = header.purpose();
        self.check_planned(purpose)?;
        let mut key = SwitchingKey::room(&params, purpose);
        let mut limb = params.pool().take(params.degree());
        for d in 0..params.digits(params.levels()) {
            for i in 0..params.primes() {
                let place = key.limb_mut(d, Half::B, i);
                input.read_exact(place).map_err(broken)?;
                read_limb(&params, i, place, &mut limb)
                    .map_err(|prime| wrong(WireError::Residue { limb: d * params.primes() + i, prime }))?;
            }
        }
        key.expand(header.seed);
        self.add(key);
        Ok(purpose)
    }
}

impl Upload {
    /// Writes the ciphertext; [`upload_bytes`] many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let header = Header { level: self.level, element: 0, scale: self.scale, seed: self.seed };
        out.write_all(&header.encode(&self.params, ObjectKind::Upload))?;
        write_polys(&self.params, [&self.c0], out)
    }

    /// Parses and checks a received ciphertext.
    ///
    /// # Errors
    /// [`CkksError::Wire`] with the field that is wrong.
    pub fn read(params: &Params, bytes: &[u8]) -> Result<Self> {
        let (Header { level, scale, seed, .. }, c0) =
            read(params, ObjectKind::Upload, bytes, |h| (1, h.level + 1), Poly::scratch)?;
        let [c0] = exactly(ObjectKind::Upload, c0)?;
        Ok(Self { params: params.clone(), level, scale, seed, c0 })
    }
}

impl Masked<Ciphertext> {
    /// Writes the ciphertext; [`masked_bytes`] many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let c = self.hidden();
        let header = Header { level: c.level, element: 0, scale: c.scale, seed: Seed::default() };
        out.write_all(&header.encode(&c.params, ObjectKind::Masked))?;
        write_polys(&c.params, [&c.c0, &c.c1], out)
    }

    /// Parses and checks a received ciphertext.
    ///
    /// # Errors
    /// [`CkksError::Wire`] with the field that is wrong.
    pub fn read(params: &Params, bytes: &[u8]) -> Result<Self> {
        let (Header { level, scale, .. }, parts) =
            read(params, ObjectKind::Masked, bytes, |h| (2, h.level + 1), Poly::scratch)?;
        let [c0, c1] = exactly(ObjectKind::Masked, parts)?;
        let owner = KeyId::RECEIVED;
        Ok(Self::received(Ciphertext { params: params.clone(), owner, level, scale, c0, c1 }))
    }
}

#[cfg(test)]
#[path = "wire/tests.rs"]
mod tests;
