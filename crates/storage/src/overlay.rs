//! Operations that an engine has not taken yet, laid over what it has: reads see both as one.
//!
//! For the rare engine that refuses a batch which others must see already, and for writers that read what they have not
//! committed yet. Keys of the overlay hide the engine's; a deleted one hides it altogether. An overlay may grow
//! (`extend`); what was handed out of it never changes.
//!
//! Leaves out: counting (a move may take several of the engine's), and
//! speed: a turn of a cursor seeks.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::{Cursor, KeyRange, Op, Result, Snapshot, WriteBatch};

/// Values by key; none where the key is deleted.
type Operations = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The operations of a batch, or of several one after the other, by key.
#[derive(Clone, Default)]
pub struct Overlay(Arc<Operations>);

impl Overlay {
    /// Copies the operations of `batch`. The last one of a key counts.
    #[must_use]
    pub fn new(batch: &WriteBatch) -> Self {
        let operations = batch.iter().map(|op| match op {
            Op::Put(key, value) => (key.to_vec(), Some(value.to_vec())),
            Op::Delete(key) => (key.to_vec(), None),
        });
        Self(Arc::new(operations.collect()))
    }

    /// Adds the operations of another batch, which come later than those that are here. What was handed out before (`over`,
    /// a clone) stays as it was.
    pub fn extend(&mut self, batch: &WriteBatch) {
        let operations = Arc::make_mut(&mut self.0);
        for op in batch {
            match op {
                Op::Put(key, value) => operations.insert(key.to_vec(), Some(value.to_vec())),
                Op::Delete(key) => operations.insert(key.to_vec(), None),
            };
        }
    }

    /// Returns nothing for a key that the overlay leaves alone, else its value, of which there is none where it is deleted.
    #[must_use]
    pub fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.0.get(key).map(Option::as_deref)
    }

    /// The operations in the order of their keys: values, and none where a key is deleted.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// Whether some operation is of a key in `range`.
    #[must_use]
    pub fn touches(&self, range: &KeyRange) -> bool {
        let high = match range.end.as_slice() {
            [] => Bound::Unbounded,
            end => Bound::Excluded(end),
        };
        let low = Bound::Included(range.start.as_slice());
        in_order(&self.0, low, high).next().is_some()
    }

    /// A cursor over `range` that sees the overlay over what `engine`, a cursor over the same range, sees.
    #[must_use]
    pub fn cursor_over<'s>(
        &'s self,
        range: KeyRange,
        engine: Box<dyn Cursor + 's>,
    ) -> Box<dyn Cursor + 's> {
        Box::new(OverlaidCursor {
            operations: &self.0,
            engine,
            range,
            at: At::Nowhere,
            is_forward: true,
        })
    }

    /// Reads a key: from here, or else from what `get` asks.
    pub fn get(
        &self,
        key: &[u8],
        read: &mut dyn FnMut(&[u8]),
        get: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<bool>,
    ) -> Result<bool> {
        match self.0.get(key) {
            Some(Some(value)) => {
                read(value);
                Ok(true)
            }
            Some(None) => Ok(false),
            None => get(read),
        }
    }

    /// The snapshot with these operations on it.
    #[must_use]
    pub fn over(&self, snapshot: Box<dyn Snapshot>) -> Box<dyn Snapshot> {
        Box::new(OverlaidSnapshot {
            overlay: self.clone(),
            snapshot,
        })
    }
}

struct OverlaidSnapshot {
    overlay: Overlay,
    snapshot: Box<dyn Snapshot>,
}

impl Snapshot for OverlaidSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let get = |read: &mut dyn FnMut(&[u8])| self.snapshot.get(key, read);
        self.overlay.get(key, read, get)
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        let engine = self.snapshot.cursor(range.clone())?;
        Ok(self.overlay.cursor_over(range, engine))
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(self.overlay.over(self.snapshot.share()?))
    }
}

/// Moves the engine's cursor along: it stands on the engine's nearest key that is not behind the current one, as seen
/// in the direction of the last move.
struct OverlaidCursor<'s> {
    operations: &'s Operations,
    engine: Box<dyn Cursor + 's>,
    range: KeyRange,
    at: At<'s>,
    is_forward: bool,
}

/// Where the entry under the cursor is.
#[derive(Clone, Copy)]
enum At<'s> {
    Nowhere,
    Engine,
    Overlay(&'s [u8], &'s [u8]),
}

impl<'s> OverlaidCursor<'s> {
    /// To the first entry at or above `low`, where the engine's cursor stands already.
    fn settle_forward(&mut self, low: Bound<&[u8]>) -> Result<()> {
        self.is_forward = true;
        let operations = self.operations;
        let high = match self.range.end.as_slice() {
            [] => Bound::Unbounded,
            end => Bound::Excluded(end),
        };
        let mut own = in_order(operations, low, high);
        loop {
            let Some((key, value)) = own.next() else {
                return self.stand_on_engine();
            };
            if self.engine.valid() && self.engine.key() < key {
                return self.stand_on_engine();
            }
            if let Some(value) = value {
                self.at = At::Overlay(key, value);
                return Ok(());
            }
            if self.engine.valid() && self.engine.key() == key {
                self.engine.next()?;
            }
        }
    }

    /// Like `settle_forward`, but moves downwards from `high`.
    fn settle_backward(&mut self, high: Bound<&[u8]>) -> Result<()> {
        self.is_forward = false;
        let operations = self.operations;
        let low = Bound::Included(self.range.start.as_slice());
        let mut own = in_order(operations, low, high);
        loop {
            let Some((key, value)) = own.next_back() else {
                return self.stand_on_engine();
            };
            if self.engine.valid() && self.engine.key() > key {
                return self.stand_on_engine();
            }
            if let Some(value) = value {
                self.at = At::Overlay(key, value);
                return Ok(());
            }
            if self.engine.valid() && self.engine.key() == key {
                self.engine.prev()?;
            }
        }
    }

    fn stand_on_engine(&mut self) -> Result<()> {
        self.at = match self.engine.valid() {
            true => At::Engine,
            false => At::Nowhere,
        };
        Ok(())
    }
}

/// The operations between two bounds; none where they are crossed.
fn in_order<'o>(
    operations: &'o Operations,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> impl DoubleEndedIterator<Item = (&'o [u8], Option<&'o [u8]>)> + use<'o> {
    let is_crossed = match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        _ => false,
    };
    let operations = (!is_crossed).then(|| operations.range::<[u8], _>((low, high)));
    operations
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_slice(), value.as_deref()))
}

impl Cursor for OverlaidCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.engine.seek(key)?;
        let start = self.range.start.clone();
        self.settle_forward(Bound::Included(key.max(&start)))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.engine.seek_before(key)?;
        if self.range.is_before_end(key) {
            return self.settle_backward(Bound::Excluded(key));
        }
        let end = self.range.end.clone();
        self.settle_backward(Bound::Excluded(&end))
    }

    fn first(&mut self) -> Result<()> {
        self.engine.first()?;
        let start = self.range.start.clone();
        self.settle_forward(Bound::Included(&start))
    }

    fn last(&mut self) -> Result<()> {
        self.engine.last()?;
        let end = self.range.end.clone();
        match end.as_slice() {
            [] => self.settle_backward(Bound::Unbounded),
            end => self.settle_backward(Bound::Excluded(end)),
        }
    }

    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let current = self.key().to_vec();
        if !self.is_forward {
            self.engine.seek(&current)?;
        }
        if self.engine.valid() && self.engine.key() == current {
            self.engine.next()?;
        }
        self.settle_forward(Bound::Excluded(&current))
    }

    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let current = self.key().to_vec();
        if self.is_forward {
            self.engine.seek_before(&current)?;
        } else if self.engine.valid() && self.engine.key() == current {
            self.engine.prev()?;
        }
        self.settle_backward(Bound::Excluded(&current))
    }

    fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    fn key(&self) -> &[u8] {
        match self.at {
            At::Nowhere => &[],
            At::Engine => self.engine.key(),
            At::Overlay(key, _) => key,
        }
    }

    fn value(&self) -> &[u8] {
        match self.at {
            At::Nowhere => &[],
            At::Engine => self.engine.value(),
            At::Overlay(_, value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{BeforeDurable, Engine, EngineCounters, Memory, Readiness, Reclaimed, conformance};
    use parking_lot::Mutex;

    /// Never takes the last batch written: all reads of it go through an overlay.
    #[derive(Default)]
    struct OneBehind {
        engine: Memory,
        last: Mutex<WriteBatch>,
    }

    impl OneBehind {
        fn catch_up(&self) -> Result<()> {
            let mut last = self.last.lock();
            if !last.is_empty() {
                self.engine.write(&last)?;
                last.clear();
            }
            Ok(())
        }
    }

    impl Engine for OneBehind {
        fn name(&self) -> &'static str {
            self.engine.name()
        }
        fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
            let last = self.last.lock();
            Overlay::new(&last).get(key, read, |read| self.engine.get(key, read))
        }
        fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
            let last = self.last.lock();
            Ok(Overlay::new(&last).over(self.engine.snapshot()?))
        }
        fn write(&self, batch: &WriteBatch) -> Result<()> {
            batch.check_keys()?;
            let mut last = self.last.lock();
            self.engine.write(&last)?;
            last.clone_from(batch);
            Ok(())
        }
        fn ready(&self) -> Readiness {
            self.engine.ready()
        }
        fn sync(&self) -> Result<()> {
            self.catch_up()?;
            self.engine.sync()
        }
        fn durable_lsn(&self) -> Result<u64> {
            self.engine.durable_lsn()
        }
        fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
            self.catch_up()?;
            self.engine.reclaim(range, step_bytes)
        }
        fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
            self.catch_up()?;
            self.engine.size_estimate(range)
        }
        fn counters(&self) -> EngineCounters {
            self.catch_up().unwrap();
            self.engine.counters()
        }
        fn close(&self) -> Result<()> {
            self.catch_up()?;
            self.engine.close()
        }
        fn set_before_durable(&self, hook: BeforeDurable) {
            self.engine.set_before_durable(hook);
        }
    }

    #[test]
    fn an_engine_that_is_always_one_batch_behind_conforms() {
        conformance::run_uncounted(&|| Arc::new(OneBehind::default()));
    }
}
