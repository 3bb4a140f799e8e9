//! The queue between a maker and its party, with numbers for halves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fesc_mpc::correlation::BitTriples;

use super::*;

/// Makes 0, 1, 2, ... until its number, at which it fails or panics.
struct Counting {
    made: Arc<AtomicUsize>,
    fails_at: usize,
    panics: bool,
}

impl Generator for Counting {
    type Half = usize;

    fn begin(&mut self) {}

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn make(&mut self, _: &Request) -> std::result::Result<usize, MpcError> {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        if number == self.fails_at {
            assert!(!self.panics, "as a bug would");
            return Err(MpcError::Shape { what: "a test", expected: 1, got: number });
        }
        Ok(number)
    }
}

/// Number `i` of a demand in which no two neighbours are the same; 24 bytes a word.
fn request(i: usize) -> Request {
    Request::BitTriples(BitTriples { words: 1 + i % 3, width: 1 })
}

const TOTAL: usize = 40;

fn start(limit: usize, fails_at: usize, panics: bool) -> (Ahead<usize>, Maker<usize>, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let generator = Counting { made: Arc::clone(&made), fails_at, panics };
    let hangup = Channel::memory_pair().0.hangup().unwrap();
    let work =
        move |queue: &Between<usize>| make(Role::P0, (0..TOTAL).map(|i| Ok(request(i))), queue, || Ok(generator));
    let (ahead, maker) = spawn(limit, hangup, work).unwrap();
    (ahead, maker, made)
}

#[test]
fn halves_come_in_order_and_each_for_its_request() {
    let (ahead, maker, _) = start(100, TOTAL, false);
    for i in 0..TOTAL {
        assert_eq!(ahead.next(&request(i)).unwrap(), i);
    }
    assert!(matches!(ahead.next(&request(0)), Err(MpcError::Exhausted { prepared: 40 })));
    assert!(!maker.failed() && maker.finish().is_ok());
    let (ahead, _maker, _) = start(100, TOTAL, false);
    ahead.next(&request(0)).unwrap();
    assert!(matches!(ahead.next(&request(0)), Err(MpcError::WrongCorrelation { index: 1, .. })));
}

#[test]
fn what_waits_is_bounded_in_bytes_and_one_always_fits() {
    // Sizes go 24, 48, 72, 24, ...: in 150 bytes the first three fit, and the maker waits with the fourth in
    // its hand.
    let (ahead, maker, made) = start(150, TOTAL, false);
    while made.load(Ordering::SeqCst) < 4 {
        std::thread::yield_now();
    }
    // Time for a maker that does not wait to go on; one that waits cannot fail here.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((made.load(Ordering::SeqCst), maker.between.lock().bytes), (4, 144));
    for i in 0..TOTAL {
        assert!(maker.between.lock().bytes <= 150);
        assert_eq!(ahead.next(&request(i)).unwrap(), i);
    }
    let (ahead, maker, _) = start(0, TOTAL, false);
    (0..TOTAL).for_each(|i| assert_eq!(ahead.next(&request(i)).unwrap(), i));
    assert!(maker.finish().is_ok(), "a limit below every half makes them one by one");
}

#[test]
fn the_makers_error_reaches_the_party_after_what_was_made() {
    let (ahead, maker, _) = start(1 << 20, 3, false);
    for i in 0..3 {
        assert_eq!(ahead.next(&request(i)).unwrap(), i);
    }
    assert!(matches!(ahead.next(&request(3)), Err(MpcError::Exhausted { prepared: 3 })));
    assert!(maker.failed());
    let error = maker.finish().unwrap_err();
    assert!(matches!(error, SessionError::Mpc(MpcError::Shape { got: 3, .. })), "{error}");
    let (ahead, maker, _) = start(1 << 20, 0, true);
    assert!(matches!(ahead.next(&request(0)), Err(MpcError::Exhausted { prepared: 0 })), "a panic ends the wait too");
    assert!(maker.failed() && matches!(maker.finish(), Err(SessionError::Died(_))));
}

#[test]
fn a_maker_ends_with_its_party_and_keeps_nothing() {
    let (ahead, maker, made) = start(150, TOTAL, false);
    ahead.next(&request(0)).unwrap();
    let between = Arc::clone(&maker.between);
    drop(ahead);
    assert!(maker.finish().is_ok(), "it was waiting for room, or would have");
    assert!(made.load(Ordering::SeqCst) < TOTAL);
    assert!(between.lock().ready.is_empty() && between.lock().bytes == 0);
    // A session that fails drops the maker instead.
    let (ahead, maker, made) = start(150, TOTAL, false);
    drop(maker);
    assert!(made.load(Ordering::SeqCst) < TOTAL && ahead.next(&request(0)).is_err());
}
