//! Where generators come from: the operating system, anew for every connection.
//!
//! A generator that lives as long as its process is copied with it: a virtual machine that is cloned, or
//! resumed twice from one snapshot, would give two sessions the same masks, keys and choices. So no process
//! keeps a generator beyond a connection. A copy that is made in the middle of a session still has that
//! session's: no process may be copied then.

use std::fmt;
use std::sync::Arc;

use fesc_ring::Prg;

use super::error::{Result, SessionError};

type Source = dyn Fn() -> Result<Prg> + Send + Sync;

/// A source of generators. Clones are the same source.
#[derive(Clone)]
pub struct Randomness(Arc<Source>);

impl Randomness {
    /// The operating system, asked for every generator.
    pub fn os() -> Self {
        Self(Arc::new(|| Prg::from_os().map_err(|e| SessionError::Randomness(e.to_string()))))
    }

    /// Generators of a caller that knows what they are for: tests that need the same run twice.
    pub fn from_source(source: impl Fn() -> Result<Prg> + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// A generator for one connection.
    ///
    /// # Errors
    /// If there is no randomness. There is no other source to fall back to.
    pub fn generator(&self) -> Result<Prg> {
        (self.0)()
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness")
    }
}
