//! How the decays and the projections B and C of a packet are given.
//!
//! [`Factors::MAMBA2`] is what this crate's other packings compute with: all encrypted and real, a decay for
//! each head. Other diagonal recurrences (the paper, app:cross-ssm-family) differ in what the server knows,
//! in the index of the decay and in its numbers:
//!
//! | family | a | B, C |
//! |---|---|---|
//! | S4D, S5, LRU | the server's, the same for all tokens, per state, complex | the server's, complex |
//! | Mamba-1 (S6) | encrypted, per state, real | encrypted, real |
//! | Mamba-2 | encrypted, per head, real | encrypted, real |
//!
//! The recurrence is `h_t[e][i] = a_t[e][i] h_(t-1)[e][i] + x_t[e] B_t[g][i]` with `m_t[e]` the real part of
//! `sum_i C_t[g][i] h_t[e][i]`; x is real and encrypted. A model whose B and C differ from channel to channel
//! has groups of one channel.

use std::ops::Range;
use std::sync::Arc;

use fesc_hybrid::{HybridError, Result};
use num_complex::Complex64;

use super::{Lane, ScanShape, Value};

/// Who has a factor.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// Nobody: it is encrypted, for every token.
    Encrypted,
    /// The server, for every token.
    Plain(Arc<[f64]>),
    /// The server, once for all tokens.
    Fixed(Arc<[f64]>),
}

/// Which decays are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Those of all channels and coordinates of a head: `a_t[h]` at `t H + h`.
    Head,
    /// None: `a_t[e][i]` at `(t E + e) d_s + i`.
    State,
}

/// A factor: real numbers, or complex ones with the two parts side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// Who has it, with its values.
    pub given: Given,
    /// Whether number `n` is values `2 n` and `2 n + 1`, not value `n`.
    pub complex: bool,
}

/// The factors of a packet beside x.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// The decay.
    pub a: Factor,
    /// Its index.
    pub per: Per,
    /// B, `(t G + g) d_s + i`.
    pub b: Factor,
    /// C, as B.
    pub c: Factor,
}

impl Factor {
    /// Encrypted and real.
    pub const REAL: Self = Self { given: Given::Encrypted, complex: false };

    /// Whether it is encrypted.
    pub fn encrypted(&self) -> bool {
        self.given == Given::Encrypted
    }

    /// Number `n` of some values.
    pub fn number(&self, values: &[f64], n: usize) -> Complex64 {
        let part = |i: usize| values.get(i).copied().unwrap_or_default();
        if self.complex { Complex64::new(part(2 * n), part(2 * n + 1)) } else { part(n).into() }
    }

    /// The lane of number `n`.
    pub fn lane(&self, n: usize, value: fn(u32) -> Value) -> Lane<Value> {
        let n = n as u32;
        if self.complex { [Some(value(2 * n)), Some(value(2 * n + 1))] } else { [Some(value(n)), None] }
    }

    /// What the server knows of number `n` of a token, of `size` for each token; zero if it knows nothing.
    pub fn known(&self, token: usize, size: usize, n: usize) -> Complex64 {
        match &self.given {
            Given::Encrypted => Complex64::ZERO,
            Given::Plain(values) => self.number(values, token * size + n),
            Given::Fixed(values) => self.number(values, n),
        }
    }

    /// The product of [`Factor::known`] over tokens.
    pub fn known_product(&self, tokens: Range<usize>, size: usize, n: usize) -> Complex64 {
        match &self.given {
            Given::Fixed(_) => self.known(0, size, n).powu(tokens.len() as u32),
            _ => tokens.map(|t| self.known(t, size, n)).product(),
        }
    }

    /// Values of so many numbers for each token.
    pub fn values(&self, tokens: usize, size: usize) -> usize {
        let tokens = if matches!(self.given, Given::Fixed(_)) { 1 } else { tokens };
        tokens * size * (1 + usize::from(self.complex))
    }
}

impl Factors {
    /// All encrypted and real, a decay for each head.
    pub const MAMBA2: Self = Self { a: Factor::REAL, per: Per::Head, b: Factor::REAL, c: Factor::REAL };

    /// Whether any is complex.
    pub fn complex(&self) -> bool {
        [&self.a, &self.b, &self.c].iter().any(|f| f.complex)
    }

    /// Decays of a token.
    pub fn decays(&self, shape: &ScanShape) -> usize {
        match self.per {
            Per::Head => shape.heads,
            Per::State => shape.channels() * shape.state,
        }
    }

    /// Which decay of a token that of a channel and coordinate is.
    pub fn decay(&self, shape: &ScanShape, channel: usize, i: usize) -> usize {
        match self.per {
            Per::Head => channel / shape.head_dim,
            Per::State => channel * shape.state + i,
        }
    }

    /// Refuses known factors that are not as long as the shape says.
    ///
    /// # Errors
    /// [`HybridError::Shape`].
    pub fn check(&self, shape: &ScanShape) -> Result<()> {
        let rows = [
            ("values of a", &self.a, self.decays(shape)),
            ("values of B", &self.b, shape.groups * shape.state),
            ("values of C", &self.c, shape.groups * shape.state),
        ];
        for (what, factor, size) in rows {
            let need = factor.values(shape.tokens, size);
            if let Given::Plain(values) | Given::Fixed(values) = &factor.given
                && values.len() != need
            {
                return Err(HybridError::Shape { what, got: values.len(), need: format!("{need} by the shape") });
            }
        }
        Ok(())
    }
}
