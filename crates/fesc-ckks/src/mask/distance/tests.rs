use super::*;
use crate::mask::STATISTICAL_BITS;

/// The distribution of a mask of this width under a phase, over `-span .. span`.
fn masked(width: u32, phase: i64, span: i64) -> Vec<f64> {
    let half = 1i64 << width;
    (-span..span).map(|x| if (-half..half).contains(&(x - phase)) { 0.5 / half as f64 } else { 0.0 }).collect()
}

/// The joint distribution of independent values.
fn together(parts: &[Vec<f64>]) -> Vec<f64> {
    parts.iter().fold(vec![1.0], |all, part| all.iter().flat_map(|p| part.iter().map(move |q| p * q)).collect())
}

fn statistical(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>() / 2.0
}

/// Every outcome counted: the bound holds, one coefficient reaches it, and several come near it.
#[test]
fn the_bound_is_that_of_an_exact_count() {
    for width in 1..6u32 {
        for phase_bits in 0..width {
            let (bound, span) = (1i64 << phase_bits, (2i64 << width) + 1);
            for count in 1..=3u64 {
                if (2 * span as u64).pow(count as u32) > 1 << 22 {
                    continue;
                }
                let view = |phase| together(&vec![masked(width, phase, span); count as usize]);
                let exact = statistical(&view(bound), &view(0));
                let told = Distance::of_width(phase_bits, width, count).log2().exp2();
                assert!(exact <= told + 1e-12, "{width} {phase_bits} {count}: {exact} over {told}");
                if count == 1 {
                    assert!((exact - told).abs() < 1e-12, "{width} {phase_bits}: {exact} for {told}");
                }
                // 1 - (1 - d)^n is at least n d - (n d)^2 / 2.
                assert!(exact >= told - told * told / 2.0 - 1e-12, "{width} {phase_bits} {count}: {exact} for {told}");
                // A smaller phase is no further away.
                assert!(statistical(&view(bound / 2), &view(0)) <= exact);
            }
        }
    }
}

/// Queries add up as coefficients do: two inferences of one coefficient each, counted together.
#[test]
fn distances_of_queries_add_up() {
    let (width, phase_bits, span) = (5, 1, 70);
    let once = [masked(width, 2, span), masked(width, 0, span)];
    let twice =
        statistical(&together(&[once[0].clone(), once[0].clone()]), &together(&[once[1].clone(), once[1].clone()]));
    let one = Distance::of_width(phase_bits, width, 1);
    assert!(twice > one.log2().exp2() && twice <= one.over(2).log2().exp2(), "{twice}");
    assert_eq!(one.over(6), Distance::of_width(phase_bits, width, 6));
    assert_eq!(one.over(3).over(2), one.over(6));
    assert_eq!(
        (one.over(0), one.over(u64::MAX), Distance::NONE.over(9)),
        (Distance::NONE, Distance::ALL, Distance::NONE)
    );
}

#[test]
fn an_inference_is_at_two_to_the_minus_41_and_a_million_at_minus_21() {
    for (phase_bits, count) in [(44, 1u64 << 28), (45, 1), (50, 1 << 13)] {
        let one = Distance::of_bounded(phase_bits, count);
        assert_eq!(one.log2(), -f64::from(STATISTICAL_BITS) - 1.0);
        assert_eq!(one.over(1 << 20).log2(), -21.0);
    }
    // A number of coefficients that is no power of two has a little more.
    assert!((-42.0..-41.0).contains(&Distance::of_bounded(44, (1 << 27) + 1).log2()));
}
