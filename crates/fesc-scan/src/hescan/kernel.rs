//! The kernels of the scan as one type.

use fesc_hybrid::Result;
use fesc_hybrid::backend::Backend;

use super::chunks::Chunks;
use super::dual::DualScan;
use super::lanes::Lanes;
use super::{Factors, HeScan, Lane, Repeats, ScanShape, Value};

/// A kernel.
#[derive(Debug, Clone)]
pub enum Kernel {
    /// Packings `lanes` and `hybrid`.
    Lanes(Lanes),
    /// Packing `chunks`.
    Chunks(Box<Chunks>),
    /// Packing `dual`.
    Dual(DualScan),
}

/// The same call, whichever kernel it is.
macro_rules! whichever {
    ($self:expr, $kernel:ident => $call:expr) => {
        match $self {
            Kernel::Lanes($kernel) => $call,
            Kernel::Chunks($kernel) => $call,
            Kernel::Dual($kernel) => $call,
        }
    };
}

impl Kernel {
    /// Levels between inputs and results.
    pub fn depth(&self) -> usize {
        whichever!(self, k => k.depth())
    }
}

impl HeScan for Kernel {
    fn shape(&self) -> &ScanShape {
        whichever!(self, k => k.shape())
    }

    fn factors(&self) -> &Factors {
        whichever!(self, k => k.factors())
    }

    fn inputs(&self) -> usize {
        whichever!(self, k => k.inputs())
    }

    fn level(&self, i: usize) -> usize {
        whichever!(self, k => k.level(i))
    }

    fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        whichever!(self, k => k.lanes(i))
    }

    fn repeats(&self, i: usize) -> Repeats {
        whichever!(self, k => k.repeats(i))
    }

    fn results(&self) -> usize {
        whichever!(self, k => k.results())
    }

    fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        whichever!(self, k => k.outputs(i))
    }

    fn terms(&self) -> usize {
        whichever!(self, k => k.terms())
    }

    fn carried(&self) -> [bool; 2] {
        whichever!(self, k => k.carried())
    }

    fn holds_state(&self, i: usize) -> bool {
        whichever!(self, k => k.holds_state(i))
    }

    fn result_scale(&self) -> f64 {
        whichever!(self, k => k.result_scale())
    }

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        whichever!(self, k => k.run(backend, input))
    }

    fn run_apart<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        whichever!(self, k => k.run_apart(backend, input))
    }
}
