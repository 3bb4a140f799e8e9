//! Every class of product that the scan uses, through [`TwoParty`]: right shares, declared bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_mpc::correlation::{Product, Tensor};
use fesc_ring::Ring;

use super::*;

fn ring() -> Ring {
    Ring::new(BITS).unwrap()
}

/// One product of the axes' sizes.
pub(super) fn single(sizes: &[usize], left: Tensor, right: Tensor, out: Tensor) -> Bundle {
    Bundle { ring: ring(), sizes: sizes.to_vec(), masks: vec![left, right], products: vec![Product::new(0, 1, out)] }
}

/// Axes: k 0, g 1, h 2, i 3, j 4 (both q), n 5, p 6.
fn scan_products([k, g, h, q, n, p]: [usize; 6]) -> Vec<(&'static str, Bundle)> {
    let (full, lower) = (Tensor::new, Tensor::lower);
    let sizes = [k, g, h, q, q, n, p];
    let one = |name, left: Tensor, right: Tensor, out: Tensor| (name, single(&sizes, left, right, out));
    vec![
        one("S", full(&[0, 1, 3, 5]), full(&[0, 1, 4, 5]), full(&[0, 1, 3, 4])),
        one("outer", full(&[0, 2, 1, 3]), full(&[0, 2, 1, 4]), full(&[0, 2, 1, 3, 4])),
        one("S o Lt", lower(&[0, 1, 3, 4]), lower(&[0, 1, 2, 3, 4]), lower(&[0, 1, 2, 3, 4])),
        one("M X", lower(&[0, 2, 3, 4]), full(&[0, 4, 2, 6]), full(&[0, 3, 2, 6])),
        one("col o X", full(&[0, 4, 2]), full(&[0, 4, 2, 6]), full(&[0, 4, 2, 6])),
        one("B^T V", full(&[0, 1, 4, 5]), full(&[0, 4, 1, 2, 6]), full(&[0, 1, 5, 2, 6])),
        one("recurrence", lower(&[2, 3, 4]), full(&[4, 5, 2, 6]), full(&[3, 5, 2, 6])),
        one("C H", full(&[0, 3, 5]), full(&[0, 5, 2, 6]), full(&[0, 3, 2, 6])),
        one("gate", full(&[0, 6]), full(&[0, 6]), full(&[0, 6])),
        ("squares", Bundle::sums_of_squares(ring(), k * q, p)),
        ("scale", Bundle::scalar_vector(ring(), k * q, p)),
    ]
}

/// An index-by-index einsum, written apart from the product's own code.
fn naive(bundle: &Bundle, product: &Product, left: &[u64], right: &[u64]) -> Vec<u64> {
    let mut out = vec![0u64; product.out.len(&bundle.sizes)];
    let tensors = [&bundle.masks[product.left], &bundle.masks[product.right], &product.out];
    let used: Vec<u8> = (0..bundle.sizes.len() as u8).filter(|a| tensors.iter().any(|t| t.axes.contains(a))).collect();
    let place = |t: &Tensor, at: &[usize]| {
        let plain = t.axes.len() - if t.lower { 2 } else { 0 };
        let flat = t.axes[..plain].iter().fold(0, |acc, &a| acc * bundle.sizes[a as usize] + at[a as usize]);
        match t.axes[plain..] {
            [i, j] => {
                let (q, i, j) = (bundle.sizes[i as usize], at[i as usize], at[j as usize]);
                (j <= i).then_some(flat * (q * (q + 1) / 2) + i * (i + 1) / 2 + j)
            }
            _ => Some(flat),
        }
    };
    for mut n in 0..used.iter().map(|&a| bundle.sizes[a as usize]).product() {
        let mut at = vec![0; bundle.sizes.len()];
        for &a in &used {
            at[a as usize] = n % bundle.sizes[a as usize];
            n /= bundle.sizes[a as usize];
        }
        if let [Some(l), Some(r), Some(o)] = tensors.map(|t| place(t, &at)) {
            out[o] = ring().add(out[o], ring().mul(left[l], right[r]));
        }
    }
    out
}

/// Runs the generator on random masks; checks shares and bytes.
fn check(sources: &mut [(Rlwe, Channel); 2], name: &str, bundle: &Bundle) {
    let masks = |seed: u8| -> Vec<Vec<u64>> {
        let mut prg = Prg::from_seed([seed; 16]);
        (0..bundle.masks.len()).map(|i| prg.ring_vec(ring(), bundle.mask_len(i))).collect()
    };
    let shares = [masks(1), masks(2)];
    let run = |role: Role, (source, channel): &mut (Rlwe, Channel)| {
        let before = channel.stats().total;
        let mine: Vec<&[u64]> = shares[role.index()].iter().map(Vec::as_slice).collect();
        let out = source.run(role, channel, bundle, &mine).unwrap();
        (out, channel.stats().total.since(before).sent_bytes, source.declared(bundle))
    };
    let [a, b] = sources;
    let ((out0, sent0, declared), (out1, sent1, also)) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, b));
        (run(Role::P0, a), peer.join().unwrap())
    });
    assert_eq!((declared, also), ((sent0, sent1), (sent0, sent1)), "{name}: declared and counted bytes");
    for (p, product) in bundle.products.iter().enumerate() {
        let [l, r] = [product.left, product.right];
        let mut want = naive(bundle, product, &shares[0][l], &shares[1][r]);
        ring().add_assign(&mut want, &naive(bundle, product, &shares[1][l], &shares[0][r])).unwrap();
        let got: Vec<u64> = out0[p].iter().zip(&out1[p]).map(|(&x, &y)| ring().add(x, y)).collect();
        assert!(got == want, "{name}, product {p}: sizes {:?}", bundle.sizes);
    }
}

fn parties() -> [(Rlwe, Channel); 2] {
    let (c0, c1) = Channel::memory_pair();
    let setup = |role: Role, mut channel: Channel| {
        let prg = Prg::from_seed([role.index() as u8 + 7; 16]);
        (Rlwe::setup(role, &mut channel, prg).unwrap(), channel)
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(move || setup(Role::P1, c1));
        [setup(Role::P0, c0), peer.join().unwrap()]
    })
}

#[test]
fn every_product_of_the_scan() {
    let mut sources = parties();
    for sizes in [[2, 1, 3, 5, 4, 3], [1, 1, 1, 1, 1, 1], [3, 2, 2, 8, 7, 16], [1, 1, 2, 0, 3, 2], [2, 1, 2, 4, 0, 0]] {
        for (name, bundle) in scan_products(sizes) {
            check(&mut sources, name, &bundle);
        }
    }
}

#[test]
fn more_than_a_ciphertext() {
    let mut sources = parties();
    let (full, lower) = (Tensor::new, Tensor::lower);
    for (name, bundle) in [
        ("three tiles, one short", Bundle::triples(ring(), 40_000)),
        ("squares", Bundle::squares(ring(), 40_000)),
        ("long sums", Bundle::sums_of_squares(ring(), 11_000, 140)),
        ("many scaled", Bundle::scalar_vector(ring(), 9_001, 6)),
        ("matrices", Bundle::matmul(ring(), 300, 9, 5, 65)),
        ("triangles", single(&[50, 21, 21, 33], lower(&[0, 1, 2]), full(&[2, 0, 3]), full(&[3, 0, 1]))),
        ("outer", single(&[700, 8, 8], full(&[0, 1]), full(&[0, 2]), full(&[0, 1, 2]))),
    ] {
        check(&mut sources, name, &bundle);
    }
}
