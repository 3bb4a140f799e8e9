//! `Y = conv(X W)` on shares, by one message of the client.
//!
//! `X` (tokens x m) is additively shared over `Z_q`, `q = 2^l`; `W` (m x n) and the taps `w_k` of a causal
//! convolution are the server's. Token `t` is the coefficient of `X^t` in `R = Z_q[X] / (X^N + 1)`, a feature
//! is one polynomial, and the message sits in the coefficients without scaling.
//!
//! | when | who | what |
//! |---|---|---|
//! | once | both | public `a', a_1 .. a_m` from a seed, by a hash with a domain for each ([`Domain`]) |
//! | once | server | the *hint* `c_k = w_k sum_j W[j,k] a_j + u_k a' + e_k` ([`Hint`]) |
//! | ahead | client | `b' = a' s + e'`, pads `a_j s + e_j`, share `y0_k = -c_k s` ([`Prepared`]) |
//! | online | client | `b_j = (a_j s + e_j) + x0_j`: one message of m T elements, and `b'` |
//! | online | server | share `y1_k = w_k sum_j W[j,k] (b_j + x1_j) + u_k b'` ([`Server::share`]) |
//!
//! *Once* is once per model, *ahead* is for each document, block and matrix; `u_k` and `s` are fresh ternary,
//! `e`, `e'` Gaussian. The terms `u_k a' s` cancel, and
//!
//! ```text
//! y0_k + y1_k = w_k sum_j W[j,k] (x_j + e_j) + u_k e' - e_k s        in R, exactly
//! ```
//!
//! # Noise
//! As a perturbation of the outputs it has variance `sigma^2 |W_k|^2 |w_k|^2 + 2 sigma^2 N 2/3`
//! ([`Server::noise`]), that is, about 3 units of the last place of the input. The bound to publish is 6.5
//! deviations (2^-33 per output).
//!
//! # Blocks
//! The ring is negacyclic: what passes degree `N` comes back with a minus at the low end. A block therefore
//! carries the `taps - 1` tokens before it and drops as many outputs ([`Block`]). Only the first `T`
//! coefficients of each `b_j` are sent; kept outputs depend on no other.
//!
//! # Views
//! *Server corrupt.* It sees `(b', b_j)`. Simulator: uniform elements. Take the (document, block, matrix)
//! triples from the last to the first; when one is replaced, everything later that the server receives is
//! already simulated without the client's shares, so its `s` occurs in `(a', b')` and `(a_j, b_j - x0_j)`
//! alone, which RLWE makes uniform together. `x0_j` may be any function of the view and of *earlier* secrets.
//! This is why `s` belongs to one document, block and matrix, and why there is one `b'` per `s`: [`Prepared`]
//! is made from one seed, is not `Clone`, and is consumed by its one use.
//!
//! *Client corrupt.* It sees the hint. Simulator: uniform polynomials, by RLWE with secret `u_k`, one sample
//! each, `a'` in common. A document gives it no further function of `(u_k, e_k)` except through the output,
//! so the hint serves any number of documents. A changed `W` needs a new seed and new `(u, e)`:
//! [`Server::publish`] draws them itself, keyed by `W` and the polynomials ([`Secrets`](crate::Secrets)), and
//! offers no other way.
//!
//! What is realised is the *noisy* map above, not `conv(X W)`: the client knows `e_j, e', s`, so
//! full-precision outputs would tell it about `W e`. Nothing computed from an output may go back to the
//! server, and what the client learns in the end must be floored exactly.
//!
//! Security of one secret at `N = 2048, q = 2^48`: 143 bits (MATZOV); a union over the secrets of a hint,
//! 49,440 for Mamba-base, leaves 127.4. Tests: `hint_without_its_mask_gives_the_weights_away`,
//! `blocks_without_pads_give_the_input_away`, `one_secret_for_two_blocks_gives_their_difference_away`,
//! `one_mask_for_two_models_gives_their_difference_away`.
//!
//! # Cost
//! To the server `(N + m T) l` bits a block and matrix, nothing back, half a round. Client ahead: `m + n`
//! ring products, 4 transforms each. Server: a GEMM of `T m n`, and `n` ring products of 3 transforms.

mod block;
mod client;
mod public;
mod server;
#[cfg(test)]
mod tests;

pub use block::{Block, Shape};
pub use client::{Message, Prepared};
pub use public::Domain;
pub use server::{Hint, Server};
#[cfg(test)]
pub(crate) use server::{MASK, NOISE};
