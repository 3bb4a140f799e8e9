//! The second factors of sums of products: plain words, or residues packed without gaps.
//!
//! Eight residues of `b` bits are `b` bytes (the wire form of [`crate::Ring::pack_into`]), so a register of
//! them is one load, one shuffle of bytes and one shift: lane `l` takes the eight bytes from `floor(l b / 8)`
//! on and drops `l b mod 8` bits. `7 + 50` bits fit a lane. A key that is read from memory at each use is
//! then read faster by the bytes that it does not have.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::load;
use super::{Prime, RnsError};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Residues of one prime at the bit length of the prime, without gaps, least significant bit first.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    bits: usize,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// The first `len` residues modulo `prime` in `bytes`. More bytes may follow; 64 of them spare the last
    /// elements the slow way. That residues are reduced is not checked: sums with others are wrong.
    pub fn new(prime: &Prime, len: usize, bytes: &'a [u8]) -> Result<Self, RnsError> {
        let bits = prime.modulus.bits() as usize;
        let expected = (len as u128 * bits as u128).div_ceil(8);
        if (bytes.len() as u128) < expected {
            return Err(RnsError::Packed { count: len, bits, got: bytes.len() });
        }
        Ok(Self { bits, len, bytes })
    }

    /// Bits of a residue.
    pub(super) fn bits(&self) -> usize {
        self.bits
    }
}

/// A vector of second factors.
pub(super) trait Second: Copy {
    /// What a register needs that is the same for the whole vector.
    #[cfg(target_arch = "x86_64")]
    type Lanes: Copy;

    /// Number of elements.
    fn len(self) -> usize;

    /// One element.
    fn get(self, i: usize) -> u64;

    /// Elements that whole registers can be read of, at most `len`, which is a multiple of 8.
    fn vector_part(self, len: usize) -> usize;

    /// The same for registers of AVX2.
    #[cfg(target_arch = "x86_64")]
    type QuadLanes: Copy;

    /// # Safety
    /// The processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn quad_lanes(self) -> Self::QuadLanes;

    /// Eight elements from `i` on in two registers, and a hint for those `ahead` bytes later.
    ///
    /// # Safety
    /// The processor must have AVX2; `i` must be a multiple of 8 and `i + 8` at most [`Second::vector_part`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn quads(self, i: usize, lanes: &Self::QuadLanes, ahead: usize) -> [__m256i; 2];

    /// # Safety
    /// The processor must have AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    unsafe fn lanes(self) -> Self::Lanes;

    /// Eight elements from `i` on, and a hint for those `ahead` bytes later.
    ///
    /// # Safety
    /// The processor must have AVX-512 F and VBMI; `i + 8` must be at most [`Second::vector_part`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn register(self, i: usize, lanes: Self::Lanes, ahead: usize) -> __m512i;
}

impl Second for &[u64] {
    #[cfg(target_arch = "x86_64")]
    type Lanes = ();

    fn len(self) -> usize {
        <[u64]>::len(self)
    }

    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        self[i]
    }

    fn vector_part(self, len: usize) -> usize {
        len
    }

    #[cfg(target_arch = "x86_64")]
    type QuadLanes = ();

    #[cfg(target_arch = "x86_64")]
    unsafe fn quad_lanes(self) {}

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn quads(self, i: usize, (): &(), ahead: usize) -> [__m256i; 2] {
        // SAFETY: the caller's promise; a hint may point anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(self.as_ptr().wrapping_add(i).cast::<i8>().wrapping_add(ahead));
            [avx2::load(self, i), avx2::load(self, i + avx2::QUAD)]
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn lanes(self) {}

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn register(self, i: usize, (): (), ahead: usize) -> __m512i {
        // SAFETY: the caller's promise; a hint may point anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(self.as_ptr().wrapping_add(i).cast::<i8>().wrapping_add(ahead));
            load(self, i)
        }
    }
}

/// How two registers of packed residues are read: each pair of them from 16 bytes.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct QuadLanes {
    /// First byte of each pair.
    starts: [usize; 4],
    /// Bytes of each lane, and shifts, by register.
    places: [__m256i; 2],
    shifts: [__m256i; 2],
    mask: __m256i,
}

#[cfg(target_arch = "x86_64")]
impl QuadLanes {
    /// Register `q` of the eight residues from `start` on.
    ///
    /// # Safety
    /// The processor must have AVX2; 64 bytes from `start` on must be readable.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quad(&self, start: *const u8, q: usize) -> __m256i {
        // SAFETY: the last pair reads up to byte 37 + 16.
        let (low, high) = unsafe {
            let low = _mm_loadu_si128(start.add(self.starts[2 * q]).cast());
            (low, _mm_loadu_si128(start.add(self.starts[2 * q + 1]).cast()))
        };
        let x = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), self.places[q]);
        _mm256_and_si256(_mm256_srlv_epi64(x, self.shifts[q]), self.mask)
    }
}

impl Second for Packed<'_> {
    /// Bytes of each lane, shifts, and the mask of a residue.
    #[cfg(target_arch = "x86_64")]
    type Lanes = [__m512i; 3];

    fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        let (at, shift) = (i * self.bits / 8, i * self.bits % 8);
        let word = match self.bytes[at..].first_chunk() {
            Some(whole) => *whole,
            None => {
                let (mut word, rest) = ([0; 8], &self.bytes[at..]);
                word[..rest.len()].copy_from_slice(rest);
                word
            }
        };
        (u64::from_le_bytes(word) >> shift) & ((1 << self.bits) - 1)
    }

    /// A register reads 64 bytes, more than it needs.
    fn vector_part(self, len: usize) -> usize {
        let registers = (self.bytes.len().saturating_sub(64) / self.bits + 1) * 8;
        if self.bytes.len() < 64 { 0 } else { len.min(registers) }
    }

    #[cfg(target_arch = "x86_64")]
    type QuadLanes = QuadLanes;

    #[cfg(target_arch = "x86_64")]
    unsafe fn quad_lanes(self) -> QuadLanes {
        let byte = |element: usize| element * self.bits / 8;
        let (mut places, mut shifts) = ([[0u8; 32]; 2], [[0u64; 4]; 2]);
        for (element, place) in places.as_flattened_mut().chunks_exact_mut(8).enumerate() {
            // From the begin of its pair on: at most 7 + 7.
            let first = byte(element) - byte(element / 2 * 2);
            place.iter_mut().enumerate().for_each(|(k, p)| *p = (first + k) as u8);
        }
        for (element, shift) in shifts.as_flattened_mut().iter_mut().enumerate() {
            *shift = (element * self.bits % 8) as u64;
        }
        // SAFETY: all arrays are 32 bytes; the caller has the processor.
        unsafe {
            QuadLanes {
                starts: [0, 2, 4, 6].map(byte),
                places: places.map(|p| _mm256_loadu_si256(p.as_ptr().cast())),
                shifts: shifts.map(|s| _mm256_loadu_si256(s.as_ptr().cast())),
                mask: _mm256_set1_epi64x((1 << self.bits) - 1),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn quads(self, i: usize, lanes: &QuadLanes, ahead: usize) -> [__m256i; 2] {
        let at = i / 8 * self.bits;
        debug_assert!(at + 64 <= self.bytes.len());
        // SAFETY: 64 bytes from `at` on exist by the bound of `vector_part`; a hint may point anywhere; the
        // caller has the processor.
        unsafe {
            let start = self.bytes.as_ptr().wrapping_add(at);
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(ahead).cast());
            [lanes.quad(start, 0), lanes.quad(start, 1)]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn lanes(self) -> [__m512i; 3] {
        let (mut places, mut shifts) = ([0u8; 64], [0u64; 8]);
        for (i, place) in places.iter_mut().enumerate() {
            // At most 43 + 7.
            *place = (i / 8 * self.bits / 8 + i % 8) as u8;
        }
        for (i, shift) in shifts.iter_mut().enumerate() {
            *shift = (i * self.bits % 8) as u64;
        }
        // SAFETY: both arrays are 64 bytes; the caller has the processor.
        unsafe {
            [
                _mm512_loadu_si512(places.as_ptr().cast()),
                _mm512_loadu_si512(shifts.as_ptr().cast()),
                _mm512_set1_epi64((1 << self.bits) - 1),
            ]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn register(self, i: usize, [places, shifts, mask]: [__m512i; 3], ahead: usize) -> __m512i {
        let at = i / 8 * self.bits;
        debug_assert!(at + 64 <= self.bytes.len());
        // SAFETY: 64 bytes from `at` on exist by the bound of `vector_part`; a hint may point anywhere; the
        // caller has the processor.
        unsafe {
            let start = self.bytes.as_ptr().wrapping_add(at);
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(ahead).cast());
            let x = _mm512_permutexvar_epi8(places, _mm512_loadu_si512(start.cast()));
            _mm512_and_si512(_mm512_srlv_epi64(x, shifts), mask)
        }
    }
}
