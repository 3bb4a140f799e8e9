//! What the two ends say of keys, as part of the handshake.
//!
//! ```text
//! client   Wish      digest of the shape; the name of kept keys, or fresh ones, to be kept or not
//! server   Grant     use those | send them, and whether they will be kept   (or a refusal)
//!
//! client   Order     list my keys | delete some: a visit of its own
//! server   Listing                                                          (or a refusal)
//! ```

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::file::SetNote;
use super::shelf::Entry;
use crate::session::error::clean;
use crate::session::hex::Hex32;

/// What a client asks for, where the plan has kernels under encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Digest of the sets and of the rotations.
    pub shape: Hex32,
    /// Keys that the server has kept.
    pub kept: Option<Hex32>,
    /// Fresh ones are to be kept, if the server does that for this client.
    pub keep: bool,
}

/// What the server grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    /// The kept keys serve.
    Use,
    /// Fresh keys are to be sent.
    Send {
        /// They will be kept.
        keep: bool,
    },
}

/// What a client wants with its kept keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// To see them.
    List,
    /// To have these deleted.
    Delete(Vec<Hex32>),
    /// To have all of them deleted.
    DeleteAll,
}

impl Order {
    /// Whether it wants these gone.
    pub(in crate::session) fn deletes(&self, name: Hex32) -> bool {
        match self {
            Self::List => false,
            Self::Delete(names) => names.contains(&name),
            Self::DeleteAll => true,
        }
    }
}

/// What a server has of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listing {
    /// What it keeps now.
    pub kept: Vec<Kept>,
    /// What it has deleted.
    pub deleted: Vec<Hex32>,
}

impl Listing {
    /// The same with words that a hostile server cannot use against a terminal.
    pub(in crate::session) fn cleaned(mut self) -> Self {
        for kept in &mut self.kept {
            kept.plan = clean(&kept.plan);
            kept.sets.iter_mut().for_each(|set| set.set = clean(&set.set));
        }
        self
    }
}

/// Keys that a server keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Their name.
    pub name: Hex32,
    /// The plan that they were made for.
    pub plan: String,
    /// The length that they were made for. They serve any other run that needs exactly the same keys.
    pub bucket: usize,
    /// Their sets.
    pub sets: Vec<SetNote>,
    /// Bytes that travelled.
    pub bytes: u64,
    /// Seconds since they were made.
    pub age_s: u64,
    /// Seconds until they are deleted.
    pub left_s: u64,
    /// A session has them now.
    pub in_use: bool,
}

impl Kept {
    pub(super) fn new(entry: &Entry, most: Duration) -> Self {
        let Entry { name, note, taken } = entry;
        let age = entry.age();
        Self {
            name: *name,
            plan: note.plan.clone(),
            bucket: note.bucket,
            sets: note.sets.clone(),
            bytes: note.bytes,
            age_s: age.as_secs(),
            left_s: most.saturating_sub(age).as_secs(),
            in_use: *taken,
        }
    }
}

/// What a fuzzer gives as a message: what is accepted is written and read again as the same. Whether it was.
///
/// # Panics
/// If it is not.
pub(super) fn fuzz(data: &[u8]) -> bool {
    fn again<T: Serialize + DeserializeOwned + PartialEq>(data: &[u8]) -> bool {
        let Ok(message) = serde_json::from_slice::<T>(data) else { return false };
        let text = serde_json::to_vec(&message);
        assert!(text.is_ok_and(|text| serde_json::from_slice(&text).is_ok_and(|read: T| read == message)));
        true
    }
    if let Ok(listing) = serde_json::from_slice::<Listing>(data) {
        let words = |kept: &Kept| [vec![kept.plan.clone()], kept.sets.iter().map(|s| s.set.clone()).collect()].concat();
        let hostile = |kept: &Kept| words(kept).concat().chars().any(char::is_control);
        assert!(!listing.cleaned().kept.iter().any(hostile));
    }
    again::<Wish>(data) | again::<Grant>(data) | again::<Order>(data) | again::<Listing>(data)
}
