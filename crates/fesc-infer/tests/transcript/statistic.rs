//! Whether bytes look uniform.
//!
//! Two statistics: chi-square over the 256 values of a byte, and the balance of each of its eight bits, which
//! says something of short messages too. They find a mask that is missing or too narrow. They do not find one
//! that is used twice, so payloads are also compared with each other.

use fesc_infer::audit::Cover;

/// Deviations that are too many: chance is 1e-9 for a balance, 1e-7 for the tail of chi-square with 255
/// degrees of freedom.
pub const LIMIT: f64 = 6.0;
/// Below these bytes a chi-square, and a balance, say nothing.
const CHI: usize = 2560;
const BALANCE: usize = 32;

/// The worst deviation of the two statistics.
pub fn excess(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1);
    let mut worst = 0.0f64;
    if bytes.len() >= BALANCE {
        for bit in 0..8 {
            let ones: u32 = counts.iter().enumerate().filter(|(b, _)| b >> bit & 1 == 1).map(|(_, &c)| c).sum();
            let total = bytes.len() as f64;
            worst = worst.max((f64::from(ones) - total / 2.0).abs() / (total / 4.0).sqrt());
        }
    }
    if bytes.len() >= CHI {
        let mean = bytes.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
        worst = worst.max((chi - 255.0).abs() / 510f64.sqrt());
    }
    worst
}

/// The bytes of the payloads of one kind that must be uniform.
pub fn covered(cover: Cover, payloads: &[&[u8]]) -> Vec<u8> {
    match cover {
        // The last byte may have bits that no element uses.
        Cover::Uniform => payloads.iter().flat_map(|p| &p[..p.len().saturating_sub(1)]).copied().collect(),
        // The first and the last bit of an encoded point are zero. The nonce comes last.
        Cover::Points => payloads.iter().flat_map(|p| p.chunks(32)).flat_map(|p| &p[1..p.len() - 1]).copied().collect(),
        Cover::CardThenUniform => {
            let all = payloads.concat();
            let card = u64::from_le_bytes(all[8..16].try_into().unwrap()) as usize;
            all[16 + card..].to_vec()
        }
        Cover::Public | Cover::Dealt | Cover::Answer | Cover::GivenAway | Cover::TestData => Vec::new(),
    }
}
