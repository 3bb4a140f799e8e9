#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ::aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::*;
use crate::Prg;
use crate::cpu::Path;

const KEY: u128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
const SIZES: [usize; 9] = [0, 1, 2, 31, 32, 33, 64, 100, 257];

fn pi(x: u128) -> u128 {
    let mut block = x.to_le_bytes().into();
    ::aes::Aes128::new(&KEY.to_le_bytes().into()).encrypt_block(&mut block);
    u128::from_le_bytes(block.into())
}

fn blocks(n: usize) -> Vec<u128> {
    let mut v = vec![0; n];
    Prg::from_seed([5; 16]).fill_u128(&mut v);
    v
}

/// AES on every path of this processor, and on AVX2 with narrow and with wide AES instructions.
fn ciphers() -> Vec<(&'static str, Aes)> {
    let paths = Path::available().map(|path| (path.name(), Aes::with_path(KEY, path)));
    #[cfg(target_arch = "x86_64")]
    let paths = paths.chain(Aes::narrow(KEY).map(|aes| ("narrow", aes)));
    paths.collect()
}

/// FIPS 197, appendix C.1.
#[test]
fn fips_197_known_answer_on_every_path() {
    for (name, aes) in ciphers() {
        let mut b = [u128::from_le_bytes(std::array::from_fn(|i| (i * 0x11) as u8))];
        aes.encrypt(&mut b);
        assert_eq!(b[0].to_le_bytes(), 0x69c4e0d86a7b0430d8cdb78070b4c55au128.to_be_bytes(), "{name}");
    }
}

#[test]
fn every_path_follows_the_formulas() {
    for (_, aes) in ciphers() {
        for n in SIZES {
            let x = blocks(n);
            let mut y = x.clone();
            aes.encrypt(&mut y);
            assert!(x.iter().zip(&y).all(|(&x, &y)| y == pi(x)));

            let mut y = x.clone();
            aes.hash(&mut y, u64::MAX - 3);
            for (i, (&x, &y)) in x.iter().zip(&y).enumerate() {
                let tweak = (u64::MAX - 3).wrapping_add(i as u64);
                assert_eq!(y, pi(pi(x) ^ u128::from(tweak)) ^ pi(x));
            }

            let tweaks: Vec<u64> = (0..n as u64).map(|i| i * i + 7).collect();
            let mut y = x.clone();
            aes.hash_tweaked(&mut y, &tweaks);
            for ((&x, &y), &t) in x.iter().zip(&y).zip(&tweaks) {
                assert_eq!(y, pi(pi(x) ^ u128::from(t)) ^ pi(x));
            }

            let (mut left, mut right) = (x.clone(), vec![0; n]);
            let sum = aes.expand_level(&mut left, &mut right);
            for ((&x, &l), &r) in x.iter().zip(&left).zip(&right) {
                let (hi, lo) = (x >> 64, x & u128::from(u64::MAX));
                let s = (hi ^ lo) << 64 | hi;
                assert_eq!(l, pi(s) ^ s);
                assert_eq!(r, x ^ l);
            }
            assert_eq!(sum, left.iter().fold(0, |a, b| a ^ b));
        }
    }
}

#[test]
fn counter_stream_carries_into_the_high_word_and_cuts_the_last_block() {
    for (_, aes) in ciphers() {
        for (start, len) in [(0u128, 1000), (u128::from(u64::MAX) - 5, 999), (u128::MAX - 2, 100), (7, 0)] {
            let mut out = vec![0u8; len];
            aes.ctr(start, &mut out);
            for (i, part) in out.chunks(16).enumerate() {
                assert_eq!(part, &pi(start.wrapping_add(i as u128)).to_le_bytes()[..part.len()]);
            }
        }
    }
}

#[test]
fn transpose_is_the_transpose_on_every_path() {
    for path in Path::available() {
        for stride in [1, 2, 5] {
            let mut rows = vec![0u64; 128 * stride];
            Prg::from_seed([6; 16]).fill_u64(&mut rows);
            for columns in [64 * stride, 64 * stride - 3] {
                let mut out = vec![0u128; columns];
                transpose::transpose_on(path, &rows, stride, &mut out);
                for (c, o) in out.iter().enumerate() {
                    for r in 0..128 {
                        assert_eq!(o >> r & 1, u128::from(rows[r * stride + c / 64] >> (c % 64) & 1));
                    }
                }
            }
        }
    }
}

#[test]
fn local_code_reads_the_places_of_the_stream_on_every_path() {
    let k = 1000u32;
    let table = blocks(k as usize);
    let mut stream = vec![0u8; 4 * 10 * 700];
    Aes::with_path(KEY, Path::Portable).ctr(0, &mut stream);
    let place = |row: usize, j: usize| {
        let at = 4 * (10 * row + j);
        let w = u32::from_le_bytes(stream[at..at + 4].try_into().unwrap());
        ((u64::from(w) * u64::from(k)) >> 32) as usize
    };
    for path in Path::available() {
        let code = LocalCode::with_path(KEY, k, path);
        for (first, n) in [(0usize, 1usize), (0, 300), (1, 129), (37, 128), (2, 0), (255, 400)] {
            let start = blocks(n);
            let mut out = start.clone();
            code.xor_rows(first as u64, &table, &mut out);
            for i in 0..n {
                let expected = (0..10).fold(start[i], |a, j| a ^ table[place(first + i, j)]);
                assert_eq!(out[i], expected, "{} row {}", path.name(), first + i);
            }
        }
        // A table that is too short is not read at all.
        let mut out = [3u128];
        code.xor_rows(0, &table[1..], &mut out);
        assert_eq!(out, [3]);
    }
}

#[test]
fn doubling_is_multiplication_by_x() {
    assert_eq!(double(1), 2);
    assert_eq!(double(1 << 127), 0x87);
    assert_eq!(double(3 << 126), (1 << 127) ^ 0x87);
    // Linear, and injective on the powers of x: x has a long order, so no early repetition.
    let mut seen = std::collections::HashSet::new();
    let mut b = 1u128;
    for _ in 0..1000 {
        assert!(seen.insert(b));
        assert_eq!(double(b ^ 5), double(b) ^ double(5));
        b = double(b);
    }
}
