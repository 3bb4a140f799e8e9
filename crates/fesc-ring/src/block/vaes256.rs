//! The VAES path of processors without AVX-512: 256-bit vectors of two blocks.

use std::arch::x86_64::*;

use super::kernels::kernels;

kernels!(
    #[target_feature(enable = "avx2,aes,vaes")]
    [u128; 11],
    permute
);

#[inline]
#[target_feature(enable = "avx2,aes,vaes")]
fn permute(keys: &[u128; 11], b: &mut [u64; WORDS]) {
    // Eight vectors at a time hide the latency of a round, and leave registers for the keys.
    for part in b.chunks_exact_mut(32) {
        let lanes: &mut [[u64; 4]] = bytemuck::cast_slice_mut(part);
        let key = |i: usize| _mm256_broadcastsi128_si256(bytemuck::cast(keys[i]));
        let mut x = [_mm256_setzero_si256(); 8];
        let k0 = key(0);
        for (x, l) in x.iter_mut().zip(lanes.iter()) {
            *x = _mm256_xor_si256(bytemuck::cast(*l), k0);
        }
        for i in 1..10 {
            let k = key(i);
            for x in &mut x {
                *x = _mm256_aesenc_epi128(*x, k);
            }
        }
        let k = key(10);
        for (x, l) in x.iter().zip(lanes) {
            *l = bytemuck::cast(_mm256_aesenclast_epi128(*x, k));
        }
    }
}
