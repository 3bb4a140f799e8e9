#![allow(clippy::unwrap_used)]

use fesc_ring::Prg;

use super::{Block, Domain, Hint, Prepared, Server, Shape};
use crate::testing;
use crate::{Params, RlweError, Secrets, Seed};

fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

fn domain(layer: u32) -> Domain {
    Domain { seed: Seed([9; 32]), layer, matrix: 1 }
}

/// Signed integers below `2^bits` in magnitude.
fn integers(prg: &mut Prg, count: usize, bits: u32) -> Vec<i64> {
    (0..count).map(|_| (prg.next_u64() >> (63 - bits)) as i64 - (1 << bits)).collect()
}

struct Case {
    shape: Shape,
    weights: Vec<i64>,
    taps: Vec<i64>,
    server: Server,
    hint: Hint,
}

fn case(inputs: usize, outputs: usize, taps: usize) -> Case {
    let mut rng = prg(inputs as u8 ^ (outputs as u8) << 3 ^ taps as u8);
    let weights = integers(&mut rng, inputs * outputs, 12);
    published(inputs, outputs, taps, weights, rng)
}

fn published(inputs: usize, outputs: usize, taps: usize, weights: Vec<i64>, mut rng: Prg) -> Case {
    let shape = Shape::new(inputs, outputs, taps).unwrap();
    let taps = if taps == 1 { vec![1; outputs] } else { integers(&mut rng, outputs * taps, 10) };
    let params = Params::linear().unwrap();
    let secrets = Secrets::random(&mut rng);
    let (server, hint) = Server::publish(params, shape, domain(3), &weights, &taps, &secrets).unwrap();
    Case { shape, weights, taps, server, hint }
}

/// `conv(x W)` in the integers, n rows of L.
fn twin(case: &Case, x: &[i64]) -> Vec<i128> {
    let (m, n, width) = (case.shape.inputs(), case.shape.outputs(), case.shape.taps());
    let length = x.len() / m;
    let mut out = vec![0; n * length];
    for k in 0..n {
        let product: Vec<i128> = (0..length)
            .map(|t| (0..m).map(|j| i128::from(x[t * m + j]) * i128::from(case.weights[j * n + k])).sum())
            .collect();
        for t in 0..length {
            for i in 0..width.min(t + 1) {
                out[k * length + t] += product[t - i] * i128::from(case.taps[k * width + width - 1 - i]);
            }
        }
    }
    out
}

/// The protocol on a whole document; the differences to the twin, n rows of L.
fn errors(case: &Case, x: &[i64]) -> Vec<i64> {
    let params = Params::linear().unwrap();
    let (ring, m) = (params.ring(), case.shape.inputs());
    let length = x.len() / m;
    let mut rng = prg(77);
    let x0 = rng.ring_vec(ring, x.len());
    let x1: Vec<u64> = x.iter().zip(&x0).map(|(&x, &x0)| ring.sub(ring.from_signed(x), x0)).collect();
    let expected = twin(case, x);
    let mut errors = vec![i64::MAX; expected.len()];
    for block in Block::cut(&params, &case.shape, length).unwrap() {
        let prepared = Prepared::new(&case.hint, block, &mut rng).unwrap();
        let (message, y0) = prepared.send(&x0).unwrap();
        assert_eq!(message.common.len(), params.degree());
        assert_eq!(message.features.len(), m * block.coefficients());
        let y1 = case.server.share(&block, message, &x1).unwrap();
        for k in 0..case.shape.outputs() {
            for t in 0..block.tokens() {
                let at = k * length + block.first() + t;
                let y = ring.add(y0[k * block.tokens() + t], y1[k * block.tokens() + t]);
                errors[at] = ring.to_signed(ring.sub(y, ring.from_signed(expected[at] as i64)));
            }
        }
    }
    errors
}

#[test]
fn shares_add_up_to_the_layer_for_all_shapes() {
    for (inputs, outputs, taps, length) in [
        (1, 1, 1, 1),
        (3, 2, 4, 1),
        (5, 3, 4, 2),
        (7, 4, 4, 129),
        (16, 3, 2, 2045),
        (4, 2, 4, 2046),
        (4, 2, 1, 2048),
        (2, 3, 4, 4100),
        (2, 1, 1, 0),
    ] {
        let case = case(inputs, outputs, taps);
        // As large as shares of 48 bits allow after 12 and 10 bits of scale.
        let x = integers(&mut prg(5), length * inputs, 20);
        for (at, error) in errors(&case, &x).into_iter().enumerate() {
            let bound = 6.5 * case.server.noise(at / length.max(1));
            assert!((error.abs() as f64) < bound, "{inputs} {outputs} {taps} {length}: {error} at {at}, bound {bound}");
        }
    }
}

/// Deviation as the formula says: 4,090 samples a row, so 1.1 % of it is one deviation of the estimate (more
/// with taps, through which neighbours correlate).
///
/// With weights it is the `e_j` that count. Without them `u_k e' - e_k s` is left, two terms of the same
/// size: where `u`, `e_k` or `e'` is missing, 0.71 of the formula.
#[test]
fn noise_is_what_the_formula_says() {
    for taps in [1, 4] {
        let empty = published(32, 4, taps, vec![0; 32 * 4], prg(50 + taps as u8));
        assert!((empty.server.noise(0) - 167.2).abs() < 0.1, "{}", empty.server.noise(0));
        for case in [case(32, 4, taps), empty] {
            let errors = errors(&case, &vec![0; 4090 * 32]);
            for k in 0..4 {
                let row = &errors[k * 4090..(k + 1) * 4090];
                let deviation = (row.iter().map(|&e| (e as f64).powi(2)).sum::<f64>() / row.len() as f64).sqrt();
                let ratio = deviation / case.server.noise(k);
                assert!((0.92..1.08).contains(&ratio), "taps {taps}, output {k}: {ratio}");
            }
        }
    }
}

/// The unknowns of `sum_j x_j a_j = c`, by elimination over `Z_2^48`; `None` where the equations contradict
/// each other.
fn solve(hint: &Hint, unknowns: usize, c: &[u64]) -> Option<Vec<i64>> {
    let (ring, degree) = (hint.params().ring(), hint.params().degree());
    let columns: Vec<Vec<u64>> = (0..unknowns).map(|j| hint.domain().feature(hint.params(), j)).collect();
    let rows = (0..degree).map(|t| columns.iter().map(|a| a[t]).chain([c[t]]).collect());
    testing::solve(ring, rows.collect())
}

#[test]
fn hint_without_its_mask_gives_the_weights_away() {
    let (params, shape) = (Params::linear().unwrap(), Shape::new(12, 1, 1).unwrap());
    let weights = integers(&mut prg(1), 12, 14);
    for masked in [false, true] {
        let secrets = Secrets::random(&mut prg(2));
        let hint = Server::publish_with(params, shape, domain(0), &weights, &[1], masked, &secrets).unwrap().1;
        let found = solve(&hint, 12, hint.row(0));
        assert_eq!(found, (!masked).then(|| weights.clone()));
    }
}

#[test]
fn one_mask_for_two_models_gives_their_difference_away() {
    let (params, shape) = (Params::linear().unwrap(), Shape::new(12, 1, 1).unwrap());
    let (old, new) = (integers(&mut prg(1), 12, 14), integers(&mut prg(2), 12, 14));
    let difference: Vec<i64> = new.iter().zip(&old).map(|(n, o)| n - o).collect();
    let secrets = Secrets::random(&mut prg(3));
    let publish = |weights: &[i64], masked| {
        Server::publish_with(params, shape, domain(0), weights, &[1], masked, &secrets).unwrap().1
    };
    let (ring, a) = (params.ring(), publish(&old, true));
    // The mask of the old hint on the new weights, as if it had been drawn from one stream for both; then as
    // it is.
    let mask = a.row(0).iter().zip(publish(&old, false).row(0)).map(|(c, w)| ring.sub(*c, *w)).collect::<Vec<_>>();
    let kept: Vec<u64> = publish(&new, false).row(0).iter().zip(&mask).map(|(w, m)| ring.add(*w, *m)).collect();
    for (b, expected) in [(kept, Some(difference)), (publish(&new, true).row(0).to_vec(), None)] {
        let c: Vec<u64> = b.iter().zip(a.row(0)).map(|(b, a)| ring.sub(*b, *a)).collect();
        assert_eq!(solve(&a, 12, &c), expected);
    }
}

/// What the server reads of a document when pads are known to it: all. With pads of the protocol: nothing
/// near it.
#[test]
fn blocks_without_pads_give_the_input_away() {
    let case = case(3, 1, 1);
    let ring = case.hint.params().ring();
    let block = Block::cut(case.hint.params(), &case.shape, 100).unwrap()[0];
    let x0: Vec<u64> = integers(&mut prg(6), 300, 20).iter().map(|&v| ring.from_signed(v)).collect();
    let sent = |seed| Prepared::new(&case.hint, block, &mut prg(seed)).unwrap().send(&x0).unwrap().0.features;
    let pads = Prepared::new(&case.hint, block, &mut prg(8)).unwrap().send(&vec![0; 300]).unwrap().0.features;
    let read = |features: &[u64]| -> usize {
        let mut hits = 0;
        for t in 0..100 {
            for j in 0..3 {
                hits += usize::from(ring.sub(features[j * 100 + t], pads[j * 100 + t]) == x0[t * 3 + j]);
            }
        }
        hits
    };
    assert_eq!(read(&sent(8)), 300, "the same secret twice is no pad");
    assert_eq!(read(&sent(9)), 0);
}

#[test]
fn one_secret_for_two_blocks_gives_their_difference_away() {
    let case = case(2, 1, 1);
    let ring = case.hint.params().ring();
    let block = Block::cut(case.hint.params(), &case.shape, 64).unwrap()[0];
    let documents: Vec<Vec<u64>> =
        (0..2).map(|i| integers(&mut prg(i), 128, 18).iter().map(|&v| ring.from_signed(v)).collect()).collect();
    let send = |seed, x: &[u64]| Prepared::new(&case.hint, block, &mut prg(seed)).unwrap().send(x).unwrap().0.features;
    for (second, reused) in [(40, true), (41, false)] {
        let (a, b) = (send(40, &documents[0]), send(second, &documents[1]));
        let small = (0..128).filter(|&i| ring.to_signed(ring.sub(a[i], b[i])).abs() < 1 << 20).count();
        assert_eq!(small == 128, reused, "{small} of 128 differences are small");
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let case = case(3, 2, 4);
    let params = *case.hint.params();
    assert!(matches!(Shape::new(0, 1, 1), Err(RlweError::Shape { .. })));
    assert!(matches!(Shape::new(1, 1, 65), Err(RlweError::Shape { .. })));
    assert!(matches!(Hint::new(params, case.shape, domain(0), vec![0; 5]), Err(RlweError::Length { .. })));
    let block = Block::cut(&params, &case.shape, 10).unwrap()[0];
    let short = Prepared::new(&case.hint, block, &mut prg(1)).unwrap().send(&[0; 29]);
    assert!(matches!(short, Err(RlweError::Length { expected: 30, got: 29, .. })));
    let (mut message, _) = Prepared::new(&case.hint, block, &mut prg(1)).unwrap().send(&[0; 30]).unwrap();
    message.common.pop();
    assert!(matches!(case.server.share(&block, message, &[0; 30]), Err(RlweError::Length { .. })));
    // A block cut for other taps.
    let other = Block::cut(&params, &Shape::new(3, 2, 1).unwrap(), 10).unwrap()[0];
    assert!(matches!(Prepared::new(&case.hint, other, &mut prg(1)), Err(RlweError::Block { .. })));
}

/// A matrix that was away is the one that went: the same share of a block, and the same bytes again. What is
/// damaged is named.
#[test]
fn secrets_may_be_kept_as_bytes() {
    let case = case(5, 3, 4);
    let params = *case.hint.params();
    let bytes = case.server.to_bytes();
    assert_eq!((bytes.len(), Server::bytes(&params, &case.shape)), (5 * 3 * 6 + 3 * 4 * 8 + 3 * 2048, bytes.len()));
    let back = Server::from_bytes(params, case.shape, &bytes).unwrap();
    assert!(*back.to_bytes() == *bytes);
    let block = Block::cut(&params, &case.shape, 20).unwrap()[0];
    let x = prg(4).ring_vec(params.ring(), 20 * 5);
    let share = |server: &Server| {
        let (message, _) = Prepared::new(&case.hint, block, &mut prg(1)).unwrap().send(&x).unwrap();
        server.share(&block, message, &x).unwrap()
    };
    assert!(share(&back) == share(&case.server));
    let short = Server::from_bytes(params, case.shape, &bytes[1..]);
    assert!(
        matches!(short, Err(RlweError::Length { expected, got, .. }) if expected == bytes.len() && got + 1 == expected)
    );
    let mut damaged = bytes.to_vec();
    *damaged.last_mut().unwrap() = 7;
    assert!(matches!(Server::from_bytes(params, case.shape, &damaged), Err(RlweError::Mask { value: 7 })));
}

/// Every place has polynomials of its own.
#[test]
fn public_polynomials_have_separate_domains() {
    let params = Params::linear().unwrap();
    let mut seen = vec![];
    for (seed, layer, matrix) in [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)] {
        let domain = Domain { seed: Seed([seed; 32]), layer, matrix };
        seen.extend([domain.common(&params), domain.feature(&params, 0), domain.feature(&params, 1)]);
    }
    for i in 0..seen.len() {
        for j in 0..i {
            assert_ne!(seen[i][..4], seen[j][..4]);
        }
    }
}
