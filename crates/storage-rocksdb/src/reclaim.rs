//! Taking back the space of a dropped range, a step at a time.
//!
//! Two ways lead there. RocksDB can drop the files that lie inside the range whole: most of the bytes, at the cost of one
//! manifest edit, but it asks no snapshot, and whoever opens a cursor over an older one then misses rows without an error. So
//! files are dropped only once no snapshot is left that may be older than the first step. Until then, and for what lies in
//! files shared with neighbours, keys are deleted one by one, a step's worth of bytes at once; snapshots do not see these
//! deletes. (Point deletes, because fresh range deletes make every later get look at all of them.) Each step tries the short
//! way first: a reader of a moment, or a compaction that has the files in its hands, costs a step or two and no more. At the
//! end RocksDB is told to compact the range, which removes the deletes themselves.
//!
//! Dropping files is durable at once, so the journal must first be: it carries the drop that makes
//! the range dead. Steps remember in memory where the last one stopped, so that they do not walk
//! over their own deletes; after a restart the first step starts from the beginning.

use parking_lot::Mutex;
use quarry_storage::{KeyRange, Reclaimed, Result};
use rust_rocksdb::{DB, ReadOptions, WriteBatch, WriteOptions};

use crate::failure::from_rocksdb;

/// The sequence number of the oldest snapshot that is held; 0 where none is.
const OLDEST_SNAPSHOT: &str = "rocksdb.oldest-snapshot-sequence";

/// How far the last unfinished range came.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Option<Unfinished>>);

struct Unfinished {
    range: KeyRange,
    /// RocksDB's sequence number when the first step began: the snapshots that must go on reading the range have this one or
    /// a lower one.
    began_at: u64,
    /// The key from which the next step deletes.
    next: Vec<u8>,
    /// Files went since the walk over the keys began. One of them may have held the delete of an entry before `next` that a
    /// file which stayed still holds: the walk begins again at its end.
    must_begin_again: bool,
}

impl Progress {
    /// The progress of reclaiming `range`, from its beginning if there is none. Another range's progress stays until that one is done or overwritten.
    fn resume(&self, db: &DB, range: KeyRange) -> Unfinished {
        let last = self.0.lock().take_if(|last| last.range == range);
        last.unwrap_or_else(|| Unfinished {
            next: range.start.clone(),
            range,
            began_at: db.latest_sequence_number(),
            must_begin_again: false,
        })
    }
}

pub(crate) fn step(
    db: &DB,
    progress: &Progress,
    range: KeyRange,
    step_bytes: u64,
    write_options: &WriteOptions,
) -> Result<Reclaimed> {
    let mut unfinished = progress.resume(db, range);
    if !may_be_read(db, unfinished.began_at)? {
        drop_whole_files(db, &unfinished.range)?;
        unfinished.must_begin_again = unfinished.next != unfinished.range.start;
    }
    let range = &unfinished.range;
    let next = delete_some(db, unfinished.next, &range.end, step_bytes, write_options)?;
    let next = match next {
        None if unfinished.must_begin_again => Some(range.start.clone()),
        next => next,
    };
    let Some(next) = next else {
        let end = (!range.end.is_empty()).then_some(&range.end);
        db.suggest_compact_range(Some(&range.start), end)
            .map_err(from_rocksdb)?;
        return Ok(Reclaimed { done: true });
    };
    *progress.0.lock() = Some(Unfinished { next, ..unfinished });
    Ok(Reclaimed { done: false })
}

/// Whether a snapshot is held that may have been made before `began_at`. One that was made later without a write in between
/// counts as older too: the step's own deletes tell the next ones apart.
fn may_be_read(db: &DB, began_at: u64) -> Result<bool> {
    let oldest = db
        .property_int_value(OLDEST_SNAPSHOT)
        .map_err(from_rocksdb)?;
    // Where the property is not known nothing may be assumed.
    Ok(oldest.is_none_or(|oldest| (1..=began_at).contains(&oldest)))
}
/// RocksDB's end is inclusive: the last key of the range stands for it, so that a neighbour that
/// begins at `range.end` is never touched.
fn drop_whole_files(db: &DB, range: &KeyRange) -> Result<()> {
    let mut entries = db.raw_iterator_opt(bounds(range.start.clone(), &range.end));
    entries.seek_to_last();
    match entries.key().map(<[u8]>::to_vec) {
        Some(last) => {
            drop(entries);
            db.delete_file_in_range(range.start.as_slice(), last.as_slice())
                .map_err(from_rocksdb)
        }
        None => entries.status().map_err(from_rocksdb),
    }
}

/// Deletes keys worth `step_bytes` and gives the key to go on from, or nothing at the end.
fn delete_some(
    db: &DB,
    from: Vec<u8>,
    end: &[u8],
    step_bytes: u64,
    write_options: &WriteOptions,
) -> Result<Option<Vec<u8>>> {
    let mut entries = db.raw_iterator_opt(bounds(from, end));
    let mut deletes = WriteBatch::default();
    let mut bytes = 0;
    let mut next = None;
    entries.seek_to_first();
    while let Some((key, value)) = entries.item() {
        if bytes >= step_bytes.max(1) {
            next = Some(key.to_vec());
            break;
        }
        bytes += (key.len() + value.len()) as u64;
        deletes.delete(key);
        entries.next();
    }
    entries.status().map_err(from_rocksdb)?;
    db.write_opt(&deletes, write_options)
        .map_err(from_rocksdb)?;
    Ok(next)
}

fn bounds(from: Vec<u8>, end: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    options.set_iterate_lower_bound(from);
    if !end.is_empty() {
        options.set_iterate_upper_bound(end);
    }
    options
}
