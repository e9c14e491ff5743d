//! The engine: RocksDB opened, written, flushed, closed.

use std::{
    cell::RefCell,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use quarry_storage::{
    APPLIED_LSN_KEY, BeforeDurable, CounterCells, Engine, EngineCounters, Error, FreeSpace,
    KEY_BYTES_MAX, KeyRange, Op, Readiness, Reclaimed, Result, Snapshot, WriteBatch,
    check_descriptors, creation,
};
use rust_rocksdb::{
    Cache, DB, FlushOptions, Range, ReadOptions, ReadTier, SizeApproximationOptions, WriteOptions,
    checkpoint::Checkpoint,
};

use crate::{
    Options, cache_use,
    failure::from_rocksdb,
    foreign_files::{refuse_foreign_files, refuse_other_encryption},
    iterator_pool::IteratorPool,
    reclaim::{self, Progress},
    snapshot::RocksSnapshot,
    write_ahead::{DESCRIPTORS_OF_A_JOB, Listener, Trouble, WriteAhead},
};

/// So long a flush waits for file descriptors before it gives up.
const STALL_WAIT: Duration = Duration::from_secs(10);

/// RocksDB's own batches begin with a sequence number, 8 bytes that it fills in, and a count.
const BATCH_HEADER_BYTES: usize = 12;
/// A larger copy of a batch is given back after the write: every thread has one, and there may be thousands of threads
/// that once led a group.
const BATCH_COPY_KEPT_BYTES: usize = 16 << 10;
/// Operations beyond this, taken together, are handed over one by one, because copying their bytes takes longer.
const LARGE_OPERATION_BYTES: usize = 64 << 10;

const UNFLUSHED_BYTES: &str = "rocksdb.cur-size-all-mem-tables";
const ENTRIES_IN_MEMTABLE: &str = "rocksdb.num-entries-active-mem-table";
const DISK_BYTES: &str = "rocksdb.total-sst-files-size";
const WRITES_STOPPED: &str = "rocksdb.is-write-stopped";
const MEMTABLES_WAITING: &str = "rocksdb.num-immutable-mem-table";
const LEVEL0_TABLES: &str = "rocksdb.num-files-at-level0";
const DELAYED_RATE: &str = "rocksdb.actual-delayed-write-rate";
/// The option that bounds the memtables which wait for their flush.
const MEMTABLES_MAX: &str = "max_write_buffer_number";

/// RocksDB in one directory. Lock order: `writes`, then whatever `write_ahead` and RocksDB hold.
pub struct RocksDb {
    db: Arc<DB>,
    cache: Cache,
    read_options: ReadOptions,
    persisted: ReadOptions,
    write_options: WriteOptions,
    /// Like `write_options`, but a write that would have to wait fails.
    without_waiting: WriteOptions,
    write_ahead: Arc<WriteAhead>,
    iterators: Arc<IteratorPool>,
    free_space: FreeSpace,
    /// With so many memtables that wait for their flush RocksDB takes no write.
    memtables_max: u32,
    /// With so many memtables that wait for their flush large writes wait too.
    memtables_waiting_pressed: u64,
    progress: Progress,
    resuming: Mutex<()>,
    /// Threads that may be waiting inside RocksDB, which then tells its listener of a stall only when that is over.
    waiting_writes: AtomicU32,
    /// Shared by writes, taken whole by the close, which drains them so.
    writes: RwLock<()>,
    closed: AtomicBool,
    counters: Arc<CounterCells>,
}

impl RocksDb {
    /// Opens the store in `directory`, or makes one when the directory is absent or empty.
    pub fn open(directory: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let directory = directory.as_ref();
        let creation = creation::begin(directory)?;
        if creation.is_none() {
            refuse_foreign_files(directory)?;
            refuse_other_encryption(directory, options.key.is_some())?;
        }
        let write_ahead = Arc::new(WriteAhead::new(options.opens_for_replay));
        let cache = Cache::new_hyper_clock_cache(options.cache_bytes, 0);
        let free_space = FreeSpace::new(directory, options.free_bytes_min)?;
        let iterators = Arc::<IteratorPool>::default();
        let listener = Listener {
            write_ahead: Arc::clone(&write_ahead),
            iterators: Arc::clone(&iterators),
        };
        let memtables_max = options.write_buffers_max;
        let memtables_waiting_pressed = u64::from(options.write_buffers_max / 2).max(1);
        let options = options.to_rocksdb(&cache, count_tables(directory)?, listener)?;
        let db = DB::open(&options, directory).map_err(from_rocksdb)?;
        if let Some(creation) = creation {
            creation.finish()?;
        }
        let engine = Self {
            db: Arc::new(db),
            cache,
            read_options: ReadOptions::default(),
            persisted: persisted_only(),
            write_options: without_log(),
            without_waiting: without_waiting(),
            write_ahead,
            iterators,
            free_space,
            memtables_max,
            memtables_waiting_pressed,
            progress: Progress::default(),
            resuming: Mutex::new(()),
            waiting_writes: AtomicU32::new(0),
            writes: RwLock::new(()),
            closed: AtomicBool::new(false),
            counters: Arc::default(),
        };
        engine.write_ahead.note_lsn(engine.durable_lsn()?);
        let sequence = engine.db.latest_sequence_number();
        engine.write_ahead.note_flushed(sequence);
        (engine.write_ahead).note_level0(engine.property(LEVEL0_TABLES));
        if engine.paces_writes() || engine.property(WRITES_STOPPED) != 0 {
            engine.end_replay();
        }
        Ok(engine)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Makes everything written before the call durable.
    ///
    /// RocksDB's own wait would go on for ever behind a flush that the journal refuses, so the waiting is done here.
    fn flush(&self) -> Result<()> {
        self.write_ahead.ask()?;
        let sequence = self.db.latest_sequence_number();
        let begun = Instant::now();
        let mut is_asked_for = false;
        while self.write_ahead.flushed_sequence() < sequence {
            // RocksDB begins no flush any more and gives up the one under way, without an error that it would tell anybody.
            if self.write_ahead.is_shutting_down() {
                return Err(Error::Closed);
            }
            match self.write_ahead.trouble() {
                Some(Trouble::Failed(Error::Stalled(cause))) => {
                    if !self.flush_again() && begun.elapsed() > STALL_WAIT {
                        return Err(Error::Stalled(cause));
                    }
                    is_asked_for = true;
                }
                Some(Trouble::Refused(Error::Stalled(cause))) if begun.elapsed() > STALL_WAIT => {
                    return Err(Error::Stalled(cause));
                }
                // What the flush that waits was last told may be over.
                Some(Trouble::Refused(_)) => self.write_ahead.ask()?,
                Some(Trouble::Failed(error)) => return Err(error),
                None => {}
            }
            if !is_asked_for {
                // Nobody writes beside a close.
                is_asked_for = match self.begin_flush(self.closed.load(Ordering::Acquire)) {
                    Ok(()) => true,
                    // RocksDB takes no request while it stops writes. The full memtables have their flushes queued already;
                    // the one that writes went to is asked for after that.
                    Err(Error::Stalled(_)) => false,
                    Err(error) => return Err(error),
                };
            }
            self.write_ahead.wait_for_a_flush(sequence);
            // In this order: what leaves the memtable in between is counted behind it.
            if self.property(ENTRIES_IN_MEMTABLE) + self.property(MEMTABLES_WAITING) == 0 {
                break;
            }
        }
        match self.write_ahead.trouble() {
            Some(Trouble::Failed(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Has RocksDB flush what is in memory, on its own threads. Without `may_stall` it waits before that as long as one more
    /// memtable in the queue would hold up writes.
    fn begin_flush(&self, may_stall: bool) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(false);
        options.set_allow_write_stall(may_stall);
        self.db.flush_opt(&options).map_err(from_rocksdb)
    }

    /// After a flush that found no descriptors: asks for it again, once there are some. Whether it did.
    fn flush_again(&self) -> bool {
        let Some(_alone) = self.resuming.try_lock() else {
            return false;
        };
        let failures = self.write_ahead.failures();
        check_descriptors(DESCRIPTORS_OF_A_JOB).is_ok()
            && self.begin_flush_again().is_ok()
            && self.write_ahead.clear_failures(failures)
    }

    /// RocksDB takes no request for a flush while it stops writes. If it stops them because of the memtables that this flush
    /// would write, nothing would ever end that: for the request, one more memtable may wait than waits already (a writer
    /// that the raised bound lets through can add one, so that this is not always the configured number). Under `resuming`.
    fn begin_flush_again(&self) -> Result<()> {
        let begun = self.begin_flush(true);
        let waiting = u32::try_from(self.property(MEMTABLES_WAITING)).unwrap_or(u32::MAX);
        if !matches!(begun, Err(Error::Stalled(_))) || waiting < self.memtables_max {
            return begun;
        }
        // RocksDB applies an option before it writes it to a file, for which it may miss a descriptor: whatever it answers,
        // the flush is asked for, and the bound is put back.
        let raised = self.set_memtables_max(waiting.saturating_add(1));
        let begun = self.begin_flush(true);
        self.set_memtables_max(self.memtables_max)?;
        raised.and(begun)
    }

    fn set_memtables_max(&self, max: u32) -> Result<()> {
        self.db
            .set_options(&[(MEMTABLES_MAX, &max.to_string())])
            .map_err(from_rocksdb)
    }

    /// After a full disk: goes on once there is room for what waits in memory and the bound above.
    fn resume_after(&self, error: Error) -> Readiness {
        if let Error::Stalled(cause) = error {
            return match self.flush_again() {
                true => Readiness::Ready,
                false => Readiness::Stalled { cause },
            };
        }
        let unflushed_bytes = self.property(UNFLUSHED_BYTES);
        if !error.is_no_space() || self.free_space.check_for(unflushed_bytes).is_err() {
            return Readiness::Failed(error);
        }
        let Some(_alone) = self.resuming.try_lock() else {
            return Readiness::Failed(error);
        };
        let failures = self.write_ahead.failures();
        match self.db.resume() {
            Ok(()) if self.write_ahead.clear_failures(failures) => Readiness::Ready,
            _ => Readiness::Failed(error),
        }
    }

    fn property(&self, name: &str) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }

    fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let _writes = self.writes.read();
        self.check_open()?;
        batch.check_keys()?;
        if let Some(lsn) = batch.applied_lsn() {
            self.write_ahead.note_lsn(lsn);
        }
        let batch_of_rocksdb = to_rocksdb_batch(batch);
        self.db
            .write_opt(&batch_of_rocksdb, options)
            .map_err(from_rocksdb)?;
        self.counters.count_write(batch.bytes_len());
        Ok(())
    }

    /// Ends RocksDB's background work without letting a waiting flush become durable.
    fn stop_background_work(&self) {
        self.iterators.close();
        self.db.cancel_all_background_work(false);
        self.write_ahead.shut_down();
        self.db.cancel_all_background_work(true);
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check_open()?;
        let value = self
            .db
            .get_pinned_opt(key, &self.read_options)
            .map_err(from_rocksdb)?;
        self.counters
            .count_get(value.as_ref().map_or(0, |value| value.len()));
        cache_use::count(&self.counters);
        Ok(value.map(|value| read(&value)).is_some())
    }

    /// Many keys at once look up their files and filters together.
    fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        if let [key] = keys {
            if self.get(key, &mut |_| {})? {
                found(0);
            }
            return Ok(());
        }
        self.check_open()?;
        let values = self
            .db
            .batched_multi_get_pinned_batch_opt(keys, keys.is_sorted(), &self.read_options)
            .map_err(from_rocksdb)?;
        for (position, value) in values.iter().enumerate() {
            let value = value.map_err(from_rocksdb)?;
            self.counters.count_get(value.map_or(0, <[u8]>::len));
            if value.is_some() {
                found(position);
            }
        }
        cache_use::count(&self.counters);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.check_open()?;
        Ok(Box::new(RocksSnapshot::new(
            &self.db,
            &self.iterators,
            &self.counters,
        )))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let _waiting = Waiting::begin(&self.waiting_writes);
        self.write_with(batch, &self.write_options)
    }

    fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &self.without_waiting)
    }

    fn ready(&self) -> Readiness {
        if let Err(error) = self.check_open() {
            return Readiness::Failed(error);
        }
        match self.write_ahead.trouble() {
            Some(Trouble::Failed(error)) => return self.resume_after(error),
            Some(Trouble::Refused(Error::Stalled(cause))) => return Readiness::Stalled { cause },
            Some(Trouble::Refused(error)) => return Readiness::Failed(error),
            None => {}
        }
        if let Err(error) = self.free_space.check() {
            return Readiness::Failed(error);
        }
        let says_stopped = self.write_ahead.writes_stopped();
        if says_stopped || self.waiting_writes.load(Ordering::Relaxed) > 0 {
            if self.property(WRITES_STOPPED) != 0 {
                return Readiness::Stalled {
                    cause: "memtables or level 0 are full and wait for flushes and compactions"
                        .into(),
                };
            }
            if says_stopped {
                self.write_ahead.set_writes_going();
            }
        }
        Readiness::Ready
    }

    fn is_pressed(&self) -> bool {
        self.property(MEMTABLES_WAITING) >= self.memtables_waiting_pressed
            || self.paces_writes()
            || self.property(WRITES_STOPPED) != 0
    }

    /// RocksDB takes the bytes of a write off its credit before it looks whether the write may wait.
    fn paces_writes(&self) -> bool {
        self.property(DELAYED_RATE) != 0
    }

    fn end_replay(&self) {
        self.write_ahead.end_replay();
    }

    fn sync(&self) -> Result<()> {
        self.check_open()?;
        self.flush()
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.check_open()?;
        let value = self
            .db
            .get_pinned_opt(APPLIED_LSN_KEY, &self.persisted)
            .map_err(from_rocksdb)?;
        let Some(value) = value else { return Ok(0) };
        match value.as_ref().try_into() {
            Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
            Err(_) => Err(Error::Corruption(format!(
                "applied LSN has {} bytes instead of 8",
                value.len()
            ))),
        }
    }

    fn hold_files_still(&self) -> Result<()> {
        self.check_open()?;
        self.db.pause_background_work().map_err(from_rocksdb)?;
        // A reader that ends lets go of files that nothing needs any more, and would remove them itself.
        let kept = self.db.disable_file_deletions().map_err(from_rocksdb);
        if kept.is_err() {
            self.db.continue_background_work().map_err(from_rocksdb)?;
        }
        kept
    }

    fn let_files_move(&self) -> Result<()> {
        self.check_open()?;
        // Both are counted: where the first one fails, nothing has changed, and the next call does both.
        self.db.enable_file_deletions().map_err(from_rocksdb)?;
        self.db.continue_background_work().map_err(from_rocksdb)
    }

    /// The files of tables are shared by name with the copy; the few others are copied. What is in memory alone stays out: its flush
    /// would keep a processor from readers and writers, and compactions behind it.
    fn copy_to(&self, directory: &Path) -> Result<()> {
        // A close waits for the copy.
        let _open = self.writes.read();
        self.check_open()?;
        // RocksDB is to begin no flush either, for which it would wait without end behind a journal that refuses it.
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint_with_log_size(directory, u64::MAX))
            .map_err(from_rocksdb)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let _writes = self.writes.read();
        self.check_open()?;
        if range.is_empty() {
            return Ok(Reclaimed { done: true });
        }
        self.write_ahead.ask()?;
        let _waiting = Waiting::begin(&self.waiting_writes);
        let reclaimed = reclaim::step(
            &self.db,
            &self.progress,
            range,
            step_bytes,
            &self.write_options,
        );
        self.iterators.end_era();
        reclaimed
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.check_open()?;
        if range.is_empty() {
            return Ok(0);
        }
        let beyond_every_key = [0xff; KEY_BYTES_MAX + 1];
        let end: &[u8] = if range.end.is_empty() {
            &beyond_every_key
        } else {
            &range.end
        };
        let mut options = SizeApproximationOptions::default();
        options.set_include_memtables(true);
        options.set_include_files(true);
        let ranges = [Range::new(&range.start, end)];
        let sizes = self
            .db
            .get_approximate_sizes_with_options(&options, &ranges)
            .map_err(from_rocksdb)?;
        Ok(sizes.into_iter().sum())
    }

    fn counters(&self) -> EngineCounters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineCounters {
            flushes: count(&self.write_ahead.flushes),
            compactions: count(&self.write_ahead.compactions),
            compaction_bytes_read: count(&self.write_ahead.compaction_bytes_read),
            compaction_bytes_written: count(&self.write_ahead.compaction_bytes_written),
            stall_ns: self.write_ahead.stalled_ns(),
            unflushed_bytes: self.property(UNFLUSHED_BYTES),
            cache_bytes: self.cache.get_usage() as u64,
            disk_bytes: self.property(DISK_BYTES),
            ..self.counters.sum()
        }
    }

    fn stop_waiting(&self) {
        self.stop_background_work();
    }

    fn close(&self) -> Result<()> {
        let _drained = self.writes.write();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = self.flush();
        self.stop_background_work();
        flushed
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.write_ahead.set_hook(hook);
    }
}

impl Drop for RocksDb {
    /// Without a close nothing more becomes durable, as after a kill.
    fn drop(&mut self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.stop_background_work();
        }
    }
}

/// One thread that may wait inside RocksDB, counted as long as this lives.
struct Waiting<'e>(&'e AtomicU32);

impl<'e> Waiting<'e> {
    fn begin(count: &'e AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn count_tables(directory: &Path) -> Result<usize> {
    let mut tables = 0;
    for entry in std::fs::read_dir(directory)? {
        tables += usize::from(entry?.path().extension().is_some_and(|kind| kind == "sst"));
    }
    Ok(tables)
}

/// Our byte form of the operations is RocksDB's own; only its header is missing.
fn to_rocksdb_batch(batch: &WriteBatch) -> rust_rocksdb::WriteBatch {
    if batch.bytes_len() > batch.len().saturating_mul(LARGE_OPERATION_BYTES) {
        return to_rocksdb_operations(batch);
    }
    thread_local! {
        static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    COPY.with_borrow_mut(|copy| {
        copy.clear();
        copy.reserve(BATCH_HEADER_BYTES + batch.bytes_len());
        copy.extend_from_slice(&[0; 8]);
        copy.extend_from_slice(&(batch.len() as u32).to_le_bytes());
        copy.extend_from_slice(batch.as_bytes());
        let made = rust_rocksdb::WriteBatch::from_data(copy);
        if copy.capacity() > BATCH_COPY_KEPT_BYTES {
            *copy = Vec::new();
        }
        made
    })
}

/// Copies the bytes of a batch once, where the way through their byte form does it twice.
#[cold]
fn to_rocksdb_operations(batch: &WriteBatch) -> rust_rocksdb::WriteBatch {
    let bytes = BATCH_HEADER_BYTES + batch.bytes_len();
    let mut made = rust_rocksdb::WriteBatch::with_capacity_bytes(bytes);
    for operation in batch {
        match operation {
            Op::Put(key, value) => made.put(key, value),
            Op::Delete(key) => made.delete(key),
        }
    }
    made
}

fn without_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn without_waiting() -> WriteOptions {
    let mut options = without_log();
    options.set_no_slowdown(true);
    options
}

/// Reads that skip the memtables see what the last flush made durable.
fn persisted_only() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_read_tier(ReadTier::Persisted);
    options
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(10);

    fn batch(lsn: u64) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(&lsn.to_be_bytes(), &[lsn as u8; 4_000]);
        batch.put_applied_lsn(lsn);
        batch
    }

    #[test]
    fn large_operations_make_the_batch_that_their_byte_form_makes() {
        let mut batch = WriteBatch::new();
        batch.put(b"large", &vec![7; 4 * LARGE_OPERATION_BYTES]);
        batch.delete(b"gone");
        batch.put(b"empty", b"");
        let by_one = to_rocksdb_operations(&batch);
        let mut header = vec![0; 8];
        header.extend_from_slice(&(batch.len() as u32).to_le_bytes());
        assert!(by_one.data() == [&header[..], batch.as_bytes()].concat());
        assert!(to_rocksdb_batch(&batch).data() == by_one.data());
    }

    /// No test beside this one opens a file: the limit of descriptors is the process's.
    #[test]
    fn a_flush_that_misses_descriptors_while_writes_are_stopped_is_made_again() {
        for misses in [1, 2] {
            miss_descriptors(misses);
        }
    }

    /// A writer waits inside RocksDB while `misses` flushes in a row miss descriptors: the bound that is raised for the
    /// second lets it through, so that one more memtable waits than is configured when the second misses them as well.
    fn miss_descriptors(misses: u64) {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            cache_bytes: 8 << 20,
            write_buffer_bytes: 64 << 10,
            write_buffers_max: 2,
            free_bytes_min: 1 << 20,
            background_bytes_per_s: 0,
            ..Options::default()
        };
        let engine = RocksDb::open(directory.path(), &options).unwrap();
        let before = getrlimit(Resource::Nofile);
        let is_full = Arc::<AtomicBool>::default();
        let waits = Arc::clone(&is_full);
        *engine.write_ahead.before_table.lock() = Some(Box::new(move || {
            while !waits.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let none = Rlimit {
                current: Some(0),
                ..getrlimit(Resource::Nofile)
            };
            setrlimit(Resource::Nofile, none).unwrap();
        }));
        let mut lsn = 0;
        let begun = Instant::now();
        let wait = |what: &str, is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(begun.elapsed() < WAIT_MAX, "{what}: {:?}", engine.ready());
                thread::yield_now();
            }
        };
        while engine.ready() == Readiness::Ready {
            assert!(begun.elapsed() < WAIT_MAX, "writes are never stopped");
            if engine.try_write(&batch(lsn + 1)).is_ok() {
                lsn += 1;
            }
        }
        thread::scope(|threads| {
            threads.spawn(|| engine.write(&batch(lsn + 1)));
            let waiting = || engine.waiting_writes.load(Ordering::SeqCst);
            wait("a writer waits", &|| waiting() == 1);
            is_full.store(true, Ordering::SeqCst);
            wait("a flush misses descriptors", &|| {
                engine.write_ahead.trouble().is_some()
            });
            assert!(matches!(engine.ready(), Readiness::Stalled { .. }));
            let failures = engine.write_ahead.failures();
            for miss in 1..misses {
                // Once: this flush takes the descriptors away again before it opens its file.
                setrlimit(Resource::Nofile, before).unwrap();
                assert_eq!(engine.ready(), Readiness::Ready);
                wait("a flush misses them again", &|| {
                    engine.write_ahead.failures() >= failures + miss
                });
            }
            // Whatever flush comes next finds descriptors.
            *engine.write_ahead.before_table.lock() = None;
            setrlimit(Resource::Nofile, before).unwrap();
            wait("writes go on", &|| engine.ready() == Readiness::Ready);
        });
        engine.write(&batch(lsn + 2)).unwrap();
        engine.sync().unwrap();
        assert_eq!(engine.durable_lsn(), Ok(lsn + 2));
        engine.close().unwrap();
    }
}
