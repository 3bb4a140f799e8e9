//! The header of a safetensors file, bounded before it is read.
//!
//! Format: 8 bytes little-endian header length n, n bytes JSON, then the data without a gap. The
//! `safetensors` crate checks that offsets are contiguous and fit dtype and shape; here n is held to a limit
//! and to the file before n bytes are allocated, and the data's end to the file's end.

use std::io::Read;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::{ModelError, Result};

/// The format allows 100 MB, which is 1.8 million tensors and 1.5 GB of memory before the first check of a
/// name. The largest config that is taken has 4,096 layers of nine tensors: 5 MB.
const HEADER_LIMIT: u64 = 8 << 20;

/// One tensor in the file.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// From the beginning of the file.
    pub(super) start: u64,
    pub(super) bytes: usize,
}

impl Stored {
    pub(super) fn values(&self) -> usize {
        // The header was checked: this product exists and fits the file.
        self.shape.iter().product()
    }
}

/// The tensors of a file, by offset.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) tensors: Vec<Stored>,
    pub(super) file_bytes: u64,
}

impl Header {
    /// Reads the header of a file of `file_bytes` bytes; `path` is for messages.
    pub(super) fn read(mut file: impl Read, file_bytes: u64, path: &Path) -> Result<Self> {
        let io = |source| ModelError::Io { path: path.into(), source };
        let bad = |reason: String| ModelError::Header { path: path.into(), reason };
        if file_bytes < 8 {
            return Err(bad(format!("the file has {file_bytes} bytes, the length alone takes 8")));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_LIMIT {
            return Err(bad(format!("it claims {length} bytes, the limit is {HEADER_LIMIT}")));
        }
        if length > file_bytes - 8 {
            return Err(bad(format!("it claims {length} bytes, the file has {file_bytes} in all")));
        }
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text).map_err(io)?;
        let metadata: Metadata = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        let data = file_bytes - 8 - length;
        if metadata.data_len() as u64 != data {
            return Err(bad(format!("its tensors take {} bytes, the file has {data} after it", metadata.data_len())));
        }
        let mut tensors = Vec::new();
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            let (from, to) = info.data_offsets;
            tensors.push(Stored {
                name,
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: 8 + length + from as u64,
                bytes: to - from,
            });
        }
        Ok(Self { tensors, file_bytes })
    }
}
