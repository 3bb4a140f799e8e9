use super::*;

#[test]
fn released_memory_is_given_out_again_for_any_length() {
    let pool = Pool::new();
    let mut first = pool.take(100);
    first.fill(7);
    let place = first.as_ptr();
    drop(first);
    assert_eq!((pool.made(), pool.idle_words()), (1, 104));
    let shorter = pool.take(41);
    let other = pool.take(101);
    assert_eq!((shorter.as_ptr(), pool.made()), (place, 2));
    assert!(shorter.iter().all(|&x| x == 7) && other.iter().all(|&x| x == 0));
    let copy = shorter.clone();
    assert!(copy.as_ptr() != place && *copy == *shorter);
    assert!(pool.take_zeroed(40).iter().all(|&x| x == 0));
    assert_eq!(*pool.take_copy(&[1, 2, 3]), [1, 2, 3]);
}

#[test]
fn neighbours_join() {
    let pool = Pool::new();
    drop(pool.take(800));
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [0, 2, 3, 1]] {
        let mut parts: Vec<Option<Pooled>> = (0..4).map(|_| Some(pool.take(200))).collect();
        order.into_iter().for_each(|i| drop(parts[i].take()));
        let whole = pool.take(800);
        assert_eq!((whole.len(), pool.made(), pool.idle_words()), (800, 1, 0));
    }
}

#[test]
fn a_secret_is_wiped_when_its_buffer_goes_back() {
    let pool = Pool::new();
    let mut secret = pool.take_secret(104);
    secret.fill(7);
    let copy = secret.clone();
    drop((secret, copy));
    assert_eq!(pool.idle_words(), 208);
    assert!([pool.take(104), pool.take(104)].iter().all(|b| b.iter().all(|&x| x == 0)));
    assert_eq!(pool.made(), 2);
}

#[test]
fn cleared_memory_does_not_come_back() {
    let pool = Pool::new();
    let kept = pool.take(8);
    drop(pool.take(800));
    pool.clear();
    assert_eq!((pool.idle_words(), pool.words_in_use()), (0, 8));
    drop(kept);
    drop(pool.take(0));
    assert_eq!((pool.idle_words(), pool.words_in_use()), (8, 0));
    pool.clear();
    assert_eq!(pool.idle_words(), 0);
}

#[test]
fn slabs_without_a_buffer_go_when_too_much_is_idle() {
    let pool = Pool::with_limit(1000);
    let mut many: Vec<Pooled> = (0..20).map(|_| pool.take(104)).collect();
    assert_eq!(pool.words_in_use(), 2080);
    let kept = many.remove(0);
    drop(many);
    assert!(pool.idle_words() <= 1000 && pool.idle_words() > 500, "{}", pool.idle_words());
    pool.set_limit(0);
    assert_eq!((pool.idle_words(), kept.len()), (0, 104));
    drop(kept);
    assert_eq!((pool.idle_words(), pool.words_in_use()), (0, 0));
}

/// What is in use at once decides how much memory there is, not how many lengths there were.
#[test]
fn lengths_share_memory() {
    let pool = Pool::new();
    let most = 64 * 80;
    for words in (8..=80).rev().step_by(8) {
        let all: Vec<Pooled> = (0..most / words).map(|_| pool.take(words)).collect();
        drop(all);
    }
    assert!(pool.peak_words() <= most && pool.idle_words() <= 2 * most, "{}", pool.idle_words());
}

#[test]
fn what_is_reserved_is_there() {
    let pool = Pool::with_limit(4096);
    pool.reserve(1000);
    assert_eq!((pool.made(), pool.idle_words()), (1, 1000));
    pool.reserve(900);
    let b = pool.take(1000);
    assert_eq!(pool.made(), 1);
    pool.reserve(1 << 40);
    assert_eq!((pool.idle_words(), b.len()), (4096, 1000));
}

#[test]
fn what_is_out_is_counted_and_its_largest_number_kept() {
    let pool = Pool::new();
    let (a, b) = (pool.take(96), pool.take_zeroed(16));
    assert_eq!((pool.words_in_use(), pool.peak_words()), (112, 112));
    drop(a);
    let copy = b.clone();
    assert_eq!((pool.words_in_use(), pool.peak_words()), (32, 112));
    pool.reset_peak();
    assert_eq!(pool.peak_words(), 32);
    drop((b, copy));
    assert_eq!((pool.words_in_use(), pool.peak_words()), (0, 32));
}

/// Buffers of many lengths, taken and released in any order by several threads: none is written by
/// another, and all memory is free at the end.
#[test]
fn buffers_never_overlap() {
    let pool = Pool::new();
    std::thread::scope(|s| {
        let run = |id: u64| {
            let mut held: Vec<Pooled> = Vec::new();
            let mut state = id;
            for step in 0..4000u64 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if held.len() == 12 {
                    let old = held.swap_remove((state >> 40) as usize % held.len());
                    assert!(old.iter().all(|&x| x == old[0]) && old[0] >> 32 == id);
                }
                let mut b = pool.take(1 + (state >> 33) as usize % 300);
                b.fill(id << 32 | step);
                held.push(b);
            }
            assert!(held.iter().all(|b| b.iter().all(|&x| x == b[0])));
        };
        let threads: Vec<_> = (1..5).map(|id| s.spawn(move || run(id))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    let slabs = pool.0.slabs();
    assert!(slabs.all.values().all(Slab::is_free));
    assert_eq!(pool.words_in_use(), 0);
}
