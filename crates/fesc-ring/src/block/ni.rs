//! The AES-NI path, and the key schedule that it shares with the VAES path.

use std::arch::x86_64::*;

use super::kernels::kernels;

kernels!(
    #[target_feature(enable = "avx2,aes")]
    [u128; 11],
    permute
);

/// Expands an AES-128 key (FIPS 197, section 5.2).
#[target_feature(enable = "avx2,aes")]
pub(super) fn key_schedule(key: u128) -> [u128; 11] {
    let mut round = [0u128; 11];
    let mut k: __m128i = bytemuck::cast(key);
    round[0] = key;
    macro_rules! step {
        ($i:literal, $rcon:literal) => {{
            let t = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$rcon>(k));
            k = _mm_xor_si128(k, _mm_slli_si128::<4>(k));
            k = _mm_xor_si128(k, _mm_slli_si128::<8>(k));
            k = _mm_xor_si128(k, t);
            round[$i] = bytemuck::cast(k);
        }};
    }
    step!(1, 0x01);
    step!(2, 0x02);
    step!(3, 0x04);
    step!(4, 0x08);
    step!(5, 0x10);
    step!(6, 0x20);
    step!(7, 0x40);
    step!(8, 0x80);
    step!(9, 0x1b);
    step!(10, 0x36);
    round
}

#[inline]
#[target_feature(enable = "avx2,aes")]
fn permute(keys: &[u128; 11], b: &mut [u64; WORDS]) {
    // Eight blocks at a time hide the latency of a round.
    for part in b.chunks_exact_mut(16) {
        let lanes: &mut [[u64; 2]] = bytemuck::cast_slice_mut(part);
        let mut x = [_mm_setzero_si128(); 8];
        let k0: __m128i = bytemuck::cast(keys[0]);
        for (x, l) in x.iter_mut().zip(lanes.iter()) {
            *x = _mm_xor_si128(bytemuck::cast(*l), k0);
        }
        for k in &keys[1..10] {
            let k: __m128i = bytemuck::cast(*k);
            for x in &mut x {
                *x = _mm_aesenc_si128(*x, k);
            }
        }
        let k: __m128i = bytemuck::cast(keys[10]);
        for (x, l) in x.iter().zip(lanes) {
            *l = bytemuck::cast(_mm_aesenclast_si128(*x, k));
        }
    }
}
