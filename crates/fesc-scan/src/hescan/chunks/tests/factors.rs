//! Factors that the server knows, for each state, and complex.

use super::*;
use crate::hescan::{Factor, Given};

/// Who has a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Server,
    ServerOnce,
}

/// All ways to give one factor.
fn ways() -> impl Iterator<Item = (Who, bool)> {
    [Who::Nobody, Who::Server, Who::ServerOnce].into_iter().flat_map(|w| [(w, false), (w, true)])
}

/// Random factors that are given so.
fn factors(shape: ScanShape, per: Per, ways: [(Who, bool); 3]) -> Factors {
    let [a, b, c] = ways.map(|(_, complex)| Factor { given: Given::Encrypted, complex });
    let mut factors = Factors { a, per, b, c };
    let clear = ClearPacket::random(shape, &factors, 11);
    let ([every_a, every_b, every_c], [once_a, once_b, once_c]) = (clear.known(false), clear.known(true));
    let pick = |(who, _), every, once| match who {
        Who::Nobody => Given::Encrypted,
        Who::Server => every,
        Who::ServerOnce => once,
    };
    factors.a.given = pick(ways[0], every_a, once_a);
    factors.b.given = pick(ways[1], every_b, once_b);
    factors.c.given = pick(ways[2], every_c, once_c);
    factors
}

fn with(shape: ScanShape, slots: usize, options: Options, factors: Factors) -> Chunks {
    Chunks::with_factors(shape, slots, options, factors).unwrap()
}

#[test]
fn every_way_to_give_factors_equals_the_recurrence() {
    // K_s is 1, 2, 4, 5, 3 (a pair and one alone), 2; tails of tokens, states and channels.
    let shapes = [
        (shape([1, 2, 2, 1, 4]), 16, 16),
        (shape([13, 2, 4, 2, 4]), 32, 16),
        (shape([5, 4, 4, 2, 7]), 32, 32),
        (shape([9, 5, 2, 1, 4]), 16, 8),
        (shape([6, 3, 4, 3, 2]), 16, 8),
        // B and C of each channel.
        (shape([7, 6, 1, 6, 4]), 16, 12),
    ];
    let mut done = 0;
    for a in ways() {
        for per in [Per::Head, Per::State] {
            for (b, c) in ways().flat_map(|b| ways().map(move |c| (b, c))) {
                for topology in Topology::ALL {
                    let (shape, slots, state_slots) = shapes[(done + done / 6) % shapes.len()];
                    let work = if done % 2 == 0 { NEEDED } else { COUNTED };
                    let block = if done % 3 == 0 { shape.tokens.div_ceil(3) } else { shape.tokens };
                    let carry = if done % 5 < 2 { SERIAL } else { PARALLEL };
                    let hold = done % 7 < 3;
                    let options = Options { topology, work, carry, hold, ..options(state_slots, block) };
                    let kernel = with(shape, slots, options, factors(shape, per, [a, b, c]));
                    holds_with(&kernel, slots);
                    let counted = count(&kernel, Chain::ideal(slots, 40, kernel.plan.top, 3));
                    let composed = Chunks::composition_relinearisations(&counted);
                    let encrypted = a.0 == Who::Nobody && kernel.compositions() > 0;
                    assert_eq!(composed > 0, encrypted, "{a:?} {per:?} {b:?} {c:?} {options:?}");
                    done += 1;
                }
            }
        }
    }
    assert_eq!(done, 12 * 36 * 4);
}

#[test]
fn a_real_state_enters_whoever_has_the_factors() {
    let shape = shape([13, 2, 4, 1, 4]);
    for (who, per) in [(Who::Nobody, Per::State), (Who::Server, Per::State), (Who::ServerOnce, Per::Head)] {
        let given = factors(shape, per, [(who, false), (Who::Server, false), (Who::Nobody, false)]);
        for carry in [PARALLEL, SERIAL] {
            let options = Options { carry, carry_in: true, carry_out: true, end: 1, ..options(16, 4) };
            holds_with(&with(shape, 16, options, given.clone()), 16);
        }
    }
    let complex = factors(shape, Per::State, [(Who::Server, true); 3]);
    let options = Options { carry_out: true, ..options(16, 4) };
    assert!(Chunks::with_factors(shape, 16, options, complex).is_err());
}

/// The paper, tab:cross_ssm_family: 0, 0, 0, 988 and 5,928.
#[test]
fn compositions_of_families_are_those_of_the_paper() {
    for family in paper::FAMILIES {
        let shape = ScanShape { state: family.state, ..paper::base(128) };
        let given = family.factors(|f| ClearPacket::random(shape, f, 0).known(true));
        let kernel = with(shape, 1 << 14, Options { work: COUNTED, ..options(paper::STATE_SLOTS, 128) }, given);
        assert_eq!(kernel.chunks() as u64, family.chunks);
        let counted = count(&kernel, Chain::ideal(1 << 14, 40, kernel.plan.top, 3));
        let composed = Chunks::composition_relinearisations(&counted);
        println!("{}: {composed} relinearisations, {} key switches", family.name, {
            counted.operations().tally().key_switches()
        });
        assert_eq!(composed, family.relinearisations);
        // What the server knows is multiplied without a key, in builds and contractions too.
        if family.fixed {
            assert_eq!(counted.operations().tally().total(Operation::Relinearisation), 0);
        }
    }
}

#[test]
fn known_values_have_the_length_of_the_shape() {
    let base = shape([5, 2, 2, 1, 4]);
    let refused = |given: Factors| Chunks::with_factors(base, 16, options(16, 5), given).is_err();
    let all = [(Who::Server, true), (Who::ServerOnce, false), (Who::Server, false)];
    assert!(!refused(factors(base, Per::State, all)));
    for other in [shape([6, 2, 2, 1, 4]), shape([5, 2, 2, 2, 4]), shape([5, 2, 3, 1, 4]), shape([5, 2, 2, 1, 3])] {
        assert!(refused(factors(other, Per::State, all)), "{other:?}");
    }
    let mut real = factors(base, Per::Head, all);
    real.a.complex = false;
    assert!(refused(real));
    // Nothing is scanned without tokens.
    assert!(Chunks::new(shape([0, 2, 2, 1, 4]), 16, options(16, 1)).is_err());
}

#[test]
fn other_packings_refuse_other_factors() {
    use crate::hescan::cut::{Packing, Wanted, choose};
    let shape = shape([16, 2, 4, 1, 4]);
    let per_state = Factors { per: Per::State, ..Factors::MAMBA2 };
    for packing in [Packing::Lanes, Packing::Hybrid, Packing::Dual, Packing::Chunks] {
        let wanted = Wanted { factors: per_state.clone(), ..Wanted::new(packing) };
        let refused = choose(&wanted, shape).err().map(|e| e.to_string());
        assert_eq!(refused.is_none(), packing == Packing::Chunks);
        assert!(refused.is_none_or(|text| text.contains("take chunks")));
        assert!(choose(&Wanted::new(packing), shape).is_ok());
    }
}

/// A complex spectrum that the server knows, and a decay for each state that nobody knows.
#[test]
fn ciphertexts_give_the_recurrence_for_other_factors() {
    let (secret, once) = ((Who::Nobody, false), (Who::ServerOnce, true));
    for (sizes, per, ways) in [
        ([16, 4, 16, 1, 16], Per::State, [once; 3]),
        ([8, 4, 16, 1, 16], Per::State, [secret; 3]),
        ([8, 2, 16, 2, 8], Per::Head, [(Who::Nobody, true), secret, once]),
    ] {
        let (set, shape) = (SCAN_D10, shape(sizes));
        let base = Options { hold: true, ..options(512, shape.tokens) };
        let given = factors(shape, per, ways);
        let depth = with(shape, 1 << 14, base, given.clone()).depth();
        let kernel = with(shape, 1 << 14, Options { end: set.levels - depth, ..base }, given);
        run_encrypted(&kernel, &set, 2, 5);
    }
}
