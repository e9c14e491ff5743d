//! The state that a writer changes: the latest one, or a unit's own writes over what the unit reads.

use quarry_storage::{Cursor, KeyRange};

use super::own_writes::OwnWrites;
use crate::error::Result;
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// The state that a writer changes: keys that it has locked, as they are now, its own writes among them.
#[derive(Clone, Copy)]
pub(crate) struct Latest<'u> {
    pub(super) reads: &'u Reads,
    pub(super) own: Option<&'u OwnWrites>,
}

impl<'u> Latest<'u> {
    /// The reader of a writer that has staged nothing.
    pub fn of(reads: &'u Reads) -> Latest<'u> {
        Latest { reads, own: None }
    }

    /// Reads an index entry; false if there is none.
    #[inline]
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.own {
            None => self.reads.get(key, read),
            Some(own) => own.get(key, |read| self.reads.get(key, read), read),
        }
    }

    /// Reads a record; false if there is none.
    #[inline]
    pub fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.own {
            None => self.reads.get_record(key, read),
            Some(own) => own.get(key, |read| self.reads.get_record(key, read), read),
        }
    }

    /// A snapshot of the latest state, for `entries`.
    pub fn snapshot(&self) -> Result<ReadSnapshot> {
        self.reads.snapshot()
    }

    /// A cursor over index entries in `range`, those of one key that is locked under `hash`. The snapshot is of the latest state and
    /// was made behind the lock.
    pub fn entries<'s>(
        &'s self,
        snapshot: &'s ReadSnapshot,
        range: KeyRange,
        hash: u64,
    ) -> Result<Box<dyn Cursor + 's>> {
        let Some(own) = self.own else {
            return snapshot.cursor(range);
        };
        own.check_entries(snapshot, &range, hash)?;
        let engine = snapshot.cursor(range.clone())?;
        Ok(own.overlay.cursor_over(range, engine))
    }

    /// Calls `found` with the position of each of `keys` that has a value.
    #[inline]
    pub fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        if self.own.is_none() {
            return self.reads.find_present(keys, found);
        }
        for (position, key) in keys.iter().enumerate() {
            if self.get(key, &mut |_| {})? {
                found(position);
            }
        }
        Ok(())
    }
}
