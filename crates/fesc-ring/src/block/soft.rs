//! The portable path: the `aes` crate.

use aes::cipher::BlockCipherEncrypt;

use super::kernels::kernels;

kernels!(aes::Aes128, permute);

fn permute(cipher: &aes::Aes128, b: &mut [u64; WORDS]) {
    let mut blocks = [aes::Block::default(); BATCH];
    for (o, pair) in blocks.iter_mut().zip(b.chunks_exact(2)) {
        *o = (u128::from(pair[0]) | u128::from(pair[1]) << 64).to_le_bytes().into();
    }
    cipher.encrypt_blocks(&mut blocks);
    for (block, pair) in blocks.iter().zip(b.chunks_exact_mut(2)) {
        let v = u128::from_le_bytes((*block).into());
        pair[0] = v as u64;
        pair[1] = (v >> 64) as u64;
    }
}
