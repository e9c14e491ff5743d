//! The database over simulated files and an engine's flush images: it is killed or loses power, and starts again from
//! any image that is not newer than what the journal holds. Every acknowledged write is there at its level, a piece is
//! there whole or not at all, indexes and counters agree. A transaction over two collections, which it may have made, is there
//! whole or not at all, and what a session remembers of a transaction or a retryable write is there exactly with it. A change of
//! a definition is there or is not, and the events that the journal tells (`follower`), of definitions, transactions and
//! documents before a change, make what is there.

mod follower;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use follower::{Definition, Follower};

use quarry_bson::RawValue;
use quarry_bson::{Document, doc};
use quarry_database::{
    Change, Database, Level, Namespace, Operation, Options, RetryableWrite, Scope, SessionHistory,
};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, FlushImages, KeyRange};

/// `QUARRY_TORTURE` runs that many instead, `QUARRY_TORTURE_SEED` begins at another seed.
const ROUNDS: u64 = 20;
const LIVES: u64 = 4;
const WRITES: u64 = 25;

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

/// The states that may be found: the last durable one and all after it.
#[derive(Default)]
struct Model {
    /// Those of `n` that each document may have.
    documents: BTreeMap<i32, Vec<Option<i32>>>,
    /// Those of the definitions of all collections.
    definitions: Vec<BTreeMap<String, Definition>>,
    /// It has been told durable changes alone, so that it outlives every crash.
    follower: Follower,
}

impl Model {
    /// A document may have this state, too.
    fn push(&mut self, id: i32, n: Option<i32>) {
        self.documents
            .entry(id)
            .or_insert_with(|| vec![None])
            .push(n);
    }

    /// The last states are the only ones that may be found.
    fn settle(&mut self) {
        for states in self.documents.values_mut() {
            states.drain(..states.len() - 1);
        }
        self.definitions.drain(..self.definitions.len() - 1);
    }
}

fn options() -> Options {
    Options {
        commit_interval_ms: 0,
        // On a slow machine checkpoints come by themselves: what the reader of changes goes back to must still be there.
        journal_retain_ms: 3_600_000,
        journal_retain_bytes_max: 1 << 30,
        record_cache_bytes: 64 << 10,
        ..Options::default()
    }
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

/// Whatever the engine did not have yet was in it.
#[test]
fn a_database_does_not_start_without_its_journal() {
    let engine: Arc<dyn Engine> = Arc::new(quarry_storage::Memory::new());
    let files = SimulatedFiles::new();
    let open = |files: &SimulatedFiles| {
        Database::open_on(Arc::clone(&engine), Arc::new(files.clone()), options())
    };
    drop(open(&files).unwrap());
    let error = open(&SimulatedFiles::new()).err().unwrap().to_string();
    assert!(error.contains("journal"), "{error}");
    open(&files).unwrap();
}

/// Whether all of the journal became durable is not known any more: the engine must not get ahead of it.
#[test]
fn an_engine_does_not_become_durable_behind_a_journal_that_is_gone() {
    let engine = FlushImages::memory().open().unwrap();
    let shared = Arc::clone(&engine) as Arc<dyn Engine>;
    let database = Database::open_on(shared, Arc::new(SimulatedFiles::new()), options()).unwrap();
    let document = doc! { "_id": 1 };
    let inserted = database.insert_piece(
        &Operation::default(),
        &namespace(),
        &[document.as_raw()],
        true,
        Level::Written,
    );
    assert!(inserted.unwrap().lsn.is_some());
    drop(database);
    let error = engine.sync().unwrap_err().to_string();
    assert!(error.contains("journal"), "{error}");
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_half_is_found() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let rounds = number("QUARRY_TORTURE").unwrap_or(ROUNDS);
    let first = number("QUARRY_TORTURE_SEED").unwrap_or(0);
    let (mut definitions, mut pre_images) = (0, 0);
    for seed in first..first + rounds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(told) => (definitions, pre_images) = (definitions + told.0, pre_images + told.1),
            Err(panic) => {
                eprintln!("failed: seed {seed}; repeat with");
                eprintln!(
                    "  QUARRY_TORTURE=1 QUARRY_TORTURE_SEED={seed} cargo test -p quarry-database --test crash"
                );
                std::panic::resume_unwind(panic);
            }
        }
        if rounds > ROUNDS && seed % 100 == 99 {
            println!(
                "seed {seed}: {} crash points so far",
                (seed - first + 1) * LIVES
            );
        }
    }
    println!("{definitions} changes of definitions and {pre_images} pre-images were told");
    assert!(rounds < ROUNDS || definitions.min(pre_images) >= 10 * rounds);
}

/// Returns how many changes of definitions and how many pre-images a reader was told.
fn run(seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    let images = FlushImages::memory();
    let mut engine = images.open().unwrap();
    let mut files = SimulatedFiles::new();
    let mut model = Model::default();
    let mut has_index = false;
    for life in 0..LIVES {
        let shared = Arc::new(files);
        let database = Database::open_on(
            Arc::clone(&engine) as Arc<dyn Engine>,
            Arc::clone(&shared) as _,
            options(),
        )
        .unwrap_or_else(|error| panic!("seed {seed} life {life}: {error}"));
        check(&database, &mut model, seed, life);
        if !has_index {
            let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
            let (operation, level) = (Operation::default(), Level::Durable);
            (database.create_collection(&namespace(), images.as_raw(), &operation, level)).unwrap();
            let specs = [
                doc! { "key": { "n": 1 } },
                doc! { "key": { "tags": 1, "n": -1 } },
            ];
            database
                .create_indexes(&namespace(), &specs, &Operation::default(), Level::Durable)
                .unwrap();
            has_index = true;
            model.definitions = vec![follower::definitions(&database)];
        }
        // Half of the lives end with a write that the engine does not have yet.
        let replying_first = (random.below(2) == 0).then(|| database.reply_first());
        for _ in 0..WRITES {
            match random.below(5) {
                0 => define(&database, &mut random, &mut model),
                _ => write(&database, &mut random, &mut model),
            }
            if random.below(12) == 0 {
                engine.sync().unwrap();
            }
            // A reader has what it is told synced, which leaves crashes less to take.
            if random.below(40) == 0 {
                let events_max = 1 + random.below(8) as usize;
                model.follower.follow(&database, events_max);
            }
        }
        let crash = [
            Crash::Kill,
            Crash::Drop,
            Crash::Tear,
            Crash::Scatter,
            Crash::Reorder,
        ][random.below(5) as usize];
        if crash == Crash::Kill {
            if random.below(2) == 0 {
                // A sync fails and forgets before: readers see what no later sync brings to the disk.
                shared.forget_syncs(true);
                let _ = database.sync();
            }
            // The system still has every write, so every acknowledged one must be found.
            model.settle();
        }
        // Image 0 is from before the database was made: its UUID was synced before anything was acknowledged.
        let durable = database.journal().durable_lsn();
        files = shared.crash(crash, seed * LIVES + life);
        drop(replying_first);
        drop(database);
        let kept: Vec<usize> = images
            .lsns()
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, lsn)| **lsn <= durable)
            .map(|(at, _)| at)
            .collect();
        let image = kept[kept.len() - 1 - random.below(kept.len().min(2) as u64) as usize];
        drop(engine);
        engine = images.reopen(image).unwrap();
    }
    (model.follower.definitions, model.follower.pre_images)
}

/// One change of a definition, at one of the two levels, or a document that such a change takes along.
fn define(database: &Database, random: &mut Random, model: &mut Model) {
    let level = match random.below(3) {
        0 => Level::Durable,
        _ => Level::Written,
    };
    let operation = Operation::default();
    let mut defined = || {
        let name = format!(
            "{}.d{}",
            ["db", "gone"][random.below(2) as usize],
            random.below(3)
        );
        Namespace::parse(&name).unwrap()
    };
    let (one, other) = (defined(), defined());
    let is_there = database.collection(&one).unwrap().is_some();
    let enabled = random.below(2) == 0;
    let specs = [
        doc! { "key": { "n": 1 } },
        doc! { "key": { "tags": 1, "n": -1 } },
    ];
    match random.below(8) {
        0 if !is_there => {
            let options = doc! { "changeStreamPreAndPostImages": { "enabled": enabled } };
            database.create_collection(&one, options.as_raw(), &operation, level)
        }
        1 => database.drop_collection(&one, &operation, level).map(drop),
        2 if is_there && one != other => {
            database.rename_collection(&one, &other, true, &operation, level)
        }
        3 => database
            .create_indexes(&one, &specs, &operation, level)
            .map(drop),
        4 if is_there => database.drop_all_indexes(&one, &operation, level).map(drop),
        5 => {
            let [left, right] = pair();
            let names = [one.clone(), left, right, retried(), namespace()];
            let name = &names[random.below(5) as usize];
            if database.collection(name).unwrap().is_none() {
                return;
            }
            (database.set_pre_images(name, enabled, &operation, level)).map(drop)
        }
        6 if random.below(3) == 0 => database.drop_database("gone", &operation, level).map(drop),
        _ => {
            let document = doc! { "_id": (random.below(3) as i32), "n": 1, "tags": [1, 2] };
            let documents = [document.as_raw()];
            let inserted = database.insert_piece(&operation, &one, &documents, true, level);
            inserted.and_then(|inserted| database.settle(inserted.lsn, level))
        }
    }
    .unwrap();
    let definitions = follower::definitions(database);
    if let Some(made) = definitions.get(&one.to_string())
        && !is_there
        && !made.indexes.is_empty()
    {
        // `createIndexes` makes a collection that is not there with a commit of its own, before it builds.
        let bare = follower::Definition {
            indexes: BTreeSet::new(),
            ..made.clone()
        };
        let mut between = definitions.clone();
        between.insert(one.to_string(), bare);
        model.definitions.push(between);
    }
    model.definitions.push(definitions);
    if level == Level::Durable {
        model.settle();
    }
}

/// One insert, update or delete of a few documents, at one of the two levels.
fn write(database: &Database, random: &mut Random, model: &mut Model) {
    let level = if random.below(3) == 0 {
        Level::Durable
    } else {
        Level::Written
    };
    let operation = Operation::default();
    let first = random.below(40) as i32;
    let ids: Vec<i32> = (first..first + 1 + random.below(3) as i32).collect();
    let n = random.below(1000) as i32;
    let lsn = if random.below(8) == 0 {
        model.push(RETRYABLE, Some(n));
        write_retryably(database, &operation, n)
    } else if random.below(4) == 0 {
        model.push(PAIR, Some(n));
        write_pair(database, &operation, n)
    } else if random.below(2) == 0 {
        let documents: Vec<Document> = ids
            .iter()
            .map(|id| doc! { "_id": (*id), "n": n, "tags": [n, (id % 3)] })
            .collect();
        let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
        let done = database
            .insert_piece(&operation, &namespace(), &raw, false, Level::Written)
            .unwrap();
        let refused: Vec<usize> = done.errors.iter().map(|(position, _)| *position).collect();
        for (position, id) in ids
            .iter()
            .enumerate()
            .filter(|(position, _)| !refused.contains(position))
        {
            let _ = position;
            model.push(*id, Some(n));
        }
        done.lsn
    } else {
        let deletes = random.below(3) == 0;
        let collection = database.collection(&namespace()).unwrap().unwrap();
        let keys: Vec<Vec<u8>> = ids
            .iter()
            .map(|id| Database::record_key(&collection, (*id).into()))
            .collect();
        let done = database.modify_piece(
            &operation,
            &namespace(),
            collection.ident,
            &keys,
            Level::Written,
            &mut |key, _, out| {
                if deletes {
                    return Ok(Change::Delete);
                }
                out.extend_from_slice(doc! { "_id": (ids[key]), "n": n, "tags": (n) }.as_bytes());
                Ok(Change::Replace)
            },
        );
        let done = done.unwrap();
        assert!(done.error.is_none());
        for id in &ids {
            if let Some(states) = model.documents.get_mut(id)
                && states.last().unwrap().is_some()
            {
                states.push((!deletes).then_some(n));
            }
        }
        done.lsn
    };
    // It may have made its collection.
    model.definitions.push(follower::definitions(database));
    if let Some(lsn) = lsn {
        database.settle(Some(lsn), level).unwrap();
        if level == Level::Durable {
            // One log: what is durable makes all before it durable.
            model.settle();
        }
    }
}

/// The place in the model of two documents, in two collections, that only transactions write.
const PAIR: i32 = -1;

fn pair() -> [Namespace; 2] {
    ["db.left", "db.right"].map(|name| Namespace::parse(name).unwrap())
}

/// Writes `n` to both documents of the pair in one transaction, after another number, and makes their collections if there are none.
fn write_pair(database: &Database, operation: &Operation, n: i32) -> Option<u64> {
    let transaction = database.begin_transaction(operation).unwrap();
    let scope = Scope::in_transaction(database, &transaction);
    for (namespace, n) in pair()
        .into_iter()
        .flat_map(|name| [(name.clone(), !n), (name, n)])
    {
        let document = doc! { "_id": 1, "n": n };
        let found = scope.collection(&namespace, operation).unwrap();
        let replaced = found.map_or(0, |collection| {
            let keys = [collection.record_key(RawValue::Int32(1))];
            let mut compute =
                |_: usize,
                 _: quarry_bson::RawDocument<'_>,
                 out: &mut quarry_database::NewDocument| {
                    out.extend_from_slice(document.as_bytes());
                    Ok(Change::Replace)
                };
            let (ident, level) = (collection.ident, Level::Written);
            let done = scope.modify_piece(operation, &namespace, ident, &keys, level, &mut compute);
            done.unwrap().matched
        });
        if replaced == 0 {
            let documents = [document.as_raw()];
            let done = scope.insert_piece(operation, &namespace, &documents, true, Level::Written);
            assert_eq!(done.unwrap().inserted, 1);
        }
    }
    let write = RetryableWrite::new(PAIR_SESSION, n.into(), SessionHistory::default());
    let session = write.commit_record();
    database
        .commit_transaction(&transaction, operation, Level::Written, &session)
        .unwrap()
}

/// The place in the model of a document that only retryable writes change.
const RETRYABLE: i32 = -2;
const PAIR_SESSION: [u8; 16] = [7; 16];
const RETRYABLE_SESSION: [u8; 16] = [8; 16];

fn retried() -> Namespace {
    Namespace::parse("db.retried").unwrap()
}

/// Writes `n` to a document as a statement of a session, with `n` as its txnNumber.
fn write_retryably(database: &Database, operation: &Operation, n: i32) -> Option<u64> {
    let history = SessionHistory::default();
    operation.record_statements(RetryableWrite::new(RETRYABLE_SESSION, n.into(), history));
    let write = operation.retryable().unwrap();
    write.name_statements([0]);
    let document = doc! { "_id": 1, "n": n };
    if let Some(collection) = database.collection(&retried()).unwrap() {
        let keys = [collection.record_key(RawValue::Int32(1))];
        let (ident, level) = (collection.ident, Level::Written);
        let done = database.modify_piece(
            operation,
            &retried(),
            ident,
            &keys,
            level,
            &mut |_, _, out| {
                out.extend_from_slice(document.as_bytes());
                Ok(Change::Replace)
            },
        );
        let done = done.unwrap();
        if done.matched > 0 {
            return done.lsn;
        }
    }
    let documents = [document.as_raw()];
    let done = database.insert_piece(operation, &retried(), &documents, true, Level::Written);
    done.unwrap().lsn
}

/// The `n` that retryable writes have left, which is what their session remembers.
fn read_retried(database: &Database) -> Option<i32> {
    let mut n = None;
    if let Some(collection) = database.collection(&retried()).unwrap() {
        let key = collection.record_key(RawValue::Int32(1));
        let mut read = |bytes: &[u8]| {
            let document = Document::from_bytes(bytes.to_vec()).unwrap();
            n = document.get("n").and_then(|n| n.as_i32());
        };
        database.get_record(&key, &mut read).unwrap();
    }
    check_session(database, RETRYABLE_SESSION, n, false);
    n
}

fn check_session(database: &Database, session: [u8; 16], n: Option<i32>, is_transaction: bool) {
    let stored = database.stored_session(&session).unwrap();
    let found = stored.map(|stored| (stored.txn_number, stored.is_transaction));
    let wanted = n.map(|n| (i64::from(n), is_transaction));
    assert_eq!(
        found, wanted,
        "a write without its record, or a record without it"
    );
}

/// The `n` of both documents of the pair; none without them.
fn read_pair(database: &Database) -> Option<i32> {
    let [left, right] = pair().map(|namespace| {
        let collection = database.collection(&namespace).unwrap()?;
        let report = database.validate(&namespace, true, &Operation::default());
        assert_eq!(report.unwrap().errors, Vec::<String>::new(), "{namespace}");
        let mut n = None;
        let key = collection.record_key(RawValue::Int32(1));
        let mut read = |bytes: &[u8]| {
            let document = Document::from_bytes(bytes.to_vec()).unwrap();
            n = document.get("n").and_then(|n| n.as_i32());
        };
        assert!(database.get_record(&key, &mut read).unwrap());
        n
    });
    assert_eq!(left, right, "half of a transaction");
    check_session(database, PAIR_SESSION, left, true);
    left
}

/// Compares what is found with what may be found, and makes it the new truth.
fn check(database: &Database, model: &mut Model, seed: u64, life: u64) {
    let mut found: BTreeMap<i32, i32> = BTreeMap::new();
    if let Some(snapshot) = database.snapshot(&namespace()).unwrap() {
        let mut cursor = snapshot
            .cursor(KeyRange::prefix(snapshot.collection.prefix.as_bytes()))
            .unwrap();
        cursor.first().unwrap();
        while cursor.valid() {
            let document = Document::from_bytes(cursor.value().to_vec()).unwrap();
            let number = |name: &str| document.get(name).unwrap().as_i32().unwrap();
            found.insert(number("_id"), number("n"));
            cursor.next().unwrap();
        }
        let report = database
            .validate(&namespace(), true, &Operation::default())
            .unwrap();
        assert_eq!(
            report.errors,
            Vec::<String>::new(),
            "seed {seed} life {life}"
        );
    }
    found.extend(read_pair(database).map(|n| (PAIR, n)));
    found.extend(read_retried(database).map(|n| (RETRYABLE, n)));
    let definitions = follower::definitions(database);
    assert!(
        model.definitions.is_empty() || model.definitions.contains(&definitions),
        "seed {seed} life {life}: the definitions are {definitions:?}"
    );
    model.definitions = vec![definitions];
    model.follower.compare(database);
    for (id, states) in &mut model.documents {
        let now = found.remove(id);
        assert!(
            states.contains(&now),
            "seed {seed} life {life}: document {id} is {now:?}, may be {states:?}"
        );
        *states = vec![now];
    }
    assert!(
        found.is_empty(),
        "seed {seed} life {life}: never written: {found:?}"
    );
}
