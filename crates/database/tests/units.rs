//! Units of several pieces: they read their own writes, are committed as a whole, outlive their thread, and wait for nobody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{
    Change, Collection, Database, Error, Level, Namespace, Operation, Options, UnitReads, WriteUnit,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, KeyRange, Memory};

const BOTH: [UnitReads; 2] = [UnitReads::Latest, UnitReads::Snapshot];

struct Fixture {
    database: Database,
    namespace: Namespace,
    operation: Operation,
}

impl Fixture {
    /// A collection with a unique index on `u`, a multikey one on `m`, and these documents.
    fn new(documents: &[Document]) -> Fixture {
        Fixture::on(Database::open_in_memory().unwrap(), documents)
    }

    fn on(database: Database, documents: &[Document]) -> Fixture {
        let fixture = Fixture {
            database,
            namespace: Namespace::parse("db.c").unwrap(),
            operation: Operation::default(),
        };
        let specs = [
            doc! { "key": { "u": 1 }, "unique": true },
            doc! { "key": { "m": 1 } },
        ];
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        (fixture.database)
            .create_indexes(namespace, &specs, operation, Level::Written)
            .unwrap();
        for document in documents {
            fixture.insert(document).unwrap();
        }
        fixture
    }

    fn begin(&self, reads: UnitReads) -> WriteUnit {
        self.database.begin(&self.operation, reads).unwrap()
    }

    fn collection(&self) -> Arc<Collection> {
        let collection = self.database.collection(&self.namespace).unwrap();
        collection.unwrap()
    }

    fn key(&self, id: i32) -> Vec<u8> {
        Database::record_key(&self.collection(), RawValue::Int32(id))
    }

    /// Inserts outside of any unit.
    fn insert(&self, document: &Document) -> Result<(), Error> {
        let documents = [document.as_raw()];
        let inserted = (self.database).insert_piece(
            &self.operation,
            &self.namespace,
            &documents,
            true,
            Level::Written,
        )?;
        match inserted.errors.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn insert_in(&self, unit: &mut WriteUnit, document: &Document) -> Result<(), Error> {
        let documents = [document.as_raw()];
        let (operation, namespace) = (&self.operation, &self.namespace);
        let inserted = (self.database).insert_in(unit, operation, namespace, &documents, true)?;
        match inserted.errors.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Replaces a document in a unit; deletes it where there is no new one. Says whether there was one.
    fn change_in(
        &self,
        unit: &mut WriteUnit,
        id: i32,
        new: Option<&Document>,
    ) -> Result<bool, Error> {
        let ident = self.collection().ident;
        let changed = self.database.modify_in(
            unit,
            &self.operation,
            &self.namespace,
            ident,
            &[self.key(id)],
            &mut compute(new),
        )?;
        match changed.error {
            Some(error) => Err(error),
            None => Ok(changed.matched == 1),
        }
    }

    /// Like `change_in`, outside of any unit.
    fn change(
        &self,
        id: i32,
        new: Option<&Document>,
        operation: &Operation,
    ) -> Result<bool, Error> {
        let changed = self.database.modify_piece(
            operation,
            &self.namespace,
            self.collection().ident,
            &[self.key(id)],
            Level::Written,
            &mut compute(new),
        )?;
        match changed.error {
            Some(error) => Err(error),
            None => Ok(changed.matched == 1),
        }
    }

    /// Everything that a unit sees of the collection, by record key.
    fn seen_in(&self, unit: &mut WriteUnit) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let reader = (self.database).snapshot_in(unit, &self.namespace, &self.operation);
        let Some(reader) = reader.unwrap() else {
            return BTreeMap::new();
        };
        let range = KeyRange::prefix(self.collection().prefix.as_bytes());
        let mut cursor = reader.cursor(range).unwrap();
        let mut seen = BTreeMap::new();
        cursor.first().unwrap();
        while cursor.valid() {
            seen.insert(cursor.key().to_vec(), cursor.value().to_vec());
            cursor.next().unwrap();
        }
        for (key, document) in &seen {
            let mut found = None;
            assert!(
                reader
                    .get(key, &mut |value| found = Some(value.to_vec()))
                    .unwrap()
            );
            assert_eq!(found.as_ref(), Some(document));
        }
        seen
    }

    /// Everything that is committed.
    fn committed(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.seen_in(&mut self.begin(UnitReads::Latest))
    }

    fn check(&self) {
        let report = (self.database).validate(&self.namespace, true, &self.operation);
        assert_eq!(report.unwrap().errors, Vec::<String>::new());
    }
}

fn compute(
    new: Option<&Document>,
) -> impl FnMut(usize, RawDocument<'_>, &mut quarry_database::NewDocument) -> Result<Change, Error>
{
    move |_, _, out| match new {
        Some(new) => {
            out.extend_from_slice(new.as_bytes());
            Ok(Change::Replace)
        }
        None => Ok(Change::Delete),
    }
}

/// A definition is being changed, and has waited for longer than a unit does.
fn is_shut_out(result: &Result<impl Sized, Error>) -> bool {
    matches!(result, Err(error) if error.code() == 24)
}

fn is_conflict(result: &Result<impl Sized, Error>) -> bool {
    matches!(result, Err(error) if error.code() == 112)
}

#[test]
fn a_unit_reads_its_own_writes_and_nobody_else_does_before_the_commit() {
    for reads in BOTH {
        let fixture = Fixture::new(&[doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 2 }]);
        let before = fixture.committed();
        let mut unit = fixture.begin(reads);
        fixture
            .insert_in(&mut unit, &doc! { "_id": 3, "u": 3, "m": [1, 2] })
            .unwrap();
        // The key that the first document gives up, the third takes, and the other way round.
        assert!(
            fixture
                .change_in(&mut unit, 1, Some(&doc! { "_id": 1, "u": 10 }))
                .unwrap()
        );
        assert!(
            fixture
                .change_in(&mut unit, 3, Some(&doc! { "_id": 3, "u": 1 }))
                .unwrap()
        );
        assert!(fixture.change_in(&mut unit, 2, None).unwrap());
        assert!(
            !fixture.change_in(&mut unit, 2, None).unwrap(),
            "it is gone"
        );
        fixture
            .insert_in(&mut unit, &doc! { "_id": 4, "u": 2 })
            .unwrap();
        let refused = fixture.insert_in(&mut unit, &doc! { "_id": 5, "u": 10 });
        assert_eq!(refused.unwrap_err().code(), 11_000);
        let refused = fixture.insert_in(&mut unit, &doc! { "_id": 3, "u": 30 });
        assert_eq!(refused.unwrap_err().code(), 11_000);
        let documents = [
            doc! { "_id": 1, "u": 10 },
            doc! { "_id": 3, "u": 1 },
            doc! { "_id": 4, "u": 2 },
        ];
        let own: BTreeMap<Vec<u8>, Vec<u8>> = [1, 3, 4]
            .into_iter()
            .zip(&documents)
            .map(|(id, document)| (fixture.key(id), document.as_bytes().to_vec()))
            .collect();
        assert_eq!(fixture.seen_in(&mut unit), own);
        assert_eq!(fixture.committed(), before);
        let committed = fixture
            .database
            .commit(unit, &fixture.operation, Level::Written)
            .unwrap();
        assert!(committed.is_some());
        assert_eq!(fixture.committed(), own);
        assert_eq!(fixture.database.count(&fixture.collection()).unwrap(), 3);
        fixture.check();
    }
}

#[test]
fn a_unit_that_is_dropped_has_changed_nothing_and_lets_go() {
    let fixture = Fixture::new(&[doc! { "_id": 1, "u": 1 }]);
    let before = fixture.committed();
    let mut unit = fixture.begin(UnitReads::Latest);
    fixture
        .insert_in(&mut unit, &doc! { "_id": 2, "u": 2 })
        .unwrap();
    fixture.change_in(&mut unit, 1, None).unwrap();
    drop(unit);
    assert_eq!(fixture.committed(), before);
    fixture.insert(&doc! { "_id": 2, "u": 2 }).unwrap();
    fixture.change(1, None, &fixture.operation).unwrap();
    (fixture.database)
        .drop_collection(&fixture.namespace, &fixture.operation, Level::Written)
        .unwrap();
}

#[test]
fn an_empty_unit_commits_nothing() {
    let fixture = Fixture::new(&[]);
    let last = fixture.database.journal().accepted_lsn();
    let mut unit = fixture.begin(UnitReads::Snapshot);
    fixture
        .insert_in(&mut unit, &doc! { "_id": 1, "u": 1 })
        .unwrap();
    fixture.change_in(&mut unit, 1, None).unwrap();
    // Of the document nothing is left, and of its entries only that they are not there, which is a record.
    let committed = fixture
        .database
        .commit(unit, &fixture.operation, Level::Written)
        .unwrap();
    assert_eq!(committed, Some(last + 1));
    assert!(fixture.committed().is_empty());
    assert_eq!(fixture.database.count(&fixture.collection()).unwrap(), 0);
    for reads in BOTH {
        let mut unit = fixture.begin(reads);
        assert!(!fixture.change_in(&mut unit, 1, None).unwrap());
        let committed = fixture
            .database
            .commit(unit, &fixture.operation, Level::Written)
            .unwrap();
        assert_eq!(committed, None, "{reads:?}");
    }
    assert_eq!(fixture.database.journal().accepted_lsn(), last + 1);
    fixture.check();
}

#[test]
fn a_unit_goes_on_with_its_locks_on_another_thread() {
    let fixture = Fixture::new(&[doc! { "_id": 1, "u": 1 }]);
    let mut unit = fixture.begin(UnitReads::Snapshot);
    fixture
        .change_in(&mut unit, 1, Some(&doc! { "_id": 1, "u": 5 }))
        .unwrap();
    // Writers outside of units wait for it: for the document, and for the key that it has given up.
    let brief = || Operation::new(Some(Instant::now() + Duration::from_millis(30)));
    let waited = fixture.change(1, None, &brief());
    assert_eq!(waited.unwrap_err().code(), 50);
    let documents = [doc! { "_id": 2, "u": 1 }];
    let waited = (fixture.database).insert_piece(
        &brief(),
        &fixture.namespace,
        &[documents[0].as_raw()],
        true,
        Level::Written,
    );
    assert_eq!(waited.unwrap_err().code(), 50);
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let waits = scope.spawn(|| fixture.insert(&documents[0]));
        let goes_on = scope.spawn(move || {
            fixture
                .insert_in(&mut unit, &doc! { "_id": 3, "u": 3 })
                .unwrap();
            fixture
                .database
                .commit(unit, &fixture.operation, Level::Written)
                .unwrap()
        });
        assert!(goes_on.join().unwrap().is_some());
        waits.join().unwrap().unwrap();
    });
    assert_eq!(fixture.committed().len(), 3);
    fixture.check();
}

#[test]
fn what_another_unit_has_locked_is_a_conflict_at_once() {
    for reads in BOTH {
        let fixture = Fixture::new(&[doc! { "_id": 1, "u": 1 }]);
        let (mut first, mut second) = (fixture.begin(reads), fixture.begin(reads));
        fixture
            .change_in(&mut first, 1, Some(&doc! { "_id": 1, "u": 7 }))
            .unwrap();
        assert!(
            is_conflict(&fixture.change_in(&mut second, 1, None)),
            "the document"
        );
        let key = fixture.insert_in(&mut second, &doc! { "_id": 2, "u": 7 });
        assert!(is_conflict(&key), "the unique key that it takes");
        let key = fixture.insert_in(&mut second, &doc! { "_id": 2, "u": 1 });
        assert!(is_conflict(&key), "the unique key that it gives up");
        fixture
            .insert_in(&mut first, &doc! { "_id": 3, "u": 3 })
            .unwrap();
        let same = fixture.insert_in(&mut second, &doc! { "_id": 3, "u": 4 });
        assert!(is_conflict(&same), "the `_id`");
        // The unit can only be given up.
        fixture
            .insert_in(&mut second, &doc! { "_id": 9, "u": 9 })
            .unwrap();
        drop(first);
        let committed = fixture
            .database
            .commit(second, &fixture.operation, Level::Written);
        assert!(is_conflict(&committed));
        assert_eq!(fixture.committed().len(), 1);
        fixture.insert(&doc! { "_id": 9, "u": 9 }).unwrap();
        fixture.check();
    }
}

#[test]
fn a_definition_that_waits_for_the_collection_is_a_lock_timeout() {
    let fixture = Fixture::new(&[]);
    let mut first = fixture.begin(UnitReads::Latest);
    fixture
        .insert_in(&mut first, &doc! { "_id": 1, "u": 1 })
        .unwrap();
    std::thread::scope(|scope| {
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        let database = &fixture.database;
        let drops = scope.spawn(|| database.drop_collection(namespace, operation, Level::Written));
        // Until the drop waits for the first unit, another one can have the collection.
        let begun = Instant::now();
        loop {
            let mut other = fixture.begin(UnitReads::Latest);
            if is_shut_out(&fixture.insert_in(&mut other, &doc! { "_id": 2, "u": 2 })) {
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the drop never came"
            );
        }
        // The first one has it.
        fixture
            .insert_in(&mut first, &doc! { "_id": 3, "u": 3 })
            .unwrap();
        drop(first);
        drops.join().unwrap().unwrap();
    });
}

/// A definition that waits for a unit waits alone: definitions of other collections, and of databases that share its mutex, go on.
#[test]
fn a_definition_that_waits_for_a_unit_keeps_nobody_from_other_definitions() {
    type Define = fn(&Database, &Operation);
    let kinds: [(&str, Define); 6] = [
        ("drop", |database, operation| {
            let dropped = database.drop_collection(&name("db.c"), operation, Level::Written);
            assert!(dropped.unwrap().is_some());
        }),
        ("collMod", |database, operation| {
            let was = database.set_pre_images(&name("db.c"), true, operation, Level::Written);
            assert!(!was.unwrap());
        }),
        ("createIndexes", |database, operation| {
            let specs = [doc! { "key": { "new": 1 } }];
            let made = database.create_indexes(&name("db.c"), &specs, operation, Level::Written);
            made.unwrap();
        }),
        ("rename", |database, operation| {
            let (from, to) = (name("db.c"), name("db.renamed"));
            let renamed = database.rename_collection(&from, &to, false, operation, Level::Written);
            renamed.unwrap();
        }),
        ("dropDatabase", |database, operation| {
            let dropped = database.drop_database("db", operation, Level::Written);
            assert!(dropped.unwrap());
        }),
        ("create", |database, operation| {
            let made = database.collection_or_create(&name("db.made"), operation);
            made.unwrap();
        }),
    ];
    for (kind, define) in kinds {
        let fixture = Fixture::new(&[]);
        let (database, operation) = (&fixture.database, &fixture.operation);
        let mut unit = fixture.begin(UnitReads::Latest);
        fixture.insert_in(&mut unit, &document_of(1)).unwrap();
        let document = document_of(1);
        database
            .insert_in(
                &mut unit,
                operation,
                &name("db.made"),
                &[document.as_raw()],
                true,
            )
            .unwrap();
        std::thread::scope(|scope| {
            let (begins, has_begun) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                begins.send(()).unwrap();
                define(database, &Operation::default());
            });
            has_begun.recv().unwrap();
            let begun = Instant::now();
            // Who waits for a name shuts nobody out from the collection.
            while kind != "create"
                && !is_shut_out(
                    &fixture.insert_in(&mut fixture.begin(UnitReads::Latest), &document_of(2)),
                )
            {
                assert!(begun.elapsed() < Duration::from_secs(20), "{kind}");
            }
            let limited = Operation::new(Some(Instant::now() + Duration::from_secs(2)));
            let made = (0..64).try_for_each(|number| {
                let elsewhere = name(&format!("db{number}.c"));
                let here = name(&format!("db.other{number}"));
                database.collection_or_create(&here, &limited)?;
                database
                    .collection_or_create(&elsewhere, &limited)
                    .map(drop)
            });
            let is_waiting = !waits.is_finished();
            database.commit(unit, operation, Level::Written).unwrap();
            waits.join().unwrap();
            assert_eq!(
                (made.map_err(|error| error.code()), is_waiting),
                (Ok(()), true),
                "{kind}"
            );
        });
    }
}

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

fn document_of(id: i32) -> Document {
    doc! { "_id": id, "u": id }
}

#[test]
fn a_database_is_dropped_behind_a_unit_that_writes_to_it() {
    let fixture = Fixture::new(&[]);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let other = Namespace::parse("db.other").unwrap();
    let ours = Namespace::parse("else.where").unwrap();
    for namespace in [&other, &ours] {
        database.collection_or_create(namespace, operation).unwrap();
    }
    let mut unit = fixture.begin(UnitReads::Latest);
    fixture.insert_in(&mut unit, &document_of(1)).unwrap();
    let limited = Operation::new(Some(Instant::now() + Duration::from_millis(30)));
    let dropped = database.drop_database("db", &limited, Level::Written);
    assert_eq!(dropped.unwrap_err().code(), 50);
    assert!(
        database.collection(&other).unwrap().is_some(),
        "nothing is dropped"
    );
    std::thread::scope(|scope| {
        let drops = scope.spawn(|| database.drop_database("db", operation, Level::Written));
        // Until the drop waits for the first unit, another one can have the database.
        let begun = Instant::now();
        while !is_shut_out(
            &fixture.insert_in(&mut fixture.begin(UnitReads::Latest), &document_of(2)),
        ) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the drop");
        }
        // The first one has it; what it writes elsewhere is its own; and a writer outside of units waits for nobody.
        fixture.insert_in(&mut unit, &document_of(3)).unwrap();
        let elsewhere = document_of(4);
        database
            .insert_in(&mut unit, operation, &ours, &[elsewhere.as_raw()], true)
            .unwrap();
        fixture.insert(&document_of(5)).unwrap();
        assert!(
            database
                .commit(unit, operation, Level::Written)
                .unwrap()
                .is_some()
        );
        assert!(drops.join().unwrap().unwrap());
    });
    assert_eq!(database.list_databases().unwrap(), ["else"]);
    let ours = database.collection(&ours).unwrap().unwrap();
    assert_eq!(database.count(&ours).unwrap(), 1);
}

#[test]
fn what_was_changed_since_the_snapshot_is_a_conflict() {
    let documents = [doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 2 }];
    let fixture = Fixture::new(&documents);
    let mut old = fixture.begin(UnitReads::Snapshot);
    let mut latest = fixture.begin(UnitReads::Latest);
    fixture
        .change(1, Some(&doc! { "_id": 1, "u": 11 }), &fixture.operation)
        .unwrap();
    fixture.insert(&doc! { "_id": 3, "u": 3 }).unwrap();
    fixture.change(2, None, &fixture.operation).unwrap();
    assert_eq!(fixture.seen_in(&mut old).len(), 2, "it reads what was");
    for (id, what) in [(1, "changed"), (2, "deleted"), (3, "inserted")] {
        assert!(
            is_conflict(&fixture.change_in(&mut old, id, None)),
            "{what}"
        );
    }
    for (id, u, what) in [
        (3, 30, "an `_id` that has come"),
        (4, 3, "a key that has come"),
        (4, 2, "a key that has gone"),
    ] {
        let inserted = fixture.insert_in(&mut old, &doc! { "_id": id, "u": u });
        assert!(is_conflict(&inserted), "{what}");
    }
    fixture
        .insert_in(&mut old, &doc! { "_id": 4, "u": 4 })
        .unwrap();
    // Who reads the latest state goes on from it; the keys that the other unit has tried it has locked.
    drop(old);
    assert!(fixture.change_in(&mut latest, 1, None).unwrap());
    assert!(!fixture.change_in(&mut latest, 2, None).unwrap());
    fixture
        .database
        .commit(latest, &fixture.operation, Level::Written)
        .unwrap();
    assert_eq!(fixture.committed().len(), 1);
    fixture.check();
}

#[test]
fn what_was_changed_and_changed_back_since_the_snapshot_is_a_conflict() {
    let documents = [doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 2 }];
    let fixture = Fixture::new(&documents);
    let change = |id, new: Option<&Document>| {
        fixture.change(id, new, &fixture.operation).unwrap();
    };
    // What the snapshot has is no conflict.
    let older = fixture.begin(UnitReads::Snapshot);
    change(2, Some(&documents[1]));
    let mut unit = fixture.begin(UnitReads::Snapshot);
    assert!(fixture.change_in(&mut unit, 2, None).unwrap());
    drop(older);
    change(1, Some(&doc! { "_id": 1, "u": 11 }));
    change(1, Some(&documents[0]));
    fixture.insert(&doc! { "_id": 3, "u": 3 }).unwrap();
    change(3, None);
    for id in [1, 3] {
        assert!(is_conflict(&fixture.change_in(&mut unit, id, None)), "{id}");
    }
    for (id, u, what) in [
        (3, 30, "an `_id` that came and went"),
        (4, 11, "a unique key that came and went"),
    ] {
        let inserted = fixture.insert_in(&mut unit, &doc! { "_id": id, "u": u });
        assert!(is_conflict(&inserted), "{what}");
    }
    // So is what another unit has changed.
    drop(unit);
    let mut second = fixture.begin(UnitReads::Snapshot);
    for new in [doc! { "_id": 1, "u": 12 }, documents[0].clone()] {
        let mut first = fixture.begin(UnitReads::Latest);
        fixture.change_in(&mut first, 1, Some(&new)).unwrap();
        fixture
            .database
            .commit(first, &fixture.operation, Level::Written)
            .unwrap();
    }
    assert!(is_conflict(&fixture.change_in(&mut second, 1, None)));
    drop(second);
    fixture.check();
}

#[test]
fn a_collection_that_came_or_changed_after_the_snapshot_is_unavailable() {
    let fixture = Fixture::new(&[]);
    let mut unit = fixture.begin(UnitReads::Snapshot);
    let (namespace, operation) = (&fixture.namespace, &fixture.operation);
    (fixture.database)
        .create_indexes(
            namespace,
            &[doc! { "key": { "late": 1 } }],
            operation,
            Level::Written,
        )
        .unwrap();
    let changed = fixture.insert_in(&mut unit, &doc! { "_id": 1, "u": 1 });
    assert_eq!(changed.unwrap_err().code(), 246);
    drop(unit);
    let document = doc! { "_id": 1 };
    let absent = Namespace::parse("db.absent").unwrap();
    let mut unit = fixture.begin(UnitReads::Snapshot);
    let database = &fixture.database;
    let read = database.snapshot_in(&mut unit, &absent, operation);
    assert!(read.unwrap().is_none());
    database.collection_or_create(&absent, operation).unwrap();
    let read = database.snapshot_in(&mut unit, &absent, operation);
    assert_eq!(
        read.err().unwrap().code(),
        246,
        "it came after the snapshot"
    );
    drop(unit);
    let mut unit = fixture.begin(UnitReads::Snapshot);
    database
        .drop_collection(&absent, operation, Level::Written)
        .unwrap();
    let read = database.snapshot_in(&mut unit, &absent, operation);
    assert_eq!(
        read.err().unwrap().code(),
        246,
        "it went after the snapshot"
    );
    drop(unit);
    let mut unit = fixture.begin(UnitReads::Latest);
    let capped = Namespace::parse("db.capped").unwrap();
    let options = doc! { "capped": true, "size": 4096 };
    (fixture.database)
        .create_collection(&capped, options.as_raw(), operation, Level::Written)
        .unwrap();
    let capped =
        (fixture.database).insert_in(&mut unit, operation, &capped, &[document.as_raw()], true);
    assert_eq!(capped.unwrap_err().code(), 263);
}

#[test]
fn a_unit_over_several_collections_is_one_record_and_comes_back_whole() {
    let files = SimulatedFiles::new();
    let engine = Arc::new(Memory::new());
    let open = |engine: &Arc<Memory>| {
        let engine = Arc::clone(engine) as Arc<dyn Engine>;
        Database::open_on(engine, Arc::new(files.clone()), Options::default()).unwrap()
    };
    let fixture = Fixture::on(open(&engine), &[doc! { "_id": 1, "u": 1 }]);
    let other = Namespace::parse("db.other").unwrap();
    let operation = &fixture.operation;
    fixture
        .database
        .collection_or_create(&other, operation)
        .unwrap();
    fixture.database.close().unwrap();
    let before = Arc::new(Memory::from_image(engine.image()));
    let engine = Arc::new(Memory::from_image(engine.image()));
    let fixture = Fixture {
        database: open(&engine),
        namespace: fixture.namespace.clone(),
        operation: Operation::default(),
    };
    let operation = &fixture.operation;
    let accepted = fixture.database.journal().accepted_lsn();
    let mut unit = fixture.begin(UnitReads::Snapshot);
    fixture
        .change_in(&mut unit, 1, Some(&doc! { "_id": 1, "u": 8 }))
        .unwrap();
    let document = doc! { "_id": "elsewhere" };
    let documents = [document.as_raw()];
    (fixture.database)
        .insert_in(&mut unit, operation, &other, &documents, true)
        .unwrap();
    let lsn = fixture
        .database
        .commit(unit, operation, Level::Written)
        .unwrap();
    assert_eq!(lsn, Some(accepted + 1));
    let committed = fixture.committed();
    fixture.database.close().unwrap();
    drop(fixture);
    let fixture = Fixture {
        database: open(&before),
        namespace: Namespace::parse("db.c").unwrap(),
        operation: Operation::default(),
    };
    assert!(fixture.database.journal().replayed() > 0);
    assert_eq!(fixture.committed(), committed);
    let other = fixture.database.collection(&other).unwrap().unwrap();
    assert_eq!(fixture.database.count(&other).unwrap(), 1);
    fixture.check();
    fixture.database.close().unwrap();
}

/// Random statements, each compared with a model of what the unit should see; some fail, and must leave nothing.
#[test]
fn a_unit_sees_what_a_model_sees() {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % bound) as i32
    };
    for reads in [UnitReads::Latest, UnitReads::Snapshot].repeat(8) {
        let documents: Vec<Document> = (0..6)
            .map(|id| doc! { "_id": id, "u": id, "m": [id, 7] })
            .collect();
        let fixture = Fixture::new(&documents);
        let mut model = fixture.committed();
        let mut keys: BTreeMap<i32, i32> = (0..6).map(|id| (id, id)).collect();
        let mut unit = fixture.begin(reads);
        for _ in 0..60 {
            let (id, u, m) = (below(12), below(12), below(4));
            let document = doc! { "_id": id, "u": u, "m": [m, 7], "more": m };
            let is_there = keys.contains_key(&id);
            let is_taken = keys.iter().any(|(other, key)| *other != id && *key == u);
            match below(3) {
                0 => {
                    let done = fixture.insert_in(&mut unit, &document);
                    assert_eq!(done.is_ok(), !is_there && !is_taken);
                    if done.is_ok() {
                        keys.insert(id, u);
                        model.insert(fixture.key(id), document.as_bytes().to_vec());
                    }
                }
                1 => {
                    let done = fixture.change_in(&mut unit, id, Some(&document));
                    assert_eq!(done.is_ok(), !is_there || !is_taken);
                    if done.unwrap_or(false) {
                        keys.insert(id, u);
                        model.insert(fixture.key(id), document.as_bytes().to_vec());
                    }
                }
                _ => {
                    assert_eq!(fixture.change_in(&mut unit, id, None).unwrap(), is_there);
                    keys.remove(&id);
                    model.remove(&fixture.key(id));
                }
            }
            assert_eq!(fixture.seen_in(&mut unit), model);
        }
        fixture
            .database
            .commit(unit, &fixture.operation, Level::Written)
            .unwrap();
        assert_eq!(fixture.committed(), model);
        let count = fixture.database.count(&fixture.collection()).unwrap();
        assert_eq!(count, model.len() as u64);
        fixture.check();
    }
}
