use super::*;

const MASK: u64 = u64::MAX >> 16;

fn product(a: i64, b: i64) -> u64 {
    (a as u64).wrapping_mul(b as u64)
}

fn answer(holder: &KeyHolder, evaluator: &Evaluator, sum: Sum, rng: &mut Prg) -> Vec<u64> {
    let (response, own) = evaluator.respond(sum, rng);
    assert_eq!(response.len(), holder.params().response_bytes());
    let opened = holder.open(&response).unwrap();
    opened.iter().zip(&own).map(|(a, b)| a.wrapping_add(*b) & MASK).collect()
}

#[test]
fn shares_add_up_to_the_product_in_every_slot() {
    let (holder, evaluator) = parties(1);
    let mut rng = prg(2);
    let n = holder.params().slots();
    let mut sum = evaluator.sum();
    let mut want = vec![0u64; n];
    for run in [1, 64, n] {
        let (x, mut m) = (values(&mut rng, n), values(&mut rng, n / run));
        m.reverse();
        let upload = holder.encrypt(&x, &mut rng).unwrap();
        assert_eq!(upload.len(), holder.params().upload_bytes());
        let cipher = evaluator.receive(&upload).unwrap();
        evaluator.mul_add(&mut sum, &cipher, &evaluator.multiplier(&m, run).unwrap());
        want.iter_mut().enumerate().for_each(|(i, w)| *w = w.wrapping_add(product(x[i], m[i / run])));
    }
    let got = answer(&holder, &evaluator, sum, &mut rng);
    assert!(got.iter().zip(&want).all(|(&g, &w)| g == w & MASK));
}

#[test]
fn a_combination_is_the_sum_of_its_products() {
    let (holder, evaluator) = parties(3);
    let mut rng = prg(4);
    let n = holder.params().slots();
    let inputs: Vec<Vec<i64>> = (0..6).map(|_| values(&mut rng, n)).collect();
    let ciphers: Vec<Cipher> =
        inputs.iter().map(|x| evaluator.receive(&holder.encrypt(x, &mut rng).unwrap()).unwrap()).collect();
    for (run, outputs) in [(64, 5), (16, 1), (n, 9), (8, 2), (2048, 3)] {
        let m: Vec<Vec<i64>> = (0..outputs * 6).map(|_| values(&mut rng, n / run)).collect();
        let skip = |o: usize, j: usize| (o + j).is_multiple_of(3) || (o == 1 && j > 2);
        let sums = combine(&evaluator, &ciphers, outputs, run, skip, |o, j, r| m[o * 6 + j][r]).unwrap();
        assert_eq!(sums.len(), outputs);
        for (o, sum) in sums.into_iter().enumerate() {
            let mut one = evaluator.sum();
            for j in (0..6).filter(|&j| !skip(o, j)) {
                evaluator.mul_add(&mut one, &ciphers[j], &evaluator.multiplier(&m[o * 6 + j], run).unwrap());
            }
            assert!(*sum.rows == *one.rows, "run {run}, output {o}");
            let got = answer(&holder, &evaluator, sum, &mut rng);
            for (i, &g) in got.iter().enumerate() {
                let terms = (0..6).filter(|&j| !skip(o, j)).map(|j| product(inputs[j][i], m[o * 6 + j][i / run]));
                assert_eq!(g, terms.fold(0, u64::wrapping_add) & MASK, "run {run}, output {o}, slot {i}");
            }
        }
    }
    assert!(
        combine(&evaluator, &[], 2, 64, |_, _| false, |_, _, _| 1)
            .unwrap()
            .iter()
            .all(|s| s.rows.iter().all(|&x| x == 0))
    );
}

/// A run multiplier goes through small transforms; the general one has the same residues in all its slots.
#[test]
fn runs_are_the_general_form_bit_for_bit() {
    let (_, evaluator) = parties(5);
    let mut rng = prg(6);
    let n = evaluator.params().slots();
    for log in 0..=n.trailing_zeros() {
        let run = 1 << log;
        let short = values(&mut rng, n / run);
        let long: Vec<i64> = (0..n).map(|i| short[i / run]).collect();
        let (a, b) = (evaluator.multiplier(&short, run).unwrap(), evaluator.multiplier(&long, 1).unwrap());
        for (a, b) in a.rows.chunks_exact(n / run).zip(b.rows.chunks_exact(n)) {
            assert!(b.iter().enumerate().all(|(i, &v)| v == a[i / run]), "run {run}");
        }
    }
}
