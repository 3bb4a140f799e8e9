//! Which prepared sessions were used, kept apart from the sessions themselves.
//!
//! A store directory that was copied and put back has its stores again, unused by all that they show.
//! Correlations used twice give the difference of two documents away, so the names of used stores are kept in
//! another directory (`--state`), are on the disk before the first correlation is read, and are looked at
//! before a store is claimed.
//!
//! A list has a name of its own, which each store carries: a store of another list, or of one that is gone,
//! is taken as used. So a list that is lost, as in a container with a lasting store directory and a passing
//! home, refuses instead of forgetting.
//!
//! The list is bounded. A store carries the second in which it was made; when the list is full its oldest
//! names go, and whatever was made up to then is refused from then on, used or not.
//!
//! Not guaranteed: anything when this list is put back too. Leave store directories and state directories out
//! of backups. A peer that makes and uses 16,384 stores can have older stores of others refused, though not
//! used.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use fesc_mpc::Role;

use crate::session::error::Result;
use crate::session::hex::Hex32;
use crate::session::journal::{Held, Journal};
use crate::session::randomness::Randomness;
use crate::session::report::side;

/// Names that are kept.
const MOST: usize = 1 << 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// The name of the list; its first entry.
    List(Hex32),
    /// A store that was used, and when it was made.
    Used(Hex32, u64),
    /// Stores that were made up to this second are refused.
    Floor(u64),
}

/// What a store carries of the list that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::session) struct Stamp {
    /// The list.
    pub list: Hex32,
    /// The second in which the store was made.
    pub made: u64,
}

/// The list of used stores of a state directory.
pub struct UsedList {
    journal: Journal<Entry>,
    most: usize,
}

impl UsedList {
    /// One side's list in a state directory, which is made if it is not there.
    pub fn open(state: &Path, role: Role) -> Result<Self> {
        Self::named(state, &format!("spent-{}.jsonl", side(role)))
    }

    /// A list of other things that serve no more, in a file of this name.
    pub(in crate::session) fn named(state: &Path, name: &str) -> Result<Self> {
        Ok(Self { journal: Journal::open(state, name)?, most: MOST })
    }

    /// The list, with its name.
    fn hold(&self) -> Result<(Held<Entry>, Hex32)> {
        let mut held = self.journal.hold()?;
        let name = held.entries().iter().find_map(|e| match e {
            Entry::List(name) => Some(*name),
            _ => None,
        });
        let name = match name {
            Some(name) => name,
            None => {
                let name = Hex32(Randomness::os().generator()?.public_bytes());
                held.add(Entry::List(name))?;
                name
            }
        };
        Ok((held, name))
    }

    /// What a store that is made now carries.
    pub(in crate::session) fn stamp(&self) -> Result<Stamp> {
        let (held, list) = self.hold()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // A clock that was set back must not make stores that nobody can use.
        Ok(Stamp { list, made: now.max(floor(&held) + 1) })
    }

    /// Whether a store was used, or cannot be told from one that was.
    pub(in crate::session) fn was_used(&self, id: Hex32, stamp: Stamp) -> Result<bool> {
        let (held, list) = self.hold()?;
        Ok(list != stamp.list || used(&held, id, stamp.made))
    }

    /// Marks a store as used, durably. False if it was used before.
    pub(in crate::session) fn mark(&self, id: Hex32, stamp: Stamp) -> Result<bool> {
        let (mut held, list) = self.hold()?;
        if list != stamp.list || used(&held, id, stamp.made) {
            return Ok(false);
        }
        if held.entries().len() >= self.most {
            let mut kept = vec![Entry::List(list)];
            kept.extend(bounded(held.entries(), self.most / 2));
            held.replace(kept)?;
        }
        held.add(Entry::Used(id, stamp.made))?;
        Ok(true)
    }
}

fn floor(held: &Held<Entry>) -> u64 {
    let floors = held.entries().iter().filter_map(|e| match e {
        Entry::Floor(floor) => Some(*floor),
        Entry::Used(..) | Entry::List(_) => None,
    });
    floors.max().unwrap_or(0)
}

fn used(held: &Held<Entry>, id: Hex32, made: u64) -> bool {
    made <= floor(held) || held.entries().iter().any(|e| matches!(e, Entry::Used(known, _) if *known == id))
}

/// The youngest `count` names, and a floor that covers the others.
fn bounded(entries: &[Entry], count: usize) -> Vec<Entry> {
    let mut names: Vec<(u64, Hex32)> = Vec::new();
    let mut floor = 0;
    for entry in entries {
        match entry {
            Entry::Used(id, made) => names.push((*made, *id)),
            Entry::Floor(old) => floor = floor.max(*old),
            Entry::List(_) => {}
        }
    }
    names.sort_unstable();
    let kept = names.split_off(names.len().saturating_sub(count));
    let floor = names.last().map_or(floor, |(made, _)| floor.max(*made));
    let kept = kept.into_iter().filter(|(made, _)| *made > floor).map(|(made, id)| Entry::Used(id, made));
    std::iter::once(Entry::Floor(floor)).chain(kept).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_is_marked_once_and_a_full_list_refuses_what_it_forgot() {
        let directory = tempfile::tempdir().unwrap();
        let open = || UsedList::open(directory.path(), Role::P0).unwrap();
        let spent = UsedList { most: 8, ..open() };
        let id = |n: u64| Hex32([n as u8; 32]);
        let list = spent.stamp().unwrap().list;
        let at = |made| Stamp { list, made };
        for n in 1..=40 {
            assert!(!spent.was_used(id(n), at(n)).unwrap());
            assert!(spent.mark(id(n), at(n)).unwrap());
            assert!(!spent.mark(id(n), at(n)).unwrap(), "never twice");
        }
        let held = spent.journal.hold().unwrap();
        assert!(held.entries().len() <= 8, "{} entries", held.entries().len());
        let floor = floor(&held);
        drop(held);
        assert!((30..40).contains(&floor), "{floor}");
        let (again, new) = (open(), Hex32([99; 32]));
        assert!((1..=40).all(|n| again.was_used(id(n), at(n)).unwrap()), "none is forgotten");
        assert!(again.was_used(new, at(floor)).unwrap() && !again.was_used(new, at(41)).unwrap());
        let stamp = again.stamp().unwrap();
        assert!(stamp.list == list && stamp.made > 1_700_000_000);
        // The other side's list is another one, and so is one that was lost and made anew.
        let theirs = UsedList::open(directory.path(), Role::P1).unwrap();
        assert!(theirs.was_used(new, stamp).unwrap() && !again.mark(new, theirs.stamp().unwrap()).unwrap());
        std::fs::remove_file(directory.path().join("spent-client.jsonl")).unwrap();
        assert!(open().was_used(new, stamp).unwrap(), "a list that is gone refuses what belonged to it");
    }
}
