//! The share boundary: ciphertexts under the client's key to additive shares, and back (the paper, appendix
//! "CKKS-MPC Boundary Protocols").
//!
//! | way | protocol | messages | correlations |
//! |---|---|---|---|
//! | ciphertexts to shares | [`ToShares`] | one down: masked ciphertexts | none |
//! | shares to ciphertexts | [`ToCiphertexts`] | a bit each way a value; one up: uploads | bit products |
//! | the same, uploads ahead | [`ToCiphertexts`], `ahead` | `k` bits up for each value | those, and uploads |
//!
//! The paper masks uniformly modulo `q`, reduces the *shares* modulo `2^l` and decodes then. Decoding is not
//! linear modulo `2^l`: its roots are irrational, and a wrap does not vanish. So both directions work on
//! integers that do not wrap: a bounded mask on the way to shares, parts of `k` bits on the way back. And it
//! masks `c0` alone, which leaves `c1`, a linear function of the weights; here a fresh encryption of zero is
//! added first ([`fesc_ckks::mask`]).
//!
//! Each direction has a shape that both parties make of public numbers; it declares its cost, states its
//! error and its distance ([`BoundaryReport`]), and has a half for each party. Why nothing leaks is in
//! docs/SECURITY-ARGUMENTS.md, L.
//!
//! # What is not guaranteed
//! That the caller's bound on the phase is right ([`MaskBound`]). Constant time, beyond branches.

mod layout;
mod messages;
mod report;
mod to_ciphertexts;
mod to_shares;

#[cfg(test)]
mod tests;

pub use layout::Layout;
pub use messages::MESSAGES;
pub(crate) use messages::tag;
pub use report::{BoundaryReport, log_together};
pub use to_ciphertexts::{ClientUploads, Encoding, Held, LIFT_BITS, ServerUploads, ToCiphertexts, Uploads, Values};
pub use to_shares::{Fixed, Lanes, MaskBound, ToShares};

use std::ops::Range;

use fesc_mpc::{Party, Role};

use crate::{HybridError, Result};

/// Refuses a party that runs the other's half.
fn check_role(party: &Party, role: Role) -> Result<()> {
    if party.role() == role {
        return Ok(());
    }
    Err(HybridError::Role(match role {
        Role::P0 => "client",
        Role::P1 => "server",
    }))
}

/// Ciphertexts of one message. All of a conversion would not fit a frame of 4 GiB, and either party would
/// hold their bytes at once.
const BATCH: usize = 16;

/// The ciphertexts of each message, of so many.
fn batches(ciphertexts: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    (0..ciphertexts).step_by(BATCH).map(move |first| first..ciphertexts.min(first + BATCH))
}
