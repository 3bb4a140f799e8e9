//! The server's secrets: made once per start, used by every session.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use fesc_model::outline::Outline;
use fesc_model::twin::{LayerSecrets, Twin};
use fesc_rlwe::Params;
use fesc_rlwe::embedding::Owner;
use fesc_rlwe::linear::{Domain, Hint, Server};
use zeroize::Zeroizing;

use super::Matrix;
use super::client::{ClientSetup, TableCopy, write_header};
use super::hints::{Hints, Layout, write_elements};
use super::seeds::Seeds;
use crate::stage::{Embedding, Widths};
use crate::{InferError, Result};

/// Everything that a server needs for any number of clients. Holds the weights: no `Debug`, no `Clone`.
pub struct ServerSetup {
    twin: Twin,
    matrices: Vec<[Server; 2]>,
    owner: Option<Owner>,
    client: Arc<ClientSetup>,
}

impl ServerSetup {
    /// Publishes a model under a master seed of the operator, with an encrypted table.
    ///
    /// # Errors
    /// If the twin is not of the fast preset, or a shape does not fit the ring.
    pub fn new(twin: Twin, master: [u8; 32]) -> Result<Self> {
        Self::with_embedding(twin, master, Embedding::Encrypted)
    }

    /// The same with the kind of table given.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_embedding(twin: Twin, master: [u8; 32], embedding: Embedding) -> Result<Self> {
        let seeds = Seeds::new(&twin, &Zeroizing::new(master), Params::linear()?)?;
        let layout = layout(&twin, &seeds)?;
        let mut hints = Vec::with_capacity(layout.shape.layers);
        let (matrices, owner, table) = make(&twin, &layout, &seeds, embedding, &mut |both| {
            hints.push(both);
            Ok(())
        })?;
        let client = ClientSetup::from_parts(layout, twin.outline()?, Hints::Memory(hints), table)?;
        Ok(Self { twin, matrices, owner, client: Arc::new(client) })
    }

    /// The same with what clients download in a file, which is made anew: it is not kept in memory.
    ///
    /// # Errors
    /// As [`Self::new`], and if the file can not be written.
    pub fn in_file(twin: Twin, master: [u8; 32], embedding: Embedding, path: &Path) -> Result<Self> {
        let seeds = Seeds::new(&twin, &Zeroizing::new(master), Params::linear()?)?;
        let (layout, ring) = (layout(&twin, &seeds)?, twin.outline()?.ring());
        // Written aside and renamed: whoever has the old file open keeps it.
        let aside = path.with_extension("new");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&aside)?);
        write_header(&mut out, &twin.outline()?.digest()?, &layout.seed, embedding)?;
        let (matrices, owner, table) = make(&twin, &layout, &seeds, embedding, &mut |both| {
            both.iter().try_for_each(|hint| write_elements(ring, &mut out, hint.rows()))
        })?;
        table.write(ring, &mut out)?;
        drop(table);
        out.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        std::fs::rename(&aside, path)?;
        let client = ClientSetup::open(File::open(path)?, 0, twin.outline()?)?;
        Ok(Self { twin, matrices, owner, client: Arc::new(client) })
    }

    /// What clients download.
    pub fn client_setup(&self) -> &Arc<ClientSetup> {
        &self.client
    }

    /// The twin, with the outline and the weights.
    pub fn twin(&self) -> &Twin {
        &self.twin
    }

    /// The outline.
    ///
    /// # Errors
    /// None: the constructor has seen it.
    pub fn outline(&self) -> Result<&Outline> {
        Ok(self.twin.outline()?)
    }

    /// How clients get rows of the table.
    pub fn embedding(&self) -> Embedding {
        self.client.embedding()
    }

    pub(crate) fn matrix(&self, layer: usize, matrix: Matrix) -> Result<&Server> {
        let found = self.matrices.get(layer).map(|both| &both[matrix.index()]);
        found.ok_or(InferError::Size { what: "layers of the server", expected: layer + 1, got: self.matrices.len() })
    }

    pub(crate) fn secrets(&self, layer: usize) -> Result<LayerSecrets<'_>> {
        let got = self.matrices.len();
        self.twin.secrets(layer).ok_or(InferError::Size { what: "layers of the server", expected: layer + 1, got })
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

fn layout(twin: &Twin, seeds: &Seeds) -> Result<Layout> {
    Ok(Layout { params: Params::linear()?, shape: *twin.outline()?.shape(), seed: seeds.public() })
}

type Made = (Vec<[Server; 2]>, Option<Owner>, TableCopy);

/// Publishes everything; the hints of each layer go to `keep` as they are made.
fn make(
    twin: &Twin,
    layout: &Layout,
    seeds: &Seeds,
    embedding: Embedding,
    keep: &mut dyn FnMut([Hint; 2]) -> Result<()>,
) -> Result<Made> {
    let mut matrices = Vec::with_capacity(layout.shape.layers);
    for layer in 0..layout.shape.layers {
        let (input, output) = publish(twin, layout, seeds, layer)?;
        matrices.push([input.0, output.0]);
        keep([input.1, output.1])?;
    }
    let (owner, table) = match embedding {
        Embedding::Encrypted => {
            let (width, mut prg) = (layout.shape.d_model, seeds.table());
            let (owner, table) = Owner::publish(layout.params, width, twin.table(), &mut prg)?;
            (Some(owner), TableCopy::Encrypted(Box::new(table)))
        }
        Embedding::Public => (None, TableCopy::Public(twin.table().to_vec())),
    };
    Ok((matrices, owner, table))
}

type Published = (Server, Hint);

/// Both matrices of a layer.
fn publish(twin: &Twin, layout: &Layout, seeds: &Seeds, layer: usize) -> Result<(Published, Published)> {
    let missing = InferError::Misuse { what: "the twin", why: "it has no such layer" };
    let (shape, secrets) = (&layout.shape, twin.secrets(layer).ok_or(missing)?);
    let one = |matrix: Matrix, rows: &[i64], taps: &[i64]| -> Result<Published> {
        let (linear, place) = (matrix.shape(shape)?, [layer as u32, matrix.index() as u32]);
        let domain = Domain { seed: layout.seed, layer: place[0], matrix: place[1] };
        let weights = transposed(linear.outputs(), linear.inputs(), rows)?;
        Ok(Server::publish(layout.params, linear, domain, &weights, taps, &mut seeds.matrix(place[0], place[1]))?)
    };
    // Columns without a convolution take the present alone.
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
    let input = one(Matrix::InProj, secrets.in_proj, &taps)?;
    let output = one(Matrix::OutProj, secrets.out_proj, &vec![1; shape.d_model])?;
    Ok((input, output))
}
