//! Correlations: everything input-independent that the two parties hold before they compute.
//!
//! A [`Request`] names one correlation completely. Its *layout* lists the fields of each party's half; a
//! field is *free* (uniform, the owner may draw it) or *determined* (computed from the other fields of both
//! halves by the ideal functionality, `Request::complete`). From the layout alone follow: how a dealer
//! compresses a half (a seed for the free fields, explicit determined ones), how a half is written to disk,
//! and what a generator must produce.
//!
//! A correlation is used once, as a whole: [`Material`] is not `Clone`, and protocols take it by value.

mod bits;
mod bundle;
#[deny(clippy::indexing_slicing)]
mod encode;
mod leaves;
mod product_shape;
pub(crate) mod select;
mod transfers;

use fesc_ring::{Prg, Ring};
use zeroize::Zeroizing;

pub use bits::{BitProducts, BitTriples, DaBits, LongBitProducts};
pub use bundle::{Bundle, Product, Tensor};
pub(crate) use encode::MAX_BYTES as MAX_ENCODED_BYTES;
pub use leaves::Leaves;
pub(crate) use product_shape::Axis;
pub use product_shape::{Index, ProductShape};
pub use select::Select;
pub use transfers::Transfers;

use crate::Role;
use crate::error::{MpcError, check_len};

/// No field of a correlation may have more than this many elements: a limit before allocation.
pub const MAX_ELEMENTS: usize = 1 << 30;

/// No half may be larger than this, packed: a dealt half is one frame, whose length is a `u32`.
pub const MAX_HALF_BYTES: usize = 1 << 31;

/// No product of a bundle may take more multiplications than this.
pub const MAX_WORK: usize = 1 << 38;

/// One correlation, named completely: kind, ring and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Products over named masks.
    Bundle(Bundle),
    /// Selection by bits: one mask for a tensor, K daBits for the bits that select on it.
    Select(Select),
    /// AND triples on packed bits.
    BitTriples(BitTriples),
    /// A random bit of P0 times a random bit of P1.
    BitProducts(BitProducts),
    /// Bits shared both by XOR and additively.
    DaBits(DaBits),
    /// Random 1-of-8 oblivious transfers.
    Leaves(Leaves),
    /// As `BitProducts`, with shares wider than a word.
    LongBitProducts(LongBitProducts),
    /// Random 1-of-2 oblivious transfers, one each way.
    Transfers(Transfers),
}

/// How a field is stored and packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Elements of a ring, in `u64`s, packed to the ring's width on the wire.
    Ring(Ring),
    /// Bytes.
    Bytes,
}

/// One field of a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub kind: FieldKind,
    pub len: usize,
    /// Uniform and drawn by its owner, as opposed to computed from both halves.
    pub free: bool,
}

impl FieldSpec {
    pub(crate) const fn ring(ring: Ring, len: usize, free: bool) -> Self {
        Self { kind: FieldKind::Ring(ring), len, free }
    }

    pub(crate) const fn bytes(len: usize, free: bool) -> Self {
        Self { kind: FieldKind::Bytes, len, free }
    }

    /// Bytes in memory: ring elements are held in words.
    const fn held_bytes(&self) -> usize {
        match self.kind {
            FieldKind::Ring(_) => 8 * self.len,
            FieldKind::Bytes => self.len,
        }
    }

    pub(crate) const fn packed_len(&self) -> usize {
        match self.kind {
            FieldKind::Ring(r) => r.packed_len(self.len),
            FieldKind::Bytes => self.len,
        }
    }
}

/// One field's data.
pub(crate) enum Field {
    Ring(Zeroizing<Vec<u64>>),
    Bytes(Zeroizing<Vec<u8>>),
}

impl Field {
    /// A field of the right kind with nothing in it yet.
    pub(crate) fn empty(spec: &FieldSpec) -> Self {
        match spec.kind {
            FieldKind::Ring(_) => Field::Ring(Vec::new().into()),
            FieldKind::Bytes => Field::Bytes(Vec::new().into()),
        }
    }
}

/// One party's half of a correlation. Zeroised when dropped, never copied.
pub struct Material {
    pub(crate) fields: Vec<Field>,
}

impl Material {
    /// Field `i` as ring elements; empty if it is not such a field (the layout rules that out).
    pub(crate) fn ring(&self, i: usize) -> &[u64] {
        match self.fields.get(i) {
            Some(Field::Ring(v)) => v,
            _ => &[],
        }
    }

    pub(crate) fn ring_mut(&mut self, i: usize) -> &mut Vec<u64> {
        match &mut self.fields[i] {
            Field::Ring(v) => v,
            Field::Bytes(_) => unreachable!("field {i} holds bytes"),
        }
    }

    pub(crate) fn bytes(&self, i: usize) -> &[u8] {
        match self.fields.get(i) {
            Some(Field::Bytes(v)) => v,
            _ => &[],
        }
    }

    pub(crate) fn bytes_mut(&mut self, i: usize) -> &mut Vec<u8> {
        match &mut self.fields[i] {
            Field::Bytes(v) => v,
            Field::Ring(_) => unreachable!("field {i} holds ring elements"),
        }
    }

    /// A half with every field present: free ones drawn from `prg`, determined ones zero.
    pub(crate) fn sample(layout: &[FieldSpec], prg: &mut Prg) -> Self {
        let fields = layout
            .iter()
            .map(|spec| match spec.kind {
                FieldKind::Ring(ring) if spec.free => Field::Ring(prg.ring_vec(ring, spec.len).into()),
                FieldKind::Ring(_) => Field::Ring(vec![0; spec.len].into()),
                FieldKind::Bytes => {
                    let mut v = vec![0u8; spec.len];
                    if spec.free {
                        for chunk in v.chunks_mut(8) {
                            let word = prg.next_u64().to_le_bytes();
                            chunk.copy_from_slice(&word[..chunk.len()]);
                        }
                    }
                    Field::Bytes(v.into())
                }
            })
            .collect();
        Self { fields }
    }

    /// The packed bytes of the fields that `keep` selects.
    pub(crate) fn write(&self, layout: &[FieldSpec], keep: impl Fn(&FieldSpec) -> bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(packed_len(layout, &keep));
        for (spec, field) in layout.iter().zip(&self.fields).filter(|(s, _)| keep(s)) {
            match (spec.kind, field) {
                (FieldKind::Ring(ring), Field::Ring(v)) => out.extend_from_slice(&ring.pack(v)),
                (_, Field::Bytes(v)) => out.extend_from_slice(v),
                _ => {}
            }
        }
        out
    }

    /// Reads the fields that `keep` selects from packed bytes, leaving the others as they are.
    pub(crate) fn read(
        &mut self,
        layout: &[FieldSpec],
        keep: impl Fn(&FieldSpec) -> bool,
        mut bytes: &[u8],
    ) -> Result<(), MpcError> {
        check_len("bytes of a correlation", packed_len(layout, &keep), bytes.len())?;
        for (spec, field) in layout.iter().zip(&mut self.fields).filter(|(s, _)| keep(s)) {
            let (head, tail) = bytes.split_at(spec.packed_len());
            bytes = tail;
            *field = match spec.kind {
                FieldKind::Ring(ring) => Field::Ring(ring.unpack(head, spec.len)?.into()),
                FieldKind::Bytes => Field::Bytes(head.to_vec().into()),
            };
        }
        Ok(())
    }
}

/// Packed size of the fields that `keep` selects.
pub(crate) fn packed_len(layout: &[FieldSpec], keep: impl Fn(&FieldSpec) -> bool) -> usize {
    layout.iter().filter(|s| keep(s)).map(FieldSpec::packed_len).sum()
}

impl Request {
    /// Refuses impossible shapes and sizes over [`MAX_ELEMENTS`]. Called before anything is reserved for the
    /// request.
    pub fn validate(&self) -> Result<(), MpcError> {
        match self {
            Request::Bundle(b) => b.validate(),
            Request::Select(s) => s.validate(),
            Request::BitTriples(b) => b.validate(),
            Request::BitProducts(b) => b.validate(),
            Request::DaBits(b) => b.validate(),
            Request::Leaves(l) => l.validate(),
            Request::LongBitProducts(b) => b.validate(),
            Request::Transfers(t) => t.validate(),
        }?;
        for role in [Role::P0, Role::P1] {
            if packed_len(&self.layout(role), |_| true) > MAX_HALF_BYTES {
                return Err(MpcError::Request("a half of more than 2^31 bytes; split the tensor"));
            }
        }
        Ok(())
    }

    /// The fields of one party's half.
    pub(crate) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        match self {
            Request::Bundle(b) => b.layout(role),
            Request::Select(s) => s.layout(role),
            Request::BitTriples(b) => b.layout(role),
            Request::BitProducts(b) => b.layout(role),
            Request::DaBits(b) => b.layout(role),
            Request::Leaves(l) => l.layout(role),
            Request::LongBitProducts(b) => b.layout(role),
            Request::Transfers(t) => t.layout(),
        }
    }

    /// Bytes that one party's half takes in memory.
    pub fn half_bytes(&self, role: Role) -> usize {
        self.layout(role).iter().map(FieldSpec::held_bytes).sum()
    }

    /// The ideal functionality: computes the determined fields of both halves from the free ones.
    pub(crate) fn complete(&self, m0: &mut Material, m1: &mut Material) -> Result<(), MpcError> {
        match self {
            Request::Bundle(b) => b.complete(m0, m1)?,
            Request::Select(s) => s.complete(m0, m1),
            Request::BitTriples(b) => b.complete(m0, m1),
            Request::BitProducts(b) => b.complete(m0, m1),
            Request::DaBits(b) => b.complete(m0, m1),
            Request::Leaves(l) => l.complete(m0, m1),
            Request::LongBitProducts(b) => b.complete(m0, m1),
            Request::Transfers(t) => t.complete(m0, m1),
        }
        Ok(())
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Request::Bundle(b) => {
                write!(f, "bundle of {} masks, {} products, {} bits", b.masks.len(), b.products.len(), b.ring.bits())
            }
            Request::Select(s) => {
                write!(f, "selection of {} elements by {} bits, degree {}", s.count, s.thresholds, s.degree)
            }
            Request::BitTriples(b) => write!(f, "{} words of AND triples of width {}", b.words, b.width),
            Request::BitProducts(b) => write!(f, "{} words of bit products mod 2^{}", b.words, b.ring.bits()),
            Request::DaBits(b) => write!(f, "{} words of daBits mod 2^{}", b.words, b.ring.bits()),
            Request::Leaves(l) => write!(f, "{} 1-of-8 transfers of {} bits from {:?}", l.count, l.planes, l.sender),
            Request::LongBitProducts(b) => write!(f, "{} words of bit products mod 2^{}", b.words, b.ring.bits()),
            Request::Transfers(t) => write!(f, "{} words of transfers each way mod 2^{}", t.words, t.ring.bits()),
        }
    }
}

/// Refuses a correlation of too many elements.
pub(crate) fn check_elements(factors: &[usize]) -> Result<(), MpcError> {
    check_product(factors, MAX_ELEMENTS, "more elements than the limit of 2^30; split the tensor")
}

/// Refuses a product over a limit. A zero counts as one: beside it the other factors must be possible too.
pub(crate) fn check_product(factors: &[usize], limit: usize, why: &'static str) -> Result<(), MpcError> {
    match factors.iter().try_fold(1usize, |acc, &f| acc.checked_mul(f.max(1))) {
        Some(p) if p <= limit => Ok(()),
        _ => Err(MpcError::Request(why)),
    }
}
