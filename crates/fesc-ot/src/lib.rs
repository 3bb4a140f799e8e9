//! Oblivious transfer: base OT over Ristretto, IKNP extension, silent correlated OT, random, 1-of-8 and
//! chosen OT.
//!
//! Everything starts from *correlated* OT (COT): the sender holds a global secret `Delta` and values `q_i`,
//! the receiver `t_i = q_i ^ c_i Delta` with a random choice bit `c_i`. Convention: `lsb(Delta) = 1` and
//! `lsb(q_i) = 0`, so `c_i = lsb(t_i)` and no bit vector travels beside the blocks. `Delta` then has 127
//! unknown bits. Two sources, one interface:
//!
//! | [`CotKind`] | bytes per COT | direction | assumption beyond base OT |
//! |---|---|---|---|
//! | `Iknp` | 15.9 | receiver to sender | AES as a PRG |
//! | `Silent` | 0.31 | sender to receiver | LPN with regular noise, 10-local code; AES as an ideal cipher |
//!
//! Set-up costs 4.2 kB (IKNP) or 0.58 MB (silent). Measured with `examples/cot_speed.rs` on one shared core
//! of an Emerald Rapids server: 55 to 64 million silent COTs and 90 to 139 million IKNP COTs per CPU-second
//! and party; a silent party holds about 10 MB.
//!
//! Random OT hashes the COTs (module `pads`), so that pads look uniform and `Delta` stays hidden when pads
//! are used. **Never use `q_i`, `q_i ^ Delta` as pads themselves:** two opened pads of one OT give `Delta`; a
//! test shows it.
//!
//! # What is in it
//! | for | see |
//! |---|---|
//! | the two parties | [`OtSender`], [`OtReceiver`] |
//! | exact bytes before anything runs | [`OtCost`], [`setup_cost`], `declared` of both parties |
//! | parameters of silent OT, refused when weak | [`SilentParams`], [`LpnParams`], [`security`] |
//! | messages | [`MESSAGES`] |
//!
//! # Example
//! ```
//! use fesc_net::Channel;
//! use fesc_ot::{CotKind, OtReceiver, OtSender};
//! use fesc_ring::Prg;
//!
//! let (mut a, mut b) = Channel::memory_pair();
//! let other = std::thread::spawn(move || {
//!     let mut receiver = OtReceiver::setup(&mut b, CotKind::Iknp, &mut Prg::from_seed([2; 16]))?;
//!     receiver.random(&mut b, 64)
//! });
//! let mut sender = OtSender::setup(&mut a, CotKind::Iknp, &mut Prg::from_seed([1; 16]))?;
//! let pads = sender.random(&mut a, 64)?;
//! let (choices, chosen) = other.join().unwrap()?;
//! assert_eq!(chosen[5], pads[5][(choices[0] >> 5 & 1) as usize]);
//! # Ok::<(), fesc_ot::OtError>(())
//! ```
//!
//! # What it does not promise
//! The model is semi-honest, one static corruption. A peer's bytes cannot cause a panic or an unbounded
//! allocation: every length is fixed beforehand, every curve point is checked. Not guaranteed: malicious
//! security (no consistency check), post-quantum security (base OT), constant-time memory access in the trees
//! (module `tree`).
#![forbid(unsafe_code)]

mod base;
mod chosen;
mod cost;
mod error;
mod iknp;
mod messages;
mod pads;
mod params;
mod receiver;
pub mod security;
mod sender;
mod session;
mod silent;
mod source;
mod stock;
mod tree;

#[cfg(test)]
mod tests;

pub use cost::OtCost;
pub use error::OtError;
pub use messages::MESSAGES;
pub use params::{LpnParams, MIN_SECURITY_BITS, SilentParams};
pub use receiver::OtReceiver;
pub use sender::OtSender;

/// Which source of correlations an instance uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CotKind {
    /// IKNP extension: cheap set-up, 16 bytes per COT.
    Iknp,
    /// Silent OT (Ferret): a larger set-up, a small fraction of a byte per COT.
    Silent,
}

impl CotKind {
    const fn code(self) -> u8 {
        match self {
            CotKind::Iknp => 1,
            CotKind::Silent => 2,
        }
    }
}

/// What set-up of this kind costs, exactly.
pub fn setup_cost(kind: CotKind) -> OtCost {
    source::setup_cost(kind, &SilentParams::STANDARD)
}

/// `m * each`, or an error.
fn times(m: usize, each: usize) -> Result<usize, OtError> {
    m.checked_mul(each).ok_or(OtError::TooMany { count: m, each })
}
