//! One life of a database: opened on what a crash left, checked, written to, copied while it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use quarry_bson::{Document, doc};
use quarry_database::{
    Change as DatabaseChange, Database, ErrorCode, Level, Namespace, Operation, Options,
    RetryableWrite, Scope, SessionHistory,
};
use quarry_storage::{Engine, FlushImages, ImagedEngine, KeyRange, copy_directory_beside};

use crate::follower::Follower;
use crate::forgetting::{ForgettingFiles, Kernel};
use crate::history::{Change, History, Key, Random, State, Write};
use crate::image::{CrashPoint, EngineImage, Fallen, Outcome};
use crate::power_loss;

const CRASHES_A_LIFE: usize = 6;
/// The writes of one thread that writes alone; several threads write until the crashes are taken.
const WRITES_BETWEEN_CRASHES: u64 = 12;
const COLLECTIONS: usize = 2;
/// Behind them in a state: the txnNumber that each session remembers of its last write.
const SESSIONS: usize = COLLECTIONS;
/// Each writer has two sessions, this far apart: one writes retryably, the other in transactions.
const TRANSACTIONS: i32 = 100;
const WRITERS_MAX: i32 = 3;
/// Every thread has `_id`s of its own.
const IDS_A_WRITER: u64 = 40;
const PIECE_DOCUMENTS_MAX: u64 = 4;
/// One document in so many is so large that it takes pages of its own.
const LARGE_ONE_IN: i32 = 29;
const LARGE_BYTES: usize = 20_000;
const COMMIT_INTERVAL_MS: u64 = 2;
/// So small that crashes fall between segments too, and that copies and starts take little time.
const JOURNAL_SEGMENT_BYTES: u64 = 128 * 1024;

pub struct Life {
    database: Arc<Database>,
    engine: Arc<ImagedEngine>,
    images: Arc<FlushImages>,
    /// The files of the journal.
    files: Arc<ForgettingFiles>,
    /// The kernel had forgotten bytes of the journal before this life began.
    is_reborn: bool,
    /// Where the copies of this life go.
    place: PathBuf,
    /// The engine's files that this life began with.
    begun_with: EngineImage,
    /// How many images there were before the first durable point of this life, which its start may have made.
    images_before: usize,
    writers: u64,
    follower: Follower,
}

const HOUR_MS: u64 = 3_600_000;

/// The state that writers share while they write.
#[derive(Default)]
struct Written {
    writes: Mutex<Vec<Write>>,
    count: AtomicU64,
    acknowledged_lsn: AtomicU64,
    durable_lsn: AtomicU64,
    /// Writes may be refused from now on.
    syncs_forget: AtomicBool,
    /// One has been.
    is_refusing: AtomicBool,
}

impl Life {
    /// On nothing.
    pub fn first(images: &Arc<FlushImages>, scratch: &Path, writers: u64) -> Life {
        let engine = images.open().unwrap();
        let place = scratch.join("first");
        let journal = place.join("journal");
        let (database, files) = open(&engine, &journal, &Kernel::default(), writers);
        // The second image, made with the database: an engine without its UUID is another database's.
        let directory = images.directory(1).expect("an engine of files");
        let life = Life {
            database,
            engine,
            images: Arc::clone(images),
            files,
            is_reborn: false,
            place,
            begun_with: EngineImage { lsn: 0, directory },
            images_before: 2,
            writers,
            follower: Follower::default(),
        };
        life.make_collections();
        life
    }

    /// On what a crash left: checks it, starts once more from the same engine, and says what of `history` is kept.
    pub fn after(
        images: &Arc<FlushImages>,
        place: &Path,
        fallen: &Fallen,
        history: &History,
        writers: u64,
    ) -> (Life, History, Outcome) {
        let engine = images
            .reopen_directory(&fallen.engine.directory)
            .unwrap_or_else(|error| panic!("{fallen:?}: {error}"));
        let engine_lsn = engine.durable_lsn().unwrap();
        let (journal_first, journal_lsn) = power_loss::extent(&fallen.journal);
        // What is looked at here is opened once more from the older engine: no segment may go meanwhile, however long it takes.
        let (database, files) =
            open_keeping(&engine, &fallen.journal, &fallen.kernel, writers, HOUR_MS);
        let found = read(&database);
        let Some(kept) = history.beginning(&found, fallen.must_lsn) else {
            let difference = history.difference(&found, fallen.must_lsn);
            panic!(
                "{fallen:?}, engine at LSN {engine_lsn}, journal {journal_first:?} to {journal_lsn}, {} replayed: {difference}",
                database.journal().replayed()
            );
        };
        let is_engine_ahead = engine_lsn > journal_lsn;
        let mut outcome = Outcome {
            is_kill: fallen.is_kill,
            is_mixed: fallen.is_mixed,
            is_forgotten: fallen.is_forgotten,
            is_forgotten_lost: fallen.is_forgotten_lost,
            is_engine_ahead,
            replayed: database.journal().replayed(),
            is_followed: false,
            lost_writes: history
                .len_up_to(fallen.acknowledged_lsn)
                .saturating_sub(kept.len()),
        };
        let journal = place.join("journal-again");
        fs::create_dir_all(&journal).unwrap();
        let kernel = engine.while_standing(|_| files.copy(&journal).unwrap());
        let looked_at = engine.while_standing(own_path);
        drop(database);
        drop(engine);
        fs::remove_dir_all(looked_at).unwrap();

        let images_before = images.lsns().len();
        let engine = images.reopen_directory(&fallen.engine.directory).unwrap();
        let (database, files) = open(&engine, &journal, &kernel, writers);
        assert_eq!(
            read(&database),
            found,
            "replaying twice is not replaying once"
        );
        let mut documents = found;
        documents.retain(|(collection, _), _| *collection < COLLECTIONS);
        let mut follower = fallen.follower.clone();
        match follower.follow(&database, usize::MAX) {
            Ok(()) => {
                assert_eq!(
                    follower.state, documents,
                    "{fallen:?}: events from {:?} on, and documents",
                    fallen.follower.place
                );
                outcome.is_followed = true;
            }
            // Records that nobody has any more are between its place and what comes.
            Err(error) => {
                assert_eq!(
                    error.code(),
                    ErrorCode::CHANGE_STREAM_HISTORY_LOST.0,
                    "{fallen:?}"
                );
                // The engine has all of it, so that a segment may go as soon as the journal is open.
                let kept_first = database.journal().first_lsn();
                let is_there = journal_first.is_some_and(|first| follower.lsn() >= first);
                let is_kept = is_there && kept_first != 0 && follower.lsn() >= kept_first;
                assert!(
                    is_engine_ahead || !is_kept,
                    "{error}: engine {engine_lsn}, journal {journal_first:?} to {journal_lsn}, now from {kept_first}, {fallen:?}: {follower:?}"
                );
                follower = Follower::behind(&database, documents);
            }
        }
        let life = Life {
            database,
            engine,
            images: Arc::clone(images),
            files,
            is_reborn: fallen.is_forgotten,
            place: place.to_owned(),
            begun_with: EngineImage {
                lsn: engine_lsn,
                directory: fallen.engine.directory.clone(),
            },
            images_before,
            writers,
            follower,
        };
        life.make_collections();
        (life, kept, outcome)
    }

    /// Ends a life that nothing follows.
    pub fn remove(self) {
        let (place, engine) = (self.place.clone(), self.engine.while_standing(own_path));
        drop(self);
        fs::remove_dir_all(place).unwrap();
        fs::remove_dir_all(engine).unwrap();
    }

    /// Writes, and copies the moments of `CRASHES_A_LIFE` crashes on the way. What was written goes to `history`.
    pub fn live(&mut self, random: &mut Random, history: &mut History) -> Vec<CrashPoint> {
        let written = Written::default();
        // In half of the lives syncs forget from one of the crashes on.
        let forgets_from = match random.one_in(2) {
            true => random.below(CRASHES_A_LIFE as u64) as usize,
            false => CRASHES_A_LIFE,
        };
        let crashes = if self.writers == 1 {
            self.live_alone(random, &written, forgets_from)
        } else {
            self.live_together(random, &written, forgets_from)
        };
        history.add(written.writes.into_inner().unwrap());
        crashes
    }

    fn live_alone(
        &mut self,
        random: &mut Random,
        written: &Written,
        forgets_from: usize,
    ) -> Vec<CrashPoint> {
        let database = Arc::clone(&self.database);
        let mut crashes = Vec::new();
        while crashes.len() < CRASHES_A_LIFE {
            let forgets = crashes.len() >= forgets_from;
            if forgets {
                written.syncs_forget.store(true, Ordering::SeqCst);
                self.files.forget_syncs();
            }
            self.follow(random);
            // Half of the crashes find a write that is acknowledged and not in the engine.
            let replying_first = random.one_in(2).then(|| database.reply_first());
            for _ in 0..=random.below(WRITES_BETWEEN_CRASHES) {
                match random.below(24) {
                    0 if !forgets => self.drop_collection(random, written),
                    _ => write(&self.database, 0, random, written),
                }
            }
            if !forgets {
                self.make_durable_point(random);
            }
            crashes.push(self.crash(crashes.len(), written));
            drop(replying_first);
        }
        crashes
    }

    fn live_together(
        &mut self,
        random: &mut Random,
        written: &Written,
        forgets_from: usize,
    ) -> Vec<CrashPoint> {
        let is_over = AtomicBool::new(false);
        let database = Arc::clone(&self.database);
        thread::scope(|scope| {
            for writer in 0..self.writers {
                let mut random = Random(random.below(1 << 30));
                let (database, is_over) = (&database, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let _replying_first = random.one_in(2).then(|| database.reply_first());
                        write(database, writer, &mut random, written);
                    }
                });
            }
            let mut crashes = Vec::new();
            while crashes.len() < CRASHES_A_LIFE {
                let forgets = crashes.len() >= forgets_from;
                if forgets {
                    written.syncs_forget.store(true, Ordering::SeqCst);
                    self.files.forget_syncs();
                }
                self.follow(random);
                let enough = written.count.load(Ordering::Relaxed) + random.below(30);
                let is_refusing = || written.is_refusing.load(Ordering::Relaxed);
                while written.count.load(Ordering::Relaxed) < enough && !is_refusing() {
                    thread::yield_now();
                }
                if !forgets {
                    self.make_durable_point(random);
                }
                crashes.push(self.crash(crashes.len(), written));
            }
            is_over.store(true, Ordering::Relaxed);
            crashes
        })
    }

    /// Now and then, and before the writes that a crash may take: it has what it reads synced. A journal whose sync fails tells
    /// it no more.
    fn follow(&mut self, random: &mut Random) {
        if random.one_in(4) {
            let events_max = 1 + random.below(40) as usize;
            let _ = self.follower.follow(&self.database, events_max);
        }
    }

    /// Now and then: with the journal synced before, as the rule has it, or without.
    fn make_durable_point(&mut self, random: &mut Random) {
        match random.below(6) {
            0 => self.engine.sync().unwrap(),
            1 | 2 => self.engine.leap().unwrap(),
            _ => {}
        }
    }

    /// The files that this life began with, and its durable points, those too that the database made by itself and has freed segments
    /// of the journal for. No point is made meanwhile.
    fn durable_points(&self) -> Vec<EngineImage> {
        let mut points = vec![self.begun_with.clone()];
        let lsns = self.images.lsns();
        points.extend((self.images_before..lsns.len()).map(|index| EngineImage {
            lsn: lsns[index],
            directory: self.images.directory(index).expect("an engine of files"),
        }));
        let rise = points.windows(2).all(|pair| pair[0].lsn <= pair[1].lsn);
        assert!(rise, "a durable point of another life: {points:?}");
        points
    }

    fn crash(&self, number: usize, written: &Written) -> CrashPoint {
        let engine = self.place.join(format!("engine-{number}"));
        let journal = self.place.join(format!("journal-{number}"));
        fs::create_dir_all(&engine).unwrap();
        let acknowledged_lsn = written.acknowledged_lsn.load(Ordering::SeqCst);
        let durable_before_lsn = written
            .durable_lsn
            .load(Ordering::SeqCst)
            .max(self.database.journal().durable_lsn());
        // The leader that waits to write to the engine has written to the journal, and no other has. The engine may flush by
        // itself meanwhile, and a checkpoint then free segments that the engine's copy still needs: both are copied again.
        let (kernel, images, engine_lsn) = self.engine.while_standing(|life| {
            copy_directory_beside(life.expect("an engine of files"), &engine, || {
                let _ = fs::remove_dir_all(&journal);
                fs::create_dir_all(&journal)?;
                let kernel = self.files.copy(&journal)?;
                Ok((kernel, self.durable_points(), self.engine.durable_lsn()?))
            })
            .unwrap()
        });
        CrashPoint {
            engine,
            journal,
            kernel,
            is_reborn: self.is_reborn,
            acknowledged_lsn,
            durable_before_lsn,
            durable_after_lsn: self.database.journal().durable_lsn(),
            images,
            engine_lsn,
            follower: self.follower.clone(),
        }
    }

    fn drop_collection(&self, random: &mut Random, written: &Written) {
        let collection = random.below(COLLECTIONS as u64) as usize;
        let dropped = self.database.drop_collection(
            &namespace(collection),
            &Operation::default(),
            Level::Written,
        );
        if dropped.unwrap().is_some() {
            let lsn = self.database.journal().last_lsn();
            written.note(lsn, Change::Drop(collection));
            written.acknowledged_lsn.fetch_max(lsn, Ordering::SeqCst);
        }
        self.make_collections();
    }

    fn make_collections(&self) {
        let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
        let specs = [
            doc! { "key": { "n": 1 } },
            doc! { "key": { "tags": 1, "n": -1 } },
            doc! { "key": { "u": 1 }, "unique": true },
        ];
        let (operation, level) = (Operation::default(), Level::Written);
        for collection in 0..COLLECTIONS {
            let namespace = namespace(collection);
            (self.database)
                .create_collection(&namespace, images.as_raw(), &operation, level)
                .unwrap();
            (self.database)
                .create_indexes(&namespace, &specs, &operation, level)
                .unwrap();
        }
    }
}

impl Written {
    fn note(&self, lsn: u64, change: Change) {
        self.writes.lock().unwrap().push(Write { lsn, change });
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// None if the write was refused because of a sync that failed: nothing of it may ever be found.
    fn taken<T>(&self, done: quarry_database::Result<T>) -> Option<T> {
        done.map_err(|error| self.refused(&error)).ok()
    }

    fn refused(&self, error: &quarry_database::Error) {
        assert!(self.syncs_forget.load(Ordering::SeqCst), "{error}");
        self.is_refusing.store(true, Ordering::Relaxed);
    }
}

fn open(
    engine: &Arc<ImagedEngine>,
    journal: &Path,
    kernel: &Kernel,
    writers: u64,
) -> (Arc<Database>, Arc<ForgettingFiles>) {
    open_keeping(engine, journal, kernel, writers, 0)
}

/// Like `open`, with segments that no checkpoint needs kept for a while.
fn open_keeping(
    engine: &Arc<ImagedEngine>,
    journal: &Path,
    kernel: &Kernel,
    writers: u64,
    retain_ms: u64,
) -> (Arc<Database>, Arc<ForgettingFiles>) {
    let options = Options {
        journal_retain_ms: retain_ms,
        journal_retain_bytes_max: u64::MAX,
        journal_directory: None,
        commit_interval_ms: if writers == 1 { 0 } else { COMMIT_INTERVAL_MS },
        journal_segment_bytes: Some(JOURNAL_SEGMENT_BYTES),
        record_cache_bytes: 256 << 10,
        ..Options::default()
    };
    fs::create_dir_all(journal).unwrap();
    let files = Arc::new(ForgettingFiles::open(journal, kernel));
    let database = Database::open_on(Arc::clone(engine) as _, files.clone(), options).unwrap();
    (Arc::new(database), files)
}

fn own_path(life: Option<&Path>) -> PathBuf {
    life.expect("an engine of files").to_owned()
}

fn namespace(collection: usize) -> Namespace {
    Namespace::parse(&format!("db.c{collection}")).unwrap()
}

/// One insert, update, delete or transaction of a few documents, at one of the two levels.
fn write(database: &Database, writer: u64, random: &mut Random, written: &Written) {
    let collection = random.below(COLLECTIONS as u64) as usize;
    let first = (writer * IDS_A_WRITER + random.below(IDS_A_WRITER - PIECE_DOCUMENTS_MAX)) as i32;
    let ids: Vec<i32> = (first..=first + random.below(PIECE_DOCUMENTS_MAX) as i32).collect();
    let n = random.below(1_000) as i32;
    let done = match random.below(8) {
        0..3 => insert(database, writer, collection, &ids, n, written),
        3..5 => modify(database, writer, collection, &ids, Some(n), written),
        5 => modify(database, writer, collection, &ids, None, written),
        _ => transact(database, writer, &ids, n, written),
    };
    let Some((lsn, change)) = done else {
        return;
    };
    written.note(lsn, change);
    let level = if random.one_in(4) {
        Level::Durable
    } else {
        Level::Written
    };
    if let Err(error) = database.settle(Some(lsn), level) {
        written.refused(&error);
        return;
    }
    written.acknowledged_lsn.fetch_max(lsn, Ordering::SeqCst);
    if level == Level::Durable {
        written.durable_lsn.fetch_max(lsn, Ordering::SeqCst);
    }
}

/// The key in a state of what a session remembers.
fn session_key(writer: u64, kind: i32) -> Key {
    (SESSIONS, writer as i32 + kind)
}

/// A write of a session, with `n` as its txnNumber.
fn of_session((_, session): Key, n: i32) -> RetryableWrite {
    let id = [session as u8 + 1; 16];
    RetryableWrite::new(id, n.into(), SessionHistory::default())
}

/// An operation whose first document is a statement of the writer's session.
fn retryably(writer: u64, n: i32) -> Operation {
    let operation = Operation::default();
    operation.record_statements(of_session(session_key(writer, 0), n));
    let write = operation.retryable().expect("it was just set");
    write.name_statements([0]);
    operation
}

fn insert(
    database: &Database,
    writer: u64,
    collection: usize,
    ids: &[i32],
    n: i32,
    written: &Written,
) -> Option<(u64, Change)> {
    let documents: Vec<Document> = ids.iter().map(|id| document(*id, n)).collect();
    let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
    let done = database.insert_piece(
        &retryably(writer, n),
        &namespace(collection),
        &raw,
        false,
        Level::Written,
    );
    let done = written.taken(done)?;
    let refused: BTreeSet<usize> = done.errors.iter().map(|(position, _)| *position).collect();
    let mut keys: BTreeSet<Key> = (0..ids.len())
        .filter(|position| !refused.contains(position))
        .map(|position| (collection, ids[position]))
        .collect();
    assert_eq!(done.lsn.is_some(), !keys.is_empty());
    if !refused.contains(&0) {
        keys.insert(session_key(writer, 0));
    }
    Some((done.lsn?, Change::Put(keys, n)))
}

/// Replaces what stands under `ids`, or deletes it if there is no `n`.
fn modify(
    database: &Database,
    writer: u64,
    collection: usize,
    ids: &[i32],
    n: Option<i32>,
    written: &Written,
) -> Option<(u64, Change)> {
    let namespace = namespace(collection);
    let found = database.collection(&namespace).unwrap()?;
    let keys: Vec<Vec<u8>> = ids
        .iter()
        .map(|id| Database::record_key(&found, (*id).into()))
        .collect();
    let mut changed = BTreeSet::new();
    let operation = n.map_or_else(Operation::default, |n| retryably(writer, n));
    let done = database.modify_piece(
        &operation,
        &namespace,
        found.ident,
        &keys,
        Level::Written,
        &mut |key, _, out| {
            changed.insert((collection, ids[key]));
            let Some(n) = n else {
                return Ok(DatabaseChange::Delete);
            };
            out.extend_from_slice(document(ids[key], n).as_bytes());
            Ok(DatabaseChange::Replace)
        },
    );
    let done = written.taken(done)?;
    assert!(done.error.is_none());
    let change = match n {
        Some(n) => {
            changed.insert(session_key(writer, 0));
            Change::Put(changed, n)
        }
        None => Change::Delete(changed),
    };
    Some((done.lsn?, change))
}

/// Puts documents under `ids` into all collections, in one transaction.
fn transact(
    database: &Database,
    writer: u64,
    ids: &[i32],
    n: i32,
    written: &Written,
) -> Option<(u64, Change)> {
    let (operation, level) = (Operation::default(), Level::Written);
    let transaction = database.begin_transaction(&operation).unwrap();
    let scope = Scope::in_transaction(database, &transaction);
    let documents: Vec<Document> = ids.iter().map(|id| document(*id, n)).collect();
    let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
    let mut changed = BTreeSet::new();
    for collection in 0..COLLECTIONS {
        let namespace = namespace(collection);
        if let Some(found) = scope.collection(&namespace, &operation).unwrap() {
            let keys: Vec<Vec<u8>> = ids
                .iter()
                .map(|id| found.record_key((*id).into()))
                .collect();
            let mut replace =
                |key: usize,
                 _: quarry_bson::RawDocument<'_>,
                 out: &mut quarry_database::NewDocument| {
                    out.extend_from_slice(documents[key].as_bytes());
                    Ok(DatabaseChange::Replace)
                };
            let done = scope.modify_piece(
                &operation,
                &namespace,
                found.ident,
                &keys,
                level,
                &mut replace,
            );
            written.taken(done)?;
        }
        // The others are new; those that are there are refused.
        written.taken(scope.insert_piece(&operation, &namespace, &raw, false, level))?;
        changed.extend(ids.iter().map(|id| (collection, *id)));
    }
    let key = session_key(writer, TRANSACTIONS);
    changed.insert(key);
    let operation = Operation::default();
    operation.record_statements(of_session(key, n));
    let session = operation
        .retryable()
        .expect("it was just set")
        .commit_record();
    let done = database.commit_transaction(&transaction, &operation, level, &session);
    Some((written.taken(done)??, Change::Put(changed, n)))
}

/// The whole document follows from `_id` and `n`.
fn document(id: i32, n: i32) -> Document {
    let padding = match n % LARGE_ONE_IN {
        0 => LARGE_BYTES,
        _ => (n % 300) as usize,
    };
    doc! { "_id": id, "n": n, "u": id, "tags": [n, (id % 3)], "padding": ("x".repeat(padding)) }
}

/// All documents, and what sessions remember; panics where indexes and counters do not agree with them or a document is not
/// as it was written.
fn read(database: &Database) -> State {
    let mut state = State::new();
    for session in (0..WRITERS_MAX).flat_map(|writer| [writer, writer + TRANSACTIONS]) {
        let stored = database.stored_session(&[session as u8 + 1; 16]).unwrap();
        if let Some(stored) = stored {
            assert_eq!(stored.is_transaction, session >= TRANSACTIONS);
            state.insert((SESSIONS, session), stored.txn_number as i32);
        }
    }
    for collection in 0..COLLECTIONS {
        let namespace = namespace(collection);
        let Some(snapshot) = database.snapshot(&namespace).unwrap() else {
            continue;
        };
        let mut cursor = snapshot
            .cursor(KeyRange::prefix(snapshot.collection.prefix.as_bytes()))
            .unwrap();
        cursor.first().unwrap();
        while cursor.valid() {
            let found = Document::from_bytes(cursor.value().to_vec()).unwrap();
            let number = |name: &str| found.get(name).unwrap().as_i32().unwrap();
            let (id, n) = (number("_id"), number("n"));
            assert!(
                found == document(id, n),
                "document {id} of `{namespace}` is not what was written"
            );
            state.insert((collection, id), n);
            cursor.next().unwrap();
        }
        drop(cursor);
        drop(snapshot);
        let report = database
            .validate(&namespace, true, &Operation::default())
            .unwrap();
        assert_eq!(report.errors, Vec::<String>::new(), "`{namespace}`");
    }
    state
}
