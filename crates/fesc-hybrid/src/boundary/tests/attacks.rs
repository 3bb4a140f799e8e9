//! What masks, fresh zeros and margins prevent, and that nothing reacts to what is decrypted.

use fesc_ckks::client::Decryptor;
use fesc_ckks::{Ciphertext, Encoder, FreshZero, Masked, wire};
use fesc_ring::{LongRing, Prg, Ring};
use num_complex::Complex64;

use super::back::{ENCODING, ahead, values};
use super::{Keys, both, keys, ring};
use crate::boundary::messages::tag;
use crate::boundary::to_ciphertexts::tests_only::{differences, integer_differences};
use crate::boundary::{Fixed, Layout, MaskBound, ToCiphertexts, ToShares};

pub(super) fn shape(keys: &Keys, phase_bits: u32) -> ToShares {
    let bound = MaskBound { phase_bits, masked: 1 << 13 };
    ToShares::new(&keys.params, 1, keys.params.scale(), bound, Fixed { ring: ring(48), fraction: 8 }).unwrap()
}

/// The bytes that a client receives for one result.
fn received(keys: &Keys, shape: &ToShares, result: &Ciphertext, seed: u8) -> Vec<u8> {
    received_with(&|level, prg| keys.public.zero(level, prg), keys, shape, result, seed)
}

/// The same, re-randomised by other zeros.
pub(super) fn received_with(
    zeros: &(dyn Fn(usize, &mut Prg) -> fesc_ckks::Result<FreshZero> + Sync),
    keys: &Keys,
    shape: &ToShares,
    result: &Ciphertext,
    seed: u8,
) -> Vec<u8> {
    let mut prg = Prg::from_seed([seed; 16]);
    let bytes = wire::masked_bytes(&keys.params, shape.level());
    let outcome = both(
        |ledger| shape.declare(ledger),
        |party| party.channel().recv(tag::MASKED, bytes).unwrap(),
        |party| {
            let results = std::slice::from_ref(result);
            shape.run_server_with(zeros, party, &keys.evaluator, results, &mut prg).map(|_| ()).unwrap()
        },
    );
    outcome.client
}

/// The first limb of `c1`, transformed, of a masked ciphertext's bytes.
pub(super) fn second_half(keys: &Keys, level: usize, bytes: &[u8]) -> Vec<u64> {
    let (params, n) = (&keys.params, keys.params.degree());
    let limb = |i: usize| Ring::of_residues(params.modulus(i)).packed_len(n);
    let at = wire::HEADER_BYTES + (0..=level).map(limb).sum::<usize>();
    Ring::of_residues(params.modulus(0)).unpack(&bytes[at..at + limb(0)], n).unwrap()
}

/// A projection, toy size: the server multiplies by its weights. Three results of one upload `c`: `W c`, `c`
/// and nothing. If the same zero covers them, differences of the second halves are `W c1` and `c1`, and the
/// quotient is the weights.
#[test]
fn a_zero_that_is_used_again_gives_the_weights_away_and_a_fresh_one_does_not() {
    let keys = keys();
    let (params, evaluator) = (&keys.params, &keys.evaluator);
    let c = keys.encrypt(&[Complex64::new(0.5, 0.0)], 2, &mut Prg::from_seed([1; 16]));
    let weights: Vec<i64> = (0..params.degree() as i64).map(|i| i % 7 - 3).collect();
    let weights = Encoder::new(params).encode_coefficients(&weights, 2, 1.0).unwrap();
    let results = [evaluator.multiply_plain(&c, &weights).unwrap(), c.clone(), evaluator.sub(&c, &c).unwrap()];
    let shape = shape(&keys, 40);
    let modulus = params.modulus(0);
    let quotients = |seeds: [u8; 3]| -> Vec<u64> {
        let halves: Vec<Vec<u64>> = results
            .iter()
            .zip(seeds)
            .map(|(r, seed)| received(&keys, &shape, r, seed))
            .map(|bytes| second_half(&keys, shape.level(), &bytes))
            .collect();
        let divide = |k: usize| {
            let by = modulus.sub(halves[1][k], halves[2][k]);
            modulus.mul(modulus.sub(halves[0][k], halves[2][k]), modulus.pow(by, modulus.value() - 2))
        };
        (0..params.degree()).map(divide).collect()
    };
    let mut want: Vec<u64> = (0..params.degree()).map(|i| modulus.from_small_signed((i % 7) as i64 - 3)).collect();
    params.ntt(0).forward(&mut want);
    let same = |found: Vec<u64>| found.iter().zip(&want).filter(|(f, w)| f == w).count();
    assert_eq!(same(quotients([4, 4, 4])), params.degree(), "a generator that repeats itself: every weight");
    assert_eq!(same(quotients([4, 5, 6])), 0, "fresh ones: none");
}

/// How many deviations apart the means of the client's views of two messages are.
fn separation(keys: &Keys, shape: &ToShares, size: i128, width: u32) -> f64 {
    let n = keys.params.degree();
    let views = [size, -size].map(|value| {
        let c = keys.encrypt_integers(&vec![value; n], 3, &mut Prg::from_seed([2; 16]));
        let bytes = received(keys, shape, &c, if value > 0 { 7 } else { 8 });
        let masked = Masked::<Ciphertext>::read(&keys.params, &bytes).unwrap();
        let view = Decryptor::new(&keys.secret).decrypt_integers(&masked).unwrap();
        view.iter().map(|&x| x as f64).sum::<f64>() / n as f64
    });
    // A uniform number in [-2^w, 2^w) has deviation 2^w / sqrt(3).
    (views[0] - views[1]).abs() / (f64::from(width).exp2() / 3f64.sqrt() * (2.0 / n as f64).sqrt())
}

#[test]
fn a_narrow_mask_is_noticed_at_the_boundary() {
    let keys = keys();
    // A bound of 31 bits where phases have 82: the mask is 84 bits wide.
    let narrow = shape(&keys, 31);
    assert!(separation(&keys, &narrow, 1 << 82, 84) > 10.0, "a bound that is not one: seen in one ciphertext");
    // The stated bound: 41 bits, and the mask has 94.
    assert!(separation(&keys, &shape(&keys, 41), 1 << 40, 94) < 5.0, "not seen");
}

/// The client's messages, and whether there is an error, are the same whatever it decrypts.
#[test]
fn a_phase_out_of_range_changes_nothing_that_the_client_sends() {
    let keys = keys();
    let n = keys.params.degree();
    let first = shape(&keys, 40);
    let layout = Layout::compact(&keys.params, 64).unwrap();
    let second = ToCiphertexts::new(&keys.params, layout, values(16, 64), ENCODING).unwrap();
    // Just below half the modulus of level 2, 119 bits: far above the bound, and above what can be decoded.
    let lengths = [1i128 << 20, 1 << 117, -(1 << 117), (1 << 118) - 1].map(|size| {
        let c = keys.encrypt_integers(&vec![size; n], 3, &mut Prg::from_seed([3; 16]));
        let (mut up, mut down) = (Prg::from_seed([4; 16]), Prg::from_seed([5; 16]));
        let outcome = both(
            |ledger| {
                first.declare(ledger);
                second.declare(ledger).unwrap();
            },
            |party| {
                let lanes = first.run_client(party, &keys.secret).unwrap();
                let x = lanes.real.slice(0..64).unwrap();
                second.run_client(party, &keys.secret, &x, &mut up).unwrap();
            },
            |party| {
                let lanes = first.run_server(party, &keys.evaluator, &keys.public, &[c], &mut down).unwrap();
                let x = lanes.real.slice(0..64).unwrap();
                second.run_server(party, keys.public.id(), &x).map(|_| ()).unwrap();
            },
        );
        outcome.sent.iter().map(|(tag, payload)| (*tag, payload.len())).collect::<Vec<_>>()
    });
    assert!(lengths.iter().all(|l| *l == lengths[0] && l.len() == 2), "{lengths:?}");
}

/// Chi-square of the top four bits, 15 degrees of freedom: 50 is a chance of 1e-5, and seeds are fixed.
fn chi_square(top: impl Iterator<Item = usize>, count: f64) -> f64 {
    let mut buckets = [0f64; 16];
    top.for_each(|b| buckets[b] += 1.0);
    buckets.iter().map(|b| (b - count / 16.0).powi(2) / (count / 16.0)).sum()
}

#[test]
fn differences_are_uniform_for_extreme_shares_and_integer_differences_are_not() {
    let ring = LongRing::new(92).unwrap();
    let mut prg = Prg::from_seed([21; 16]);
    let count = 4096;
    for extreme in [0, 1, (1u128 << 91) - 1, 1 << 91, (1 << 92) - 1] {
        let parts = vec![extreme; count];
        let random = ring.sample(&mut prg, count);
        let delta = differences(ring, &parts, &random);
        let chi = chi_square(delta.iter().map(|d| (d >> 88) as usize), count as f64);
        assert!(chi < 50.0, "{extreme}: {chi}");
    }
    // The control: of the integers, an extreme part is seen in the sign and the top bits.
    let random = ring.sample(&mut prg, count);
    let delta = integer_differences(ring, &vec![1 << 91; count], &random);
    let chi = chi_square(delta.iter().map(|d| ((d >> 89) & 15) as usize), count as f64);
    assert!(chi > 1000.0, "{chi}");
}

/// Why uploads made ahead are consumed: with the same random part for two values, what the client sends and
/// what the server has of both add up to their difference.
#[test]
fn one_random_part_for_two_values_gives_their_difference_away() {
    let ring = LongRing::new(92).unwrap();
    let mut prg = Prg::from_seed([22; 16]);
    let count = 200;
    let mut value = || -> Vec<u128> { (0..count).map(|_| u128::from(prg.next_u64() >> 40)).collect() };
    let secret = [value(), value()];
    let client = [0, 1].map(|_| ring.sample(&mut prg, count));
    let server = [0, 1].map(|i| -> Vec<u128> { differences(ring, &secret[i], &client[i]) });
    let random = [0, 1].map(|_| ring.sample(&mut prg, count));
    // Difference of the secrets as the server finds it, with these random parts in the two runs.
    let found = |first: usize, second: usize| {
        let seen = [(0, first), (1, second)].map(|(i, r)| differences(ring, &client[i], &random[r]));
        let whole = |i: usize, k: usize| ring.add(seen[i][k], server[i][k]);
        (0..count).filter(|&k| ring.sub(whole(0, k), whole(1, k)) == ring.sub(secret[0][k], secret[1][k])).count()
    };
    assert_eq!((found(0, 0), found(0, 1)), (count, 0), "one for both, and one for each");
}

/// Repetitions cost nothing online.
#[test]
fn online_only_distinct_values_are_sent() {
    let keys = keys();
    let layout = Layout::repeated(&keys.params, 200, 40).unwrap();
    let shape = ToCiphertexts::new(&keys.params, layout, values(16, 400), ENCODING).unwrap();
    let sent = ahead(&keys, &shape, &[5; 200], 30).sent;
    // 67 bits a value: 200 words and 600 bits, and a name. The uploads of two ciphertexts went ahead.
    assert_eq!(sent.iter().map(|(t, p)| (*t, p.len())).collect::<Vec<_>>(), [(0x0303, 32), (0x0704, 1691)]);
}
