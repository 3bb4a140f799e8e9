//! Every class of product that the scan uses, through [`TwoParty`]: right shares, declared bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_mpc::correlation::{Product, Tensor};
use fesc_ring::Ring;

use super::*;

mod bytes;

fn ring() -> Ring {
    Ring::new(BITS).unwrap()
}

/// One product of the axes' sizes.
pub(super) fn single(sizes: &[usize], left: Tensor, right: Tensor, out: Tensor) -> Bundle {
    Bundle { ring: ring(), sizes: sizes.to_vec(), masks: vec![left, right], products: vec![Product::new(0, 1, out)] }
}

/// The same bundle for somebody who truncates all products next.
fn rounded(bundle: Bundle) -> Bundle {
    Bundle { products: bundle.products.into_iter().map(Product::rounded).collect(), ..bundle }
}

/// The same bundle with exact products.
fn exact(bundle: &Bundle) -> Bundle {
    let products = bundle.products.iter().map(|p| Product::new(p.left, p.right, p.out.clone())).collect();
    Bundle { products, ..bundle.clone() }
}

/// The products of the scan, those rounded that the scan asks for so. Axes: k 0, g 1, h 2, i 3, j 4 (both q),
/// n 5, p 6.
fn scan_products([k, g, h, q, n, p]: [usize; 6]) -> Vec<(&'static str, Bundle)> {
    let (full, lower) = (Tensor::new, Tensor::lower);
    let sizes = [k, g, h, q, q, n, p];
    let one = |name, left: Tensor, right: Tensor, out: Tensor| (name, single(&sizes, left, right, out));
    let sum = |name, left: Tensor, right: Tensor, out: Tensor| (name, rounded(single(&sizes, left, right, out)));
    vec![
        sum("S", full(&[0, 1, 3, 5]), full(&[0, 1, 4, 5]), full(&[0, 1, 3, 4])),
        one("outer", full(&[0, 2, 1, 3]), full(&[0, 2, 1, 4]), full(&[0, 2, 1, 3, 4])),
        one("S o Lt", lower(&[0, 1, 3, 4]), lower(&[0, 1, 2, 3, 4]), lower(&[0, 1, 2, 3, 4])),
        sum("M X", lower(&[0, 2, 3, 4]), full(&[0, 4, 2, 6]), full(&[0, 3, 2, 6])),
        one("col o X", full(&[0, 4, 2]), full(&[0, 4, 2, 6]), full(&[0, 4, 2, 6])),
        sum("B^T V", full(&[0, 1, 4, 5]), full(&[0, 4, 1, 2, 6]), full(&[0, 1, 5, 2, 6])),
        sum("recurrence", lower(&[2, 3, 4]), full(&[4, 5, 2, 6]), full(&[3, 5, 2, 6])),
        sum("C H", full(&[0, 3, 5]), full(&[0, 5, 2, 6]), full(&[0, 3, 2, 6])),
        one("gate", full(&[0, 6]), full(&[0, 6]), full(&[0, 6])),
        ("squares", Bundle::sums_of_squares(ring(), k * q, p)),
        ("scale", Bundle::scalar_vector(ring(), k * q, p)),
    ]
}

/// Sums of squares of rows, and the rows times scalars.
fn norm(rows: usize, width: usize, swapped: bool) -> Bundle {
    let (matrix, column) = (Tensor::new(&[0, 1]), Tensor::new(&[0]));
    let scale = if swapped { Product::new(0, 1, Tensor::new(&[1, 0])) } else { Product::new(1, 0, matrix.clone()) };
    let products = vec![scale, Product::new(0, 0, column.clone())];
    Bundle { ring: ring(), sizes: vec![rows, width], masks: vec![matrix, column], products }
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
    let whole = sources[0].0.whole(bundle).unwrap();
    let chosen: Vec<usize> = whole.scaled.iter().map(|s| s.mask(bundle)).collect();
    let run = |role: Role, (source, channel): &mut (Rlwe, Channel)| {
        let before = channel.stats().total;
        let drawn = masks(role.index() as u8 + 1);
        let mut mine = drawn.clone();
        let out = source.run(role, channel, bundle, &mut mine).unwrap();
        for (i, (drawn, mine)) in drawn.iter().zip(&mine).enumerate() {
            let same = drawn.iter().zip(mine).filter(|(a, b)| a == b).count();
            assert_eq!(
                same,
                if chosen.contains(&i) { 0 } else { drawn.len() },
                "{name}: entries of mask {i} that stay"
            );
        }
        (mine, out, channel.stats().total.since(before).sent_bytes, source.whole(bundle).unwrap().bytes)
    };
    let [a, b] = sources;
    let ((mine, out0, sent0, declared), (theirs, out1, sent1, also)) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, b));
        (run(Role::P0, a), peer.join().unwrap())
    });
    let shares = [mine, theirs];
    assert_eq!((declared, also), ((sent0, sent1), (sent0, sent1)), "{name}: declared and counted bytes");
    for (p, product) in bundle.products.iter().enumerate() {
        let [l, r] = [product.left, product.right];
        let mut want = naive(bundle, product, &shares[0][l], &shares[1][r]);
        ring().add_assign(&mut want, &naive(bundle, product, &shares[1][l], &shares[0][r])).unwrap();
        // Each of the two cross terms of a product by scalars may be off.
        let tolerance = whole.scaled.iter().find(|s| s.product == p).map_or(0, |s| 2 * s.tolerance());
        let got = out0[p].iter().zip(&out1[p]).map(|(&x, &y)| ring().add(x, y));
        let error = got.zip(&want).map(|(g, &w)| ring().to_signed(ring().sub(g, w)).abs()).max().unwrap_or(0);
        assert!(error <= tolerance, "{name}, product {p}: sizes {:?}, off by {error}", bundle.sizes);
        assert!(out0[p].len() == want.len() && out1[p].len() == want.len());
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

/// How many products of a bundle go to the engine of scalars. Of exact ones, none do.
fn scaled(sources: &[(Rlwe, Channel); 2], bundle: &Bundle) -> usize {
    let count = |bundle: &Bundle| sources[0].0.whole(bundle).unwrap().scaled.len();
    assert_eq!(count(&exact(bundle)), 0);
    count(bundle)
}

#[test]
fn long_vectors_by_scalars() {
    let mut sources = parties();
    // k, g, h, q, n, p: (h, p) and (n, p) are long.
    for sizes in [[2, 1, 2, 3, 2, 512], [1, 2, 3, 2, 3, 600], [5, 1, 3, 7, 2, 1024]] {
        for (name, bundle) in scan_products(sizes) {
            if matches!(name, "B^T V" | "recurrence" | "C H") {
                assert_eq!(scaled(&sources, &bundle), 1, "{name} {sizes:?}");
                check(&mut sources, name, &bundle);
            }
        }
    }
    let full = Tensor::new;
    for (name, bundle) in [
        ("vectors on the left", single(&[2, 3, 5, 1500], full(&[0, 3, 1]), full(&[1, 0, 2]), full(&[0, 2, 3]))),
        ("vectors of several ciphertexts", single(&[2, 5000, 2], full(&[0, 2]), full(&[0, 1]), full(&[1, 2]))),
        ("short vectors", single(&[2, 3, 5, 100], full(&[0, 1, 2]), full(&[0, 1, 3]), full(&[0, 2, 3]))),
        ("one output", single(&[2, 3, 5000], full(&[0, 1]), full(&[0, 1, 2]), full(&[0, 2]))),
        (
            "triangles as vectors",
            single(&[2, 2, 60, 60], full(&[0, 1]), Tensor::lower(&[1, 2, 3]), Tensor::lower(&[0, 2, 3])),
        ),
    ] {
        let bundle = rounded(bundle);
        assert_eq!(scaled(&sources, &bundle), 1, "{name}");
        check(&mut sources, name, &bundle);
        check(&mut sources, name, &exact(&bundle));
    }
    // Rows of different lengths are not vectors; there is room for so many summands only.
    let rows = single(&[1030, 1030, 2], Tensor::lower(&[0, 1]), full(&[0, 2]), full(&[1, 2]));
    let long = single(&[4, 600, 100], full(&[0, 1]), full(&[1, 2]), full(&[0, 2]));
    assert_eq!([rows, long].map(|bundle| scaled(&sources, &rounded(bundle))), [0, 0]);
}

/// Matrix products of short vectors: interleaved and packed.
#[test]
fn matrix_products_are_packed() {
    let mut sources = parties();
    // k, g, h, q, n, p: with two groups, with odd sizes, with more outputs than one pack, with more vectors
    // than one ciphertext.
    for sizes in [[2, 1, 3, 5, 4, 3], [1, 2, 2, 9, 7, 100], [2, 1, 1, 70, 3, 64], [3, 1, 2, 33, 40, 65]] {
        for (name, bundle) in scan_products(sizes) {
            if matches!(name, "S" | "M X" | "B^T V" | "C H") {
                assert_eq!(scaled(&sources, &bundle), 1, "{name} {sizes:?}");
                check(&mut sources, name, &bundle);
            }
        }
    }
    for (name, bundle) in scan_products([16, 1, 24, 128, 128, 64]) {
        let expected = matches!(name, "S" | "M X" | "B^T V" | "recurrence" | "C H");
        assert_eq!(scaled(&sources, &bundle), usize::from(expected), "{name}");
    }
}

#[test]
fn a_bundle_is_planned_once() {
    let [(source, _), _] = parties();
    let bundle = Bundle::triples(ring(), 20_000);
    let first = source.whole(&bundle).unwrap();
    assert_eq!(source.declared(&bundle), Some(first.bytes));
    assert!(Arc::ptr_eq(&first, &source.whole(&bundle).unwrap()) && source.plans.borrow().len() == 1);
    // What is kept is bounded, and the oldest goes first.
    (1..=PLANS).for_each(|n| assert_eq!(source.declared(&Bundle::triples(ring(), n)), None));
    assert_eq!(source.plans.borrow().len(), PLANS);
    assert!(!Arc::ptr_eq(&first, &source.whole(&bundle).unwrap()));
}

/// A mask that one product chooses is an operand of others: scalars, slots, and what a second product would
/// choose, which has to choose its other one.
#[test]
fn chosen_masks_serve_other_products() {
    let mut sources = parties();
    let full = Tensor::new;
    // Axes: 0 and 1 of 3, 2 of 1100, 3 of 2.
    let bundle = Bundle {
        ring: ring(),
        sizes: vec![3, 3, 1100, 2],
        masks: vec![full(&[1, 0]), full(&[0, 2]), full(&[3, 2]), full(&[0, 3])],
        products: vec![
            Product::new(0, 1, full(&[1, 2])).rounded(),
            Product::new(1, 1, full(&[0])),
            Product::new(1, 2, full(&[0, 3])),
            Product::new(3, 1, full(&[3, 2])).rounded(),
            Product::new(3, 2, full(&[0, 2])).rounded(),
        ],
    };
    let whole = sources[0].0.whole(&bundle).unwrap();
    let made: Vec<_> = whole.scaled.iter().map(|s| (s.product, s.mask(&bundle))).collect();
    assert_eq!(made, [(0, 1), (3, 3), (4, 2)]);
    check(&mut sources, "shared masks", &bundle);
}

/// A bundle of random shape: axes of 0 to 5 places and some long ones, tensors and triangles in any order of
/// axes, up to 4 products that share masks.
fn random_bundle(prg: &mut Prg) -> Bundle {
    let mut below = |n: usize| (prg.next_u64() % n as u64) as usize;
    loop {
        let square = 1 + below(6);
        let long = [1, 2, 1030, 1100][below(4)];
        let sizes = vec![square, square, below(6), 1 + below(4), long];
        let tensor = |below: &mut dyn FnMut(usize) -> usize, out: bool| {
            let mut axes: Vec<u8> = (2..5).filter(|_| below(2) == 0).collect();
            (1..axes.len()).rev().for_each(|i| axes.swap(i, below(i + 1)));
            match below(if out { 5 } else { 4 }) {
                0 => Tensor::lower(&[axes, vec![0, 1]].concat()),
                1 => Tensor::new(&[vec![1], axes].concat()),
                2 => Tensor::new(&[axes, vec![0]].concat()),
                3 => Tensor::new(&[vec![0], axes, vec![1]].concat()),
                _ => Tensor::new(&axes),
            }
        };
        let masks: Vec<Tensor> = (0..3).map(|_| tensor(&mut below, false)).collect();
        let mut bundle = Bundle { ring: ring(), sizes, masks, products: Vec::new() };
        for _ in 0..400 {
            let product = Product::new(below(3), below(3), tensor(&mut below, true));
            let product = if below(2) == 0 { product.rounded() } else { product };
            let work = fesc_mpc::correlation::ProductShape::new(&bundle, &product)
                .map(|f| f.batch() * f.left() * f.right() * f.sum())
                .unwrap_or(usize::MAX);
            if work < 200_000 && bundle.products.len() < 4 {
                bundle.products.push(product);
            }
        }
        if !bundle.products.is_empty() && (0..3).all(|i| bundle.mask_len(i) < 60_000) {
            return bundle;
        }
    }
}

/// Shapes that nobody thought of.
#[test]
fn bundles_of_any_shape() {
    let mut sources = parties();
    let mut prg = Prg::from_seed([77; 16]);
    let mut by_scalars = 0;
    for i in 0..40 {
        let bundle = random_bundle(&mut prg);
        fesc_mpc::Request::Bundle(bundle.clone()).validate().unwrap();
        by_scalars += scaled(&sources, &bundle);
        check(&mut sources, &format!("bundle {i}: {bundle:?}"), &bundle);
    }
    assert!(by_scalars > 0, "both engines are met");
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
        ("norm", norm(1100, 170, false)),
        ("norm, scalars on the right", norm(40, 7, true)),
        ("norm, tiles", norm(17_000, 3, false)),
        ("outer", single(&[700, 8, 8], full(&[0, 1]), full(&[0, 2]), full(&[0, 1, 2]))),
    ] {
        check(&mut sources, name, &bundle);
    }
}

/// Shares of a product through the online protocol, with correlations of both kinds of generator.
#[test]
fn bundles_are_taken_where_they_are_cheaper() {
    let full = Tensor::new;
    let large = single(&[4, 40, 30, 50], full(&[0, 1, 2]), full(&[2, 0, 3]), full(&[0, 3, 1]));
    let small = Bundle::triples(ring(), 100);
    // The generator chooses the shares of the right mask: what is opened and multiplied afterwards must be
    // these.
    let chosen = rounded(single(&[2, 3, 5, 1500], full(&[0, 1, 2]), full(&[0, 1, 3]), full(&[0, 2, 3])));
    let other = Bundle { ring: Ring::new(40).unwrap(), ..large.clone() };
    let (c0, c1) = Channel::memory_pair();
    let run = |role: Role, mut channel: Channel| {
        let seed = |i: usize| Prg::from_seed([(role.index() + 2 * i) as u8 + 60; 16]);
        let products = Rlwe::setup(role, &mut channel, seed(0)).unwrap();
        assert_eq!(products.whole(&chosen).unwrap().scaled.len(), 1);
        assert_eq!(
            [&chosen, &large, &small, &other].map(|b| products.declared(b).is_some()),
            [true, true, false, false]
        );
        let source = TwoParty::setup(role, &mut channel, fesc_ot::CotKind::Iknp, seed(1)).unwrap();
        let source = source.with_products(Box::new(products));
        let (p0, p1) = source.declared(&fesc_mpc::Request::Bundle(large.clone()));
        assert!(p0 + p1 > 0);
        let mut party = fesc_mpc::Party::new(role, channel, Box::new(source));
        let mut made = Vec::new();
        for bundle in [&large, &small, &chosen] {
            let before = party.channel().stats().total;
            let mut opened = fesc_mpc::protocol::Opened::start(&mut party, bundle).unwrap();
            let used = party.channel().stats().total.since(before);
            if bundle == &large {
                let counted = (used.sent_bytes, used.received_bytes);
                assert_eq!(counted, if role == Role::P0 { (p0, p1) } else { (p1, p0) });
            }
            let mut prg = seed(5);
            let shares = [0, 1].map(|i| fesc_mpc::Shared::new(ring(), prg.ring_vec(ring(), bundle.mask_len(i))));
            opened.open(&mut party, &[(0, &shares[0]), (1, &shares[1])]).unwrap();
            made.push((shares, opened.product(0).unwrap()));
        }
        made
    };
    let (first, second) = std::thread::scope(|scope| {
        let peer = scope.spawn(move || run(Role::P1, c1));
        (run(Role::P0, c0), peer.join().unwrap())
    });
    for ((bundle, (x, z)), (y, w)) in [&large, &small, &chosen].into_iter().zip(first).zip(second) {
        let [left, right] = [0, 1].map(|i| x[i].join(&y[i]).unwrap());
        let (got, want) = (z.join(&w).unwrap(), naive(bundle, &bundle.products[0], &left, &right));
        let tolerance = if bundle == &chosen { 4 } else { 0 };
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(&want).all(|(&g, &w)| ring().to_signed(ring().sub(g, w)).abs() <= tolerance));
    }
}
