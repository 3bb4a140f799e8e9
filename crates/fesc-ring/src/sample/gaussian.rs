//! The discrete Gaussian over the integers with standard deviation 3.2, by a cumulative table scanned in
//! constant time.
//!
//! `P(Z = k)` is proportional to `rho(k) = exp(-k^2 / (2 * 3.2^2)) = exp(-25 k^2 / 512)`. Entry `k` of the
//! table is `P(|Z| <= k)` in units of `2^-126`, rounded to the nearest integer, up to the last one below
//! `2^126`:
//!
//! ```text
//! table[k] = round(2^126 * (rho(0) + 2 rho(1) + ... + 2 rho(k)) / (rho(0) + 2 rho(1) + 2 rho(2) + ...))
//! ```
//!
//! A sample takes two words `a, b` of the stream: `u = (a >> 1) 2^63 + (b >> 1)` is uniform below `2^126`,
//! the magnitude is the number of entries at or below `u`, and the low bit of `a` is the sign. All entries
//! are compared for every sample. The distance to the ideal distribution is below `2^-120` per sample (43
//! roundings of half a unit, and the tail above [`TAIL`], which has weight below `2^-132`). The test
//! `table_is_the_formula` recomputes every entry from the formula in 512-bit arithmetic.

use crate::Prg;
use crate::cpu::{self, Path};
use zeroize::Zeroize;

/// Standard deviation of the parameter sets of this project.
pub const SIGMA: f64 = 3.2;

/// No sample exceeds this in magnitude.
pub const TAIL: i64 = TABLE.len() as i64;

/// Samples per batch.
const BATCH: usize = 64;

/// The cumulative table; see the module documentation.
pub const TABLE: [u128; 42] = [
    0x7fa_95a0_3250_f92c_14ef_82d9_03a5_9c6f,
    0x172d_12ea_0137_ffb6_e66e_fd68_37ef_f0b5,
    0x244d_7134_171e_dcdd_8118_9aca_2649_13d6,
    0x2e95_e106_f37c_a882_f095_6c0b_bec0_de7f,
    0x35e4_34a5_4317_e6e7_42f5_e951_d825_58f0,
    0x3a99_6c4c_74e8_caec_f5ac_1792_c0a7_e81e,
    0x3d59_cb64_c07a_fd65_bf30_d234_71ed_4ba6,
    0x3ecf_2747_b38b_f538_2449_c2b3_9739_5182,
    0x3f82_a4ab_0a85_2c95_921c_e42c_5bce_5baf,
    0x3fd0_e74c_fc6d_fb48_9eef_cf00_9275_dccf,
    0x3fef_d9f8_0547_99cc_0a01_da50_ecd6_450f,
    0x3ffa_f37b_e4be_b46c_4ba9_8c04_ac3f_f562,
    0x3ffe_8fca_d9b9_5e9a_e795_b163_401f_fd74,
    0x3fff_a07b_fbd7_6e31_ec39_d898_8e44_8683,
    0x3fff_e973_1682_bf78_2a3f_27a7_3a9e_aa36,
    0x3fff_fb28_1d55_143a_6186_3361_beec_3e5b,
    0x3fff_ff0d_d5cc_d3a1_f363_deb8_c72f_6e4b,
    0x3fff_ffd5_00a0_6729_459f_2b6a_ebf7_236a,
    0x3fff_fff9_0fc5_1d3b_b146_55d7_0cfd_7db7,
    0x3fff_fffe_fb91_80fa_0b29_6f39_6ede_162b,
    0x3fff_ffff_dd4f_ea39_2796_4132_84a8_9879,
    0x3fff_ffff_fbcd_bc67_2fce_8e43_3c81_7882,
    0x3fff_ffff_ff89_fb7c_b0e2_a614_c4ed_ce42,
    0x3fff_ffff_fff4_3a44_d1d8_c803_13df_e2ae,
    0x3fff_ffff_fffe_ef11_f14f_bb47_5a3e_9e3a,
    0x3fff_ffff_ffff_e98f_ece2_9b5b_a6ab_5512,
    0x3fff_ffff_ffff_fe53_5cca_74df_1a5a_4c49,
    0x3fff_ffff_ffff_ffe2_f803_6ad5_e40b_eaf0,
    0x3fff_ffff_ffff_fffe_372c_412b_34ef_f5af,
    0x3fff_ffff_ffff_ffff_e684_7a26_7dd4_14ff,
    0x3fff_ffff_ffff_ffff_feb5_ca3f_65e1_96b8,
    0x3fff_ffff_ffff_ffff_fff0_d54f_0c2d_ce54,
    0x3fff_ffff_ffff_ffff_ffff_5e30_385e_d3fc,
    0x3fff_ffff_ffff_ffff_ffff_f9e1_ac42_0328,
    0x3fff_ffff_ffff_ffff_ffff_ffca_43ec_a29a,
    0x3fff_ffff_ffff_ffff_ffff_fffe_53da_c641,
    0x3fff_ffff_ffff_ffff_ffff_ffff_f3e9_26da,
    0x3fff_ffff_ffff_ffff_ffff_ffff_ffb0_b91a,
    0x3fff_ffff_ffff_ffff_ffff_ffff_fffe_2864,
    0x3fff_ffff_ffff_ffff_ffff_ffff_ffff_f60f,
    0x3fff_ffff_ffff_ffff_ffff_ffff_ffff_ffcf,
    0x3fff_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
];

const fn split() -> [(i64, i64); TABLE.len()] {
    let mut out = [(0, 0); TABLE.len()];
    let mut i = 0;
    while i < out.len() {
        out[i] = ((TABLE[i] >> 63) as i64, (TABLE[i] & (u128::MAX >> 65)) as i64);
        i += 1;
    }
    out
}

/// The entries as pairs of 63-bit halves, which signed 64-bit comparisons order correctly.
const HALVES: [(i64, i64); TABLE.len()] = split();

/// Fills `out` with Gaussian samples on the best path.
pub fn gaussian(prg: &mut Prg, out: &mut [i64]) {
    gaussian_with(cpu::path(), prg, out);
}

/// [`gaussian`] on a given path, lowered to what the processor has.
pub fn gaussian_with(path: Path, prg: &mut Prg, out: &mut [i64]) {
    let path = Path::available().filter(|&p| p <= path).last().unwrap_or(Path::Portable);
    let mut words = [0; 2 * BATCH];
    let mut samples = [0; BATCH];
    for chunk in out.chunks_mut(BATCH) {
        prg.fill_u64(&mut words[..2 * chunk.len()]);
        match path {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is one of `Path::available`.
            Path::Avx512 => unsafe { scan_avx512(&words, &mut samples) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path is one of `Path::available`.
            Path::Avx2 => unsafe { scan_avx2(&words, &mut samples) },
            _ => scan(&words, &mut samples),
        }
        chunk.copy_from_slice(&samples[..chunk.len()]);
    }
    words.zeroize();
    samples.zeroize();
}

/// One batch. Written so that the compiler turns it into vector code on every path, which makes all paths one
/// program.
#[inline(always)]
fn scan(words: &[u64; 2 * BATCH], samples: &mut [i64; BATCH]) {
    let (mut high, mut low, mut count) = ([0i64; BATCH], [0i64; BATCH], [0i64; BATCH]);
    for i in 0..BATCH {
        high[i] = (words[2 * i] >> 1) as i64;
        low[i] = (words[2 * i + 1] >> 1) as i64;
    }
    for (entry_high, entry_low) in HALVES {
        for i in 0..BATCH {
            let above = (high[i] > entry_high) | ((high[i] == entry_high) & (low[i] >= entry_low));
            count[i] += i64::from(above);
        }
    }
    for i in 0..BATCH {
        let sign = -((words[2 * i] & 1) as i64);
        samples[i] = (count[i] ^ sign) - sign;
    }
    high.zeroize();
    low.zeroize();
    count.zeroize();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_avx2(words: &[u64; 2 * BATCH], samples: &mut [i64; BATCH]) {
    scan(words, samples);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn scan_avx512(words: &[u64; 2 * BATCH], samples: &mut [i64; BATCH]) {
    scan(words, samples);
}
