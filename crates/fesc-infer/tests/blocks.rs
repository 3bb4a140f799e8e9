//! Blocks of the linear layers on disk: as they were made, once, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;

use common::serving::model;
use fesc_infer::blocks::disk::{BlockReader, BlockWriter, bytes_of};
use fesc_infer::{BlockId, BlockSource, FreshBlocks, Reveal, Schedule, ServerSetup};
use fesc_ring::Prg;

const SESSION: [u8; 32] = [8; 32];

fn prg() -> Prg {
    Prg::from_seed([3; 16])
}

fn kept(server: &ServerSetup, schedule: &Schedule) -> (tempfile::TempDir, Vec<BlockId>) {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper = BlockWriter::new(dir.path(), SESSION, server.client_setup());
    let (pads, mut prg): (Vec<BlockId>, _) = (schedule.blocks().map(Result::unwrap).collect(), prg());
    pads.iter().for_each(|pad| keeper.keep(pad, &mut prg).unwrap());
    (dir, pads)
}

fn file(dir: &Path, number: usize) -> std::path::PathBuf {
    dir.join(format!("{number:08}.block"))
}

#[test]
fn kept_blocks_are_those_that_were_made_and_each_is_handed_out_once() {
    let server = model();
    let schedule = Schedule::new(server.outline().unwrap(), 128, Reveal::Label).unwrap();
    let (dir, pads) = kept(&server, &schedule);
    assert!(pads.len() >= 2);
    for (number, bytes) in bytes_of(&schedule).enumerate() {
        let found = fs::metadata(file(dir.path(), number)).unwrap();
        assert_eq!(found.len(), bytes.unwrap() as u64, "the size is known before");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777, 0o600);
    }
    let mut prg = prg();
    let mut kept = BlockReader::new(dir.path(), SESSION, &schedule);
    for pad in &pads {
        let fresh = pad.prepare(server.client_setup(), &mut prg).unwrap().pack();
        assert!(kept.take(pad).unwrap().pack() == fresh);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(kept.take(&pads[0]).is_err() && BlockReader::new(dir.path(), SESSION, &schedule).take(&pads[0]).is_err());
    assert!(FreshBlocks::new(server.client_setup(), prg).take(&pads[0]).is_ok(), "the setup itself is still good");
}

#[test]
fn damaged_foreign_and_misplaced_blocks_are_refused_and_gone() {
    let server = model();
    let schedule = Schedule::new(server.outline().unwrap(), 128, Reveal::Label).unwrap();
    let spoilt = |spoil: &dyn Fn(&mut Vec<u8>), session: [u8; 32], pad: usize| {
        let (dir, pads) = kept(&server, &schedule);
        let path = file(dir.path(), 0);
        let mut bytes = fs::read(&path).unwrap();
        spoil(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let said =
            BlockReader::new(dir.path(), session, &schedule).take(&pads[pad]).err().expect("refused").to_string();
        assert!(said.contains("prepare again") && !path.exists(), "{said}");
    };
    for at in [0, 8, 40, 50, 90, 1000] {
        spoilt(&|bytes| bytes[at] ^= 1, SESSION, 0);
    }
    spoilt(&|bytes| *bytes.last_mut().unwrap() ^= 1, SESSION, 0);
    spoilt(&|bytes| bytes.truncate(20), SESSION, 0);
    spoilt(&|bytes| bytes.truncate(bytes.len() - 1), SESSION, 0);
    spoilt(&|bytes| bytes.push(0), SESSION, 0);
    spoilt(&|_| {}, [9; 32], 0);
    spoilt(&|_| {}, SESSION, 1);
}
