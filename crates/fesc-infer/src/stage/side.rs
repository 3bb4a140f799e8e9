//! What a party brings to a stage: the client's part or the server's, never both.

use fesc_mpc::Role;

use crate::{InferError, Result};

/// The client's part of a stage's input, or the server's.
///
/// The two parties run the same stage with different secrets. A part that stands at the wrong party is a
/// fault of the program, and is refused before anything is sent ([`Side::of`]).
#[derive(Debug, Clone, Copy)]
pub enum Side<C, S> {
    /// The client's (P0).
    Client(C),
    /// The server's (P1).
    Server(S),
}

impl<C, S> Side<C, S> {
    /// The same, if it belongs to this party.
    ///
    /// # Errors
    /// If it is the other party's; `what` names it.
    pub fn of(self, role: Role, what: &'static str) -> Result<Self> {
        match (role, &self) {
            (Role::P0, Side::Client(_)) | (Role::P1, Side::Server(_)) => Ok(self),
            (Role::P0, Side::Server(_)) => {
                Err(InferError::Misuse { what, why: "the client must not have the server's" })
            }
            (Role::P1, Side::Client(_)) => {
                Err(InferError::Misuse { what, why: "the server must not have the client's" })
            }
        }
    }

    /// The server's part.
    pub fn server(self) -> Option<S> {
        match self {
            Side::Client(_) => None,
            Side::Server(part) => Some(part),
        }
    }
}

impl<C, S> Side<&mut C, &S> {
    /// The same again, for one stage of several.
    pub fn again(&mut self) -> Side<&mut C, &S> {
        match self {
            Side::Client(part) => Side::Client(part),
            Side::Server(part) => Side::Server(part),
        }
    }
}
