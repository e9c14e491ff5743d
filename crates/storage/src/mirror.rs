//! Two engines side by side, every answer of one compared with the other's.
//!
//! For tests: a disagreement comes back as [`Error::Corruption`] naming key and both answers. What
//! cannot agree (sizes, counters) is the first engine's; what both must reach (durable LSN) is the
//! lower one. Concurrent writers must be serialised by the caller, as the commit path does.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::{
    BeforeDurable, Cursor, Engine, EngineCounters, Error, KeyRange, Readiness, Reclaimed, Result,
    Snapshot, WriteBatch,
};

/// Forwards to two engines and compares. Lock: `order` keeps a read of both apart from a write.
pub struct Mirror {
    first: Arc<dyn Engine>,
    second: Arc<dyn Engine>,
    order: RwLock<()>,
}

impl Mirror {
    /// Runs both engines side by side. They must hold equal data.
    #[must_use]
    pub fn new(first: Arc<dyn Engine>, second: Arc<dyn Engine>) -> Self {
        Self {
            first,
            second,
            order: RwLock::new(()),
        }
    }
}

impl Engine for Mirror {
    fn name(&self) -> &'static str {
        self.first.name()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _order = self.order.read();
        compare_gets(
            key,
            read,
            |key, read| self.first.get(key, read),
            |key, read| self.second.get(key, read),
        )
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let _order = self.order.write();
        Ok(Box::new(MirrorSnapshot {
            first: self.first.snapshot()?,
            second: self.second.snapshot()?,
        }))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let _order = self.order.write();
        match (self.first.write(batch), self.second.write(batch)) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(first), Err(_)) => Err(first),
            (first, second) => Err(disagree(b"", &first, &second)),
        }
    }

    fn syncs_writes(&self) -> bool {
        self.first.syncs_writes() || self.second.syncs_writes()
    }

    fn ready(&self) -> Readiness {
        match self.first.ready() {
            Readiness::Ready => self.second.ready(),
            not_ready => not_ready,
        }
    }

    fn sync(&self) -> Result<()> {
        self.first.sync()?;
        self.second.sync()
    }

    fn durable_lsn(&self) -> Result<u64> {
        Ok(self.first.durable_lsn()?.min(self.second.durable_lsn()?))
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let first = self.first.reclaim(range.clone(), step_bytes)?;
        let second = self.second.reclaim(range, step_bytes)?;
        Ok(Reclaimed {
            done: first.done && second.done,
        })
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.first.size_estimate(range)
    }

    fn counters(&self) -> EngineCounters {
        self.first.counters()
    }

    fn stop_waiting(&self) {
        self.first.stop_waiting();
        self.second.stop_waiting();
    }

    fn close(&self) -> Result<()> {
        self.first.close()?;
        self.second.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        let hook = Arc::new(hook);
        let shared = Arc::clone(&hook);
        self.first
            .set_before_durable(Box::new(move |lsn| shared(lsn)));
        self.second
            .set_before_durable(Box::new(move |lsn| hook(lsn)));
    }
}

struct MirrorSnapshot {
    first: Box<dyn Snapshot>,
    second: Box<dyn Snapshot>,
}

impl Snapshot for MirrorSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        compare_gets(
            key,
            read,
            |key, read| self.first.get(key, read),
            |key, read| self.second.get(key, read),
        )
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(MirrorCursor {
            first: self.first.cursor(range.clone())?,
            second: self.second.cursor(range)?,
        }))
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(MirrorSnapshot {
            first: self.first.share()?,
            second: self.second.share()?,
        }))
    }
}

struct MirrorCursor<'s> {
    first: Box<dyn Cursor + 's>,
    second: Box<dyn Cursor + 's>,
}

impl MirrorCursor<'_> {
    fn both(&mut self, mut step: impl FnMut(&mut dyn Cursor) -> Result<()>) -> Result<()> {
        step(self.first.as_mut())?;
        step(self.second.as_mut())?;
        let first = (self.first.valid(), self.first.key(), self.first.value());
        let second = (self.second.valid(), self.second.key(), self.second.value());
        if first == second {
            Ok(())
        } else {
            Err(disagree(b"cursor", &first, &second))
        }
    }
}

impl Cursor for MirrorCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.both(|cursor| cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.both(|cursor| cursor.seek_before(key))
    }

    fn first(&mut self) -> Result<()> {
        self.both(|cursor| cursor.first())
    }

    fn last(&mut self) -> Result<()> {
        self.both(|cursor| cursor.last())
    }

    fn next(&mut self) -> Result<()> {
        self.both(|cursor| cursor.next())
    }

    fn prev(&mut self) -> Result<()> {
        self.both(|cursor| cursor.prev())
    }

    fn valid(&self) -> bool {
        self.first.valid()
    }

    fn key(&self) -> &[u8] {
        self.first.key()
    }

    fn value(&self) -> &[u8] {
        self.first.value()
    }
}

fn compare_gets(
    key: &[u8],
    read: &mut dyn FnMut(&[u8]),
    first: impl FnOnce(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool>,
    second: impl FnOnce(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool>,
) -> Result<bool> {
    let mut other = None;
    second(key, &mut |value| other = Some(value.to_vec()))?;
    let mut one = None;
    let found = first(key, &mut |value| {
        one = Some(value.to_vec());
        read(value);
    })?;
    if one == other {
        Ok(found)
    } else {
        Err(disagree(key, &one, &other))
    }
}

fn disagree(key: &[u8], first: &impl std::fmt::Debug, second: &impl std::fmt::Debug) -> Error {
    Error::Corruption(format!(
        "mirrored engines disagree at {key:02x?}: {first:02x?} and {second:02x?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn a_difference_behind_its_back_is_named() {
        let second = Arc::new(Memory::new());
        let mirror = Mirror::new(Arc::new(Memory::new()), Arc::clone(&second) as _);
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1");
        mirror.write(&batch).unwrap();
        assert!(mirror.get(b"a", &mut |_| ()).unwrap());

        batch.clear();
        batch.put(b"a", b"2");
        second.write(&batch).unwrap();
        assert!(mirror.get(b"a", &mut |_| ()).unwrap_err().is_corruption());
        let snapshot = mirror.snapshot().unwrap();
        let mut cursor = snapshot.cursor(KeyRange::all()).unwrap();
        assert!(cursor.first().unwrap_err().is_corruption());
    }
}
