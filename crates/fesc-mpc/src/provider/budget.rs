//! How much memory dealing may take: a stranger names what is to be made, and a request of a few bytes makes
//! gigabytes.
//!
//! Counted are both halves of a request as they lie in memory, 8 bytes an element, before anything of them is
//! allocated; when they are sent, the replies alone, until both parties ask again: so long they may wait in a
//! queue. What completing takes besides (the masks in the clear, one product) is not counted; it is less than
//! the halves.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::MpcError;

/// How long a pair waits for what others hold: less than a party waits for its dealer, unless told.
const PATIENCE: Duration = Duration::from_secs(240);

/// Memory for dealing, shared by all pairs of a dealer.
pub struct Budget {
    /// Of one half of a request.
    each: usize,
    /// Of all together.
    all: usize,
    free: Mutex<usize>,
    freed: Condvar,
    patience: Duration,
}

impl Budget {
    /// `each` bytes for either half of a request at most, `all` for the halves of all pairs together.
    pub const fn new(each: usize, all: usize) -> Self {
        Self { each, all, free: Mutex::new(all), freed: Condvar::new(), patience: PATIENCE }
    }

    /// For parties of one's own.
    pub const fn unlimited() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for two halves of so many bytes; waits for a while if others have it.
    ///
    /// # Errors
    /// [`MpcError::DealerFull`] if one is over the limit, at once, or if nobody gave enough back.
    pub(super) fn take(&self, halves: [usize; 2]) -> Result<Room<'_>, MpcError> {
        let full = |bytes: usize, limit: usize| MpcError::DealerFull { bytes: bytes as u64, limit: limit as u64 };
        let [p0, p1] = halves;
        let (larger, bytes) = (p0.max(p1), p0.saturating_add(p1));
        if larger > self.each {
            return Err(full(larger, self.each));
        }
        if bytes > self.all {
            return Err(full(bytes, self.all));
        }
        let waited = self.freed.wait_timeout_while(self.lock(), self.patience, |free| *free < bytes);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(bytes).ok_or_else(|| full(bytes, self.all))?;
        Ok(Room { budget: self, bytes })
    }
}

/// Room that was taken; given back when dropped.
pub(super) struct Room<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Room<'_> {
    /// Gives back all but so many bytes.
    pub(super) fn keep(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        *self.budget.lock() += self.bytes - bytes;
        self.bytes = bytes;
        self.budget.freed.notify_all();
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn full(taken: Result<Room<'_>, MpcError>) -> bool {
        matches!(taken, Err(MpcError::DealerFull { .. }))
    }

    #[test]
    fn room_is_shared_and_comes_back() {
        let budget = Budget { patience: Duration::ZERO, ..Budget::new(6, 10) };
        assert!(full(budget.take([0, 7])), "one half alone");
        assert!(full(budget.take([6, 5])), "more than there is");
        let mut first = budget.take([6, 0]).unwrap();
        assert!(full(budget.take([2, 3])), "all together");
        first.keep(5);
        let second = budget.take([2, 3]).unwrap();
        drop(first);
        assert!(full(budget.take([6, 0])) && budget.take([5, 0]).is_ok());
        drop(second);
        assert_eq!(*budget.lock(), 10);
    }

    #[test]
    fn a_pair_waits_for_what_another_holds() {
        let budget = Budget::new(10, 10);
        let held = budget.take([4, 4]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                drop(held);
            });
            assert!(budget.take([4, 4]).is_ok());
        });
    }
}
