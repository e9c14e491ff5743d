//! A test of the sizes of databases, after whatever has happened to their collections: what is read in one walk over catalog and
//! counters, and what is remembered and brought up to date from the journal, is what the collections say one by one.

use std::sync::Arc;

use quarry_bson::{Document, doc};
use quarry_journal::files::simulated::Crash;
use quarry_journal::{Level, SimulatedFiles};
use quarry_storage::{Engine, FlushImages, ImagedEngine, KeyRange};

use super::database_stats::DbStats;
use super::remembered_sums::COLLECTIONS_MIN;
use crate::{Change, Database, Namespace, Operation, Options};

const ROUNDS: u64 = 20;
const STEPS: u64 = 200;
/// One name is the beginning of another one, and a third one stands between the two.
const DATABASES: [&str; 4] = ["a", "a-b", "ab", "nothing"];
/// Up to so many collections the engine is asked for each.
const COLLECTIONS: u64 = 20;

/// A small generator, so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Life {
    random: Random,
    images: Arc<FlushImages>,
    engine: Arc<ImagedEngine>,
    files: SimulatedFiles,
    database: Option<Arc<Database>>,
    next_id: i32,
    seen: Seen,
}

/// The most that was compared, so that refusals do not leave a test of nothing.
#[derive(Debug, Default)]
struct Seen {
    views: u64,
    indexes: u64,
    documents: u64,
    remembered: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let images = FlushImages::memory();
        let mut life = Life {
            random: Random(seed),
            engine: images.open().unwrap(),
            images,
            files: SimulatedFiles::new(),
            database: None,
            next_id: 0,
            seen: Seen::default(),
        };
        life.open();
        life
    }

    fn open(&mut self) {
        let engine = Arc::clone(&self.engine) as Arc<dyn Engine>;
        let files = Arc::new(self.files.clone());
        let database = Database::open_on(engine, files, Options::default());
        self.database = Some(Arc::new(database.unwrap()));
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    fn namespace(&mut self) -> Namespace {
        let database = DATABASES[self.random.below(3) as usize];
        let name = format!("c{}", self.random.below(COLLECTIONS));
        Namespace::new(database, &name).unwrap()
    }

    /// Does something. What a name does not allow is refused, and changes nothing.
    fn step(&mut self) {
        let namespace = self.namespace();
        let (operation, level) = (Operation::default(), Level::Written);
        match self.random.below(80) {
            0..30 => self.insert(&namespace),
            30..44 => self.delete(&namespace),
            44..60 => self.create(&namespace),
            60..66 => self.create_index(&namespace),
            66..68 => drop(
                self.database()
                    .drop_all_indexes(&namespace, &operation, level),
            ),
            68 => drop(
                self.database()
                    .rebuild_indexes(&namespace, &operation, level),
            ),
            69..73 => self.rename(&namespace),
            73 => drop(
                self.database()
                    .drop_collection(&namespace, &operation, level),
            ),
            74 if self.random.below(3) == 0 => {
                drop(
                    self.database()
                        .drop_database(namespace.database(), &operation, level),
                );
            }
            75..78 => self.engine.sync().unwrap(),
            78 => self.crash(),
            _ => {}
        }
    }

    /// Inserts, and looks while the engine may have nothing of it yet.
    fn insert(&mut self, namespace: &Namespace) {
        for _ in 0..1 + self.random.below(3) {
            self.next_id += 1;
            let filler = "x".repeat(self.random.below(200) as usize);
            let time = quarry_bson::DateTime(i64::from(self.next_id));
            let document = doc! { "_id": (self.next_id), "time": time, "a": filler };
            let (operation, documents) = (Operation::default(), [document.as_raw()]);
            let database = Arc::clone(self.database.as_ref().unwrap());
            let _replies_first = database.reply_first();
            // Views take none.
            let _ = database.insert_piece(&operation, namespace, &documents, true, Level::Written);
            if self.random.below(8) == 0 {
                self.compare("before the reply");
            }
        }
    }

    /// Deletes one of the documents.
    fn delete(&mut self, namespace: &Namespace) {
        let Some(collection) = self.database().collection(namespace).unwrap() else {
            return;
        };
        let key = {
            let Some(snapshot) = self.database().snapshot(namespace).unwrap() else {
                return;
            };
            let range = KeyRange::prefix(collection.prefix.as_bytes());
            let mut cursor = snapshot.cursor(range).unwrap();
            cursor.first().unwrap();
            if !cursor.valid() {
                return;
            }
            cursor.key().to_vec()
        };
        let deleted = self.database().modify_piece(
            &Operation::default(),
            namespace,
            collection.ident,
            &[key],
            Level::Written,
            &mut |_, _, _| Ok(Change::Delete),
        );
        assert_eq!(deleted.unwrap().deleted, 1);
    }

    fn create(&mut self, namespace: &Namespace) {
        let options = match self.random.below(6) {
            0 => doc! { "capped": true, "size": 300 },
            1 => doc! { "capped": true, "size": 100_000, "max": 3 },
            2 => doc! { "timeseries": { "timeField": "time" } },
            3 => doc! { "viewOn": "c1", "pipeline": [] },
            4 => doc! { "validator": { "a": 1 }, "validationLevel": "off" },
            _ => Document::new(),
        };
        let operation = Operation::default();
        let level = Level::Written;
        let _ = (self.database()).create_collection(namespace, options.as_raw(), &operation, level);
    }

    fn create_index(&mut self, namespace: &Namespace) {
        let index = match self.random.below(3) {
            0 => doc! { "key": { "a": 1 }, "name": "a_1" },
            1 => doc! { "key": { "a": -1, "time": 1 }, "name": "a_-1_time_1" },
            _ => doc! { "key": { "time": 1 }, "name": "time_1" },
        };
        let operation = Operation::default();
        let _ = (self.database()).create_indexes(namespace, &[index], &operation, Level::Written);
    }

    fn rename(&mut self, namespace: &Namespace) {
        let to = self.namespace();
        let drops_target = self.random.below(2) == 0;
        let operation = Operation::default();
        let _ = (self.database()).rename_collection(
            namespace,
            &to,
            drops_target,
            &operation,
            Level::Written,
        );
    }

    /// Kills the process. The engine has what it had at its last durable point, and the journal the rest: what the engine had before may be gone.
    fn crash(&mut self) {
        self.files = self.files.crash(Crash::Kill, self.random.below(1 << 30));
        let durable = self.database().journal().durable_lsn();
        drop(self.database.take());
        let lsns = self.images.lsns();
        let last = (1..lsns.len()).rfind(|at| lsns[*at] <= durable);
        self.engine = self.images.reopen(last.unwrap()).unwrap();
        self.open();
    }
}

impl Life {
    fn compare(&mut self, context: &str) {
        for name in DATABASES {
            let nexts = self.engine.counters().nexts;
            let sums = self.database().db_stats(name, &Operation::default());
            let sums = sums.unwrap();
            let walked = self.engine.counters().nexts - nexts;
            assert_eq!(
                sums,
                one_by_one(self.database(), name),
                "`{name}` {context}"
            );
            let seen = &mut self.seen;
            seen.views = seen.views.max(sums.views);
            seen.indexes = seen.indexes.max(sums.indexes);
            seen.documents = seen.documents.max(sums.documents);
            seen.remembered += u64::from(sums.collections >= COLLECTIONS_MIN as u64 && walked == 0);
        }
    }
}

/// The sums of what each collection says of itself.
pub(super) fn one_by_one(database: &Database, name: &str) -> DbStats {
    let mut sum = DbStats::default();
    for collection in database.list_collections(name).unwrap() {
        if collection.view.is_some() {
            sum.views += 1;
            continue;
        }
        let stats = database.coll_stats(&collection.namespace).unwrap().unwrap();
        sum.collections += 1;
        sum.documents += stats.documents;
        sum.data_bytes += stats.data_bytes;
        sum.storage_bytes += stats.storage_bytes;
        sum.indexes += stats.indexes.len() as u64;
        sum.index_bytes += stats.indexes.iter().map(|index| index.bytes).sum::<u64>();
    }
    sum
}

#[test]
fn sums_are_what_the_collections_say_one_by_one() {
    let mut seen = Seen::default();
    for seed in 0..ROUNDS {
        let mut life = Life::new(seed);
        for step in 0..STEPS {
            life.step();
            if life.random.below(3) == 0 {
                life.compare(&format!("in step {step} of seed {seed}"));
            }
        }
        seen.views += life.seen.views;
        seen.indexes += life.seen.indexes;
        seen.documents += life.seen.documents;
        seen.remembered += life.seen.remembered;
    }
    let has_compared =
        seen.views > ROUNDS / 2 && seen.indexes > 10 * ROUNDS && seen.documents > 20 * ROUNDS;
    assert!(has_compared && seen.remembered > 10 * ROUNDS, "{seen:?}");
}
