//! The records that a plan has met, by their keys, so that each is given once. What it takes is charged and bounded.

use hashbrown::DefaultHashBuilder;
use indexmap::IndexSet;

use crate::error::Result;
use crate::memory::Charge;

/// The bytes that a scan may hold to know records again.
pub const SEEN_BYTES_MAX: usize = if cfg!(test) {
    24 * 1024
} else {
    192 * 1024 * 1024
};
/// The bytes that a read of a union may hold: it keeps them as long as its cursor is open, and can do with less.
pub const SEEN_BYTES_MAX_OF_UNIONS: usize = if cfg!(test) {
    SEEN_BYTES_MAX
} else {
    16 * 1024 * 1024
};
/// The bytes that one record key takes beyond its own: in a list and a table of which half may be empty, and of the allocator.
const ENTRY_BYTES: usize = 88;

/// A set of record keys that can forget the latest ones.
#[derive(Default)]
pub struct SeenRecords {
    /// In the order in which they were met.
    records: IndexSet<Box<[u8]>, DefaultHashBuilder>,
    held: Charge,
    marked: usize,
}

/// Whether a record was met before.
#[derive(Debug, PartialEq, Eq)]
pub enum Met {
    New,
    Before,
    /// It may have been, and cannot be remembered.
    TooMany,
}

impl SeenRecords {
    /// Remembers a record, if all that is remembered stays within so many bytes.
    pub fn meet(&mut self, record: &[u8], bytes_max: usize) -> Result<Met> {
        if self.records.contains(record) {
            return Ok(Met::Before);
        }
        if self.is_full(record, bytes_max) {
            return Ok(Met::TooMany);
        }
        let bytes = record.len() + ENTRY_BYTES;
        self.held.grow(bytes)?;
        self.records.insert(record.into());
        Ok(Met::New)
    }

    /// Whether the record, which was not met, is one too many.
    pub fn is_full(&self, record: &[u8], bytes_max: usize) -> bool {
        self.held.bytes() + record.len() + ENTRY_BYTES > bytes_max
    }

    pub fn contains(&self, record: &[u8]) -> bool {
        self.records.contains(record)
    }

    pub fn mark(&mut self) {
        self.marked = self.records.len();
    }

    /// Forgets what was met since it was marked.
    pub fn rewind(&mut self) {
        for forgotten in self.records.drain(self.marked.min(self.records.len())..) {
            self.held.shrink(forgotten.len() + ENTRY_BYTES);
        }
    }

    pub fn forget(&mut self) {
        self.records.clear();
        self.held = Charge::default();
    }
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;

    use super::*;

    #[test]
    fn what_is_remembered_is_charged() {
        for keys in [1u64, 7, 8, 57, 113, 180] {
            let mut seen = SeenRecords::default();
            let taken = measure(|| {
                for key in 0..keys {
                    let key = [&key.to_be_bytes()[..], &[7; 6]].concat();
                    assert_eq!(seen.meet(&key, SEEN_BYTES_MAX).unwrap(), Met::New);
                }
            });
            let taken = usize::try_from(taken.bytes_current).unwrap();
            let charged = seen.held.bytes();
            // The smallest table has room for a few.
            assert!(
                taken <= charged + 512,
                "{keys} keys take {taken} bytes, {charged} are charged"
            );
        }
    }
}
