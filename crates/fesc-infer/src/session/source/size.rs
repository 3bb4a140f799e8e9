//! How much memory a party's half of a correlation takes: what the queue of a generator is bounded by.

use fesc_mpc::Role;
use fesc_mpc::correlation::Request;

const WORD: usize = 8;

/// Bytes in memory: ring elements are held in words of 8 bytes.
pub fn half_bytes(request: &Request, role: Role) -> usize {
    match request {
        Request::Bundle(b) => {
            let masks = (0..b.masks.len()).map(|i| b.mask_len(i));
            let products = (0..b.products.len()).map(|i| b.product_len(i));
            WORD * masks.chain(products).sum::<usize>()
        }
        Request::Select(s) => {
            let (n, k, words) = (s.count, s.thresholds, s.count.div_ceil(64));
            let second = if s.degree == 2 { n + k * n } else { 0 };
            WORD * (n + k * words + 2 * k * n + second)
        }
        Request::BitTriples(t) => WORD * t.words * (1 + 2 * t.width),
        Request::BitProducts(b) => WORD * 65 * b.words,
        Request::DaBits(d) => WORD * 65 * d.words,
        Request::Leaves(l) if l.sender == role => l.count * l.planes,
        Request::Leaves(l) => l.count * (1 + l.planes.div_ceil(8)),
    }
}
