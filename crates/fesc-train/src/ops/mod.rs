//! Fused operations for candle's graph, each with its own backward pass, all on the calling thread.
//!
//! Documents of one batch are *packed*: all tokens of all documents are the rows of one matrix, and the
//! operations that look along a document know where each begins ([`Layout`]). There is no padding, so that a
//! short document costs what it is. Every operation takes contiguous f32 tensors.

pub mod add;
pub mod embed;
pub mod linear;
pub mod mixer;
pub mod norm;
pub mod pool;

use std::ops::Range;

use candle_core::{CpuStorage, Device, Error, Result, Storage, Tensor};

/// Where the documents of a packed batch are: ranges of rows, in order, without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    documents: Vec<Range<usize>>,
}

impl Layout {
    /// From the lengths of the documents.
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut end = 0;
        let next = |length| {
            let start = end;
            end += length;
            start..end
        };
        Self { documents: lengths.into_iter().map(next).collect() }
    }

    /// The documents' rows.
    pub fn documents(&self) -> &[Range<usize>] {
        &self.documents
    }

    /// All rows.
    pub fn rows(&self) -> usize {
        self.documents.last().map_or(0, |d| d.end)
    }
}

/// The values behind a contiguous f32 storage.
pub(crate) fn values<'a>(storage: &'a CpuStorage, layout: &candle_core::Layout) -> Result<&'a [f32]> {
    let all = storage.as_slice::<f32>()?;
    match layout.contiguous_offsets() {
        Some((from, to)) => all.get(from..to).ok_or_else(|| wrong("a layout outside its storage")),
        None => Err(wrong("a tensor that is not contiguous")),
    }
}

/// Runs `f` on the values of a contiguous f32 tensor.
pub(crate) fn with_values<T>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(values(storage, layout)?),
        _ => Err(wrong("a tensor that is not on the processor")),
    }
}

/// A tensor from its values.
pub(crate) fn tensor(values: Vec<f32>, shape: impl Into<candle_core::Shape>) -> Result<Tensor> {
    Tensor::from_vec(values, shape.into(), &Device::Cpu)
}

pub(crate) fn wrong(what: &str) -> Error {
    Error::Msg(format!("a fused operation was given {what}"))
}

/// Refuses a tensor of the wrong size.
pub(crate) fn sized(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(wrong(&format!("{found} values as {what}, not {expected}"))) }
}

#[cfg(test)]
pub(crate) mod testing;
