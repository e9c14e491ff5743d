//! The database: opened on an engine, with its journal, catalog, locks and background threads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quarry_bson::RawValue;
use quarry_journal::{
    CommitReport, Files, Identity, Journal, Level, RealFiles, SimulatedFiles, Until,
};
use quarry_storage::{Engine, Readiness, WriteBatch};
use quarry_timing::{Phase, Work};
use rustc_hash::FxHashMap;

use crate::build::builds::{Builds, InterruptedBuild};
use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::commit::late_writes::{LateWrites, ReplyFirst};
use crate::commit::payload::Header;
use crate::commit::refusals::{OnChange, Refusals, RefusedWrites};
use crate::commit::watches::CommitWatch;
use crate::commit::{CommitPath, read_u64};
use crate::error::{Error, Result};
use crate::keyspace::ident::{Ident, new_uuid};
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::{Hold, Holds};
use crate::locks::large_batches::LargeBatches;
use crate::locks::record_locks::LockTable;
use crate::operation::Operation;
use crate::record_cache::{RecordCache, RecordCacheCounters};
use crate::snapshot::reads::Reads;
use crate::upkeep::background::Background;
use crate::upkeep::checkpoint::{CHECKPOINT_TICK, Checkpoints, OnTrouble};

const DDL_SHARDS: usize = 16;
const JOURNAL_SEGMENT_BYTES_IN_MEMORY: u64 = 4 * 1024 * 1024;
/// The engine's last flush, and what it waits for, may take so long.
const CLOSE_TIME: Duration = Duration::from_secs(30);
/// How often a close looks whether the journal has failed.
const CLOSE_TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// Where the journal lives; `None` keeps it in memory, as the memory engine does.
    pub journal_directory: Option<PathBuf>,
    /// The interval of the background sync; 0 = none.
    pub commit_interval_ms: u64,
    /// `None`: the journal's default on a disk, less in memory.
    pub journal_segment_bytes: Option<u64>,
    /// So many bytes of segments are kept that no checkpoint needs any more.
    pub journal_retain_bytes: u64,
    /// They are kept so long after their last write.
    pub journal_retain_ms: u64,
    /// Groups of more bytes are compressed; `None`: none is.
    pub journal_compress_above_bytes: Option<usize>,
    /// Memory for records that were written or read lately; 0 for an engine whose gets cost little.
    pub record_cache_bytes: usize,
    pub shortcuts: Shortcuts,
    /// Once it is set, an opening that replays the journal ends with `Error::ShuttingDown`.
    pub give_up: Arc<AtomicBool>,
}

/// The shortcuts of a commit, each of which can be switched off alone to measure what it wins. None changes a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    pub journal: quarry_journal::Shortcuts,
    /// The engine is written behind the reply of a connection that writes alone.
    pub late_writes: bool,
    /// An insert of one document that is to be durable keeps its locks until its sync is over, and wakes once.
    pub locks_over_sync: bool,
}

impl Default for Shortcuts {
    fn default() -> Self {
        Shortcuts {
            journal: quarry_journal::Shortcuts::default(),
            late_writes: true,
            locks_over_sync: true,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            journal_directory: None,
            commit_interval_ms: 100,
            journal_segment_bytes: None,
            journal_retain_bytes: 0,
            journal_retain_ms: 0,
            journal_compress_above_bytes: None,
            record_cache_bytes: 0,
            shortcuts: Shortcuts::default(),
            give_up: Arc::default(),
        }
    }
}

/// Lock order: a DDL mutex, a hold, record locks, unique-key locks, the turn of a large batch, then the commit path.
pub struct Database {
    /// The engine, with what is still to be written to it.
    pub(crate) engine: Arc<dyn Engine>,
    late_writes: Arc<LateWrites>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) commit_path: Arc<CommitPath>,
    pub(crate) catalog: Arc<Catalog>,
    /// All reads but the catalog's and the commit path's own.
    pub(crate) reads: Reads,
    pub(crate) holds: Holds,
    pub(crate) record_locks: LockTable,
    pub(crate) unique_locks: LockTable,
    pub(crate) large_batches: Arc<LargeBatches>,
    /// The last RecordId that each capped collection has given. Read and changed under its exclusive hold.
    pub(crate) record_ids: Arc<Mutex<FxHashMap<Ident, u64>>>,
    pub(crate) builds: Arc<Builds>,
    pub(crate) interrupted_builds: Arc<[InterruptedBuild]>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    refusals: Arc<Refusals>,
    /// Whether its thread runs (`database_drop`). Taken before the catalog's locks.
    pub(crate) database_cleaner_runs: Arc<Mutex<bool>>,
    ddl: Arc<[Mutex<()>; DDL_SHARDS]>,
    pub(crate) background: Background,
    pub(crate) keeps_locks_over_sync: bool,
}

impl Database {
    /// Opens the database on `engine`: checks whose data it is, replays the journal, starts the checkpoint thread.
    pub fn open(engine: Arc<dyn Engine>, options: Options) -> Result<Database> {
        let (files, options): (Arc<dyn Files>, Options) = match &options.journal_directory {
            Some(directory) => {
                let files = RealFiles::open(directory).map_err(|error| {
                    Error::Foreign(format!(
                        "journal directory `{}`: {error}",
                        directory.display()
                    ))
                })?;
                (Arc::new(files), options)
            }
            None => (
                Arc::new(SimulatedFiles::new()),
                Options {
                    commit_interval_ms: 0,
                    ..options
                },
            ),
        };
        Database::open_on(engine, files, options)
    }

    /// Opens an empty database that lives in this process's memory alone: nothing of it survives.
    pub fn open_in_memory() -> Result<Database> {
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        Database::open(Arc::new(quarry_storage::Memory::new()), options)
    }

    /// Opens the database with its journal on `files`; a journal in memory keeps small segments.
    pub fn open_on(
        engine: Arc<dyn Engine>,
        files: Arc<dyn Files>,
        options: Options,
    ) -> Result<Database> {
        let uuid = identify(engine.as_ref())?;
        let late_writes = Arc::new(LateWrites::new(engine));
        let engine = Arc::clone(&late_writes) as Arc<dyn Engine>;
        let catalog = Arc::new(Catalog::new(Arc::clone(&engine))?);
        let records = (options.record_cache_bytes > 0)
            .then(|| Arc::new(RecordCache::new(options.record_cache_bytes)));
        let commit_path = CommitPath::new(
            Arc::clone(&late_writes),
            Arc::clone(&catalog),
            records.clone(),
            options.shortcuts.late_writes,
            Arc::clone(&options.give_up),
        );
        let commit_path = Arc::new(commit_path?);
        let identity = Identity {
            database: uuid,
            engine: engine.name().to_owned(),
        };
        let knows_journal = knows_journal(engine.as_ref())?;
        let mut journal_options = quarry_journal::Options {
            commit_interval_ms: options.commit_interval_ms,
            must_exist: knows_journal,
            retain_bytes: options.journal_retain_bytes,
            retain_ms: options.journal_retain_ms,
            compress_above_bytes: options.journal_compress_above_bytes,
            shortcuts: options.shortcuts.journal,
            ..quarry_journal::Options::default()
        };
        if options.journal_directory.is_none() {
            journal_options.segment_bytes = JOURNAL_SEGMENT_BYTES_IN_MEMORY;
            journal_options.spare_segments_max = 1;
        }
        if let Some(segment_bytes) = options.journal_segment_bytes {
            journal_options.segment_bytes = segment_bytes;
        }
        let applied = commit_path.applied_lsn();
        let hooks = Arc::clone(&commit_path) as Arc<dyn quarry_journal::Hooks>;
        let journal = Journal::open(files, journal_options, identity, applied, hooks);
        let journal = Arc::new(journal.map_err(Error::from)?);
        commit_path.end_replay()?;
        if !knows_journal {
            note_journal(engine.as_ref())?;
        }
        late_writes.keep_refused();
        let log = Arc::downgrade(&journal);
        engine.set_before_durable(Box::new(move |lsn| match log.upgrade() {
            Some(journal) if journal.durable_lsn() >= lsn => Ok(()),
            Some(journal) => journal
                .wait_durable(lsn)
                .map_err(|error| quarry_storage::Error::Io(error.to_string())),
            // Whether the journal became durable before it was dropped nobody can say any more.
            None => Err(quarry_storage::Error::Io(
                "the journal is closed".to_owned(),
            )),
        }));
        keep_replayed(engine.as_ref(), &journal)?;
        let interrupted_builds = crate::build::builds::interrupted(engine.as_ref())?;
        let database = Database {
            reads: Reads::new(Arc::clone(&engine), records),
            engine,
            late_writes,
            journal,
            commit_path,
            catalog,
            holds: Holds::default(),
            record_locks: LockTable::default(),
            unique_locks: LockTable::default(),
            large_batches: Arc::default(),
            record_ids: Arc::default(),
            builds: Arc::default(),
            interrupted_builds: interrupted_builds.into(),
            checkpoints: Arc::default(),
            refusals: Arc::default(),
            database_cleaner_runs: Arc::default(),
            ddl: Arc::default(),
            background: Background::default(),
            keeps_locks_over_sync: options.shortcuts.locks_over_sync,
        };
        database.start_checkpoints();
        database.start_build_cleaner();
        database.start_database_cleaner();
        Ok(database)
    }

    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What the cache of records did so far; `None` without one.
    pub fn record_cache_counters(&self) -> Option<RecordCacheCounters> {
        self.reads.records().map(|records| records.counters())
    }

    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.catalog.get(namespace)
    }

    /// The full key of the record with this `_id` in a clustered collection. Nothing stands under a key longer than
    /// engines take: who looks for such an `_id` finds nothing, and who inserts it is refused.
    pub fn record_key(collection: &Collection, id: RawValue<'_>) -> Vec<u8> {
        collection.record_key(id)
    }

    /// Returns when what is committed up to `lsn` has reached `level`.
    pub fn acknowledge(&self, lsn: u64, level: Level) -> Result<()> {
        if level == Level::Written || self.journal.durable_lsn() >= lsn {
            return Ok(());
        }
        let _wait = quarry_timing::phase(Phase::SyncWait);
        let ended = self.checkpoints.ended();
        let waited = self.journal.wait_durable(lsn).map_err(Error::from);
        waited.map_err(|error| self.refusals.failed(error))?;
        self.checkpoints.name_since(ended);
        quarry_timing::name(Work::Sync, self.journal.sync_counters().syncs);
        Ok(())
    }

    /// The same for a whole command that committed up to `lsn`. One that changed nothing waits for what it saw: whoever asks
    /// again for a change that was acknowledged at a lower level, and is told that it is there, relies on it.
    pub fn settle(&self, lsn: Option<u64>, level: Level) -> Result<()> {
        self.acknowledge(lsn.unwrap_or_else(|| self.journal.accepted_lsn()), level)
    }

    /// Has `on_change` called when writes begin to be refused, and when they are taken again.
    pub fn on_writes_change(&self, on_change: OnChange) {
        self.refusals.on_change(on_change);
    }

    /// Has `on_trouble` called when segments of the journal cannot be freed or made, and when they can again.
    pub fn on_journal_trouble(&self, on_trouble: OnTrouble) {
        self.checkpoints.on_trouble(on_trouble);
    }

    /// How often a background thread panicked and was started again.
    pub fn background_panics(&self) -> u64 {
        self.background.panics()
    }

    pub fn refused_writes(&self) -> RefusedWrites {
        self.refusals.so_far()
    }

    /// Until it is dropped, what this thread commits is acknowledged before the engine has it, as far as that shortens
    /// the wait for the reply; the engine has it afterwards. No reader or writer sees the difference.
    pub fn reply_first(&self) -> ReplyFirst<'_> {
        self.late_writes.reply_first()
    }

    /// Registers the caller for commits to the collection; one that waits looks first, after registering.
    pub fn watch_commits(&self, ident: Ident) -> CommitWatch<'_> {
        self.commit_path.watch(ident)
    }

    /// Hands over to the engine what is still to be written to it, unless it would have to wait.
    pub fn catch_up(&self) {
        self.late_writes.catch_up_at_once();
    }

    /// Makes everything committed durable.
    pub fn sync(&self) -> Result<()> {
        self.journal.sync().map_err(Error::from).map(drop)
    }

    /// Ends the background threads, syncs the journal and flushes the engine, so that the next open replays nothing. When
    /// the journal has failed, or that takes longer than `CLOSE_TIME`, the engine is closed as it is.
    pub fn close(&self) -> Result<()> {
        self.commit_path.close();
        std::thread::scope(|scope| {
            let (closed, is_closed) = channel::<()>();
            let watch = std::thread::Builder::new().name("closing".into());
            // Without room for it the close is not bounded; it mostly need not be.
            let _ = watch.spawn_scoped(scope, move || {
                let begun = Instant::now();
                // A flush that waits for a journal that has failed waits for ever, and so does a write that waits for
                // the flush, with its turn in the journal; all that is closed below would wait for those.
                while !self.journal.is_latched() && begun.elapsed() < CLOSE_TIME {
                    if is_closed.recv_timeout(CLOSE_TICK) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
                self.engine.stop_waiting();
            });
            self.background.end();
            let journal = self.journal.close().map_err(Error::from);
            let engine = self.engine.close().map_err(Error::from);
            drop(closed);
            journal.and(engine)
        })
    }

    /// Commits one batch; returns its LSN. See `commit` for the order of things.
    pub(crate) fn commit(&self, header: &Header<'_>, batch: &WriteBatch) -> Result<u64> {
        self.commit_record(None, header.record(batch))
    }

    /// Like `commit`, for a batch of any size, which is dropped before its record waits. `syncing` says that the writer
    /// will wait for the sync, and up to where this call takes it.
    pub(crate) fn commit_whole(
        &self,
        syncing: Option<Until>,
        header: &Header<'_>,
        batch: WriteBatch,
    ) -> Result<u64> {
        let record = header.record(&batch);
        drop(batch);
        self.commit_record(syncing, record)
    }

    fn commit_record(&self, syncing: Option<Until>, record: Vec<u8>) -> Result<u64> {
        let _wait = quarry_timing::phase(Phase::CommitWait);
        self.catch_up();
        let ended = self.checkpoints.ended();
        let mut stalled_since = None;
        let submitted = loop {
            let submitted = match syncing {
                Some(until) => self.journal.submit_syncing(&record, until),
                None => self.journal.submit(&record),
            };
            match submitted {
                Err(error) if error.is_stalled() => {
                    let begun = *stalled_since.get_or_insert_with(Instant::now);
                    let waited = self.commit_path.wait_out_stall(begun);
                    waited.map_err(|error| self.refusals.failed(error))?;
                }
                submitted => break submitted.map_err(Error::from),
            }
        };
        let ticket = submitted.map_err(|error| self.refusals.failed(error))?;
        self.refusals.taken();
        self.account(record.len(), &ticket.report);
        self.checkpoints.name_since(ended);
        Ok(ticket.lsn)
    }

    /// Splits the time of a commit: the append, the engine's write, and the sync that it waited for.
    fn account(&self, bytes: usize, report: &CommitReport) {
        quarry_timing::count(Work::JournalBytes, bytes as u64);
        quarry_timing::count(Work::Commits, 1);
        quarry_timing::count(Work::GroupWriters, u64::from(report.group_writers));
        quarry_timing::name(Work::Group, report.group);
        quarry_timing::add(Phase::JournalAppend, report.append_ns);
        quarry_timing::add(Phase::EngineWrite, report.apply_ns);
        if report.sync_wait_ns > 0 {
            quarry_timing::add(Phase::SyncWait, report.sync_wait_ns);
            quarry_timing::name(Work::Sync, self.journal.sync_counters().syncs);
        }
    }

    /// The collection and a shared hold on it, both current.
    pub(crate) fn hold_shared(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<(Arc<Collection>, Hold<'_>)>> {
        loop {
            let Some(collection) = self.catalog.get(namespace)? else {
                return Ok(None);
            };
            let hold = if collection.is_clustered() {
                self.holds.shared(collection.ident, operation)?
            } else {
                self.holds.exclusive(collection.ident, operation)?
            };
            if self.catalog.is_current(&collection)? {
                return Ok(Some((collection, hold)));
            }
        }
    }

    /// The collection and an exclusive hold on it, both current.
    pub(crate) fn hold_exclusive(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<(Arc<Collection>, Hold<'_>)>> {
        loop {
            let Some(collection) = self.catalog.get(namespace)? else {
                return Ok(None);
            };
            let hold = self.holds.exclusive(collection.ident, operation)?;
            if self.catalog.is_current(&collection)? {
                return Ok(Some((collection, hold)));
            }
        }
    }

    /// Serialises changes of one database's catalog.
    pub(crate) fn lock_ddl(&self, database: &str) -> MutexGuard<'_, ()> {
        let shard =
            crate::locks::record_locks::lock_hash(database.as_bytes()) as usize % DDL_SHARDS;
        self.ddl[shard].lock()
    }

    pub(crate) fn ddl_shard(database: &str) -> usize {
        crate::locks::record_locks::lock_hash(database.as_bytes()) as usize % DDL_SHARDS
    }

    fn start_checkpoints(&self) {
        let (engine, journal) = (Arc::clone(&self.engine), Arc::clone(&self.journal));
        let (commit_path, catalog) = (Arc::clone(&self.commit_path), Arc::clone(&self.catalog));
        let epochs = Arc::clone(self.reads.epochs());
        let checkpoints = Arc::clone(&self.checkpoints);
        let late_writes = Arc::clone(&self.late_writes);
        self.background.start("checkpoint", move |stop| {
            let mut last_durable = 0;
            let mut reclaimer = crate::upkeep::reclaim::Reclaimer::default();
            while !stop.wait(CHECKPOINT_TICK) {
                // Asked, an engine goes on after a full disk and takes what it has refused. This thread has to end when
                // it is told to, so it writes only where that will not wait.
                let is_ready = late_writes.ready() == Readiness::Ready;
                checkpoints.tick(engine.as_ref(), &journal, &mut last_durable);
                if is_ready {
                    let _ = reclaimer.step(
                        engine.as_ref(),
                        &journal,
                        &commit_path,
                        &catalog,
                        &epochs,
                        stop,
                    );
                }
            }
        });
    }

    /// Drops what interrupted index builds left behind, if there is any.
    fn start_build_cleaner(&self) {
        if self.interrupted_builds.is_empty() {
            return;
        }
        let (database, stop) = (self.same(), self.background.stop());
        self.background.start("build cleaner", move |stopped| {
            let stop = Arc::clone(&stop);
            let operation = Operation::default().with_disconnect(Box::new(move || stop.is_set()));
            database.drop_interrupted_builds(stopped, &operation);
        });
    }

    /// The same database for a background thread, without threads of its own.
    pub(crate) fn same(&self) -> Database {
        Database {
            engine: Arc::clone(&self.engine),
            late_writes: Arc::clone(&self.late_writes),
            journal: Arc::clone(&self.journal),
            commit_path: Arc::clone(&self.commit_path),
            catalog: Arc::clone(&self.catalog),
            reads: self.reads.clone(),
            holds: self.holds.clone(),
            record_locks: self.record_locks.clone(),
            unique_locks: self.unique_locks.clone(),
            large_batches: Arc::clone(&self.large_batches),
            record_ids: Arc::clone(&self.record_ids),
            builds: Arc::clone(&self.builds),
            interrupted_builds: Arc::clone(&self.interrupted_builds),
            checkpoints: Arc::clone(&self.checkpoints),
            refusals: Arc::clone(&self.refusals),
            database_cleaner_runs: Arc::clone(&self.database_cleaner_runs),
            ddl: Arc::clone(&self.ddl),
            background: Background::default(),
            keeps_locks_over_sync: self.keeps_locks_over_sync,
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.background.end();
    }
}

/// Reads, or on a fresh engine writes, the format version, the database UUID and the engine's name.
fn identify(engine: &dyn Engine) -> Result<[u8; 16]> {
    let mut version = None;
    engine.get(layout::FORMAT_VERSION_KEY, &mut |value| {
        version = value.try_into().ok().map(u32::from_le_bytes);
    })?;
    let mut uuid: Option<[u8; 16]> = None;
    engine.get(layout::DATABASE_UUID_KEY, &mut |value| {
        uuid = value.try_into().ok();
    })?;
    let mut name = Vec::new();
    engine.get(layout::ENGINE_NAME_KEY, &mut |value| {
        name.extend_from_slice(value);
    })?;
    match (version, uuid) {
        (Some(version), _)
            if !(layout::FORMAT_VERSION_OLDEST..=layout::FORMAT_VERSION).contains(&version) =>
        {
            Err(Error::Foreign(format!(
                "the data has format version {version}; this build reads versions {} to {}",
                layout::FORMAT_VERSION_OLDEST,
                layout::FORMAT_VERSION
            )))
        }
        (Some(version), Some(uuid)) if name == engine.name().as_bytes() => {
            if version < layout::FORMAT_VERSION {
                // Before anything that an older reader would misread is written.
                let mut batch = WriteBatch::new();
                put_version(&mut batch);
                engine.write(&batch)?;
                engine.sync()?;
            }
            Ok(uuid)
        }
        (Some(_), Some(_)) => Err(Error::Foreign(format!(
            "the data was written by the engine `{}`, not by `{}`",
            String::from_utf8_lossy(&name),
            engine.name()
        ))),
        (Some(_), _) => Err(Error::Corrupt("the data has no database UUID".to_owned())),
        (None, _) => {
            if read_u64(engine, layout::APPLIED_LSN_KEY)?.is_some() {
                return Err(Error::Foreign("the data has no format version".to_owned()));
            }
            let uuid = new_uuid();
            let mut batch = WriteBatch::new();
            put_version(&mut batch);
            batch.put(layout::DATABASE_UUID_KEY, &uuid);
            batch.put(layout::ENGINE_NAME_KEY, engine.name().as_bytes());
            engine.write(&batch)?;
            engine.sync()?;
            Ok(uuid)
        }
    }
}

/// Whether the engine knows of a journal: from then on a start without one would forget what the engine did not have.
fn knows_journal(engine: &dyn Engine) -> Result<bool> {
    Ok(read_u64(engine, layout::APPLIED_LSN_KEY)?.is_some())
}

/// Makes the engine durable with what was replayed, before anybody is served: the end was unclean, and what the engine was
/// made of again should not need the journal once more. Where no space is left for that the journal goes on holding it.
fn keep_replayed(engine: &dyn Engine, journal: &Journal) -> Result<()> {
    if journal.replayed() == 0 {
        return Ok(());
    }
    match engine.sync() {
        Err(error) if !error.is_no_space() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The database's first journal is begun.
fn note_journal(engine: &dyn Engine) -> Result<()> {
    if !knows_journal(engine)? {
        let mut batch = WriteBatch::new();
        batch.put(layout::APPLIED_LSN_KEY, &0u64.to_le_bytes());
        engine.write(&batch)?;
    }
    Ok(engine.sync()?)
}

fn put_version(batch: &mut WriteBatch) {
    batch.put(
        layout::FORMAT_VERSION_KEY,
        &layout::FORMAT_VERSION.to_le_bytes(),
    );
}
