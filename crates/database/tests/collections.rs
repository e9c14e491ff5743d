//! Collections as a user meets them, on the memory engine: writes, unique keys, builds, drops, capped bounds, validate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{Change, Database, Error, Level, Namespace, Operation, Options, Result};
use quarry_storage::{Engine, KeyRange, Memory, WriteBatch};

fn open() -> (Arc<Memory>, Database) {
    let engine = Arc::new(Memory::new());
    let database =
        Database::open(Arc::clone(&engine) as Arc<dyn Engine>, Options::default()).unwrap();
    (engine, database)
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn insert(database: &Database, documents: &[Document], ordered: bool) -> quarry_database::Inserted {
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    database
        .insert_piece(
            &Operation::default(),
            &namespace(),
            &raw,
            ordered,
            Level::Written,
        )
        .unwrap()
}

fn index(database: &Database, spec: Document) -> Result<quarry_database::IndexesCreated> {
    database.create_indexes(&namespace(), &[spec], &Operation::default(), Level::Written)
}

/// Every document of `db.c`, in natural order.
fn all(database: &Database) -> Vec<Document> {
    let Some(snapshot) = database.snapshot(&namespace()).unwrap() else {
        return Vec::new();
    };
    let mut cursor = snapshot
        .cursor(KeyRange::prefix(snapshot.collection.prefix.as_bytes()))
        .unwrap();
    cursor.first().unwrap();
    let mut documents = Vec::new();
    while cursor.valid() {
        documents.push(Document::from_bytes(cursor.value().to_vec()).unwrap());
        cursor.next().unwrap();
    }
    documents
}

fn modify(
    database: &Database,
    ids: &[i32],
    compute: &mut dyn FnMut(RawDocument<'_>, &mut Vec<u8>) -> Result<Change>,
) -> quarry_database::Modified {
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let keys: Vec<Vec<u8>> = ids
        .iter()
        .map(|id| Database::record_key(&collection, (*id).into()))
        .collect();
    database
        .modify_piece(
            &Operation::default(),
            &namespace(),
            collection.ident,
            &keys,
            Level::Written,
            &mut |_, old, out| compute(old, out),
        )
        .unwrap()
}

fn assert_valid(database: &Database) {
    let report = database
        .validate(&namespace(), true, &Operation::default())
        .unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
}

#[test]
fn an_ordered_insert_stops_at_the_first_duplicate_and_an_unordered_one_goes_on() {
    let (_, database) = open();
    index(&database, doc! { "key": { "u": 1 }, "unique": true }).unwrap();
    let ordered = insert(
        &database,
        &[
            doc! { "_id": 1, "u": 1 },
            doc! { "_id": 2, "u": 1 },
            doc! { "_id": 3, "u": 3 },
        ],
        true,
    );
    assert_eq!(
        (ordered.inserted, ordered.errors.len(), ordered.errors[0].0),
        (1, 1, 1)
    );
    let Error::DuplicateKey(duplicate) = &ordered.errors[0].1 else {
        panic!("{:?}", ordered.errors)
    };
    assert_eq!(
        (duplicate.index.as_str(), &duplicate.key_value),
        ("u_1", &doc! { "u": 1 })
    );
    let unordered = insert(
        &database,
        &[
            doc! { "_id": 1 },
            doc! { "_id": 4, "u": 4 },
            doc! { "_id": 4, "u": 5 },
            doc! { "_id": 5, "u": 4 },
            doc! { "_id": 6, "u": 6 },
        ],
        false,
    );
    assert_eq!(unordered.inserted, 2);
    assert_eq!(
        unordered
            .errors
            .iter()
            .map(|(position, _)| *position)
            .collect::<Vec<_>>(),
        [0, 2, 3]
    );
    let ids: Vec<_> = all(&database)
        .iter()
        .map(|document| document.get("_id").unwrap().as_i32().unwrap())
        .collect();
    assert_eq!(ids, [1, 4, 6]);
    assert_valid(&database);
}

#[test]
fn an_update_moves_entries_and_may_hand_a_unique_key_on_within_a_piece() {
    let (_, database) = open();
    index(&database, doc! { "key": { "u": 1 }, "unique": true }).unwrap();
    index(&database, doc! { "key": { "tags": 1, "u": -1 } }).unwrap();
    insert(
        &database,
        &[
            doc! { "_id": 1, "u": 1, "tags": ["a", "b"] },
            doc! { "_id": 2, "u": 2, "tags": ["b"] },
        ],
        true,
    );
    // 1 takes 3, then 2 takes 1: free by then.
    let moved = modify(&database, &[1, 2], &mut |old, out| {
        let id = old.get("_id").unwrap().as_i32().unwrap();
        let u = if id == 1 { 3 } else { 1 };
        out.extend_from_slice(doc! { "_id": id, "u": u, "tags": ["b", "c"] }.as_bytes());
        Ok(Change::Replace)
    });
    assert_eq!((moved.matched, moved.modified), (2, 2));
    assert!(moved.error.is_none());
    assert_valid(&database);
    let clash = modify(&database, &[1], &mut |_, out| {
        out.extend_from_slice(doc! { "_id": 1, "u": 1 }.as_bytes());
        Ok(Change::Replace)
    });
    assert!(matches!(clash.error, Some(Error::DuplicateKey(_))));
    assert_eq!(clash.modified, 0);
    let deleted = modify(&database, &[1, 9], &mut |_, _| Ok(Change::Delete));
    assert_eq!(deleted.deleted, 1);
    assert_eq!(all(&database).len(), 1);
    assert_valid(&database);
}

#[test]
fn an_index_built_under_writes_agrees_with_its_documents() {
    let (_, database) = open();
    let documents: Vec<Document> = (0..2000)
        .map(|i| doc! { "_id": i, "n": (i % 7), "a": [(i % 3), (i % 5)] })
        .collect();
    for piece in documents.chunks(500) {
        insert(&database, piece, true);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, stop) = (&database, &stop);
            scope.spawn(move || {
                let mut next = 10_000 + thread * 100_000;
                while !stop.load(Ordering::Relaxed) {
                    insert(
                        database,
                        &[doc! { "_id": next, "n": next, "a": [next] }],
                        true,
                    );
                    modify(database, &[next % 2000], &mut |old, out| {
                        let id = old.get("_id").unwrap().as_i32().unwrap();
                        out.extend_from_slice(doc! { "_id": id, "n": (-next), "a": 1 }.as_bytes());
                        Ok(Change::Replace)
                    });
                    next += 1;
                }
            });
        }
        let made = index(&database, doc! { "key": { "a": 1, "n": -1 } });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(made.unwrap().after, 2);
    });
    assert_valid(&database);
    let listed = database.list_indexes(&namespace()).unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|spec| spec.get_str("name").unwrap().to_owned())
            .collect::<Vec<_>>(),
        ["_id_", "a_1_n_-1"]
    );
}

#[test]
fn a_duplicate_fails_a_unique_build_and_leaves_no_index() {
    let (_, database) = open();
    insert(
        &database,
        &[doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 1 }],
        true,
    );
    let failed = index(&database, doc! { "key": { "u": 1 }, "unique": true });
    assert!(matches!(failed, Err(Error::DuplicateKey(_))));
    assert_eq!(database.list_indexes(&namespace()).unwrap().len(), 1);
    assert_eq!(
        insert(&database, &[doc! { "_id": 3, "u": 1 }], true).inserted,
        1
    );
    assert_valid(&database);
}

#[test]
fn a_unique_build_names_the_first_of_its_duplicates() {
    let (_, database) = open();
    let documents: Vec<Document> = (0..80).map(|n| doc! { "_id": n, "u": -(n % 40) }).collect();
    insert(&database, &documents, true);
    let failed = index(&database, doc! { "key": { "u": 1 }, "unique": true });
    let Err(Error::DuplicateKey(duplicate)) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(duplicate.key_value, doc! { "u": -39 });
}

#[test]
fn validate_names_an_entry_taken_out_and_one_added_behind_the_servers_back() {
    let (engine, database) = open();
    index(&database, doc! { "key": { "n": 1 } }).unwrap();
    insert(
        &database,
        &[doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }],
        true,
    );
    assert_valid(&database);
    let snapshot = database.snapshot(&namespace()).unwrap().unwrap();
    let prefix = snapshot.index_catalog().unwrap().indexes[0].prefix;
    let mut cursor = snapshot
        .cursor(KeyRange::prefix(prefix.as_bytes()))
        .unwrap();
    cursor.first().unwrap();
    let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
    drop(cursor);
    let mut batch = WriteBatch::new();
    batch.delete(&key);
    engine.write(&batch).unwrap();
    let report = database
        .validate(&namespace(), true, &Operation::default())
        .unwrap();
    assert!(
        report
            .errors
            .iter()
            .any(|error| error.contains("index `n_1` misses the entry of the document with _id 1")),
        "{:?}",
        report.errors
    );
    let record = snapshot.collection.record_key(RawValue::Int32(1));
    let suffix = &record[snapshot.collection.prefix.as_bytes().len()..];
    let record_id = snapshot.collection.record_id(suffix).to_value();
    let missing = doc! {
        "indexName": "n_1", "recordId": (record_id.clone()), "idKey": { "_id": 1 }, "indexKey": { "n": 1 },
    };
    assert_eq!(
        report.missing_entries.listed,
        std::slice::from_ref(&missing)
    );
    assert_eq!(report.extra_entries.count, 0);
    // Where the counts differ, the entries are looked for without being asked for.
    let report = database
        .validate(&namespace(), false, &Operation::default())
        .unwrap();
    assert_eq!(report.missing_entries.listed, [missing]);
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    batch.put(&[&key[..], b"\x01"].concat(), &value);
    engine.write(&batch).unwrap();
    let report = database
        .validate(&namespace(), true, &Operation::default())
        .unwrap();
    assert_eq!(
        report.errors,
        ["index `n_1` has 3 entries, its documents ask for 2"]
    );
    assert!(!report.indexes[1].valid);
    assert_eq!(report.missing_entries.count, 0);
    let [extra] = report.extra_entries.listed.as_slice() else {
        panic!("{:?}", report.extra_entries)
    };
    assert_eq!(extra.get_str("indexName"), Some("n_1"));
    assert_eq!(extra.get("indexKey").unwrap().to_string(), "{ n: 1 }");
    assert_ne!(extra.get("recordId"), Some(record_id.as_raw()));
    // A document that is none.
    let mut batch = WriteBatch::new();
    batch.put(&record, b"broken");
    engine.write(&batch).unwrap();
    let report = database
        .validate(&namespace(), true, &Operation::default())
        .unwrap();
    let corrupt = [doc! { "recordId": record_id }];
    assert_eq!(report.corrupt_records.listed, corrupt);
    assert_eq!(report.invalid_documents, 1);
}

#[test]
fn a_capped_collection_keeps_the_newest_within_its_bounds() {
    let (_, database) = open();
    let options = doc! { "capped": true, "size": 100_000, "max": 3 };
    database
        .create_collection(
            &namespace(),
            options.as_raw(),
            &Operation::default(),
            Level::Written,
        )
        .unwrap();
    for i in (0..10).rev() {
        insert(&database, &[doc! { "_id": i }], true);
    }
    let ids: Vec<_> = all(&database)
        .iter()
        .map(|document| document.get("_id").unwrap().as_i32().unwrap())
        .collect();
    assert_eq!(ids, [2, 1, 0], "insertion order");
    assert_eq!(
        insert(&database, &[doc! { "_id": 1 }], true).errors.len(),
        1
    );
    assert_eq!(insert(&database, &[doc! { "_id": 9 }], true).inserted, 1);
    assert_valid(&database);

    let many: Vec<Document> = (100..110).map(|i| doc! { "_id": i }).collect();
    assert_eq!(insert(&database, &many, true).inserted, 10);
    assert_eq!(
        all(&database),
        many[7..],
        "a piece larger than the bounds is cut too"
    );
    assert_valid(&database);
}

#[test]
fn names_come_and_go() {
    let (_, database) = open();
    let operation = Operation::default();
    insert(&database, &[doc! { "_id": 1 }], true);
    let other = Namespace::parse("db2.d").unwrap();
    database
        .rename_collection(&namespace(), &other, false, &operation, Level::Written)
        .unwrap();
    assert_eq!(database.list_databases().unwrap(), ["db2"]);
    assert_eq!(
        database
            .count(&database.collection(&other).unwrap().unwrap())
            .unwrap(),
        1
    );
    insert(&database, &[doc! { "_id": 2 }], true);
    let refused =
        database.rename_collection(&other, &namespace(), false, &operation, Level::Written);
    assert_eq!(refused.unwrap_err().code(), 48);
    database
        .rename_collection(&other, &namespace(), true, &operation, Level::Written)
        .unwrap();
    assert_eq!(all(&database), [doc! { "_id": 1 }]);
    assert!(
        database
            .drop_database("db", &operation, Level::Written)
            .unwrap()
    );
    assert!(
        !database
            .drop_database("db", &operation, Level::Written)
            .unwrap()
    );
    assert!(database.list_databases().unwrap().is_empty());
    assert_eq!(
        insert(&database, &[doc! { "_id": 1 }], true).inserted,
        1,
        "a namesake is another collection"
    );
}

#[test]
fn counters_are_exact_under_concurrent_writers() {
    let (_, database) = open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let database = &database;
            scope.spawn(move || {
                for i in 0..200 {
                    insert(
                        database,
                        &[doc! { "_id": (thread * 1000 + i), "x": "y" }],
                        true,
                    );
                    if i % 3 == 0 {
                        modify(database, &[thread * 1000 + i], &mut |_, _| {
                            Ok(Change::Delete)
                        });
                    }
                }
            });
        }
    });
    assert_eq!(
        database
            .count(&database.collection(&namespace()).unwrap().unwrap())
            .unwrap(),
        4 * (200 - 67)
    );
    assert_valid(&database);
}

#[test]
fn data_of_the_version_before_is_opened_and_named_anew_and_that_of_a_later_one_is_refused() {
    let version_key = [0x00, 0x00];
    let data_of = |version: u32| {
        let engine = Arc::new(Memory::new());
        let mut batch = WriteBatch::new();
        batch.put(&version_key, &version.to_le_bytes());
        batch.put(&[0x00, 0x01], &[7; 16]);
        batch.put(&[0x01, 0x01], b"memory");
        engine.write(&batch).unwrap();
        let opened = Database::open(Arc::clone(&engine) as Arc<dyn Engine>, Options::default());
        (engine, opened)
    };
    let (engine, opened) = data_of(1);
    let database = opened.unwrap();
    let mut version = Vec::new();
    engine
        .get(&version_key, &mut |value| version.extend_from_slice(value))
        .unwrap();
    assert_eq!(version, 4u32.to_le_bytes());
    assert_eq!(insert(&database, &[doc! { "_id": 1 }], true).inserted, 1);
    let later = data_of(5).1.err().unwrap();
    assert!(later.to_string().contains("format version 5"), "{later}");
}

/// Nobody waits for the sync here: what is durable is so because the insert was handed to the journal that way.
#[test]
fn a_piece_is_handed_to_the_journal_as_it_will_be_waited_for() {
    let database = Database::open_in_memory().unwrap();
    let namespace = Namespace::parse("db.c").unwrap();
    let operation = Operation::default();
    let insert = |id: i32, level: Level| {
        let document = doc! { "_id": id };
        let documents = [document.as_raw()];
        let inserted = database.insert_piece(&operation, &namespace, &documents, true, level);
        inserted.unwrap().lsn.unwrap()
    };
    let lsn = insert(1, Level::Written);
    assert!(database.journal().durable_lsn() < lsn);
    let lsn = insert(2, Level::Durable);
    assert!(database.journal().durable_lsn() >= lsn);
}

#[test]
fn a_piece_ends_where_its_index_entries_are_too_many() {
    let (_engine, database) = open();
    index(&database, doc! { "key": doc! { "a": 1 }, "name": "a_1" }).unwrap();
    let entries = |id: i32| -> Document {
        let numbers: Vec<i32> = (0..3000).map(|number| id * 3000 + number).collect();
        doc! { "_id": id, "a": numbers }
    };
    let mut documents: Vec<Document> = (0..16).map(entries).collect();
    documents.push(doc! { "_id": 3, "a": 1 });
    let first = insert(&database, &documents, false);
    // 3,000 entries a document: the seventh comes to 21,000.
    assert_eq!((first.taken, first.inserted), (7, 7));
    assert!(first.errors.is_empty(), "refused behind the piece");
    assert_eq!(all(&database), documents[..7]);
    let second = insert(&database, &documents[7..], false);
    assert_eq!((second.taken, second.inserted), (7, 7));
    let last = insert(&database, &documents[14..], false);
    assert_eq!((last.taken, last.inserted), (3, 2));
    assert_eq!(last.errors[0].0, 2);
    assert_eq!(all(&database), documents[..16]);
}

#[test]
fn a_piece_of_changes_ends_where_its_index_entries_are_too_many() {
    let (_engine, database) = open();
    index(&database, doc! { "key": doc! { "a": 1 }, "name": "a_1" }).unwrap();
    let entries = |id: i32, from: i32| -> Document {
        let numbers: Vec<i32> = (from..from + 3000).collect();
        doc! { "_id": id, "a": numbers }
    };
    for id in 0..16 {
        insert(&database, &[entries(id, 0)], true);
    }
    let ids: Vec<i32> = (0..16).collect();
    let mut change = |old: RawDocument<'_>, new: &mut Vec<u8>| match old.get_i32("_id").unwrap() {
        1 | 10 => Ok(Change::Keep),
        12 => Err(Error::WriteConflict),
        id => {
            new.extend_from_slice(entries(id, 5000).as_bytes());
            Ok(Change::Update)
        }
    };
    // 6,000 entries a change: the fourth, of the fifth document, comes to 24,000.
    let first = modify(&database, &ids, &mut change);
    assert_eq!((first.taken, first.matched, first.modified), (5, 5, 4));
    assert!(first.error.is_none(), "failed behind the piece");
    let second = modify(&database, &ids[5..], &mut change);
    assert_eq!((second.taken, second.matched, second.modified), (4, 4, 4));
    let third = modify(&database, &ids[9..], &mut change);
    assert_eq!((third.taken, third.matched, third.modified), (7, 3, 2));
    assert_eq!(third.error.unwrap().code(), Error::WriteConflict.code());
    let mut delete = |_: RawDocument<'_>, _: &mut Vec<u8>| Ok(Change::Delete);
    let deleted = modify(&database, &ids, &mut delete);
    assert_eq!((deleted.taken, deleted.deleted), (7, 7));
    assert_eq!(all(&database).len(), 9);
    assert_valid(&database);
}

#[test]
fn a_piece_ends_where_its_index_entries_have_too_many_bytes() {
    let (_engine, database) = open();
    let key = doc! { "a": 1, "b": 1 };
    index(&database, doc! { "key": key, "name": "a_1_b_1" }).unwrap();
    // A megabyte of entries each.
    let large = |id: i32| -> Document {
        let numbers: Vec<i32> = (0..540).collect();
        doc! { "_id": id, "a": numbers, "b": ("b".repeat(1980).as_str()) }
    };
    let documents: Vec<Document> = (0..20).map(large).collect();
    let first = insert(&database, &documents, true);
    assert_eq!((first.taken, first.inserted), (8, 8));
    let second = insert(&database, &documents[8..], true);
    assert_eq!((second.taken, second.inserted), (8, 8));
    let ids: Vec<i32> = (0..16).collect();
    let mut change = |old: RawDocument<'_>, new: &mut Vec<u8>| {
        let changed = doc! { "_id": (old.get_i32("_id").unwrap()), "a": 1 };
        new.extend_from_slice(changed.as_bytes());
        Ok(Change::Replace)
    };
    let changed = modify(&database, &ids, &mut change);
    assert_eq!((changed.taken, changed.modified), (8, 8));
    let mut delete = |_: RawDocument<'_>, _: &mut Vec<u8>| Ok(Change::Delete);
    let deleted = modify(&database, &ids, &mut delete);
    assert_eq!(
        (deleted.taken, deleted.deleted),
        (16, 16),
        "8 of them have few entries"
    );
    assert_valid(&database);
}

#[test]
fn no_database_is_made_beside_one_whose_name_differs_by_case_alone() {
    let (_, database) = open();
    let operation = Operation::default();
    let create = |name: &str| {
        let namespace = Namespace::parse(name).unwrap();
        let options = doc! {};
        database.create_collection(&namespace, options.as_raw(), &operation, Level::Written)
    };
    let code = |name: &str| create(name).map_err(|error| error.code()).err();
    for there in ["Shop_1.a", "shop.a", "sh.a", "Other.a", "other_2.a"] {
        create(there).unwrap();
    }
    for refused in ["shop_1.b", "SHOP_1.b", "Shop.b", "SH.b", "oTHER.b"] {
        assert_eq!(code(refused), Some(13_297), "{refused}");
    }
    let error = create("shop_1.b").unwrap_err().to_string();
    assert_eq!(
        error,
        "db already exists with different case already have: [Shop_1] trying to create [shop_1]"
    );
    // Those of the server are there before they have a collection.
    assert_eq!(code("Admin.b"), Some(13_297));
    for made in [
        "Shop_1.b",
        "shop_2.a",
        "sho.a",
        "shops.a",
        "Sho\u{308}.a",
        "admin.a",
    ] {
        assert_eq!(code(made), None, "{made}");
    }
    // A collection is no more renamed into one than it is made in one.
    let [from, to] = ["shop.a", "SHOPS.a"].map(|name| Namespace::parse(name).unwrap());
    let renamed = database.rename_collection(&from, &to, false, &operation, Level::Written);
    assert_eq!(renamed.unwrap_err().code(), 13_297);
    // The name is free again when the other database has gone.
    database
        .drop_database("Shop_1", &operation, Level::Written)
        .unwrap();
    assert_eq!(code("shop_1.b"), None);
    assert_eq!(code("Shop_1.b"), Some(13_297));
}

/// A thread keeps the collection that it found last, and must not take it for one of another database, one that is there again, or
/// one that is gone.
#[test]
fn the_collection_that_a_thread_found_last_is_not_believed_for_ever() {
    let ((_, first), (_, second)) = (open(), open());
    for database in [&first, &second] {
        insert(database, &[doc! { "_id": 1 }], true);
    }
    let found = |database: &Database| database.collection(&namespace()).unwrap();
    let (of_first, of_second) = (found(&first).unwrap(), found(&second).unwrap());
    for _ in 0..2 {
        assert!(Arc::ptr_eq(&found(&first).unwrap(), &of_first));
        assert!(Arc::ptr_eq(&found(&first).unwrap(), &of_first));
        assert!(Arc::ptr_eq(&found(&second).unwrap(), &of_second));
    }
    let drop_it = || {
        let dropped = first.drop_collection(&namespace(), &Operation::default(), Level::Written);
        dropped.unwrap()
    };
    assert!(Arc::ptr_eq(&found(&first).unwrap(), &of_first));
    std::thread::scope(|scope| scope.spawn(drop_it).join().unwrap());
    assert!(found(&first).is_none());
    insert(&first, &[doc! { "_id": 2 }], true);
    assert!(found(&first).unwrap().ident > of_first.ident);
    assert!(Arc::ptr_eq(&found(&second).unwrap(), &of_second));
}
