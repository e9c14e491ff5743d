//! Snapshots: one read transaction each.

use std::sync::Arc;

use quarry_storage::{CounterCells, Cursor, KeyRange, Result, Snapshot};

use crate::{cursor::MdbxCursor, engine::get_with, readers::Reader};

pub(crate) struct MdbxSnapshot {
    reader: Reader,
    counters: Arc<CounterCells>,
}

impl MdbxSnapshot {
    pub(crate) fn new(reader: Reader, counters: &Arc<CounterCells>) -> Self {
        Self {
            reader,
            counters: Arc::clone(counters),
        }
    }
}

impl Snapshot for MdbxSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get_with(self.reader.txn(), key, &self.counters, read)
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(MdbxCursor::new(
            self.reader.txn().cursor()?,
            range,
            &self.counters,
        )))
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        let reader = self.reader.share()?;
        Ok(Box::new(MdbxSnapshot::new(reader, &self.counters)))
    }
}
