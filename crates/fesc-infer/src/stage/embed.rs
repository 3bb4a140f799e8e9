//! Token ids to the residual stream (docs/DESIGN.md, 6.6; [`fesc_rlwe::embedding`]).
//!
//! Encrypted: one query per token, also for padding, so that the real length stays hidden; both end with
//! shares of the row at TABLE bits, which are rounded to F. Online `(N + d) l` bits a token to the server,
//! and a truncation. Public: the operator hands the table out. The client looks the row up and rounds it; its
//! share is the row, the server's is zero, and nothing is sent.

use fesc_model::outline::scale::TABLE;
use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Tag;
use fesc_net::message::MessagePhase::Online;
use fesc_net::message::ways::UP;
use fesc_net::message::{Message, Size};
use fesc_ring::{Prg, Ring};
use fesc_rlwe::Params;
use fesc_rlwe::embedding::{Owner, Query, Table};
use rayon::prelude::*;

use super::{Rescale, Side};
use crate::{InferError, Result};

/// Tokens of one message: 1 MB at Mamba-base.
const GROUP: usize = 64;

const QUERIES: Tag = Tag(0x0602);

/// What this file sends.
pub(crate) const MESSAGES: &[Message] = &[Message {
    tag: QUERIES.0,
    name: "queries to the table",
    ways: UP,
    size: Size::Multiple { of: 6, plus: 0, most: Size::MOST },
    formula: "6 n (N + d), N = 2048, n tokens (at most 64), d values of a row",
    mask: "a fresh encryption of zero for each token, and a uniform mask on the row",
    tests: &[
        "a_query_without_its_encryption_of_zero_names_the_token",
        "a_row_without_its_mask_is_recognised",
        "a_mask_on_the_message_alone_is_not_enough",
        "one_r_for_two_tokens_names_the_pair",
    ],
    ..Message::masked("fesc-infer", &[Online])
}];

/// How the client gets rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Embedding {
    /// By encrypted queries: neither side learns the other's.
    Encrypted,
    /// The table is public.
    Public,
}

/// The embedding of one segment.
pub struct Embed {
    params: Params,
    width: usize,
    tokens: usize,
    kind: Embedding,
    frac: u32,
    leave: Rescale,
}

/// The client's rows, one for each token of the segment.
pub enum Rows<'a> {
    /// Encrypted.
    Encrypted {
        /// As many as the segment has tokens.
        ids: &'a [u32],
        /// Their encrypted rows, one after the other.
        rows: &'a [u64],
        /// The table that they are from.
        table: &'a Table,
        /// Randomness for the queries.
        prg: &'a mut Prg,
    },
    /// Of a public table, at TABLE bits.
    Public(&'a [u64]),
}

impl Embed {
    /// `tokens` rows of `width` values, to `frac` bits.
    pub fn new(params: Params, kind: Embedding, width: usize, frac: u32, tokens: usize) -> Self {
        let leave = Rescale::new(params.ring(), TABLE, frac, width * tokens);
        Self { params, width, tokens, kind, frac, leave }
    }

    /// Tokens of each message.
    fn groups(&self) -> impl Iterator<Item = usize> {
        let tokens = self.tokens;
        (0..tokens.div_ceil(GROUP)).map(move |i| GROUP.min(tokens - i * GROUP))
    }

    fn bytes(&self, tokens: usize) -> usize {
        self.params.ring().packed_len(tokens * (self.params.degree() + self.width))
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        if self.kind == Embedding::Public {
            return Ok(());
        }
        self.groups().for_each(|tokens| ledger.send(Role::P0, self.bytes(tokens)));
        Ok(self.leave.declare(ledger)?)
    }

    /// The rows at `frac` bits.
    ///
    /// # Errors
    /// If there is not a row for each token, a half belongs to the other party, or the channel fails.
    pub fn run(&self, party: &mut Party, part: Side<Rows<'_>, Option<&Owner>>) -> Result<Shared> {
        let ring = self.params.ring();
        match (part.of(party.role(), "the embedding")?, self.kind) {
            (Side::Client(Rows::Encrypted { ids, rows, table, prg }), Embedding::Encrypted) => {
                crate::error::check("ids of a segment", self.tokens, ids.len())?;
                crate::error::check("rows of a segment", self.tokens * self.width, rows.len())?;
                let share = self.ask(party, ids, rows, table, prg)?;
                Ok(self.leave.run(party, share)?)
            }
            (Side::Server(Some(owner)), Embedding::Encrypted) => {
                let share = self.answer(party, owner)?;
                Ok(self.leave.run(party, share)?)
            }
            (Side::Client(Rows::Public(rows)), Embedding::Public) => self.round(ring, rows),
            (Side::Server(None), Embedding::Public) => Ok(Shared::new(ring, vec![0; self.tokens * self.width])),
            _ => Err(InferError::Misuse { what: "the embedding", why: "the setup is of another kind" }),
        }
    }

    fn ask(&self, party: &mut Party, ids: &[u32], rows: &[u64], table: &Table, prg: &mut Prg) -> Result<Shared> {
        let ring = self.params.ring();
        let mut share = Vec::with_capacity(ids.len() * self.width);
        for (group, rows) in ids.chunks(GROUP).zip(rows.chunks(GROUP * self.width)) {
            let mut streams: Vec<Prg> = group.iter().map(|_| prg.fork()).collect();
            let rows = group.par_iter().zip(rows.par_chunks(self.width));
            let made = rows.zip(&mut streams).map(|((&id, row), prg)| table.query(id as usize, row, prg));
            let made = made.collect::<Result<Vec<_>, _>>()?;
            let mut bytes = Vec::with_capacity(self.bytes(group.len()));
            let mut all = Vec::with_capacity(group.len() * (self.params.degree() + self.width));
            for (query, mine) in made {
                all.extend_from_slice(&query.mask);
                all.extend_from_slice(&query.row);
                share.extend(mine);
            }
            ring.pack_into(&mut bytes, &all);
            party.channel().send(QUERIES, bytes)?;
        }
        Ok(Shared::new(ring, share))
    }

    fn answer(&self, party: &mut Party, owner: &Owner) -> Result<Shared> {
        let (ring, degree) = (self.params.ring(), self.params.degree());
        let each = degree + self.width;
        let mut share = Vec::with_capacity(self.tokens * self.width);
        for tokens in self.groups() {
            let bytes = party.channel().recv(QUERIES, self.bytes(tokens))?;
            let all = ring.unpack(&bytes, tokens * each)?;
            let rows = all.par_chunks_exact(each).map(|query| {
                let (mask, row) = query.split_at(degree);
                owner.share(&Query { mask: mask.to_vec(), row: row.to_vec() })
            });
            share.extend(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten());
        }
        Ok(Shared::new(ring, share))
    }

    /// Rows to the nearest integer at `frac` bits.
    fn round(&self, ring: Ring, rows: &[u64]) -> Result<Shared> {
        crate::error::check("rows of a segment", self.tokens * self.width, rows.len())?;
        let shift = TABLE - self.frac;
        let nearest = |&v: &u64| ring.from_signed(ring.to_signed(v).saturating_add(1 << shift >> 1) >> shift);
        Ok(Shared::new(ring, rows.iter().map(nearest).collect()))
    }
}
