//! The corpus of the fuzz target `ckks_wire`, and changed copies of it, on the stable toolchain.
//!
//! The accepted inputs are the beginnings of real objects from fixed seeds, so they are known answers for the
//! whole client side at a secure set too. `FESC_BLESS=1 cargo test -p fesc-ckks --test corpus` writes them
//! anew.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use fesc_ckks::client::{KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::KeyPurpose;
use fesc_ckks::{Encoder, Params, RingMask, fuzzing};
use fesc_ring::Prg;
use fesc_ring::cpu::Path;

/// Header and 64 bytes of residues; zeros follow (`fuzzing::wire`).
const KEPT: usize = 136;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ckks_wire")
}

fn objects() -> Vec<(&'static str, Vec<u8>)> {
    let params = Params::new(&fuzzing::literal()).unwrap();
    let mut prg = Prg::from_seed([7; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let public = generator.public_key(&mut prg).unwrap();
    let message = Encoder::new(&params).encode_real(&[0.5, -0.25, 0.75], 2, params.scale()).unwrap();
    let low = Encoder::new(&params).encode_real(&[0.25], 0, params.scale()).unwrap();
    let mut out = Vec::new();
    let mut keep = |name, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.truncate(KEPT);
        out.push((name, bytes));
    };
    keep("public_key", &|o| public.write(o).unwrap());
    for (name, purpose) in [("relinearisation", KeyPurpose::Relinearisation), ("galois", KeyPurpose::Galois(5))] {
        let key = generator.key(purpose, &mut prg).unwrap();
        keep(name, &|o| key.write(o).unwrap());
    }
    for (name, plain) in [("upload", &message), ("upload_low", &low)] {
        let upload = SecretEncryptor::new(&secret).encrypt(plain, &mut prg).unwrap();
        keep(name, &|o| upload.write(o).unwrap());
    }
    // 62 bits hold a mask of 40 over the phases of no real message: of one coefficient, and a uniform one is
    // as good here.
    let zero = public.zero(2, &mut prg).unwrap();
    let mask = RingMask::uniform(&params, 2, &mut prg).unwrap();
    let (masked, _share) = public.encrypt(&message, &mut prg).unwrap().mask(zero, mask).unwrap();
    keep("masked", &|o| masked.write(o).unwrap());
    out
}

#[test]
fn the_corpus_holds_real_objects_and_all_are_accepted() {
    for (name, bytes) in objects() {
        let path = corpus().join(name);
        if std::env::var_os("FESC_BLESS").is_some() {
            std::fs::create_dir_all(corpus()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}: the bytes of a fixed seed have changed");
        assert!(fuzzing::wire(&bytes), "{name} is refused");
    }
}

/// Sampling, transforms, encoding and packing give the same bytes on every path: this program again, held to
/// a lower one.
#[test]
fn the_bytes_are_the_same_on_every_path() {
    let program = std::env::current_exe().unwrap();
    for path in Path::available() {
        let status = std::process::Command::new(&program)
            .args(["the_corpus_holds_real_objects_and_all_are_accepted", "--exact"])
            .env("FESC_SIMD", path.name())
            .env_remove("FESC_BLESS")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.status.success() && text.contains("1 passed"), "{}: {text}", path.name());
    }
}

#[test]
fn changed_copies_are_refused_or_compute() {
    let mut prg = Prg::from_seed([8; 16]);
    let (mut runs, mut accepted) = (0, 0);
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        for round in 0..400 {
            let mut copy = data.clone();
            for _ in 0..=prg.next_u64() % 3 {
                let word = prg.next_u64();
                let (at, other) = ((word >> 16) as usize % copy.len(), (word >> 40) as usize % copy.len());
                match word & 3 {
                    0 => copy[at] ^= 1 << (word >> 2 & 7),
                    1 => copy[at] = [0, 1, 0x7f, 0x80, 0xff][(word >> 8) as usize % 5],
                    2 => copy.swap(at, other),
                    _ if round % 4 == 0 => copy.truncate(at.max(1)),
                    _ => copy.insert(at, word as u8),
                }
            }
            accepted += usize::from(fuzzing::wire(&copy));
            runs += 1;
        }
    }
    assert!(runs >= 2400 && accepted > 100 && accepted < runs - 100, "{accepted} of {runs} accepted");
}
