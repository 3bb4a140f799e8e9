#![allow(clippy::unwrap_used)]
//! The bound that masks rest on, attained, and the totals that widths rest on.

use fesc_hybrid::backend::{Backend, Plain};
use fesc_model::plan;
use fesc_model::twin::{Calibration, Plan};
use fesc_model::{Config, Model, Outline, Shape, Weights};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::*;
use crate::schedule::Reveal;

/// Two segments of a small random model, projections under CKKS.
fn schedule() -> Schedule {
    let tiny = *Config::named("tiny").unwrap().shape();
    let small = Shape { vocab: 40, d_model: 8, layers: 2, heads: 2, head_dim: 4, state: 4, groups: 2, ..tiny };
    let config = Config::new(Shape { norm_groups: 1, ..small }).unwrap();
    let model = Model::new(config.clone(), Weights::random(&config, Some(3), &mut Prg::from_seed([1; 16]))).unwrap();
    let calibration = Calibration::collect(&model, [(0..40).collect::<Vec<u32>>()]).unwrap();
    let plan = Plan { projection: plan::Projection::Ckks, ..Plan::FAST };
    let outline = Outline::new(&config, &calibration, plan).unwrap().with_classes(3).unwrap();
    Schedule::new(&outline, 2049, Reveal::Label).unwrap()
}

fn all(schedule: &Schedule) -> Vec<CkksProjection> {
    let layers = 0..schedule.outline().shape().layers;
    let places = layers.flat_map(|layer| schedule.segments().map(move |segment| (layer, segment)));
    let both = |(layer, segment)| Matrix::ALL.map(|m| CkksProjection::new(schedule, layer, m, &segment).unwrap());
    places.flat_map(both).collect()
}

/// The largest slot of all results over the bound of their masks: every lane of every input holds the most
/// that its conversion carries, whatever is shared, and every weight is as large as weights may be, times
/// `excess`.
fn share_of_bound(projection: &CkksProjection, totals: fesc_scan::Totals, excess: f64) -> f64 {
    let params = sets::PROJECT.params().unwrap();
    let plain = Plain::of(&params);
    let (up, down) = (&projection.circuit.up[0], &projection.circuit.down);
    let input = |i: usize| {
        let lane = |value: Option<u32>| value.map_or(0.0, |_| up.largest());
        let lanes = match &projection.kernel {
            Kernel::In(kernel) => kernel.lanes(i),
            Kernel::Out(kernel) => kernel.lanes(i),
        };
        let slot = |[re, im]: [Option<u32>; 2]| Complex64::new(lane(re), lane(im));
        plain.fresh(&lanes.into_iter().map(slot).collect::<Vec<_>>(), up.encoding(i).level)
    };
    let rows = up.layout().values() / projection.rows;
    let weight = column_bound(rows) / rows as f64 * (-f64::from(projection.divided)).exp2() * excess;
    let results = match &projection.kernel {
        Kernel::In(kernel) => {
            let tap = TAPS / (projection.past + 1) as f64;
            kernel.run(&plain, &|_, _| weight, &|_, _| tap, &|_| 0.0, &input)
        }
        Kernel::Out(kernel) => kernel.run(&plain, &|_, _| weight, &input),
    };
    let results = results.unwrap();
    assert_eq!(results.len(), down[0].ciphertexts());
    let slots = results.iter().flat_map(|c| c.slots().iter().zip(c.errors()));
    let largest = slots.fold(0f64, |most, (z, error)| most.max(z.norm() + 6.0 * error.sqrt()));
    let masked = totals.masked.next_power_of_two().ilog2();
    let phase_bits = down[0].report().unwrap().width - mask::STATISTICAL_BITS - masked;
    largest * plain.chain().scale(sets::BOUNDARY) / f64::from(phase_bits).exp2()
}

#[test]
fn whatever_is_carried_stays_below_the_bound_of_the_masks() {
    let schedule = schedule();
    let totals = schedule.crossings().totals();
    for projection in &all(&schedule)[..2] {
        let share = share_of_bound(projection, totals, 1.0);
        assert!(share <= 1.0 && share > 0.4, "{:?}: {share} of the bound", projection.matrix);
        let share = share_of_bound(projection, totals, 2.5);
        assert!(share > 1.0, "control, {:?}: weights that are refused give {share}", projection.matrix);
    }
}

/// Widths of masks and parts follow from how much an inference converts in all.
#[test]
fn totals_are_those_of_all_conversions() {
    let schedule = schedule();
    let all = all(&schedule);
    assert_eq!(all.len(), 8, "two layers, two segments, two matrices");
    let values: usize = all.iter().map(|p| p.circuit.up[0].layout().values()).sum();
    let masked: u64 = all.iter().map(|p| p.circuit.down.iter().map(ToShares::masked).sum::<u64>()).sum();
    let totals = schedule.crossings().totals();
    assert_eq!((totals.values, totals.masked), (values as u64, masked));
}
