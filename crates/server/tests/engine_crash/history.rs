//! The history of what was written, in the order of the log, and what of it a crash may leave.

use std::collections::{BTreeMap, BTreeSet};

/// A small generator, so that a failing seed can be run again.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The number of a collection, and an `_id` in it.
pub type Key = (usize, i32);

/// The documents of all collections, each told by its `n`.
pub type State = BTreeMap<Key, i32>;

/// One record of the log: it is found whole or not at all.
#[derive(Clone)]
pub struct Write {
    pub lsn: u64,
    pub change: Change,
}

#[derive(Clone)]
pub enum Change {
    Put(BTreeSet<Key>, i32),
    Delete(BTreeSet<Key>),
    Drop(usize),
}

impl Change {
    fn apply(&self, state: &mut State) {
        match self {
            Change::Put(keys, n) => state.extend(keys.iter().map(|key| (*key, *n))),
            Change::Delete(keys) => state.retain(|key, _| !keys.contains(key)),
            Change::Drop(dropped) => state.retain(|(collection, _), _| collection != dropped),
        }
    }
}

/// All writes of a database that it did not lose.
#[derive(Clone, Default)]
pub struct History {
    writes: Vec<Write>,
}

impl History {
    pub fn add(&mut self, mut writes: Vec<Write>) {
        writes.sort_by_key(|write| write.lsn);
        let last = self.writes.last().map_or(0, |write| write.lsn);
        assert!(writes.first().is_none_or(|first| first.lsn > last));
        self.writes.extend(writes);
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn len_up_to(&self, lsn: u64) -> usize {
        self.writes.partition_point(|write| write.lsn <= lsn)
    }

    /// The beginning of this history that leaves `found` and holds everything up to `lsn`.
    pub fn beginning(&self, found: &State, lsn: u64) -> Option<History> {
        let must = self.len_up_to(lsn);
        let mut state = State::new();
        for write in &self.writes[..must] {
            write.change.apply(&mut state);
        }
        for end in must.. {
            if state == *found {
                return Some(History {
                    writes: self.writes[..end].to_vec(),
                });
            }
            self.writes.get(end)?.change.apply(&mut state);
        }
        None
    }

    /// The difference between `found` and what everything up to `lsn` would leave, for a failure's message.
    pub fn difference(&self, found: &State, lsn: u64) -> String {
        let mut state = State::new();
        let mut is_beginning = found.is_empty().then_some(0);
        for write in self.writes.iter().take_while(|write| write.lsn <= lsn) {
            write.change.apply(&mut state);
            if state == *found {
                is_beginning = Some(write.lsn);
            }
        }
        let what = match is_beginning {
            Some(lsn) => format!("found is what everything up to LSN {lsn} leaves"),
            None => "found is what no beginning leaves".to_owned(),
        };
        let missing: Vec<_> = state
            .iter()
            .filter(|(key, n)| found.get(key) != Some(n))
            .collect();
        let extra: Vec<_> = found
            .iter()
            .filter(|(key, n)| state.get(key) != Some(n))
            .collect();
        format!(
            "{what}; up to LSN {lsn}: expected and not found {missing:?}; found and not expected {extra:?}"
        )
    }
}
