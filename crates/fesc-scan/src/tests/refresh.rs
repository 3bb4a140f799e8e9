//! The scan under CKKS between two parties, in parts: the state is on shares between them.

use fesc_hybrid::keys::{ClientKeys, ServerKeys};
use fesc_model::float::recurrence;
use fesc_model::plan::HeScanKernel;
use fesc_model::twin::{Plan, Rounding};
use fesc_net::Channel;
use fesc_ring::Prg;

use super::support::{BothKeys, Decay, MadeBy, by_plan, distance, document, private_with};
use crate::hescan::ScanShape;
use crate::{Geometries, Span, Totals};

/// Keys as a session makes them.
fn keys(geometries: &Geometries) -> BothKeys {
    let (shape, (mut a, mut b)) = (geometries.keys(), Channel::memory_pair());
    std::thread::scope(|scope| {
        let prg = Prg::from_seed([31; 16]);
        let server = scope.spawn(move || ServerKeys::receive(shape, &mut b, 2, prg, &mut |_, _| ()).unwrap());
        let mut client = ClientKeys::generate(shape.clone(), &mut Prg::from_seed([32; 16]));
        client.send(&mut a, &mut |_, _| ()).unwrap();
        (client, server.join().unwrap())
    })
}

/// Segments of 6 and 3 tokens in parts of at most 4: the state crosses between parts and between segments,
/// and the last one is handed on. Outputs are the twin's, states those of the recurrence, costs as declared.
#[test]
fn a_refreshed_scan_is_the_twins() {
    let layer = by_plan(Plan::parse("fast,scan=chunks").unwrap(), 1, 2, 4, 4);
    let ranges = layer.twin.outline().unwrap().ranges(0).unwrap();
    let shape = ScanShape { tokens: 9, heads: 2, head_dim: 4, groups: 1, state: 4 };
    let segments =
        [Span { tokens: 6, carry_in: false, carry_out: true }, Span { tokens: 3, carry_in: true, carry_out: true }];
    let geometries = Geometries::with_parts(shape, HeScanKernel::Chunks, &segments, 4).unwrap();
    let Totals { values, masked } = geometries.totals();
    assert_eq!([0, 1].map(|i| geometries.of(segments[i]).unwrap().len()), [2, 1]);
    let scan = |span: Span| geometries.scan(span, &layer.forms, &ranges, Totals { values, masked }).unwrap();
    let kernels = segments.map(|span| (scan(span), span.tokens));
    let document = document(&layer, shape.tokens, Decay::Mixed, false, 5);
    let outcome = private_with(&layer, &document, &kernels, Some(keys(&geometries)), MadeBy::Dealer);
    outcome.assert_declared(&kernels);
    let xbc = document.xbc(&layer.shape);
    let want = layer.twin.scan(0, &xbc, &document.delta, &document.z, &mut Rounding::nearest()).unwrap();
    let ulps = |v: &[i64]| v.iter().map(|&v| v as f64).collect::<Vec<_>>();
    let (deviation, largest) = distance(ulps(&outcome.y).into_iter(), ulps(&want).into_iter());
    println!("outputs: deviation {deviation:.2}, largest {largest} ulps");
    assert!(deviation < 1.5 && largest <= 8.0, "deviation {deviation}, largest {largest}");
    let mut state = vec![0.0; shape.channels() * shape.state];
    recurrence(&layer.shape, &document.plain(&layer), &mut state);
    let unit = f64::from(layer.forms.scales.state).exp2();
    let got = outcome.state.unwrap();
    let (deviation, largest) = distance(got.iter().map(|&v| v as f64 / unit), state.iter().copied());
    println!("states: deviation {deviation:.6}, largest {largest:.6}");
    // That of exp.
    assert!(largest < 2e-3 && state.iter().any(|h| h.abs() > 0.02), "{largest}");
}

/// Kernels whose state stays inside take a document whole.
#[test]
fn only_a_kernel_that_refreshes_has_segments() {
    let shape = ScanShape { tokens: 8, heads: 2, head_dim: 4, groups: 1, state: 4 };
    let first = Span { tokens: 8, carry_in: false, carry_out: true };
    for kernel in [HeScanKernel::Hybrid, HeScanKernel::Lanes, HeScanKernel::Dual] {
        let refused = Geometries::new(shape, kernel, &[first]).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("8192"), "{refused}");
    }
    let chunks = Geometries::new(shape, HeScanKernel::Chunks, &[first]).unwrap();
    assert!(chunks.of(Span { carry_in: true, ..first }).is_err());
}
