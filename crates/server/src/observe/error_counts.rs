//! How often commands and single writes failed, by code.
//!
//! An error is the exception: a lock that all connections share costs it nothing that a client would notice. The codes are
//! those that the server raises, and those that a fail point was told to.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Codes that are told apart; further ones are counted under the last entry.
const CODES_MAX: usize = 512;
/// The code of MongoDB's UnknownError, which stands for those that have no place of their own.
const OTHERS: i32 = 8;

#[derive(Default)]
pub struct ErrorCounts(Mutex<FxHashMap<i32, u64>>);

impl ErrorCounts {
    pub fn add(&self, code: i32) {
        let mut counts = self.0.lock();
        let is_known = counts.len() < CODES_MAX || counts.contains_key(&code);
        *counts
            .entry(if is_known { code } else { OTHERS })
            .or_default() += 1;
    }

    /// The counts, by rising code.
    pub fn list(&self) -> Vec<(i32, u64)> {
        let mut list: Vec<(i32, u64)> = self
            .0
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
}
