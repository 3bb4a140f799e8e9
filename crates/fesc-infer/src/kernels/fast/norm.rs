//! RMSNorm without its weight (docs/DESIGN.md, 6.4; the weight, and `sqrt(w) / 2^e`, are in the next matrix).
//!
//! For a row of `w` values `u`: `q = sum u^2`, `v = q / 4^e + eps`, `r = rsqrt(v)`, `n = u r`. One bundle:
//! `u` is opened once, for the sum of squares and for the scaling.
//!
//! Online per row: `12 w + 12` bytes for the openings, `w / 4` for each truncation of a whole row, and the
//! inverse root's.

use fesc_model::outline::{InverseRoot, NormForm};
use fesc_mpc::activation::{Activation, NeRms, Rsqrt};
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::Opened;
use fesc_mpc::{Ledger, Party, Request, Shared};
use fesc_ring::Ring;

use crate::Result;
use crate::stage::{self, Rescale};

/// The norm of `rows` rows.
pub struct Norm {
    eps: u64,
    root: Box<dyn Activation + Sync>,
    rows: usize,
    bundle: Bundle,
    enter: Rescale,
    variance: Rescale,
    leave: Rescale,
}

impl Norm {
    /// Rows of `form.width` values that come at `from` fractional bits.
    pub fn new(ring: Ring, form: &NormForm, from: u32, rows: usize) -> Self {
        let elements = rows * form.width;
        let (v_frac, y_frac) = (form.rsqrt.v_frac(), form.rsqrt.y_frac());
        let row = Tensor::new(&[0]);
        let bundle = Bundle {
            ring,
            sizes: vec![rows, form.width],
            masks: vec![Tensor::new(&[0, 1]), row.clone()],
            products: vec![Product::new(0, 0, row), Product::new(1, 0, Tensor::new(&[0, 1]))],
        };
        Self {
            eps: ring.from_signed(form.eps),
            root: root(&form.rsqrt),
            rows,
            bundle,
            enter: Rescale::new(ring, from, form.square, elements),
            variance: Rescale::new(ring, 2 * (form.square + form.exponent), v_frac, rows),
            leave: Rescale::new(ring, form.square + y_frac, form.frac, elements),
        }
    }
}

/// The inverse root on shares.
fn root(form: &InverseRoot) -> Box<dyn Activation + Sync> {
    match form {
        InverseRoot::Lines(form) => Box::new(Rsqrt::new(form.clone())),
        InverseRoot::Constants(form) => Box::new(NeRms::new(form.clone())),
    }
}

impl stage::Norm for Norm {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.enter.declare(ledger)?;
        ledger.need(Request::Bundle(self.bundle.clone()));
        Opened::declare_open(&self.bundle, &[0], ledger);
        self.variance.declare(ledger)?;
        self.root.declare(self.rows, ledger)?;
        Opened::declare_open(&self.bundle, &[1], ledger);
        Ok(self.leave.declare(ledger)?)
    }

    fn run(&self, party: &mut Party, x: Shared) -> Result<Shared> {
        let u = self.enter.run(party, x)?;
        let mut opened = Opened::start(party, &self.bundle)?;
        opened.open(party, &[(0, &u)])?;
        drop(u);
        let sum = opened.product(0)?;
        let v = self.variance.run(party, sum)?.add_public(party.role(), self.eps);
        let r = self.root.run(party, &v)?;
        opened.open(party, &[(1, &r)])?;
        let scaled = opened.product(1)?;
        drop(opened);
        Ok(self.leave.run(party, scaled)?)
    }
}
