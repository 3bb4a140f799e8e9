//! AES-128 with one key, and what is built from it as a permutation `pi`.

use aes::cipher::KeyInit;
#[cfg(target_arch = "x86_64")]
use zeroize::Zeroize;

use super::soft;
#[cfg(target_arch = "x86_64")]
use super::{ni, vaes, vaes256};
use crate::cpu::{self, Path};

enum Keys {
    Soft(Box<aes::Aes128>),
    #[cfg(target_arch = "x86_64")]
    Ni([u128; 11]),
    #[cfg(target_arch = "x86_64")]
    Vaes256([u128; 11]),
    #[cfg(target_arch = "x86_64")]
    Vaes([u128; 11]),
}

/// AES-128 under one key, on the SIMD path chosen at construction.
pub struct Aes {
    keys: Keys,
}

/// Calls a kernel of the path that the keys belong to.
macro_rules! on_path {
    ($self:ident, $kernel:ident ( $($arg:expr),* )) => {
        match &$self.keys {
            Keys::Soft(k) => soft::$kernel(k, $($arg),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `with_path` makes these keys only when the processor has the path's instructions.
            Keys::Ni(k) => unsafe { ni::$kernel(k, $($arg),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Keys::Vaes256(k) => unsafe { vaes256::$kernel(k, $($arg),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Keys::Vaes(k) => unsafe { vaes::$kernel(k, $($arg),*) },
        }
    };
}

impl Aes {
    /// AES with this key on the best path.
    pub fn new(key: u128) -> Self {
        Self::on(key, cpu::path())
    }

    /// AES with this key on a given path; on the portable one if the processor does not have it.
    pub fn with_path(key: u128, path: Path) -> Self {
        let path = if Path::available().any(|p| p == path) { path } else { Path::Portable };
        Self::on(key, path)
    }

    /// `path` is one that the processor has.
    fn on(key: u128, path: Path) -> Self {
        #[cfg(target_arch = "x86_64")]
        if path != Path::Portable {
            // SAFETY: the caller passes a path that the processor has, and both of these include AES-NI.
            let round = unsafe { ni::key_schedule(key) };
            return Self {
                keys: match path {
                    Path::Avx512 => Keys::Vaes(round),
                    _ if cpu::wide_aes() => Keys::Vaes256(round),
                    _ => Keys::Ni(round),
                },
            };
        }
        let _ = path;
        Self { keys: Keys::Soft(Box::new(aes::Aes128::new(&key.to_le_bytes().into()))) }
    }

    /// The AVX2 path of a processor without wide AES instructions, where tests compare the two.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn narrow(key: u128) -> Option<Self> {
        Path::available().any(|p| p == Path::Avx2).then(|| {
            // SAFETY: the processor has the path, which includes AES-NI.
            Self { keys: Keys::Ni(unsafe { ni::key_schedule(key) }) }
        })
    }

    /// `pi` on every block.
    pub fn encrypt(&self, blocks: &mut [u128]) {
        let words = bytemuck::cast_slice_mut(blocks);
        on_path!(self, encrypt(words));
    }

    /// The counter stream `pi(start), pi(start + 1), ...` as bytes; a last partial block is cut.
    pub fn ctr(&self, start: u128, out: &mut [u8]) {
        on_path!(self, ctr(start, out));
    }

    /// The tweaked hash TMMO, `H(x, i) = pi(pi(x) ^ i) ^ pi(x)`, with `i = first, first + 1, ...` (wrapping
    /// at `2^64`).
    ///
    /// Guo, Katz, Wang, Yu (2020, "Efficient and secure multiparty computation from fixed-key block
    /// ciphers"): tweakable circular correlation robust when `pi` is an ideal permutation, with advantage
    /// about `p q / 2^127` for `p` AES calls and `q` hashes under one key. Change the key to keep `q` small.
    pub fn hash(&self, blocks: &mut [u128], first: u64) {
        let words = bytemuck::cast_slice_mut(blocks);
        on_path!(self, hash(words, first));
    }

    /// TMMO with one given tweak per block; blocks beyond the tweaks get tweak 0.
    pub fn hash_tweaked(&self, blocks: &mut [u128], tweaks: &[u64]) {
        let words = bytemuck::cast_slice_mut(blocks);
        on_path!(self, hash_given(words, tweaks));
    }

    /// One level of the correlated GGM tree of Guo et al. (2022/1431), in place.
    ///
    /// `parents = [x_0, ..]` becomes the left children `H(x_i)` and `right[i] = x_i ^ H(x_i)`, with
    /// `H(x) = pi(s(x)) ^ s(x)`, `s(hi, lo) = (hi ^ lo, hi)`. Returns the XOR of the left children. The
    /// shorter of the two slices bounds the work.
    pub fn expand_level(&self, parents: &mut [u128], right: &mut [u128]) -> u128 {
        let n = parents.len().min(right.len());
        let left = bytemuck::cast_slice_mut(&mut parents[..n]);
        let right = bytemuck::cast_slice_mut(&mut right[..n]);
        let [low, high] = on_path!(self, expand(left, right));
        u128::from(low) | u128::from(high) << 64
    }
}

impl Drop for Aes {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        {
            // The box wipes itself. Beside it is room for the keys of other paths, where a move may have left
            // what the stack had: the key, as a test found.
            if matches!(self.keys, Keys::Soft(_)) {
                self.keys = Keys::Ni([0; 11]);
            }
            if let Keys::Ni(k) | Keys::Vaes256(k) | Keys::Vaes(k) = &mut self.keys {
                k.zeroize();
            }
        }
    }
}
