//! The server's secrets: made once per start, used by every session.
//!
//! Made layer by layer: at any time there are the secrets and hints of one layer, some rows of the table, and
//! the caller's weights.

use std::borrow::Borrow;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use fesc_model::outline::Outline;
use fesc_model::twin::{LayerSecrets, Twin};
use fesc_rlwe::Params;
use fesc_rlwe::embedding::Owner;
use fesc_rlwe::linear::{Domain, Hint, Server};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::Matrix;
use super::client::{ClientSetup, write_header};
use super::layout::{Layout, write_elements};
use super::seeds::Seeds;
use super::stored::nameless;
use super::vault::{Filling, Vault};
use crate::kernels;
use crate::stage::{Embedding, Widths};
use crate::{InferError, Result};

/// Rows of the table that are made at once.
pub(super) const ROWS: usize = 1024;

/// What a layer has besides its matrices: a few thousand numbers. No `Debug`, no `Clone`.
#[derive(ZeroizeOnDrop)]
pub(crate) struct LayerVectors {
    pub conv_bias: Vec<i64>,
    pub step_bias: Vec<i64>,
    pub rates: Vec<i64>,
    pub thresholds: Vec<i64>,
    pub skip: Vec<i64>,
}

impl LayerVectors {
    fn new(secrets: &LayerSecrets<'_>) -> Self {
        Self {
            conv_bias: secrets.conv_bias.to_vec(),
            step_bias: secrets.step_bias.to_vec(),
            rates: secrets.rates.to_vec(),
            thresholds: secrets.thresholds.to_vec(),
            skip: secrets.skip.to_vec(),
        }
    }
}

/// The classifier. No `Debug`, no `Clone`.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Head {
    pub weights: Vec<i64>,
    pub bias: Vec<i64>,
}

/// Everything that a server needs for any number of clients: keys, and where its weights are. No `Debug`, no
/// `Clone`.
pub struct ServerSetup {
    outline: Outline,
    vault: Vault,
    layers: Vec<LayerVectors>,
    head: Option<Head>,
    owner: Option<Owner>,
    client: Arc<ClientSetup>,
}

impl ServerSetup {
    /// Publishes a model under a master seed of the operator, with an encrypted table.
    ///
    /// # Errors
    /// If the plan has weights under encryption that are too large for it, a shape does not fit the ring, or
    /// the system's directory for temporary files has no room.
    pub fn new(twin: impl Borrow<Twin>, master: [u8; 32]) -> Result<Self> {
        Self::with_embedding(twin, master, Embedding::Encrypted)
    }

    /// The same with the kind of table given.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_embedding(twin: impl Borrow<Twin>, master: [u8; 32], embedding: Embedding) -> Result<Self> {
        Self::in_directory(twin, master, embedding, &std::env::temp_dir())
    }

    /// The same with its files in a directory of the operator's. They have no name there, and end with this
    /// value or this process. They hold the weights and RLWE secrets (`super::vault`), and what clients
    /// download.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn in_directory(
        twin: impl Borrow<Twin>,
        master: [u8; 32],
        embedding: Embedding,
        directory: &Path,
    ) -> Result<Self> {
        let twin = twin.borrow();
        kernels::paper::check_weights(twin)?;
        let (params, outline) = (Params::linear()?, twin.outline()?);
        let seeds = Seeds::new(twin, &Zeroizing::new(master), params)?;
        let layout = Layout { params, shape: *outline.shape(), seed: seeds.public() };
        let mut filling = Filling::new(params, directory)?;
        let mut out = BufWriter::with_capacity(1 << 20, nameless(directory)?);
        write_header(&mut out, &outline.digest()?, &layout.seed, embedding)?;
        let mut layers = Vec::with_capacity(layout.shape.layers);
        for layer in 0..layout.shape.layers {
            let secrets = twin.secrets(layer);
            let secrets = secrets.ok_or(InferError::Misuse { what: "the twin", why: "it has no such layer" })?;
            let place = Place { layout: &layout, seeds: &seeds, layer };
            let mut matrix = |matrix: Matrix, rows: Vec<i64>, taps: &[i64]| -> Result<_> {
                let (server, hint) = place.publish(matrix, rows, taps)?;
                write_elements(params.ring(), &mut out, hint.rows())?;
                Ok((matrix.shape(&layout.shape)?, server))
            };
            filling.add([
                matrix(Matrix::InProj, twin.in_proj(layer)?, &place.taps(&secrets))?,
                matrix(Matrix::OutProj, twin.out_proj(layer)?, &vec![1; layout.shape.d_model])?,
            ])?;
            layers.push(LayerVectors::new(&secrets));
        }
        let owner = write_table(twin, &layout, &seeds, embedding, &mut out)?;
        let file = out.into_inner().map_err(|e| e.into_error())?;
        let client = Arc::new(ClientSetup::open(file, 0, outline)?);
        let head = twin.head_secrets().map(|h| Head { weights: h.weights.to_vec(), bias: h.bias.to_vec() });
        Ok(Self { outline: outline.clone(), vault: filling.close(), layers, head, owner, client })
    }

    /// What clients download.
    pub fn client_setup(&self) -> &Arc<ClientSetup> {
        &self.client
    }

    /// The outline.
    ///
    /// # Errors
    /// None: the constructor has seen it.
    pub fn outline(&self) -> Result<&Outline> {
        Ok(&self.outline)
    }

    /// How clients get rows of the table.
    pub fn embedding(&self) -> Embedding {
        self.client.embedding()
    }

    /// A matrix, read from its file unless another session has it at this moment.
    pub(crate) fn matrix(&self, layer: usize, matrix: Matrix) -> Result<Arc<Server>> {
        self.vault.get(layer, matrix)
    }

    pub(crate) fn vectors(&self, layer: usize) -> Result<&LayerVectors> {
        let got = self.layers.len();
        self.layers.get(layer).ok_or(InferError::Size { what: "layers of the server", expected: layer + 1, got })
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }
}

/// `rows` rows of `cols` as `cols` rows of `rows`.
fn transposed(rows: usize, cols: usize, data: &[i64]) -> Result<Zeroizing<Vec<i64>>> {
    crate::error::check("weights of a matrix", rows * cols, data.len())?;
    let mut out = Zeroizing::new(vec![0; data.len()]);
    for (r, row) in data.chunks_exact(cols.max(1)).enumerate() {
        for (o, &v) in out.iter_mut().skip(r).step_by(rows.max(1)).zip(row) {
            *o = v;
        }
    }
    Ok(out)
}

/// A layer that is being published.
struct Place<'a> {
    layout: &'a Layout,
    seeds: &'a Seeds,
    layer: usize,
}

impl Place<'_> {
    fn publish(&self, matrix: Matrix, rows: Vec<i64>, taps: &[i64]) -> Result<(Server, Hint)> {
        let linear = matrix.shape(&self.layout.shape)?;
        let (layer, number) = (self.layer as u32, matrix.index() as u32);
        let domain = Domain { seed: self.layout.seed, layer, matrix: number };
        let rows = Zeroizing::new(rows);
        let weights = transposed(linear.outputs(), linear.inputs(), &rows)?;
        drop(rows);
        let secrets = self.seeds.matrix(layer, number);
        Ok(Server::publish(self.layout.params, linear, domain, &weights, taps, &secrets)?)
    }

    /// Taps of the input projection. Columns without a convolution take the present alone.
    fn taps(&self, secrets: &LayerSecrets<'_>) -> Zeroizing<Vec<i64>> {
        let shape = &self.layout.shape;
        let (width, widths) = (shape.conv_width, Widths::new(shape));
        let mut taps = Zeroizing::new(vec![0; shape.proj_dim() * width]);
        let conv = widths.inner..widths.inner + shape.conv_dim();
        for (k, taps) in taps.chunks_exact_mut(width).enumerate() {
            for (i, tap) in taps.iter_mut().rev().enumerate() {
                *tap = match k.checked_sub(conv.start) {
                    Some(c) if conv.contains(&k) => secrets.taps.get(i).and_then(|t| t.get(c)).copied().unwrap_or(0),
                    _ => i64::from(i == 0),
                };
            }
        }
        taps
    }
}

/// Writes the table, and gives its key back if it is encrypted.
fn write_table(
    twin: &Twin,
    layout: &Layout,
    seeds: &Seeds,
    embedding: Embedding,
    out: &mut impl Write,
) -> Result<Option<Owner>> {
    let (ring, width, secrets) = (layout.params.ring(), layout.shape.d_model, seeds.table());
    let owner = match embedding {
        Embedding::Public => None,
        Embedding::Encrypted => {
            let (owner, table) = Owner::new(layout.params, width, layout.shape.vocab, seeds.public_table(), &secrets)?;
            out.write_all(&table.seed().0)?;
            write_elements(ring, out, table.key())?;
            Some(owner)
        }
    };
    for (first, values) in parts(twin, layout.shape.vocab) {
        let values = Zeroizing::new(values?);
        let rows = match &owner {
            Some(owner) => owner.rows(first, &values, &secrets)?,
            None => values.iter().map(|&v| ring.from_signed(v)).collect(),
        };
        write_elements(ring, out, &rows)?;
    }
    Ok(owner)
}

/// All rows of the table, in parts, with the number of the first.
pub(super) fn parts(twin: &Twin, vocab: usize) -> impl Iterator<Item = (usize, fesc_model::Result<Vec<i64>>)> {
    (0..vocab).step_by(ROWS).map(move |first| (first, twin.table(first..vocab.min(first + ROWS))))
}
