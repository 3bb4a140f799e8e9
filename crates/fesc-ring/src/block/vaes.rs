//! The VAES path: eight 512-bit vectors of four blocks.

use std::arch::x86_64::*;

use super::kernels::kernels;

kernels!(
    #[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512dq,avx512vl,vaes")]
    [u128; 11],
    permute
);

#[inline]
#[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn permute(keys: &[u128; 11], b: &mut [u64; WORDS]) {
    let key = |i: usize| _mm512_broadcast_i32x4(bytemuck::cast(keys[i]));
    let lanes: &mut [[u64; 8]] = bytemuck::cast_slice_mut(b);
    let mut x = [_mm512_setzero_si512(); 8];
    let k0 = key(0);
    for (x, l) in x.iter_mut().zip(lanes.iter()) {
        // SAFETY: `l` is 64 readable bytes.
        *x = _mm512_xor_si512(unsafe { _mm512_loadu_si512(l.as_ptr().cast()) }, k0);
    }
    for i in 1..10 {
        let k = key(i);
        for x in &mut x {
            *x = _mm512_aesenc_epi128(*x, k);
        }
    }
    let k = key(10);
    for (x, l) in x.iter().zip(lanes) {
        // SAFETY: `l` is 64 writable bytes.
        unsafe { _mm512_storeu_si512(l.as_mut_ptr().cast(), _mm512_aesenclast_epi128(*x, k)) };
    }
}
