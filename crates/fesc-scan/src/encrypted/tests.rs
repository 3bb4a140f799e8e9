#![allow(clippy::unwrap_used)]
//! The bound that masks rest on, attained by every kernel, and the clamp that it rests on.

use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::mmexp::MinimaxExp;
use fesc_hybrid::backend::Plain;
use fesc_hybrid::boundary::ToShares;
use fesc_model::plan::HeScanKernel;
use fesc_mpc::activation::{Activation, Piecewise};
use fesc_mpc::provider::{Budget, Dealer, serve_dealer};
use fesc_mpc::{Party, Role, Shared};
use fesc_net::Channel;
use fesc_ring::Prg;
use num_complex::Complex64;

use super::conversions::Conversions;
use super::geometry::Kind;
use super::*;
use crate::hescan::{HeScan, ScanShape, Value};

const KERNELS: [HeScanKernel; 4] =
    [HeScanKernel::Hybrid, HeScanKernel::Lanes, HeScanKernel::Chunks, HeScanKernel::Dual];

/// Of a layer with moderate ranges.
const SCALES: Scales = Scales {
    norm: 12,
    gate_weight: 14,
    conv_weight: 12,
    conv_tap: 10,
    step_weight: 14,
    x: 16,
    bc: 14,
    exp: 22,
    score: 16,
    mixed: 22,
    column: 20,
    weighted: 22,
    state: 22,
    scanned: 16,
    gated: 16,
    out_weight: 14,
};

/// Bits of the phase that the masks of a conversion are for.
fn phase_bits(down: &ToShares, totals: Totals) -> u32 {
    let masked = totals.masked.next_power_of_two().ilog2();
    down.report().unwrap().width - fesc_ckks::mask::STATISTICAL_BITS - masked
}

/// The largest slot of outputs, and of states, over the bound of its masks, with six deviations of its noise:
/// every lane of every input holds the most that its conversion carries, whatever is shared, the state that
/// enters `entering` times that, and decays are `decay`.
fn shares_of_bounds(geometry: &Arc<Geometry>, ranges: Ranges, decay: f64, entering: f64) -> Vec<f64> {
    let totals = Totals { values: geometry.values(), masked: geometry.masked() };
    let Conversions { circuit, .. } = Conversions::new(geometry, &SCALES, &ranges, totals).unwrap();
    let carried = |kind: Kind| {
        let up = &circuit.up[kind as usize];
        up.carried() as f64 / f64::from(up.values().fraction).exp2()
    };
    let most = |value: Value| match value {
        Value::X(_) => carried(Kind::X),
        Value::A(_) | Value::Decays { .. } => decay,
        Value::B(_) => carried(Kind::B),
        Value::C(_) => carried(Kind::C),
        Value::State(_) => entering * carried(Kind::State),
    };
    let (plain, kernel) = (Plain::of(geometry.params()), &geometry.chosen().kernel);
    let input = |i: usize| {
        let slot = |lane: [Option<Value>; 2]| {
            let [re, im] = lane.map(|value| value.map_or(0.0, most));
            Complex64::new(re, im)
        };
        let slots: Vec<Complex64> = kernel.lanes(i).into_iter().map(slot).collect();
        plain.fresh_parts(&slots, kernel.level(i), kernel.parts(i))
    };
    let results = kernel.run(&plain, &input).unwrap();
    assert_eq!(results.len(), geometry.results());
    let share = |(down, states): (&ToShares, bool)| {
        let own = results.iter().enumerate().filter(|(i, _)| kernel.holds_state(*i) == states);
        let slots = own.flat_map(|(_, c)| c.slots().iter().zip(c.errors()));
        let largest = slots.fold(0f64, |most, (z, error)| most.max(z.norm() + 6.0 * error.sqrt()));
        largest * geometry.result_scale() / f64::from(phase_bits(down, totals)).exp2()
    };
    circuit.down.iter().zip([false, true]).map(share).collect()
}

fn share_of_bound(shape: ScanShape, kernel: HeScanKernel, ranges: Ranges, decay: f64) -> f64 {
    shares_of_bounds(&Geometry::new(shape, kernel).unwrap(), ranges, decay, 1.0)[0]
}

/// No slot of any result exceeds the bound of its mask, and some come close: it is no more than needed.
#[test]
fn whatever_is_carried_stays_below_the_bound_of_the_masks() {
    let shapes = [
        ScanShape { tokens: 21, heads: 2, head_dim: 3, groups: 1, state: 5 },
        ScanShape { tokens: 16, heads: 4, head_dim: 4, groups: 2, state: 8 },
    ];
    for kernel in KERNELS {
        for shape in shapes {
            for (pushed, bc) in [(-2, 1), (5, 3)] {
                let share = share_of_bound(shape, kernel, Ranges { pushed, bc }, 1.0);
                let place = format!("{kernel:?}, {shape:?}, x 2^{pushed}, B and C 2^{bc}");
                assert!(share <= 1.0, "{place}: {share} times the bound");
                assert!(share > 0.4, "{place}: {share} of the bound, which is too wide");
            }
        }
        // Control: decays that were not clamped.
        let share = share_of_bound(shapes[0], kernel, Ranges { pushed: 0, bc: 0 }, 1.25);
        assert!(share > 1.0, "{kernel:?}: {share} with decays above 1");
    }
}

/// The same for a part of a document, whatever the parts before it handed on.
#[test]
fn a_state_that_enters_stays_below_the_bounds_too() {
    for (shape, pushed, bc) in [
        (ScanShape { tokens: 21, heads: 2, head_dim: 3, groups: 1, state: 5 }, -2, 1),
        (ScanShape { tokens: 8, heads: 4, head_dim: 4, groups: 2, state: 8 }, -6, -6),
        (ScanShape { tokens: 8, heads: 4, head_dim: 4, groups: 2, state: 8 }, 14, 12),
    ] {
        let span = Span { tokens: shape.tokens, carry_in: true, carry_out: true };
        let geometry = Geometry::of_span(shape, span, HeScanKernel::Chunks, None).unwrap();
        let ranges = Ranges { pushed, bc };
        let shares = shares_of_bounds(&geometry, ranges, 1.0, 1.0);
        assert_eq!(shares.len(), 2);
        // Twice the last power of two, and room for a second chunk in imaginary parts.
        let least = 0.5 / std::f64::consts::SQRT_2 - 0.01;
        assert!(shares.iter().all(|s| *s <= 1.0 && *s > least), "{shape:?}, x 2^{pushed}, B and C 2^{bc}: {shares:?}");
        // Controls: a state wider than what is converted, decays that were not clamped.
        if pushed < 0 {
            let wide = shares_of_bounds(&geometry, ranges, 1.0, 1000.0);
            assert!(wide.iter().all(|s| *s > 1.0), "{wide:?}");
        }
        let grown = shares_of_bounds(&geometry, ranges, 1.25, 1.0);
        assert!(grown.iter().all(|s| *s > 1.0), "{grown:?}");
    }
}

/// What both parties give, joined.
fn clamped(forms: &[FixedPiecewise], values: &[i64]) -> Vec<i64> {
    let words: Vec<u64> = values.iter().map(|&v| RING.from_signed(v)).collect();
    let (first, second) = Shared::split(RING, &words, &mut Prg::from_seed([3; 16]));
    let run = |role: Role, channel: Channel, dealer: Channel, x: Shared| {
        let mut party = Party::new(role, channel, Box::new(Dealer::new(role, dealer)));
        forms.iter().fold(x, |x, form| Piecewise::new(form).run(&mut party, &x).unwrap())
    };
    let [(p0, p1), (d0, e0), (d1, e1)] = [(); 3].map(|()| Channel::memory_pair());
    let (a, b) = std::thread::scope(|scope| {
        scope.spawn(move || serve_dealer(e0, e1, &mut Prg::from_seed([4; 16]), &Budget::unlimited()).unwrap());
        let peer = scope.spawn(|| run(Role::P1, p1, d1, second));
        (run(Role::P0, p0, d0, first), peer.join().unwrap())
    });
    a.join(&b).unwrap().into_iter().map(|v| RING.to_signed(v)).collect()
}

/// Exact for every element of the ring, also where no exp ever gets.
#[test]
fn decays_are_clamped_exactly_whatever_they_are() {
    let (one, end) = (1i64 << SCALES.exp, 1i64 << (RING.bits() - 1));
    let corners =
        [-end, 1 - end, -one - 1, -one, -1, 0, 1, one / 3, one - 1, one, one + 1, 2 * one, end - one, end - 1];
    // Often, since shares are random.
    let values: Vec<i64> = corners.iter().cycle().take(100 * corners.len()).copied().collect();
    let want: Vec<i64> = values.iter().map(|v| (*v).clamp(0, one)).collect();
    let forms = clamp(SCALES.exp).unwrap();
    assert_eq!(clamped(&forms, &values), want);
    for (left, name) in forms.iter().zip(["below", "above"]) {
        assert_ne!(clamped(std::slice::from_ref(left), &values), want, "control: only clamped from {name}");
    }
}

/// Whatever MMExp gives, negative near -8 and for inputs that no plan has, comes out in [0, 1]; what lies
/// between stays as it is.
#[test]
fn decays_are_clamped_exactly() {
    for (degree, frac, out) in [(2, 20, 22), (4, 19, 22), (6, 18, 18), (4, 12, 12)] {
        let [above, below] = clamp(out).unwrap();
        let clamped = |y: i64| {
            let once = above.eval_exact(RING.from_signed(y));
            RING.to_signed(below.eval_exact(once))
        };
        let plan = PaperPlan { ring: RING, frac, cmp_shift: frac - 6, cmp_bits: 19 };
        let form = MinimaxExp::paper(degree).unwrap().fixed(&plan).unwrap();
        let mut negative = 0;
        for z in (-(10i64 << frac)..=2 << frac).step_by(997) {
            let y = RING.to_signed(form.eval(RING.from_signed(z), &mut || true)) << (out - frac);
            negative += i32::from(y < 0);
            assert_eq!(clamped(y), y.clamp(0, 1 << out), "{z}");
        }
        assert!(negative > 0, "degree {degree} has nothing to clamp");
        for y in [i64::MIN >> 17, -1, 0, 1, (1 << out) - 1, 1 << out, (1 << out) + 1, i64::MAX >> 18] {
            assert_eq!(clamped(y), y.clamp(0, 1 << out), "{y}");
        }
    }
}
