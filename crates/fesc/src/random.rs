//! Randomness of the operating system, as the program's refusal where there is none.

use fesc_ring::Prg;

use crate::exit;

/// A generator seeded by the operating system.
pub fn os_random() -> Result<Prg, exit::Refusal> {
    Prg::from_os().map_err(|e| exit::Refusal::Randomness(e.to_string()))
}
