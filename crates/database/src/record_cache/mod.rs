//! Records that were written or read lately, by record key: what a get of an LSM tree costs (a filter a file, an index,
//! a block) is not paid again.
//!
//! The cache never shows what the engine would not:
//! - A group takes its records out (`Applying::forget`) before the engine is written and puts the new ones in
//!   (`Applying::keep`) afterwards, so that a reader in between asks the engine, and nobody sees a record go back.
//! - A reader that asked the engine may put in what it got only if no group has begun since before it asked
//!   (`keep_what_was_read`): what it got is the latest then. It looks under the lock of the shard, which a group that has
//!   begun since takes after it to take its records out.
//! - Every record carries the number of the last group that its bytes can come from. A snapshot takes it only if that
//!   group had ended before the snapshot was made; the record is the latest one, so the snapshot sees no other.
//!
//! A shard is a ring of bytes (`shard`): the oldest records go, what is asked for stays.
//!
//! Left out: index entries (a scan reads them, no get does), documents beyond `RECORD_BYTES_MAX`, and what does not
//! exist.

#[cfg(all(test, feature = "shuttle"))]
mod model;
mod primitives;
mod shard;

use std::cell::Cell;
use std::num::NonZero;
use std::thread;

use quarry_storage::Result;
use quarry_timing::Work;

use crate::keyspace::key_hash::key_hash;
use primitives::{AtomicU64, Mutex, Ordering};
use shard::Shard;

/// A longer document shares little of its cost with the get: the engine's blocks keep it.
const RECORD_BYTES_MAX: usize = 4 << 10;
/// The number of shards a processor: enough for readers not to wait, few enough for the ends of their rings to stay in the
/// processors' caches.
const SHARDS_A_PROCESSOR: usize = 2;
const SHARDS_MAX: usize = 64;

thread_local! {
    /// Where a record is handed over from, once its shard is free for others.
    static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pub struct RecordCache {
    shards: Box<[Mutex<Shard>]>,
    /// The number of the last group that began to be applied, and of the last that ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// The counters of the cache since the start, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCacheCounters {
    /// Records that readers found in the cache.
    pub hits: u64,
    /// Records for which the engine was asked.
    pub misses: u64,
    /// The bytes of the rings in use: records, and what later ones have replaced.
    pub bytes: u64,
}

/// As of when a reader reads.
#[derive(Clone, Copy)]
pub struct Reader {
    /// The last group that it is sure to see.
    sees: u64,
    /// It takes what is later, too.
    reads_latest: bool,
    /// It puts in what it had to ask the engine for.
    keeps: bool,
}

/// One group on its way into the engine; it ends when dropped.
pub struct Applying<'c> {
    cache: &'c RecordCache,
    group: u64,
}

impl RecordCache {
    /// A cache of about so many bytes, and an eighth of that for its tables.
    pub fn new(bytes: usize) -> RecordCache {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let shards = (processors * SHARDS_A_PROCESSOR).min(SHARDS_MAX);
        RecordCache {
            shards: (0..shards)
                .map(|_| Mutex::new(Shard::new(bytes / shards)))
                .collect(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// A reader of the latest records. Every read asks for its own.
    pub fn latest(&self) -> Reader {
        Reader {
            sees: self.ended.load(Ordering::Acquire),
            reads_latest: true,
            keeps: true,
        }
    }

    /// A reader for a snapshot that the engine makes after this call.
    pub fn snapshot(&self) -> Reader {
        Reader {
            sees: self.ended.load(Ordering::Acquire),
            reads_latest: false,
            keeps: true,
        }
    }

    /// Hands the record to `read` and says whether there is one; `get` asks the engine.
    pub fn read(
        &self,
        key: &[u8],
        reader: Reader,
        read: &mut dyn FnMut(&[u8]),
        get: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<bool>,
    ) -> Result<bool> {
        let hash = key_hash(key);
        let mut copy = COPY.take();
        copy.clear();
        let is_found = self.find(hash, key, reader, &mut copy);
        if is_found {
            quarry_timing::count(Work::RecordCacheHits, 1);
            read(&copy);
        }
        COPY.set(copy);
        if is_found {
            return Ok(true);
        }
        if !reader.keeps {
            return get(read);
        }
        get(&mut |document| {
            self.keep_what_was_read(hash, key, document, reader);
            read(document);
        })
    }

    /// Begins to apply a group. Groups are applied one after another.
    pub fn apply(&self) -> Applying<'_> {
        debug_assert_eq!(
            self.begun.load(Ordering::SeqCst),
            self.ended.load(Ordering::Acquire),
            "a group begins when the one before it has ended"
        );
        Applying {
            cache: self,
            group: self.begun.fetch_add(1, Ordering::SeqCst) + 1,
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    /// Hands over the keys and documents that it holds under a prefix, in no order, until `visit` fails.
    pub fn visit_under<E>(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for shard in &self.shards {
            let held: Vec<(Vec<u8>, Vec<u8>)> = {
                let shard = shard.lock();
                let under = shard.records().filter(|(key, _)| key.starts_with(prefix));
                let copies = under.map(|(key, document)| (key.to_vec(), document.to_vec()));
                copies.collect()
            };
            for (key, document) in held {
                visit(&key, &document)?;
            }
        }
        Ok(())
    }

    pub fn counters(&self) -> RecordCacheCounters {
        let mut counters = RecordCacheCounters::default();
        for shard in &self.shards {
            let shard = shard.lock();
            counters.hits += shard.hits;
            counters.misses += shard.misses;
            counters.bytes += shard.bytes() as u64;
        }
        counters
    }

    #[cfg(test)]
    pub fn records(&self) -> usize {
        let count = |shard: &Mutex<Shard>| shard.lock().records().count();
        self.shards.iter().map(count).sum()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 56) as usize % self.shards.len()]
    }

    fn find(&self, hash: u64, key: &[u8], reader: Reader, copy: &mut Vec<u8>) -> bool {
        let mut shard = self.shard(hash).lock();
        let group = shard.find(hash, key, copy);
        let is_found = group.is_some_and(|group| reader.reads_latest || group <= reader.sees);
        if is_found {
            shard.hits += 1;
        } else {
            shard.misses += 1;
        }
        is_found
    }

    fn keep_what_was_read(&self, hash: u64, key: &[u8], document: &[u8], reader: Reader) {
        if document.len() > RECORD_BYTES_MAX {
            return;
        }
        let mut shard = self.shard(hash).lock();
        let begun = self.begun.load(Ordering::SeqCst);
        debug_assert!(reader.sees <= begun, "nobody reads what is still to come");
        if begun == reader.sees {
            shard.keep(hash, key, document, reader.sees);
        }
    }
}

impl Reader {
    /// This reader, which from now on puts nothing into the cache.
    pub fn without_keeping(self) -> Reader {
        Reader {
            keeps: false,
            ..self
        }
    }
}

impl Applying<'_> {
    /// Takes a record out that the group changes, before the engine is written.
    pub fn forget(&self, key: &[u8]) {
        let hash = key_hash(key);
        self.cache.shard(hash).lock().forget(hash);
    }

    /// Puts in what the group has written.
    pub fn keep(&self, key: &[u8], document: &[u8]) {
        if document.len() > RECORD_BYTES_MAX {
            return;
        }
        let hash = key_hash(key);
        self.cache
            .shard(hash)
            .lock()
            .keep(hash, key, document, self.group);
    }
}

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        self.cache.ended.store(self.group, Ordering::Release);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn put(cache: &RecordCache, key: &[u8], document: &[u8]) {
        let group = cache.apply();
        group.forget(key);
        group.keep(key, document);
    }

    /// Reads a record as a reader does; `stored` is what the engine would say.
    fn read(
        cache: &RecordCache,
        key: &[u8],
        reader: Reader,
        stored: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let mut found = None;
        let is_there = cache
            .read(
                key,
                reader,
                &mut |bytes| found = Some(bytes.to_vec()),
                |read| {
                    if let Some(bytes) = stored {
                        read(bytes);
                    }
                    Ok(stored.is_some())
                },
            )
            .unwrap();
        assert_eq!(is_there, found.is_some());
        found
    }

    fn cached(cache: &RecordCache, key: &[u8], reader: Reader) -> Option<Vec<u8>> {
        read(cache, key, reader, None)
    }

    #[test]
    fn what_was_written_or_read_is_found_and_what_is_not_there_is_not_kept() {
        let cache = RecordCache::new(1 << 20);
        put(&cache, b"a", b"1");
        assert_eq!(cached(&cache, b"a", cache.latest()).unwrap(), b"1");
        assert_eq!(
            read(&cache, b"b", cache.latest(), Some(b"2")).unwrap(),
            b"2"
        );
        assert_eq!(cached(&cache, b"b", cache.latest()).unwrap(), b"2");
        assert_eq!(cached(&cache, b"c", cache.latest()), None);
        let long = vec![7; RECORD_BYTES_MAX + 1];
        assert_eq!(
            read(&cache, b"d", cache.latest(), Some(&long)).unwrap(),
            long
        );
        assert_eq!(cached(&cache, b"d", cache.latest()), None);
        let counters = cache.counters();
        assert_eq!((counters.hits, counters.misses), (2, 4));
        assert_eq!(cache.records(), 2);
    }

    #[test]
    fn a_group_takes_out_what_it_changes_until_it_is_written() {
        let cache = RecordCache::new(1 << 20);
        put(&cache, b"a", b"1");
        let group = cache.apply();
        group.forget(b"a");
        // Readers ask the engine now, which shows the old state or the new one, and keep nothing.
        assert_eq!(
            read(&cache, b"a", cache.latest(), Some(b"1")).unwrap(),
            b"1"
        );
        assert_eq!(cached(&cache, b"a", cache.latest()), None);
        group.keep(b"a", b"2");
        drop(group);
        assert_eq!(cached(&cache, b"a", cache.latest()).unwrap(), b"2");
        let group = cache.apply();
        group.forget(b"a");
        drop(group);
        assert_eq!(cached(&cache, b"a", cache.latest()), None);
    }

    #[test]
    fn a_reader_that_began_before_a_group_keeps_nothing_after_it() {
        let cache = RecordCache::new(1 << 20);
        let late = cache.latest();
        put(&cache, b"other", b"x");
        assert_eq!(read(&cache, b"a", late, Some(b"old")).unwrap(), b"old");
        assert_eq!(cached(&cache, b"a", cache.latest()), None);
    }

    #[test]
    fn a_snapshot_takes_nothing_that_came_after_it() {
        let cache = RecordCache::new(1 << 20);
        put(&cache, b"a", b"1");
        let before = cache.snapshot();
        assert_eq!(cached(&cache, b"a", before).unwrap(), b"1");
        let group = cache.apply();
        group.forget(b"a");
        group.keep(b"a", b"2");
        // The group has not ended: a snapshot made now may lack it.
        let between = cache.snapshot();
        drop(group);
        for snapshot in [before, between] {
            assert_eq!(read(&cache, b"a", snapshot, Some(b"1")).unwrap(), b"1");
        }
        assert_eq!(cached(&cache, b"a", cache.snapshot()).unwrap(), b"2");
        // What a snapshot read is not put over what came later.
        assert_eq!(cached(&cache, b"a", cache.latest()).unwrap(), b"2");
    }

    #[test]
    fn it_stays_within_its_bytes_and_what_is_asked_for_stays() {
        let bytes = 1 << 20;
        let cache = RecordCache::new(bytes);
        let mut lost = 0;
        put(&cache, b"asked for", &[1; 100]);
        for n in 0..50_000u32 {
            put(&cache, &n.to_be_bytes(), &[2; 100]);
            if cached(&cache, b"asked for", cache.latest()).is_none() {
                lost += 1;
                put(&cache, b"asked for", &[1; 100]);
            }
        }
        // Eight others of one bucket may push a record out before it is moved up.
        assert!(lost < 5, "{lost}");
        assert_eq!(
            cached(&cache, &49_999u32.to_be_bytes(), cache.latest()).unwrap(),
            [2; 100]
        );
        assert_eq!(cached(&cache, &1u32.to_be_bytes(), cache.latest()), None);
        let counters = cache.counters();
        assert!(counters.bytes <= bytes as u64, "{counters:?}");
        assert!(cache.records() > 6_000, "{}", cache.records());
        cache.clear();
        assert_eq!((cache.records(), cache.counters().bytes), (0, 0));
    }
}
