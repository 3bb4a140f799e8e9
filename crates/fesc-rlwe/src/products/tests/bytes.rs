//! What products cost at the base size, and how often they fail.

use super::*;

/// Bytes per element of the result at base size, both directions together, frames included.
#[test]
fn bytes_of_long_products_at_base_size() {
    let sources = parties();
    for (name, bundle) in scan_products([16, 1, 24, 128, 128, 64]) {
        let (up, down) = sources[0].0.whole(&bundle).unwrap().bytes;
        let each = (up + down) as f64 / bundle.product_len(0) as f64;
        match name {
            "B^T V" | "C H" => assert!((26.4..26.5).contains(&each), "{name}: {each}"),
            "M X" => assert!((25.5..25.6).contains(&each), "{name}: {each}"),
            "S" => assert!((25.7..25.8).contains(&each), "{name}: {each}"),
            _ => {}
        }
    }
    // 24 heads, 16 chunks, 128 states of 64 channels.
    let (full, lower) = (Tensor::new, Tensor::lower);
    let recurrence = single(&[24, 16, 16, 128, 64], lower(&[0, 1, 2]), full(&[2, 3, 0, 4]), full(&[1, 3, 0, 4]));
    let recurrence = rounded(recurrence);
    let (up, down) = sources[0].0.declared(&recurrence).unwrap();
    let each = (up + down) as f64 / recurrence.product_len(0) as f64;
    assert!((27.0..27.1).contains(&each), "{each}");
}

/// What the planner finds at the base size (16 chunks of 128 tokens, 24 heads of 64, 128 states), in bytes
/// per element of the result.
#[test]
fn bytes_at_the_base_size() {
    let prices = Prices::new(&SlotParams::standard().unwrap(), 128);
    let per_element = |bundle: &Bundle| {
        let (p0, p1) = ProductPlan::new(bundle, &prices).unwrap().bytes(&prices);
        (p0 + p1) as f64 / (0..bundle.products.len()).map(|i| bundle.product_len(i)).sum::<usize>() as f64
    };
    let most = [
        ("S", 378.0),
        ("outer", 33.0),
        ("S o Lt", 55.0),
        ("M X", 157.0),
        ("col o X", 53.0),
        ("B^T V", 111.0),
        ("C H", 111.0),
    ];
    let decays = Tensor::lower(&[0, 1, 2]);
    let recurrence = single(&[24, 16, 16, 128, 64], decays, Tensor::new(&[2, 3, 0, 4]), Tensor::new(&[1, 3, 0, 4]));
    let mut sizes = vec![
        ("gate", Bundle::triples(ring(), 2048 * 1536), 113.0),
        ("norm", norm(2048, 768, false), 71.0),
        ("recurrence", recurrence, 66.0),
    ];
    for (name, bundle) in scan_products([16, 1, 24, 128, 128, 64]) {
        if let Some(&(_, bytes)) = most.iter().find(|(n, _)| *n == name) {
            sizes.push((name, bundle, bytes));
        }
    }
    assert_eq!(sizes.len(), most.len() + 3);
    for (name, bundle, most) in sizes {
        let found = per_element(&bundle);
        assert!(found < most && found > 0.95 * most, "{name}: {found} bytes per element, {most} expected");
    }
}

/// Counted by hand: 40,000 products need three tiles of one upload of each operand and one answer, of two
/// products each.
#[test]
fn failures_follow_the_plan() {
    let params = SlotParams::standard().unwrap();
    let found = failures(&Bundle::triples(ring(), 40_000), &params).unwrap();
    let (noise, lift) = params.failure(2, 1);
    assert_eq!(found, Failures { answers: 3, noise: 3.0 * noise, lift: 3.0 * lift });
    // What Gilboa's method makes, and what need not be exact, has no answers of the slots.
    let sums = single(&[16, 128, 128, 64], Tensor::new(&[0, 1, 2]), Tensor::new(&[0, 2, 3]), Tensor::new(&[0, 1, 3]));
    for bundle in [Bundle::triples(ring(), 10), rounded(sums.clone())] {
        assert_eq!(failures(&bundle, &params).unwrap(), Failures::default());
    }
    assert!(failures(&sums, &params).unwrap().answers > 0);
}
