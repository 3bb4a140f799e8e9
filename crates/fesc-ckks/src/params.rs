//! Parameters: an open literal, and the checked, immutable form that everything else takes.
//!
//! The ring is `Z[X] / (X^N + 1)`, `N = 2^12 .. 2^16`. Data primes `q_0 .. q_L` (level `l` keeps
//! `q_0 .. q_l`) are followed by `K` special primes `p_0 .. p_(K-1)`, all below `2^50`. Key switching is
//! hybrid (Han and Ki, "Better bootstrapping for approximate homomorphic encryption", 2020): digits of
//! `alpha = K` consecutive data primes, and `P = p_0 ... p_(K-1)` at least as large as every digit's product.
//! Secrets are uniform ternary, errors discrete Gaussian with deviation 3.2.
//!
//! Security: `log2(Q P)`, special primes counted, is at most 105 / 212 / 426 / 859 / 1730 for `N = 2^12 ..
//! 2^16`: one percent below what a published table has for 128 bits ([`security`]). There is no way round the
//! check.

mod chain;
mod subring;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fesc_ring::Ring;
use fesc_ring::fft::Fft;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::Ntt;
use fesc_ring::pool::Pool;
use fesc_ring::rns::{self, Prime};
use fesc_ring::security;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use chain::{MAX_BITS, MIN_BITS};
pub(crate) use subring::Subring;

use crate::{CkksError, Result};

/// Smallest supported `log2 N`.
pub const MIN_LOG_N: u32 = 12;
/// Largest supported `log2 N`.
pub const MAX_LOG_N: u32 = 16;
/// Most data primes, and most special primes: what the lazy sums of the kernels can hold.
pub const MAX_PRIMES: usize = rns::MAX_SOURCES;

/// What a user writes down. Nothing here is checked; [`Params::new`] does that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamsLiteral {
    /// `log2 N`.
    pub log_n: u32,
    /// Sizes of the data primes in bits, `q_0` first.
    pub q_bits: Vec<u32>,
    /// Sizes of the special primes in bits.
    pub p_bits: Vec<u32>,
    /// Logarithm of the default scale.
    pub log_scale: u32,
}

struct Inner {
    literal: ParamsLiteral,
    degree: usize,
    ntts: Vec<Ntt>,
    primes: Vec<Prime>,
    fft: Fft,
    data: usize,
    /// `log2(q_0 ... q_l)` by level.
    log_q: Vec<f64>,
    log_p: f64,
    digest: [u8; 32],
    /// Buffers of short-lived polynomials, used again.
    pool: Pool,
    /// By logarithm of the period, made at the first use.
    subrings: Vec<OnceLock<Result<Subring>>>,
}

/// A checked set. Immutable; cloning copies a pointer.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

impl Params {
    /// Checks a literal, chooses the primes and prepares their transforms.
    ///
    /// # Errors
    /// Whatever is outside the limits of the module documentation, with the numbers.
    pub fn new(literal: &ParamsLiteral) -> Result<Self> {
        Self::with_pool(literal, Pool::new())
    }

    /// The same with memory that others use too.
    pub(crate) fn with_pool(literal: &ParamsLiteral, pool: Pool) -> Result<Self> {
        let log_n = literal.log_n;
        let known = (MIN_LOG_N..=MAX_LOG_N).contains(&log_n).then(|| security::limit(log_n)).flatten();
        let limit = known.ok_or(CkksError::Degree { log_n, min: MIN_LOG_N, max: MAX_LOG_N })?;
        Self::build(literal, pool, |log_qp| {
            if log_qp <= f64::from(limit) {
                return Ok(());
            }
            let bits = security::bits(log_n, log_qp).unwrap_or(0.0);
            Err(CkksError::Weak { log_n, log_qp, limit, bits })
        })
    }

    /// Any degree from 4 on, no check of security.
    #[cfg(test)]
    pub(crate) fn insecure_for_tests(literal: &ParamsLiteral) -> Result<Self> {
        Self::build(literal, Pool::new(), |_| Ok(()))
    }

    fn build(literal: &ParamsLiteral, pool: Pool, secure: impl Fn(f64) -> Result<()>) -> Result<Self> {
        for (role, bits) in [("data", &literal.q_bits), ("special", &literal.p_bits)] {
            if bits.is_empty() || bits.len() > MAX_PRIMES {
                return Err(CkksError::PrimeCount { role, count: bits.len(), max: MAX_PRIMES });
            }
            if let Some((index, &bits)) = bits.iter().enumerate().find(|(_, b)| !(MIN_BITS..=MAX_BITS).contains(*b)) {
                return Err(CkksError::PrimeBits { role, index, bits, min: MIN_BITS, max: MAX_BITS });
            }
        }
        let degree = 1usize << literal.log_n;
        let (data, special) = chain::choose(degree, &literal.q_bits, &literal.p_bits)?;
        let log = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
        let (log_q, log_p) = ((1..=data.len()).map(|n| log(&data[..n])).collect::<Vec<f64>>(), log(&special));
        secure(log(&data) + log_p)?;
        for (digit, primes) in data.chunks(special.len()).enumerate() {
            let log_digit = log(primes);
            if log_digit > log_p {
                return Err(CkksError::SpecialTooSmall { log_p, digit, log_digit });
            }
        }
        let log_scale = literal.log_scale;
        if log_scale == 0 || log_scale > 1000 || f64::from(log_scale) >= log(&data) {
            return Err(CkksError::DefaultScale { log_scale, log_q: log(&data) });
        }
        let ntts = data.iter().chain(&special).map(|&p| Ok(Ntt::new(Modulus::new(p)?, degree)?));
        let ntts = ntts.collect::<Result<Vec<Ntt>>>()?;
        let digest = digest(literal, data.len(), &ntts);
        let literal = literal.clone();
        let primes = ntts.iter().map(|n| Ok(Prime::new(n.modulus())?)).collect::<Result<Vec<Prime>>>()?;
        let fft = Fft::new(degree / 2)?;
        let subrings = (0..literal.log_n).map(|_| OnceLock::new()).collect();
        let data = data.len();
        let inner = Inner { literal, degree, ntts, primes, fft, data, log_q, log_p, digest, pool, subrings };
        Ok(Self(Arc::new(inner)))
    }

    /// The literal that this set was made from.
    pub fn literal(&self) -> &ParamsLiteral {
        &self.0.literal
    }

    /// `N`.
    pub fn degree(&self) -> usize {
        self.0.degree
    }

    /// Complex values in a ciphertext: `N / 2`.
    pub fn slots(&self) -> usize {
        self.0.degree / 2
    }

    /// The highest level `L`: the number of rescalings a fresh ciphertext allows.
    pub fn levels(&self) -> usize {
        self.0.data - 1
    }

    /// Number of special primes, which is also the number of data primes in a digit.
    pub fn specials(&self) -> usize {
        self.0.ntts.len() - self.0.data
    }

    /// Number of all primes.
    pub fn primes(&self) -> usize {
        self.0.ntts.len()
    }

    /// Prime `i`: data primes first, special primes after them.
    ///
    /// # Panics
    /// If there is no such prime.
    pub fn modulus(&self, i: usize) -> Modulus {
        self.ntt(i).modulus()
    }

    /// The transform of prime `i`.
    ///
    /// # Panics
    /// If there is no such prime.
    pub fn ntt(&self, i: usize) -> &Ntt {
        &self.0.ntts[i]
    }

    /// The residue kernels of prime `i`.
    pub(crate) fn prime(&self, i: usize) -> &Prime {
        &self.0.primes[i]
    }

    /// The transform between slots and coefficients.
    pub(crate) fn fft(&self) -> &Fft {
        &self.0.fft
    }

    /// The transforms of polynomials whose slots have this period, a power of two below the slots.
    pub(crate) fn subring(&self, period: usize) -> Result<&Subring> {
        let wrong = CkksError::Period { period, slots: self.slots() };
        let place = self.0.subrings.get(period.trailing_zeros() as usize).filter(|_| period.is_power_of_two());
        place.ok_or(wrong)?.get_or_init(|| Subring::new(self, period)).as_ref().map_err(Clone::clone)
    }

    /// Index of the first special prime.
    pub fn first_special(&self) -> usize {
        self.0.data
    }

    /// Digits of a key switch at `level`: `ceil((level + 1) / alpha)`.
    pub fn digits(&self, level: usize) -> usize {
        (level + 1).div_ceil(self.specials())
    }

    /// The data primes of digit `d` at `level`.
    pub fn digit(&self, d: usize, level: usize) -> Range<usize> {
        let alpha = self.specials();
        (d * alpha).min(level + 1)..((d + 1) * alpha).min(level + 1)
    }

    /// The default scale.
    pub fn scale(&self) -> f64 {
        // Exact: a power of two far below the largest exponent.
        2f64.powi(self.0.literal.log_scale as i32)
    }

    /// `log2(q_0 ... q_level)`.
    ///
    /// # Errors
    /// [`CkksError::Level`] if there is no such level.
    pub fn log_q(&self, level: usize) -> Result<f64> {
        self.0.log_q.get(level).copied().ok_or(CkksError::Level { level, max: self.levels() })
    }

    /// `log2 P`.
    pub fn log_p(&self) -> f64 {
        self.0.log_p
    }

    /// `log2(Q P)` at the highest level: what security depends on.
    pub fn log_qp(&self) -> f64 {
        self.0.log_q[self.levels()] + self.0.log_p
    }

    /// Bits of security by the table of [`security`]; 256 means 256 or more.
    pub fn security(&self) -> f64 {
        // Sets of tests have degrees that no table knows.
        security::bits(self.0.literal.log_n, self.log_qp()).unwrap_or(0.0)
    }

    /// A hash of everything that two parties must agree on: degree, primes, roots, digits, scale and
    /// distributions.
    pub fn digest(&self) -> &[u8; 32] {
        &self.0.digest
    }

    /// The first bytes of the digest, for error messages.
    pub(crate) fn short_digest(&self) -> String {
        short(&self.0.digest)
    }

    /// The form in which residues of prime `i` are packed.
    pub(crate) fn packing(&self, i: usize) -> Ring {
        Ring::of_residues(self.modulus(i))
    }

    /// Bytes of a packed limb of prime `i`.
    pub(crate) fn limb_bytes(&self, i: usize) -> usize {
        self.packing(i).packed_len(self.degree())
    }

    /// Bytes of a prepared key-switching key in memory.
    pub fn key_memory(&self) -> usize {
        2 * self.digits(self.levels()) * (0..self.primes()).map(|i| self.limb_bytes(i)).sum::<usize>()
    }

    /// The pool that ciphertexts and plaintexts of this set take their memory from.
    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Frees the buffers that past ciphertexts and plaintexts of this set left behind.
    pub fn release_buffers(&self) {
        self.0.pool.clear();
    }

    /// Keeps at most so many bytes of such buffers from now on (1 GiB unless told).
    pub fn set_pool_limit(&self, bytes: usize) {
        self.0.pool.set_limit(bytes / size_of::<u64>());
    }

    /// Bytes of the ciphertexts, plaintexts and scratch space of this set that exist now. Keys are not in it
    /// ([`Params::key_memory`]), nor are buffers that wait to be used again.
    pub fn bytes_in_use(&self) -> usize {
        self.0.pool.words_in_use() * size_of::<u64>()
    }

    /// The largest [`Params::bytes_in_use`] so far, or since [`Params::reset_peak`].
    pub fn peak_bytes(&self) -> usize {
        self.0.pool.peak_words() * size_of::<u64>()
    }

    /// Starts the largest number anew.
    pub fn reset_peak(&self) {
        self.0.pool.reset_peak();
    }

    /// Refuses a level that does not exist.
    pub(crate) fn check_level(&self, level: usize) -> Result<()> {
        self.log_q(level).map(|_| ())
    }

    /// Refuses a scale that is no number, below 1, or not below the modulus of its level.
    pub(crate) fn check_scale(&self, level: usize, scale: f64) -> Result<()> {
        let log_q = self.log_q(level)?;
        if scale.is_finite() && scale >= 1.0 && scale.log2() < log_q {
            Ok(())
        } else {
            Err(CkksError::Scale { scale, level, log_q })
        }
    }

    /// Whether `magnitude` is at most `(q_0 ... q_level - 1) / 2`, exactly.
    pub(crate) fn holds(&self, level: usize, magnitude: u128) -> bool {
        // A product above 2^128 holds every magnitude below 2^127, and wide integers have no other.
        let mut primes = self.0.ntts.iter().take(level + 1).map(|n| u128::from(n.modulus().value()));
        let product = primes.try_fold(1u128, u128::checked_mul);
        product.is_none_or(|q| magnitude <= (q - 1) / 2)
    }

    /// Refuses an object of another set.
    pub(crate) fn check_same(&self, other: &Params) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(CkksError::ParamsMismatch { left: self.short_digest(), right: other.short_digest() })
    }
}

/// The first bytes of a digest in hexadecimal.
pub(crate) fn short(digest: &[u8; 32]) -> String {
    digest.iter().take(6).map(|b| format!("{b:02x}")).collect()
}

fn digest(literal: &ParamsLiteral, data: usize, ntts: &[Ntt]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"fesc-ckks parameters 1: ternary secret, gaussian error 3.2, digits of K primes");
    for word in [u64::from(literal.log_n), u64::from(literal.log_scale), data as u64, ntts.len() as u64] {
        hash.update(word.to_le_bytes());
    }
    for ntt in ntts {
        hash.update(ntt.modulus().value().to_le_bytes());
        // The root fixes the order of a transformed polynomial, which is what travels.
        hash.update(ntt.root().to_le_bytes());
    }
    hash.finalize().into()
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.digest == other.0.digest
    }
}

impl Eq for Params {}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Params")
            .field("log_n", &self.0.literal.log_n)
            .field("levels", &self.levels())
            .field("specials", &self.specials())
            .field("log_qp", &self.log_qp())
            .field("digest", &self.short_digest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "params/tests.rs"]
mod tests;
