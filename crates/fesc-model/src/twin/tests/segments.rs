//! The scan in segments: nothing new inside one, one more rounding of the state after each.

use super::super::range::Run;
use super::super::scan::{Dual, HeScan, Packet, Scan};
use super::*;
use crate::outline::Exponential;
use crate::outline::scale::SEGMENT;

/// Inputs of a scan of four heads in two groups, small enough for every range.
struct Feed {
    shape: Shape,
    xbc: Vec<i64>,
    delta: Vec<i64>,
    z: Vec<i64>,
    dual: Dual,
}

impl Feed {
    /// A Delta is down to `-rate` at 22 bits.
    fn new(tokens: usize, rate: i64) -> Self {
        let shape = Shape { groups: 2, ..shape(16, 4, 3, 5) };
        let mut prg = Prg::from_seed([77; 16]);
        let mut draw = |count: usize, low: i64, high: i64| -> Vec<i64> {
            (0..count).map(|_| low + (prg.next_u64() % (high - low) as u64) as i64).collect()
        };
        let xbc = draw(tokens * shape.conv_dim(), -(1 << 14), 1 << 14);
        let delta = draw(tokens * 4, 1 << 12, 1 << 18);
        let z = draw(tokens * 4, -rate, 0);
        let dual = Dual {
            scales: Scales { state: 20, ..ranges::SCALES },
            chunk: Exponential::chunk(0, ExpForm::Power, 22).unwrap(),
            document: Exponential::document(0, ExpForm::Power, 22).unwrap(),
            skip: vec![1 << 20, -5, 0, 1 << 22],
        };
        Self { shape, xbc, delta, z, dual }
    }

    fn run(&self, segment: usize, rounding: &mut Rounding) -> (Vec<i64>, Vec<i64>) {
        let Self { shape, xbc, delta, z, dual } = self;
        let packet = Packet { shape, xbc, delta, z, last: true };
        dual.run_in(&mut Run::new(48, true, rounding), &packet, segment).unwrap()
    }
}

/// The integers that the scan gave before there were segments, at every length up to one: nearest, and with
/// given carries (of which none is drawn any more where an exponent is 0 by construction).
#[test]
fn one_segment_is_what_the_scan_always_was() {
    let before = [
        (1, 0x1c56_5245_144c_5eb5, 0x6121_20e2_9cd3_2a05),
        (127, 0xebe7_cd69_c789_24e6, 0xa411_b5ec_f231_d8af),
        (129, 0x24fc_2cd4_059d_b9c2, 0x3bab_d933_a583_83af),
        (300, 0x402a_4b47_3749_8ba1, 0x556f_3dd5_cae5_cba1),
        (2048, 0xf7a1_1d2f_d275_ec82, 0x6517_a19b_cb68_790bu64),
    ];
    for (tokens, nearest, jitter) in before {
        let Feed { shape, xbc, delta, z, dual } = &Feed::new(tokens, 1 << 20);
        let packet = Packet { shape, xbc, delta, z, last: false };
        for (mut rounding, want) in
            [(Rounding::nearest(), nearest), (Rounding::jitter(Prg::from_seed([5; 16])), jitter)]
        {
            let (y, _) = dual.run(&mut Run::new(48, true, &mut rounding), &packet).unwrap();
            let sum = y.iter().fold(0u64, |h, &v| (h ^ v as u64).wrapping_mul(0x100_0000_01b3).rotate_left(17));
            assert_eq!(sum, want, "{tokens} tokens, {rounding:?}");
        }
    }
}

/// Segments of one and of two chunks against none: the state is rounded once more per segment, and its decay
/// is a product of exps instead of one, each with an error of 0.00103.
#[test]
fn a_state_goes_from_segment_to_segment() {
    for (tokens, rate) in [(600, 1 << 16), (600, 1 << 12), (513, 1), (385, 1 << 20)] {
        let feed = Feed::new(tokens, rate);
        let (whole, last) = feed.run(SEGMENT, &mut Rounding::nearest());
        let size = last.iter().map(|v| v.abs()).max().unwrap();
        for segment in [CHUNK, 2 * CHUNK] {
            let (y, state) = feed.run(segment, &mut Rounding::nearest());
            let far = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).max().unwrap();
            let count = tokens.div_ceil(segment) as i64;
            // Two more factors per segment on a state that is at most `size`, and half an ulp.
            let bound = count * (size / 400 + 1);
            assert!(far(&state, &last) <= bound, "{tokens} {rate} {segment}: {} of {bound}", far(&state, &last));
            // y is at 16 bits, four below the state's; five states are summed over B and C below one.
            assert!(far(&y, &whole) <= 5 * bound / 16 + 2, "{tokens} {rate} {segment}: {}", far(&y, &whole));
            // Nothing changes before the first carry, and something does after it.
            let first = segment * feed.shape.inner();
            assert_eq!(y[..first], whole[..first]);
            if rate == 1 << 16 {
                assert_ne!(y[first..], whole[first..]);
            }
        }
    }
}

/// A carry that is lost is not within the bound: heads that do not decay.
#[test]
fn a_lost_carry_would_show() {
    let feed = Feed::new(600, 1);
    let (_, whole) = feed.run(SEGMENT, &mut Rounding::nearest());
    let tail = Feed {
        xbc: feed.xbc[512 * feed.shape.conv_dim()..].to_vec(),
        delta: feed.delta[512 * 4..].to_vec(),
        z: feed.z[512 * 4..].to_vec(),
        ..Feed::new(1, 1)
    };
    let (_, lost) = tail.run(SEGMENT, &mut Rounding::nearest());
    let size = whole.iter().map(|v| v.abs()).max().unwrap();
    assert!(whole.iter().zip(&lost).any(|(a, b)| (a - b).abs() > size / 4));
}

/// Under encryption a kernel that refreshes rounds its state after every part, and no other does; a state
/// that is too wide for the conversion has a name.
#[test]
fn a_refreshed_state_is_rounded_and_held_to_its_range() {
    let Feed { shape, xbc, delta, z, dual } = Feed::new(300, 1 << 12);
    let run = |scales: Scales, refresh| {
        let scan = HeScan { scales, exp: dual.chunk.clone(), refresh, skip: dual.skip.clone() };
        let packet = Packet { shape: &shape, xbc: &xbc, delta: &delta, z: &z, last: true };
        scan.run(&mut Run::new(48, true, &mut Rounding::nearest()), &packet)
    };
    // With few bits of the state, a rounding shows.
    let coarse = Scales { state: 6, ..dual.scales };
    let ((whole, _), (parts, _)) = (run(coarse, None).unwrap(), run(coarse, Some(CHUNK)).unwrap());
    let first = CHUNK * shape.inner();
    assert_eq!(whole[..first], parts[..first]);
    assert_ne!(whole[first..], parts[first..]);
    let far = whole.iter().zip(&parts).map(|(a, b)| (a - b).abs()).max().unwrap();
    // Two roundings by half of 2^-6, five states times C below one, y at 16 bits.
    assert!(far <= 5 << (dual.scales.scanned - 6), "{far}");
    let fine = Scales { state: 22, ..dual.scales };
    let (_, last) = run(fine, None).unwrap();
    let largest = last.iter().map(|v| v.abs()).max().unwrap();
    // More bits than there is room for: it goes up to 2^24 where exp has 22 bits.
    let wide = Scales { state: 22 + 27 - largest.ilog2(), ..fine };
    assert!(run(wide, None).is_ok());
    let refused = run(wide, Some(CHUNK)).unwrap_err().to_string();
    assert!(refused.contains("state H"), "{refused}");
}
