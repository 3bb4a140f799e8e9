//! The server's half: the hint, published once, and its share of each block.
//!
//! [`Server::to_bytes`] and [`Server::from_bytes`] let a server keep the secrets of a matrix outside its
//! memory.

use fesc_ring::gemm::{Update, gemm_par};
use fesc_ring::poly::PolyRing;
use fesc_ring::sample::gaussian::SIGMA;
use fesc_ring::sample::{gaussian, ternary};
use fesc_ring::{Ring, View};
use rayon::prelude::*;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::block::{Block, Shape};
use super::client::{Message, add_block};
use super::public::Domain;
use crate::error::length;
use crate::stream::{digest, digest_all, digest_signed};
use crate::{Params, Result, RlweError, Secrets};

/// `u_k` and `e_k` of a hint.
pub(crate) const MASK: &[u8; 16] = b"hint, u of a row";
pub(crate) const NOISE: &[u8; 16] = b"hint, e of a row";

/// What every client downloads: `c_k` for each output, pseudorandom without `u`.
pub struct Hint {
    params: Params,
    shape: Shape,
    domain: Domain,
    rows: Vec<u64>,
}

impl Hint {
    /// A hint as received.
    ///
    /// # Errors
    /// If the number of elements is not n N.
    pub fn new(params: Params, shape: Shape, domain: Domain, mut rows: Vec<u64>) -> Result<Self> {
        length("a hint", shape.outputs() * params.degree(), rows.len())?;
        params.ring().reduce_assign(&mut rows);
        Ok(Self { params, shape, domain, rows })
    }

    /// Degree and modulus.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Shape of the layer.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where its public polynomials come from.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// `c_k`.
    pub fn row(&self, k: usize) -> &[u64] {
        let n = self.params.degree();
        &self.rows[k * n..(k + 1) * n]
    }

    /// All of it, n rows of N.
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }
}

/// The server's secrets for one matrix. No `Debug`, no `Clone`.
#[derive(ZeroizeOnDrop)]
pub struct Server {
    #[zeroize(skip)]
    params: Params,
    #[zeroize(skip)]
    shape: Shape,
    /// m rows of n.
    weights: Vec<u64>,
    /// n rows of taps, the last is the present.
    taps: Vec<i64>,
    /// `u_k`: n rows of N.
    masks: Vec<i8>,
}

impl Server {
    /// Weights modulo the ring, m rows of n.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// n rows of taps, the last is the present.
    pub fn taps(&self) -> &[i64] {
        &self.taps
    }

    /// Draws `u` and `e` and makes the hint of integer weights (m rows of n) and taps (n rows, the last one
    /// is the present).
    ///
    /// The same arguments give the same hint; other weights, taps or polynomials draw other `u` and `e`. The
    /// domain's seed must be new: two hints under one seed are safe only as long as their `u` are
    /// independent, which this function sees to, but a seed of its own keeps `a'` from being a target for all
    /// models at once.
    ///
    /// # Errors
    /// If weights or taps do not have the shape's size.
    pub fn publish(
        params: Params,
        shape: Shape,
        domain: Domain,
        weights: &[i64],
        taps: &[i64],
        secrets: &Secrets,
    ) -> Result<(Self, Hint)> {
        Self::publish_with(params, shape, domain, weights, taps, true, secrets)
    }

    /// [`Self::publish`]; tests leave the mask out and watch the weights leave.
    pub(super) fn publish_with(
        params: Params,
        shape: Shape,
        domain: Domain,
        weights: &[i64],
        taps: &[i64],
        masked: bool,
        secrets: &Secrets,
    ) -> Result<(Self, Hint)> {
        let (m, n, degree, ring) = (shape.inputs(), shape.outputs(), params.degree(), params.ring());
        length("weights", m * n, weights.len())?;
        length("taps", n * shape.taps(), taps.len())?;
        let mut masks = vec![0; n * degree];
        let weights: Vec<u64> = weights.iter().map(|&w| ring.from_signed(w)).collect();

        let mut public = vec![0; m * degree];
        let features = public.par_chunks_mut(degree).enumerate().map(|(j, a)| {
            a.copy_from_slice(&domain.feature(&params, j));
            digest(a)
        });
        let mut digests: Vec<[u8; 32]> = features.collect();
        let mut rows = vec![0; n * degree];
        let transposed = View::new(&weights, m, n)?.t();
        gemm_par(ring, transposed, View::new(&public, m, degree)?, &mut rows, Update::Set)?;
        drop(public);

        let polys = PolyRing::new(ring, degree, 1)?;
        let common = domain.common(&params);
        digests.push(digest(&common));
        let (public, common) = (digest_all(&digests), polys.prepare_full(&common)?);
        let work = rows.par_chunks_mut(degree).zip(masks.par_chunks_mut(degree));
        work.enumerate().try_for_each(|(k, (row, mask))| {
            convolve(ring, &taps[k * shape.taps()..(k + 1) * shape.taps()], row, true);
            if !masked {
                return Ok(());
            }
            let hidden = Zeroizing::new(digest(row));
            let place = [domain.layer.into(), domain.matrix.into(), k as u64];
            let mut u = Zeroizing::new(vec![0; degree]);
            ternary(&mut secrets.stream(MASK, place, &[&public, &hidden]), &mut u);
            let beside = Zeroizing::new(digest_signed(&u));
            polys.mul_add(row, &common, &polys.prepare_small(&u)?)?;
            for (m, &u) in mask.iter_mut().zip(u.iter()) {
                *m = u as i8;
            }
            let mut e = Zeroizing::new(vec![0; degree]);
            gaussian(&mut secrets.stream(NOISE, place, &[&public, &hidden, &beside]), &mut e);
            for (c, &e) in row.iter_mut().zip(e.iter()) {
                *c = ring.add(*c, ring.from_signed(e));
            }
            Ok::<_, RlweError>(())
        })?;
        let server = Self { params, shape, weights, taps: taps.to_vec(), masks };
        Ok((server, Hint { params, shape, domain, rows }))
    }

    /// Bytes of [`Self::to_bytes`].
    pub fn bytes(params: &Params, shape: &Shape) -> usize {
        let (m, n) = (shape.inputs(), shape.outputs());
        params.ring().packed_len(m * n) + 8 * n * shape.taps() + n * params.degree()
    }

    /// All secrets: weights packed to l bits, taps of 8 bytes, `u` of one byte a coefficient. As secret as
    /// they are.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all of it: a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(Self::bytes(&self.params, &self.shape)));
        self.params.ring().pack_into(&mut bytes, &self.weights);
        self.taps.iter().for_each(|tap| bytes.extend_from_slice(&tap.to_le_bytes()));
        bytes.extend(self.masks.iter().map(|&u| u as u8));
        bytes
    }

    /// What [`Self::to_bytes`] gave.
    ///
    /// # Errors
    /// If the length is not that of [`Self::bytes`], or a mask is not ternary.
    pub fn from_bytes(params: Params, shape: Shape, bytes: &[u8]) -> Result<Self> {
        let (m, n) = (shape.inputs(), shape.outputs());
        length("bytes of a matrix", Self::bytes(&params, &shape), bytes.len())?;
        let (weights, rest) = bytes.split_at(params.ring().packed_len(m * n));
        let (taps, masks) = rest.split_at(8 * n * shape.taps());
        let weights = params.ring().unpack(weights, m * n)?;
        let taps = taps.as_chunks().0.iter().map(|tap| i64::from_le_bytes(*tap)).collect();
        let masks: Vec<i8> = masks.iter().map(|&u| u as i8).collect();
        let server = Self { params, shape, weights, taps, masks };
        match server.masks.iter().find(|u| !(-1..=1).contains(*u)) {
            Some(&value) => Err(RlweError::Mask { value }),
            None => Ok(server),
        }
    }

    /// The server's share of the result (n rows of `tokens`), from the client's message and its own share of
    /// the document (L rows of m).
    ///
    /// # Errors
    /// If a length is wrong.
    pub fn share(&self, block: &Block, message: Message, x1: &[u64]) -> Result<Vec<u64>> {
        let (m, n, degree, ring) =
            (self.shape.inputs(), self.shape.outputs(), self.params.degree(), self.params.ring());
        let (used, overlap) = (block.coefficients(), block.overlap());
        if used > degree || overlap + 1 != self.shape.taps() {
            return Err(RlweError::Block { tokens: block.tokens(), overlap, degree });
        }
        let Message { common, mut features } = message;
        length("the common part of a message", degree, common.len())?;
        length("the features of a message", m * used, features.len())?;
        add_block(ring, block, m, x1, &mut features)?;
        let mut rows = vec![0; n * used];
        gemm_par(ring, View::new(&self.weights, m, n)?.t(), View::new(&features, m, used)?, &mut rows, Update::Set)?;
        let polys = PolyRing::new(ring, degree, 1)?;
        let common = polys.prepare_full(&common)?;
        let mut out = vec![0; n * block.tokens()];
        let work = out.par_chunks_mut(block.tokens().max(1)).zip(rows.par_chunks_mut(used.max(1))).enumerate();
        work.try_for_each(|(k, (out, row))| {
            convolve(ring, &self.taps[k * self.shape.taps()..(k + 1) * self.shape.taps()], row, false);
            let mut u = Zeroizing::new(vec![0i64; degree]);
            for (u, &m) in u.iter_mut().zip(&self.masks[k * degree..]) {
                *u = i64::from(m);
            }
            let masked = polys.mul(&common, &polys.prepare_small(&u)?)?;
            for ((o, &y), &m) in out.iter_mut().zip(&row[overlap..]).zip(&masked[overlap..]) {
                *o = ring.add(y, m);
            }
            Ok::<_, RlweError>(())
        })?;
        Ok(out)
    }

    /// Standard deviation of the noise of output `k`, in units of its last place.
    pub fn noise(&self, k: usize) -> f64 {
        let (m, n, ring) = (self.shape.inputs(), self.shape.outputs(), self.params.ring());
        let column: f64 = (0..m).map(|j| (ring.to_signed(self.weights[j * n + k]) as f64).powi(2)).sum();
        let taps: f64 =
            self.taps[k * self.shape.taps()..(k + 1) * self.shape.taps()].iter().map(|&w| (w as f64).powi(2)).sum();
        let fresh = 2.0 * self.params.degree() as f64 * 2.0 / 3.0;
        SIGMA * (column * taps + fresh).sqrt()
    }
}

/// `row = w(X) row` for the causal taps `w`, negacyclic where the row is a whole polynomial.
fn convolve(ring: Ring, taps: &[i64], row: &mut [u64], whole: bool) {
    let last = taps.len() - 1;
    let back = Zeroizing::new(row[row.len().saturating_sub(last)..].to_vec());
    for t in (0..row.len()).rev() {
        let mut sum = 0;
        for (i, &tap) in taps.iter().rev().enumerate() {
            let tap = ring.from_signed(tap);
            if let Some(at) = t.checked_sub(i) {
                sum = ring.add(sum, ring.mul(tap, row[at]));
            } else if whole {
                sum = ring.sub(sum, ring.mul(tap, back[back.len() + t - i]));
            }
        }
        row[t] = sum;
    }
}
