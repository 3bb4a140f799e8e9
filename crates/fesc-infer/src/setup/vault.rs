//! The server's matrices and RLWE secrets, outside memory.
//!
//! One file without a name, layer by layer: weights, taps and `u` of both matrices ([`Server::to_bytes`]), 31
//! MB a layer at Mamba-base. A matrix is read when a session comes to it, and sessions that are at the same
//! matrix share it; when the last one leaves, it is wiped. So memory has at most one matrix per session,
//! whatever the number of layers.
//!
//! The file is made anew at every start. It could be kept, but making it is a small part of the hints, which
//! a start has to make anyway to know that they belong to the weights; and a file without a name needs no
//! rules about who may read or delete it.
//!
//! What is read is held to the SHA-256 of what was written: a wrong weight would be a wrong answer that
//! nobody notices.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use fesc_rlwe::Params;
use fesc_rlwe::linear::{Server, Shape};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Matrix;
use super::stored::{Stored, nameless};
use crate::{InferError, Result};

/// Where a matrix is.
struct Record {
    shape: Shape,
    at: u64,
    digest: [u8; 32],
    /// The copy that somebody uses. Locked while it is read, so that two do not read it at once.
    held: Mutex<Weak<Server>>,
}

/// All matrices of a model.
pub(super) struct Vault {
    params: Params,
    file: Stored,
    layers: Vec<[Record; 2]>,
}

/// A vault that is being filled.
pub(super) struct Filling {
    params: Params,
    file: File,
    end: u64,
    layers: Vec<[Record; 2]>,
}

impl Filling {
    /// An empty one in a directory.
    pub fn new(params: Params, directory: &Path) -> Result<Self> {
        Ok(Self { params, file: nameless(directory)?, end: 0, layers: Vec::new() })
    }

    fn record(&mut self, shape: Shape, server: &Server) -> Result<Record> {
        let (bytes, at) = (server.to_bytes(), self.end);
        self.file.write_all(&bytes)?;
        self.end += bytes.len() as u64;
        Ok(Record { shape, at, digest: Sha256::digest(&*bytes).into(), held: Mutex::new(Weak::new()) })
    }

    /// Adds the next layer.
    pub fn add(&mut self, matrices: [(Shape, Server); 2]) -> Result<()> {
        let [input, output] = matrices;
        let layer = [self.record(input.0, &input.1)?, self.record(output.0, &output.1)?];
        self.layers.push(layer);
        Ok(())
    }

    /// The end of it.
    pub fn close(self) -> Vault {
        Vault { params: self.params, file: Stored::new(self.file), layers: self.layers }
    }
}

impl Vault {
    /// A matrix.
    pub fn get(&self, layer: usize, matrix: Matrix) -> Result<Arc<Server>> {
        let found = self.layers.get(layer).map(|both| &both[matrix.index()]);
        let missing = InferError::Size { what: "layers of the server", expected: layer + 1, got: self.layers.len() };
        let record = found.ok_or(missing)?;
        let mut held = record.held.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(server) = held.upgrade() {
            return Ok(server);
        }
        let size = Server::bytes(&self.params, &record.shape);
        let mut bytes = Zeroizing::new(vec![0; size]);
        self.file.read("the server's matrices", record.at, size as u64, |input| Ok(input.read_exact(&mut bytes)?))?;
        if Sha256::digest(&*bytes)[..] != record.digest {
            return Err(InferError::Damaged { layer, matrix: matrix.index(), at: record.at, bytes: size });
        }
        let server = Arc::new(Server::from_bytes(self.params, record.shape, &bytes)?);
        *held = Arc::downgrade(&server);
        Ok(server)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use fesc_ring::Prg;
    use fesc_rlwe::linear::Domain;
    use fesc_rlwe::{Secrets, Seed};

    use super::*;

    /// Matrices of two layers, and a second handle of the file.
    fn vault(directory: &Path, seed: u8) -> (Vec<Vec<u8>>, Vault, File) {
        let (params, mut prg) = (Params::linear().unwrap(), Prg::from_seed([seed; 16]));
        let mut filling = Filling::new(params, directory).unwrap();
        let mut kept = Vec::new();
        for layer in 0..2 {
            let mut one = |matrix, inputs: usize, outputs: usize, taps| {
                let shape = Shape::new(inputs, outputs, taps).unwrap();
                let weights: Vec<i64> = (0..inputs * outputs).map(|_| prg.next_u64() as i64 >> 40).collect();
                let domain = Domain { seed: Seed([1; 32]), layer, matrix };
                let taps = vec![3; outputs * taps];
                let secrets = Secrets::random(&mut prg);
                (shape, Server::publish(params, shape, domain, &weights, &taps, &secrets).unwrap().0)
            };
            let both = [one(0, 4, 3, 2), one(1, 2, 4, 1)];
            kept.extend(both.iter().map(|(_, server)| server.to_bytes().to_vec()));
            filling.add(both).unwrap();
        }
        let file = filling.file.try_clone().unwrap();
        (kept, filling.close(), file)
    }

    fn places() -> impl Iterator<Item = (usize, Matrix)> {
        (0..2).flat_map(|layer| Matrix::ALL.map(|matrix| (layer, matrix)))
    }

    #[test]
    fn what_was_put_away_comes_back_and_is_shared_while_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, vault, file) = vault(directory.path(), 1);
        let (other_kept, other, _) = self::vault(directory.path(), 2);
        for ((layer, matrix), (bytes, others)) in places().zip(kept.iter().zip(&other_kept)) {
            assert!(*vault.get(layer, matrix).unwrap().to_bytes() == **bytes);
            assert!(*other.get(layer, matrix).unwrap().to_bytes() == **others && bytes != others);
        }
        let first = vault.get(0, Matrix::InProj).unwrap();
        assert!(Arc::ptr_eq(&first, &vault.get(0, Matrix::InProj).unwrap()));
        let weak = Arc::downgrade(&first);
        drop(first);
        assert!(weak.upgrade().is_none(), "nobody uses it, nobody has it");
        assert!(matches!(vault.get(2, Matrix::InProj), Err(InferError::Size { expected: 3, got: 2, .. })));
        assert_eq!(file.metadata().unwrap().len(), kept.iter().map(|b| b.len() as u64).sum::<u64>());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has no name");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_or_short_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, vault, mut file) = vault(directory.path(), 1);
        let second = kept[0].len() as u64;
        file.seek(SeekFrom::Start(second + 5)).unwrap();
        file.write_all(&[kept[1][5] ^ 1]).unwrap();
        let damaged = vault.get(0, Matrix::OutProj).err().unwrap();
        assert!(
            matches!(damaged, InferError::Damaged { layer: 0, matrix: 1, at, bytes } if at == second && bytes == kept[1].len())
        );
        assert!(vault.get(0, Matrix::InProj).is_ok() && vault.get(1, Matrix::InProj).is_ok());
        let end = file.metadata().unwrap().len();
        file.set_len(end - 1).unwrap();
        let short = vault.get(1, Matrix::OutProj).err().unwrap();
        assert!(
            matches!(short, InferError::Short { expected, got, .. } if expected == end && got == end - 1),
            "{short}"
        );
    }
}
