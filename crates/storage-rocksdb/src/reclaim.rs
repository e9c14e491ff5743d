//! Taking back the space of a dropped range, a step at a time.
//!
//! The first step of a range drops the files that lie inside it whole: most of the bytes, at the
//! cost of one manifest edit. What is left is deleted key by key, a step's worth of bytes at once:
//! point deletes, because fresh range deletes make every later get look at all of them. At the end
//! RocksDB is told to compact the range, which removes the deletes themselves.
//!
//! Dropping files is durable at once, so the journal must first be: it carries the drop that makes
//! the range dead. Steps remember in memory where the last one stopped, so that they do not walk
//! over their own deletes; after a restart the first step starts from the beginning.

use parking_lot::Mutex;
use quarry_storage::{KeyRange, Reclaimed, Result};
use rust_rocksdb::{DB, ReadOptions, WriteBatch, WriteOptions};

use crate::failure::from_rocksdb;

/// Where the last unfinished range stopped.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Option<(KeyRange, Vec<u8>)>>);

impl Progress {
    fn resume(&self, range: &KeyRange) -> Option<Vec<u8>> {
        let mut progress = self.0.lock();
        match progress.take() {
            Some((last, next)) if last == *range => Some(next),
            other => {
                *progress = other;
                None
            }
        }
    }
}

pub(crate) fn step(
    db: &DB,
    progress: &Progress,
    range: KeyRange,
    step_bytes: u64,
    write_options: &WriteOptions,
) -> Result<Reclaimed> {
    let from = match progress.resume(&range) {
        Some(from) => from,
        None => {
            drop_whole_files(db, &range)?;
            range.start.clone()
        }
    };
    match delete_some(db, from, &range.end, step_bytes, write_options)? {
        Some(next) => {
            *progress.0.lock() = Some((range, next));
            Ok(Reclaimed { done: false })
        }
        None => {
            let end = (!range.end.is_empty()).then_some(&range.end);
            db.suggest_compact_range(Some(&range.start), end)
                .map_err(from_rocksdb)?;
            Ok(Reclaimed { done: true })
        }
    }
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
