//! Sums of products of ciphertexts and plaintexts, against 128-bit arithmetic.

use super::*;

/// One sum on every path, in place and added.
fn check(prg: &mut Prg, prime: &Prime, (products, periods): (usize, &[usize]), len: usize, largest: bool) {
    let p = prime.modulus().value();
    let [factors, c, start] = [4 * products, 2 * periods.len(), 3].map(|count| residues(prg, p, count, len, largest));
    let words: Vec<Vec<u64>> = periods.iter().map(|&n| residues(prg, p, 1, n, largest).remove(0)).collect();
    let pairs: Vec<[[&[u64]; 2]; 2]> = factors.chunks_exact(4).map(|f| [[&*f[0], &*f[1]], [&*f[2], &*f[3]]]).collect();
    let plain: Vec<(&[u64], [&[u64]; 2])> =
        words.iter().zip(c.chunks_exact(2)).map(|(w, c)| (&**w, [&*c[0], &*c[1]])).collect();
    let terms = Terms { products: &pairs, plain: &plain };
    let mul = |x: u64, y: u64| u128::from(x) * u128::from(y) % u128::from(p);
    let want = |k: usize, i: usize| {
        let product = |[a, b]: &[[&[u64]; 2]; 2]| match k {
            0 => mul(a[0][i], b[0][i]),
            1 => mul(a[0][i], b[1][i]) + mul(a[1][i], b[0][i]),
            _ => mul(a[1][i], b[1][i]),
        };
        let times = |(w, c): &(&[u64], [&[u64]; 2])| if k == 2 { 0 } else { mul(w[i / (len / w.len())], c[k][i]) };
        pairs.iter().map(product).sum::<u128>() + plain.iter().map(times).sum::<u128>()
    };
    for (path, add) in Path::available().flat_map(|path| [(path, false), (path, true)]) {
        let mut got = start.clone();
        let [x, y, z] = &mut got[..] else { unreachable!() };
        prime.sum_with(path, terms, add, [x, y], z);
        for (k, got) in got.iter().enumerate() {
            for i in 0..len {
                let before = if add { u128::from(start[k][i]) } else { 0 };
                assert_eq!(
                    u128::from(got[i]),
                    (want(k, i) + before) % u128::from(p),
                    "{p} {len} {k} {i} {path:?} {add}"
                );
            }
        }
        // Without products of ciphertexts the third result is not needed.
        if products == 0 {
            let [mut x, mut y] = [start[0].clone(), start[1].clone()];
            prime.sum_with(path, terms, add, [&mut x, &mut y], &mut []);
            assert_eq!([&x, &y], [&got[0], &got[1]]);
        }
    }
}

#[test]
fn sums_of_ciphertexts_and_plaintexts_are_exact_on_every_path() {
    let mut prg = Prg::from_seed([7; 16]);
    for prime in BITS.map(prime) {
        for (k, len) in LENGTHS.into_iter().enumerate() {
            for products in [0, 1, 2, 3, 5, 6, 7, 13, 30] {
                check(&mut prg, &prime, (products, &[]), len, k % 2 == 0);
            }
            // Runs of all lengths; one word for all; one for each.
            let periods: Vec<usize> = (1..=len).filter(|&n| len.is_multiple_of(n)).collect();
            check(&mut prg, &prime, (0, &periods), len, k % 2 == 1);
            check(&mut prg, &prime, (4, &periods), len, k % 2 == 0);
        }
        // Several parts.
        check(&mut prg, &prime, (5, &[1, 2, 64, 256, 512, 2048]), 2048, false);
        check(&mut prg, &prime, (9, &[3, 401, 1203]), 1203, true);
    }
}

#[test]
fn a_sum_that_is_full_takes_another_round() {
    let mut prg = Prg::from_seed([8; 16]);
    let prime = prime(50);
    for (products, plain) in [(6, 0), (7, 0), (6, 1), (0, 12), (0, 13), (5, 2), (40, 30)] {
        assert!(prime.depth < 20);
        check(&mut prg, &prime, (products, &vec![4; plain]), 40, true);
    }
}

#[test]
#[should_panic(expected = "equal lengths")]
fn a_term_of_another_length_is_refused() {
    let (long, short) = (vec![0; 16], vec![0; 8]);
    let [mut x, mut y, mut z] = [vec![0; 16], vec![0; 16], vec![0; 16]];
    let products = [[[&long[..], &long[..]], [&long[..], &short[..]]]];
    prime(40).sum(Terms { products: &products, plain: &[] }, false, [&mut x, &mut y], &mut z);
}

#[test]
#[should_panic(expected = "divides")]
fn a_plaintext_whose_runs_do_not_fit_is_refused() {
    let (c, w) = (vec![0; 16], vec![0; 3]);
    let [mut x, mut y] = [vec![0; 16], vec![0; 16]];
    let plain = [(&w[..], [&c[..], &c[..]])];
    prime(40).sum(Terms { products: &[], plain: &plain }, false, [&mut x, &mut y], &mut []);
}
