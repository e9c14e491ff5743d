//! The database: opened on an engine, with its journal, catalog, locks and background threads.

mod capped_copies;
mod data;
mod definitions;
mod files_lock;
mod identity;
mod journal_renewal;
mod options;
mod pinned_snapshots;
mod scope;
mod state;
mod write_ahead_rule;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use quarry_journal::{Files, Identity, Journal, RealFiles, SealedFiles, SimulatedFiles};
use quarry_storage::{Engine, FreeSpace, Readiness};

use crate::build::IndexBuilder;
use crate::catalog::cache::Catalog;
use crate::catalog::collection_holds::CollectionHolds;
use crate::catalog::validation::Validators;
use crate::commit::CommitPath;
use crate::commit::checkpoint::{CHECKPOINT_TICK, FREE_BYTES_BESIDE_WINDOW};
use crate::commit::commits::Commits;
use crate::commit::late_writes::LateWrites;
use crate::definitions::builds::{InterruptedBuild, interrupted};
use crate::definitions::changes::Definitions;
use crate::definitions::collection_stats::Sizes;
use crate::definitions::listing;
use crate::error::{Error, Result};
use crate::locks::WriteLocks;
use crate::operation::Operation;
use crate::record_cache::RecordCache;
use crate::sessions::session_records::SessionRecords;
use crate::snapshot::reads::Reads;
use crate::upkeep::background::Background;
use crate::upkeep::database_cleaner::DatabaseCleaner;
use crate::upkeep::reclaim::Reclaimer;
use crate::upkeep::temporary_cleaner;
use crate::write::{WriteParts, Writer};
use files_lock::FilesLock;
use identity::{identify, keep_replayed, knows_journal, note_journal};

pub use journal_renewal::JournalRenewal;
pub use options::{Options, Shortcuts};
use pinned_snapshots::PinnedSnapshots;
pub use pinned_snapshots::{PinnedFigures, PinnedSnapshot};
pub use scope::Scope;
pub use state::{Copied, ReplayTimes};
use write_ahead_rule::WriteAheadRule;

const JOURNAL_SEGMENT_BYTES_IN_MEMORY: u64 = 4 * 1024 * 1024;
/// The engine's last flush, and what it waits for, may take so long.
const CLOSE_TIME: Duration = Duration::from_secs(30);
/// How often a close looks whether the journal has failed.
const CLOSE_TICK: Duration = Duration::from_millis(10);

/// An open database: the parts, each with its fields private to its wing, and the threads that work for it.
///
/// Lock order: a DDL mutex, the hold of a database, that of a name, a hold, record locks, unique-key locks, the turn of a large batch, then
/// the commit path. A large insert into a capped collection has its turn before the hold, and waits for the hold for a
/// short time only.
pub struct Database {
    /// Goes first, before what its hook may hold.
    _write_ahead_rule: WriteAheadRule,
    /// The engine, with what is still to be written to it.
    engine: Arc<dyn Engine>,
    catalog: Arc<Catalog>,
    holds: Arc<CollectionHolds>,
    /// All reads but the catalog's and the commit path's own.
    reads: Reads,
    commits: Arc<Commits>,
    /// For reads at a time that they name.
    pinned: Arc<PinnedSnapshots>,
    definitions: Arc<Definitions>,
    sizes: Sizes,
    writer: Writer,
    builder: Arc<IndexBuilder>,
    interrupted_builds: Arc<[InterruptedBuild]>,
    database_cleaner: Arc<DatabaseCleaner>,
    session_records: SessionRecords,
    replay_times: ReplayTimes,
    background: Background,
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
                let files: Arc<dyn Files> = match &options.journal_seal {
                    Some(seal) => Arc::new(SealedFiles::new(Arc::new(files), Arc::clone(seal))),
                    None => Arc::new(files),
                };
                (files, options)
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
        let catalog = Arc::new(Catalog::new(
            Arc::clone(&engine),
            Validators {
                language: Arc::clone(&options.filter_language),
                on_invalid: options.on_invalid,
            },
            Arc::clone(&options.index_kinds),
        )?);
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
            retain_ms: options.journal_retain_ms,
            retain_bytes_max: options.journal_retain_bytes_max,
            archive_hold_bytes: options.journal_archive_hold_bytes,
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
        let begun = Instant::now();
        let journal = Journal::open(files, journal_options, identity, applied, hooks);
        let journal = Arc::new(journal?);
        commit_path.end_replay()?;
        let replayed = begun.elapsed();
        catalog.plan_memories.begin(commit_path.next_ident());
        if !knows_journal {
            note_journal(engine.as_ref())?;
        }
        late_writes.keep_refused();
        let write_ahead_rule = WriteAheadRule::begin(&engine, &journal);
        keep_replayed(engine.as_ref(), &journal)?;
        engine.end_replay();
        let replay_times = ReplayTimes {
            read: journal.read_time(),
            apply: replayed.saturating_sub(journal.read_time()),
            sync: begun.elapsed() - replayed,
        };
        let interrupted_builds = interrupted(engine.as_ref())?;
        let reads = Reads::new(Arc::clone(&engine), records);
        let holds = Arc::new(CollectionHolds::new(Arc::clone(&catalog)));
        let commits = Arc::new(Commits::new(journal, commit_path, late_writes));
        let definitions = Arc::new(Definitions::new(
            Arc::clone(&catalog),
            Arc::clone(&holds),
            reads.clone(),
            Arc::clone(&commits),
        ));
        let sizes = Sizes::new(
            Arc::clone(&engine),
            Arc::clone(&catalog),
            reads.clone(),
            Arc::clone(&commits),
        );
        let parts = WriteParts {
            engine: Arc::clone(&engine),
            catalog: Arc::clone(&catalog),
            definitions: Arc::clone(&definitions),
            holds: Arc::clone(&holds),
            locks: Arc::new(WriteLocks::new(
                Arc::clone(reads.epochs()),
                Arc::clone(holds.holds()),
            )),
            reads: reads.clone(),
            commits: Arc::clone(&commits),
            builds: Arc::default(),
        };
        let session_records = SessionRecords::new(reads.clone(), Arc::clone(&commits));
        let database = Database {
            _write_ahead_rule: write_ahead_rule,
            engine,
            catalog,
            holds,
            reads,
            commits,
            pinned: Arc::default(),
            database_cleaner: DatabaseCleaner::new(Arc::clone(&definitions)),
            definitions,
            sizes,
            builder: Arc::new(IndexBuilder::new(parts.clone())),
            writer: Writer::new(parts, options.shortcuts.locks_over_sync),
            interrupted_builds: interrupted_builds.into(),
            session_records,
            replay_times,
            background: Background::default(),
        };
        if let Some(directory) = &options.journal_directory {
            let space = FreeSpace::new(directory, FREE_BYTES_BESIDE_WINDOW)?;
            database.commits.checkpoints().keep_free(space);
        }
        database.start_checkpoints();
        database.start_build_cleaner();
        if !listing::is_empty(&database.reads)? {
            let below = database.commits.allocate_ident();
            temporary_cleaner::start(&database.background, &database.definitions, below);
        }
        database.database_cleaner.start(&database.background);
        Ok(database)
    }

    /// Ends the background threads, syncs the journal and flushes the engine, so that the next open replays nothing. When
    /// the journal has failed, or that takes longer than `CLOSE_TIME`, the engine is closed as it is. Fails, too, where damage was
    /// met in the background.
    pub fn close(&self) -> Result<()> {
        let journal = self.commits.journal();
        // Who lets files move again waits for it, and so may the thread of the checkpoints, to free others.
        journal.stop_preparing();
        // What it fails for the close meets, too.
        let _ = FilesLock(&self.commits).end();
        self.commits.path().close();
        std::thread::scope(|scope| {
            let (closed, is_closed) = channel::<()>();
            let watch = std::thread::Builder::new().name("closing".into());
            // Without room for it the close is not bounded; it mostly need not be.
            let _ = watch.spawn_scoped(scope, move || {
                let begun = Instant::now();
                // A flush that waits for a journal that has failed waits for ever, and so does a write that waits for
                // the flush, with its turn in the journal; all that is closed below would wait for those.
                while !journal.is_latched() && begun.elapsed() < CLOSE_TIME {
                    if is_closed.recv_timeout(CLOSE_TICK) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
                self.engine.stop_waiting();
            });
            self.background.end();
            let journal = journal.close().map_err(Error::from);
            let engine = self.engine.close().map_err(Error::from);
            drop(closed);
            journal.and(engine).and(self.check_undamaged())
        })
    }

    /// Fails where damage was met before, so that an end which met none itself tells of it.
    fn check_undamaged(&self) -> Result<()> {
        self.damage()
            .map_or(Ok(()), |reason| Err(Error::Corrupt(reason)))
    }

    fn start_checkpoints(&self) {
        let (commits, catalog) = (Arc::clone(&self.commits), Arc::clone(&self.catalog));
        let epochs = Arc::clone(self.reads.epochs());
        let pinned = Arc::clone(&self.pinned);
        self.background.start("checkpoint", move |stop| {
            let mut last_durable = 0;
            let mut reclaimer = Reclaimer::default();
            let engine = commits.late_writes();
            while !stop.wait(CHECKPOINT_TICK) {
                let Some(_turn) = commits.path().write_stop().upkeep_turn() else {
                    continue;
                };
                // Asked, an engine goes on after a full disk and takes what it has refused. This thread has to end when
                // it is told to, so it writes only where that will not wait.
                let readiness = engine.engine_ready();
                let is_ready =
                    readiness == Readiness::Ready && engine.caught_up() == Readiness::Ready;
                if let Readiness::Failed(error) = readiness {
                    commits.failed_in_background(&error.into());
                }
                pinned.expire(commits.path().replaced_bytes());
                let reclaim = || match is_ready {
                    true => reclaimer.step(&commits, &catalog, &epochs, stop),
                    false => Ok(()),
                };
                let (checkpoints, journal) = (commits.checkpoints(), commits.journal());
                let ticked = checkpoints.tick(engine.as_ref(), journal, &mut last_durable, reclaim);
                if let Err(error) = ticked {
                    commits.failed_in_background(&error);
                }
            }
        });
    }

    /// Drops what interrupted index builds left behind, if there is any.
    fn start_build_cleaner(&self) {
        if self.interrupted_builds.is_empty() {
            return;
        }
        let (builder, stop) = (Arc::clone(&self.builder), self.background.stop());
        let interrupted = Arc::clone(&self.interrupted_builds);
        self.background.start("build cleaner", move |stopped| {
            let stop = Arc::clone(&stop);
            let operation = Operation::default().with_disconnect(Box::new(move || stop.is_set()));
            builder.drop_interrupted(&interrupted, stopped, &operation);
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.background.end();
    }
}
