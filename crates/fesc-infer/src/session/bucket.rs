//! Length buckets: what the server may know of a document's length.
//!
//! A document is padded on the right to its bucket, so its length is hidden inside it: multiples of 128
//! tokens up to 512, then powers of two. Few buckets mean that many documents look alike and that prepared
//! correlations fit.

use crate::MAX_TOKENS;

/// The smallest bucket that holds `tokens`; `None` for no tokens at all, or too many.
pub fn bucket(tokens: usize) -> Option<usize> {
    match tokens {
        0 => None,
        1..=512 => Some(tokens.next_multiple_of(128)),
        513..=MAX_TOKENS => Some(tokens.next_power_of_two()),
        _ => None,
    }
}

/// Whether a peer's number is a bucket.
pub fn is_bucket(tokens: usize) -> bool {
    bucket(tokens) == Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_the_smallest_bucket_that_holds_it() {
        let all = [(1, 128), (128, 128), (129, 256), (385, 512), (512, 512), (513, 1024), (1025, 2048), (2048, 2048)];
        for (tokens, expected) in all {
            assert_eq!(bucket(tokens), Some(expected), "{tokens}");
            assert!(is_bucket(expected));
        }
        assert_eq!((bucket(0), bucket(MAX_TOKENS), bucket(MAX_TOKENS + 1)), (None, Some(MAX_TOKENS), None));
        assert!(!is_bucket(0) && !is_bucket(640) && !is_bucket(100));
    }
}
