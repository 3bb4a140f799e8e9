//! The local work of a bundle's products online: `cargo run --release -p fesc-mpc --example bundle_speed`.
//!
//! One party opens tensors of zeros against a peer that does the same, with correlations from a generator
//! that does nothing, and the time of each product's share is printed, with the multiplications that it takes
//! (two products of shares).

use std::time::Instant;

use fesc_mpc::correlation::{Bundle, Product, ProductShape, Tensor};
use fesc_mpc::protocol::Opened;
use fesc_mpc::provider::{CrossTerms, TwoParty};
use fesc_mpc::{MpcError, Party, Role, Shared};
use fesc_net::Channel;
use fesc_ring::{Prg, Ring};

/// Cross terms that are zero: wrong, and quick.
struct Nothing;

impl CrossTerms for Nothing {
    fn declared(&self, _: &Bundle) -> Option<(u64, u64)> {
        Some((0, 0))
    }

    fn run(
        &mut self,
        _: Role,
        _: &mut Channel,
        bundle: &Bundle,
        _: &mut [Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        Ok((0..bundle.products.len()).map(|i| vec![0; bundle.product_len(i)]).collect())
    }
}

/// The products of a segment at the base size: k, h, i, j, n, p, the chunks twice, a tree's nodes, tokens x
/// inner.
fn segment(ring: Ring) -> (Vec<&'static str>, Bundle) {
    let (full, lower) = (Tensor::new, Tensor::lower);
    let (names, rows): (Vec<_>, Vec<_>) = [
        ("S", [full(&[0, 2, 4]), full(&[0, 3, 4]), full(&[0, 2, 3])]),
        ("outer, 4 x 32 x 32", [full(&[0, 1, 8, 9]), full(&[0, 1, 8, 10]), full(&[0, 1, 8, 9, 10])]),
        ("S o Lt", [lower(&[0, 2, 3]), lower(&[0, 1, 2, 3]), lower(&[0, 1, 2, 3])]),
        ("M X", [lower(&[0, 1, 2, 3]), full(&[0, 3, 1, 5]), full(&[0, 2, 1, 5])]),
        ("col o X", [full(&[0, 3, 1]), full(&[0, 3, 1, 5]), full(&[0, 3, 1, 5])]),
        ("B^T V", [full(&[0, 3, 4]), full(&[0, 3, 1, 5]), full(&[0, 4, 1, 5])]),
        ("recurrence", [lower(&[1, 6, 7]), full(&[7, 4, 1, 5]), full(&[6, 4, 1, 5])]),
        ("C H", [full(&[0, 2, 4]), full(&[0, 4, 1, 5]), full(&[0, 2, 1, 5])]),
        ("gate", [full(&[11, 12]), full(&[11, 12]), full(&[11, 12])]),
        ("sums of squares", [full(&[11, 12]), full(&[11, 12]), full(&[11])]),
    ]
    .into_iter()
    .unzip();
    let (mut masks, mut products) = (Vec::new(), Vec::new());
    for [left, right, out] in rows {
        products.push(Product::new(masks.len(), masks.len() + 1, out));
        masks.extend([left, right]);
    }
    let sizes = vec![16, 24, 128, 128, 128, 64, 16, 16, 4, 32, 32, 2048, 1536];
    (names, Bundle { ring, sizes, masks, products })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ring = Ring::new(48)?;
    let (names, bundle) = segment(ring);
    let (c0, c1) = Channel::memory_pair();
    let run = |role: Role, mut channel: Channel| -> Result<Opened, MpcError> {
        let prg = Prg::from_seed([role.index() as u8; 16]);
        let source = TwoParty::setup(role, &mut channel, fesc_ot::CotKind::Iknp, prg)?.with_products(Box::new(Nothing));
        let mut party = Party::new(role, channel, Box::new(source));
        let mut opened = Opened::start(&mut party, &bundle)?;
        for i in 0..bundle.masks.len() {
            opened.open(&mut party, &[(i, &Shared::new(ring, vec![0; bundle.mask_len(i)]))])?;
        }
        Ok(opened)
    };
    let mut opened = std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, c1).map(drop));
        let opened = run(Role::P0, c0);
        peer.join().map_err(|_| "the peer failed")??;
        Ok::<_, Box<dyn std::error::Error>>(opened?)
    })?;
    for (i, name) in names.iter().enumerate() {
        let shape = ProductShape::new(&bundle, &bundle.products[i])?;
        let steps = 2 * shape.batch() * shape.left() * shape.right() * shape.sum();
        let start = Instant::now();
        opened.product(i)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:20} {:8.1} ms, {:6.2} G products/s", seconds * 1e3, steps as f64 / seconds / 1e9);
    }
    Ok(())
}
