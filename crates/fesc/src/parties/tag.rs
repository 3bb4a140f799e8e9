//! Message tags of the program, 0x0500 and up: measurements and self-tests.

use fesc_net::Tag;

/// Both parties are ready for the next phase.
pub const BARRIER: Tag = Tag(0x0501);
/// Shares of bits, opened for the check of a result.
pub const CHECK: Tag = Tag(0x0502);
/// Bulk data.
pub const BULK: Tag = Tag(0x0503);
/// A small message there and back.
pub const PING: Tag = Tag(0x0504);
/// The self-test of `fesc doctor`.
pub const SELF_TEST: Tag = Tag(0x0505);
