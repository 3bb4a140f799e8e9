//! Rows of a secret table for secret ids.
//!
//! The server publishes its table once, encrypted under a key made for this alone. For each token the client
//! takes the row's ciphertext, makes it unrecognisable, and sends it back; both end with shares of the row.
//!
//! ```text
//! public    A, alpha_v from a seed
//! once      B = A S + e_pk;   beta_v = (alpha_v S + e_v + E_v)[0..d)   to the client ([`Table`])
//! token v   alpha' = alpha_v + A r + f1                                N elements, to the server ([`Query`])
//!           beta'  = beta_v + (B r + f0)[0..d) + rho                   d elements, to the server
//! shares    client -rho,   server (beta' - alpha' S)[0..d)
//! sum       E_v + e_v + e_pk r + f0 - f1 S
//! ```
//!
//! with fresh ternary `r`, Gaussian `f0, f1` and `rho` uniform over `Z_q^d` for every token.
//!
//! # Noise
//! Standard deviation `sigma sqrt(1 + 1 + 2 N 2/3)`, 167 at `N = 2048` ([`noise`]). Hence the table has 30
//! fractional bits (1.6e-7), and the caller truncates the shares to the scale of the residual stream.
//!
//! # Views
//! *Server corrupt.* `rho` makes the phase of what it receives uniform, whatever its noise, so `r` is left
//! with the one sample `alpha' - alpha_v = A r + f1`, which RLWE makes uniform. Two tokens have two `r`: with
//! one, the difference of two `alpha'` names the pair of rows. A mask on the message alone would not do: the
//! noise `e_v` is the server's and recognises the row. *Client corrupt.* It sees RLWE samples under `S`.
//! Tests: `a_row_without_its_mask_is_recognised`, `a_mask_on_the_message_alone_is_not_enough`,
//! `one_r_for_two_tokens_names_the_pair`.
//!
//! # Where rows are
//! Neither side keeps rows here: [`Owner::rows`] makes them part by part, [`Table::query`] takes the one it
//! needs. A table of a large vocabulary may so stay in a file.
//!
//! # Cost
//! Setup `(V d + N) l` bits, once per model; per token `(N + d) l` bits, half a round. Client: two ring
//! products of 5 transforms together. Server: one of 4.

use fesc_ring::Prg;
use fesc_ring::poly::{PolyRing, PreparedFull, PreparedSmall};
use fesc_ring::sample::gaussian::SIGMA;
use fesc_ring::sample::{gaussian, ternary};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::length;
use crate::stream::{digest, digest_all, digest_signed};
use crate::{Params, Result, RlweError, Secrets, Seed};

const PURPOSE: &[u8; 16] = b"embedding table ";

/// `S`, `e_pk` and `e_v`.
pub(crate) const KEY: &[u8; 16] = b"table, key      ";
pub(crate) const KEY_NOISE: &[u8; 16] = b"table, key noise";
pub(crate) const ROW_NOISE: &[u8; 16] = b"table, row noise";

/// Standard deviation of the noise of a row, in units of its last place.
pub fn noise(params: &Params) -> f64 {
    SIGMA * (2.0 + 2.0 * params.degree() as f64 * 2.0 / 3.0).sqrt()
}

/// `A`.
fn common(params: &Params, seed: &Seed) -> Vec<u64> {
    seed.polynomial(params, PURPOSE, [0, 0, 0])
}

/// `alpha_v`.
fn row_mask(params: &Params, seed: &Seed, id: usize) -> Vec<u64> {
    seed.polynomial(params, PURPOSE, [1, id as u64, 0])
}

fn add_noise(params: &Params, out: &mut [u64], prg: &mut Prg) {
    let mut e = Zeroizing::new(vec![0i64; out.len()]);
    gaussian(prg, &mut e);
    for (o, &e) in out.iter_mut().zip(e.iter()) {
        *o = params.ring().add(*o, params.ring().from_signed(e));
    }
}

/// What the client downloads, but for the rows.
pub struct Table {
    params: Params,
    seed: Seed,
    width: usize,
    polys: PolyRing,
    common: PreparedFull,
    key: Vec<u64>,
    prepared_key: PreparedFull,
}

/// What the client sends for one token. Every element is masked.
pub struct Query {
    /// `alpha'`: N elements.
    pub mask: Vec<u64>,
    /// `beta'`: d elements.
    pub row: Vec<u64>,
}

impl Table {
    /// A table as received: the key `B` (N elements), for rows of `width`.
    ///
    /// # Errors
    /// If sizes do not fit together.
    pub fn new(params: Params, seed: Seed, width: usize, mut key: Vec<u64>) -> Result<Self> {
        let degree = params.degree();
        if width == 0 || width > degree {
            return Err(RlweError::Width { width, degree });
        }
        length("the table's key", degree, key.len())?;
        params.ring().reduce_assign(&mut key);
        let polys = PolyRing::new(params.ring(), degree, 1)?;
        let common = polys.prepare_full(&common(&params, &seed))?;
        let prepared_key = polys.prepare_full(&key)?;
        Ok(Self { params, seed, width, polys, common, key, prepared_key })
    }

    /// Where its public polynomials come from.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// `B`.
    pub fn key(&self) -> &[u64] {
        &self.key
    }

    /// The query for token `id`, whose encrypted row is `row`, and the client's share of the row.
    ///
    /// # Errors
    /// If the row does not have the table's width.
    pub fn query(&self, id: usize, row: &[u64], prg: &mut Prg) -> Result<(Query, Vec<u64>)> {
        let ring = self.params.ring();
        let mut rho = prg.ring_vec(ring, self.width);
        let query = self.query_with(id, row, &rho, prg)?;
        rho.iter_mut().for_each(|r| *r = ring.neg(*r));
        Ok((query, rho))
    }

    /// [`Self::query`] with a given mask; tests give a bad one.
    fn query_with(&self, id: usize, beta: &[u64], rho: &[u64], prg: &mut Prg) -> Result<Query> {
        let (ring, degree) = (self.params.ring(), self.params.degree());
        length("a row of the table", self.width, beta.len())?;
        let mut r = Zeroizing::new(vec![0; degree]);
        ternary(prg, &mut r);
        let r = self.polys.prepare_small(&r)?;
        let mut mask = row_mask(&self.params, &self.seed, id);
        self.polys.mul_add(&mut mask, &self.common, &r)?;
        add_noise(&self.params, &mut mask, prg);
        let mut row = self.polys.mul(&self.prepared_key, &r)?;
        row.truncate(self.width);
        add_noise(&self.params, &mut row, prg);
        for ((o, &b), &m) in row.iter_mut().zip(beta).zip(rho) {
            *o = ring.add(*o, ring.add(b, m));
        }
        Ok(Query { mask, row })
    }
}

/// The server's side: the key of its table. No `Debug`, no `Clone`; the key is wiped on drop.
pub struct Owner {
    params: Params,
    width: usize,
    count: usize,
    polys: PolyRing,
    seed: Seed,
    secret: PreparedSmall,
    /// Digest of the secret, by which the noise of rows is keyed: another secret has other noise.
    beside: Zeroizing<[u8; 32]>,
}

impl Owner {
    /// The key of a table of `count` rows of `width`, whose public polynomials come from `seed`. The rows
    /// come from [`Self::rows`] with the same secrets. The same arguments give the same key; other
    /// polynomials draw another one.
    ///
    /// # Errors
    /// If the rows do not fit the ring.
    pub fn new(params: Params, width: usize, count: usize, seed: Seed, secrets: &Secrets) -> Result<(Self, Table)> {
        let (ring, degree) = (params.ring(), params.degree());
        if width == 0 || width > degree {
            return Err(RlweError::Width { width, degree });
        }
        let masks = (0..count).into_par_iter().map(|id| digest(&row_mask(&params, &seed, id)));
        let (common, masks) = (common(&params, &seed), digest_all(&masks.collect::<Vec<_>>()));
        let key_meets = digest(&common);
        let polys = PolyRing::new(ring, degree, 1)?;
        let mut secret = Zeroizing::new(vec![0; degree]);
        let place = [width as u64, count as u64, 0];
        ternary(&mut secrets.stream(KEY, place, &[&key_meets, &masks]), &mut secret);
        let beside = Zeroizing::new(digest_signed(&secret));
        let secret = polys.prepare_small(&secret)?;
        let mut key = polys.mul(&polys.prepare_full(&common)?, &secret)?;
        add_noise(&params, &mut key, &mut secrets.stream(KEY_NOISE, place, &[&key_meets, &masks, &beside]));
        let table = Table::new(params, seed, width, key)?;
        Ok((Self { params, width, count, polys, seed, secret, beside }, table))
    }

    /// Encrypts the rows from number `first` on (`values` are integers, `width` a row). Each number must be
    /// encrypted once: two rows under one number differ by their noise alone. The same values under the same
    /// number are the same row.
    ///
    /// # Errors
    /// If `values` are not whole rows, or there are more of them than the table has.
    pub fn rows(&self, first: usize, values: &[i64], secrets: &Secrets) -> Result<Vec<u64>> {
        let (params, width, polys) = (self.params, self.width, &self.polys);
        let ring = params.ring();
        length("a table", values.len() / width * width, values.len())?;
        if first + values.len() / width > self.count {
            return Err(RlweError::Length {
                what: "rows of a table",
                expected: self.count,
                got: first + values.len() / width,
            });
        }
        let mut rows: Vec<u64> = values.iter().map(|&v| ring.from_signed(v)).collect();
        let work = rows.par_chunks_mut(width).enumerate();
        work.try_for_each(|(id, row)| {
            let (id, hidden) = (first + id, Zeroizing::new(digest(row)));
            let mask = row_mask(&params, &self.seed, id);
            // The secret beside it stands for every polynomial: it is keyed by all of them.
            let mut noise = secrets.stream(ROW_NOISE, [width as u64, id as u64, 0], &[&*self.beside, &*hidden]);
            let product = Zeroizing::new(polys.mul(&polys.prepare_full(&mask)?, &self.secret)?);
            for (o, &p) in row.iter_mut().zip(product.iter()) {
                *o = ring.add(*o, p);
            }
            add_noise(&params, row, &mut noise);
            Ok::<_, RlweError>(())
        })?;
        Ok(rows)
    }

    /// The server's share of the row that a query hides.
    ///
    /// # Errors
    /// If a length is wrong.
    pub fn share(&self, query: &Query) -> Result<Vec<u64>> {
        length("the mask of a query", self.params.degree(), query.mask.len())?;
        length("the row of a query", self.width, query.row.len())?;
        let product = self.polys.mul(&self.polys.prepare_full(&query.mask)?, &self.secret)?;
        Ok(query.row.iter().zip(&product).map(|(&b, &p)| self.params.ring().sub(b, p)).collect())
    }
}

#[cfg(test)]
mod tests;
