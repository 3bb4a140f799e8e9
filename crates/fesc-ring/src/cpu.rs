//! The one place where a SIMD path is chosen.
//!
//! Every kernel of this crate takes a [`Path`] (or asks [`path()`] for the best one), so that tests can run
//! all paths that this machine has and compare them bit for bit. `FESC_SIMD=portable|avx2|avx512` lowers the
//! choice for a whole process; it can never raise it above what the processor has.

use std::sync::OnceLock;

/// An instruction-set level. Higher ones include the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Plain Rust.
    Portable,
    /// AVX2 with AES-NI, PCLMULQDQ, BMI2 and FMA; VAES on 256 bits where the processor has it.
    Avx2,
    /// AVX-512 F/BW/DQ/VL/IFMA with VAES and VPCLMULQDQ, on top of [`Path::Avx2`].
    Avx512,
}

impl Path {
    /// All paths, lowest first.
    pub const ALL: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

    /// The name used by `FESC_SIMD`, `fesc doctor` and `fesc bench`.
    pub const fn name(self) -> &'static str {
        match self {
            Path::Portable => "portable",
            Path::Avx2 => "avx2",
            Path::Avx512 => "avx512",
        }
    }

    /// The paths that this processor can run, lowest first.
    pub fn available() -> impl Iterator<Item = Path> {
        let best = detect();
        Path::ALL.into_iter().filter(move |&p| p <= best)
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Path {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("fma");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq");
    match (avx2, avx512) {
        (true, true) => Path::Avx512,
        (true, false) => Path::Avx2,
        _ => Path::Portable,
    }
}

/// Whether AES instructions work on vectors of two blocks: Zen 3, Alder Lake and later have them without
/// AVX-512. The AVX2 path uses them where they are.
#[cfg(target_arch = "x86_64")]
pub(crate) fn wide_aes() -> bool {
    is_x86_feature_detected!("vaes")
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Path {
    Path::Portable
}

/// The best path of this processor, lowered by `FESC_SIMD` if it is set.
pub fn path() -> Path {
    static CHOSEN: OnceLock<Path> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let best = detect();
        let wanted = std::env::var("FESC_SIMD").ok().and_then(|v| Path::ALL.into_iter().find(|p| p.name() == v));
        wanted.map_or(best, |w| w.min(best))
    })
}
