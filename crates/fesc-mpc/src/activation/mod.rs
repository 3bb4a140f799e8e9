//! Nonlinear functions on shares, each exactly as its plaintext twin in `fesc-approx` computes it.
//!
//! | ours | the paper's |
//! |---|---|
//! | [`Piecewise`]: SiLU, softplus, exp (tables in `fesc_approx`) | [`EvenResidual`]: MoSiLU, MoSoft |
//! | [`Folded`]: SiLU in two comparisons, half the bytes | |
//! | [`ExpSquare`]: exp, exact at 0, never above 1 | [`MinimaxExp`]: MMExp |
//! | [`Rsqrt`]: linear start, Newton | [`NeRms`]: constant start, Newton |
//!
//! A result is one of the few integers that the twin gives for the values of its carries, never anything
//! else.

mod even_residual;
mod exp_square;
mod folded;
mod guarded;
mod horner;
mod minimax_exp;
mod newton;
mod piecewise;
mod steps;
#[cfg(test)]
mod tests;

use fesc_ring::Ring;

pub use even_residual::EvenResidual;
pub use exp_square::ExpSquare;
pub use folded::Folded;
pub use guarded::Guarded;
pub use minimax_exp::MinimaxExp;
pub use newton::{NeRms, Rsqrt};
pub use piecewise::Piecewise;

use crate::{Ledger, MpcError, Party, Shared};

/// An element-wise function on shares.
pub trait Activation {
    /// The ring of inputs.
    fn ring(&self) -> Ring;

    /// The ring of outputs: that of inputs, unless a form says otherwise.
    fn result(&self) -> Ring {
        self.ring()
    }

    /// Writes the cost for `count` elements.
    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError>;

    /// The function of every element.
    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError>;
}
