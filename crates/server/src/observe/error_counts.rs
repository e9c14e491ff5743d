//! How often commands and single writes failed, by code, and the log's word where one of them met damaged data.
//!
//! An error is the exception: a lock that all connections share costs it nothing that a client would notice. The codes are
//! those that the server raises, and those that a fail point was told to.

use parking_lot::Mutex;
use quarry_query::ErrorCode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::dispatch::error::CommandError;
use crate::observe::log;

/// Codes that are told apart; further ones are counted under the last entry.
const CODES_MAX: usize = 512;
/// The code of MongoDB's UnknownError, which stands for those that have no place of their own.
const OTHERS: i32 = 8;

/// Places of damage that the log tells of. A disk that fails as a whole has been told of long before.
const DAMAGE_MAX: usize = 256;

#[derive(Default)]
pub struct ErrorCounts {
    counts: Mutex<FxHashMap<i32, u64>>,
    /// The errors by which the log has told of damage: it tells of each place once.
    damage: Mutex<FxHashSet<String>>,
}

impl ErrorCounts {
    /// Counts an error. The log tells of one that met damaged data, because the client that is told need not be the one who
    /// looks after the server.
    pub fn note(&self, error: &CommandError, namespace: impl FnOnce() -> String) {
        self.add(error.code);
        if error.code == ErrorCode::DATA_CORRUPTION_DETECTED.0 && self.is_new_damage(&error.message)
        {
            log::error(
                "storage",
                "stored data is damaged",
                &[
                    ("namespace", namespace().into()),
                    ("error", error.message.as_str().into()),
                ],
            );
        }
    }

    fn is_new_damage(&self, message: &str) -> bool {
        let mut told = self.damage.lock();
        told.len() < DAMAGE_MAX && told.insert(message.to_owned())
    }

    pub fn add(&self, code: i32) {
        let mut counts = self.counts.lock();
        let is_known = counts.len() < CODES_MAX || counts.contains_key(&code);
        *counts
            .entry(if is_known { code } else { OTHERS })
            .or_default() += 1;
    }

    /// The counts, by rising code.
    pub fn list(&self) -> Vec<(i32, u64)> {
        let mut list: Vec<(i32, u64)> = self
            .counts
            .lock()
            .iter()
            .map(|(code, count)| (*code, *count))
            .collect();
        list.sort_unstable();
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_bounded_and_none_is_lost() {
        let counts = ErrorCounts::default();
        for code in 0..2_000 {
            counts.add(code);
        }
        counts.add(26);
        let list = counts.list();
        assert!(list.len() <= CODES_MAX && list.is_sorted());
        assert_eq!(list.iter().map(|(_, count)| count).sum::<u64>(), 2_001);
        assert!(list.contains(&(26, 2)));
    }

    #[test]
    fn damage_is_told_once_for_each_place_and_within_a_bound() {
        let counts = ErrorCounts::default();
        assert!(counts.is_new_damage("block 1") && counts.is_new_damage("block 2"));
        assert!(!counts.is_new_damage("block 1"));
        let told = (0..2 * DAMAGE_MAX).filter(|number| counts.is_new_damage(&number.to_string()));
        assert_eq!(told.count(), DAMAGE_MAX - 2);
    }
}
