//! Tests: what a unit stages is bounded, and all of it counts.

use quarry_bson::{Document, doc};
use quarry_journal::Level;

use super::own_writes::{COLLECTIONS_MAX, TRANSACTION_BYTES_MAX, Tally};
use super::unit::UnitReads;
use crate::commit::payload::{Delta, Header};
use crate::database::Database;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;

#[test]
fn a_piece_that_changes_nothing_leaves_no_trace_in_the_record() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let names = ["db.changed", "db.looked_at"].map(|name| Namespace::parse(name).unwrap());
    let [changed, looked_at] = &names;
    let collections = names
        .each_ref()
        .map(|name| database.collection_or_create(name, &operation).unwrap());
    let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
    let document = doc! { "_id": 1 };
    database
        .insert_in(&mut unit, &operation, changed, &[document.as_raw()], true)
        .unwrap();
    let keys = [b"nothing".to_vec()];
    let ident = collections[1].ident;
    database
        .modify_in(
            &mut unit,
            &operation,
            looked_at,
            ident,
            &keys,
            &mut |_, _, _| panic!("there is no such record"),
        )
        .unwrap();
    let whole = unit.take_whole().unwrap();
    assert_eq!(whole.tallies.len(), 1);
    assert_eq!(whole.tallies[0].uuid, collections[0].uuid);
}

#[test]
fn a_unit_is_bounded() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let namespace = Namespace::parse("db.c").unwrap();
    let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
    let filler = "x".repeat(TRANSACTION_BYTES_MAX / 4);
    let mut insert = |id: i32, filler: &str| {
        let document = doc! { "_id": id, "filler": filler };
        let documents = [document.as_raw()];
        database.insert_in(&mut unit, &operation, &namespace, &documents, true)
    };
    let refused = (0..5).find_map(|id| insert(id, &filler).err());
    assert_eq!(refused.unwrap().code(), 257);
    // What was refused does not count; the unit is to be given up nevertheless.
    insert(10, "").unwrap();
    let committed = database.commit(unit, &operation, Level::Written);
    assert_eq!(committed.unwrap_err().code(), 257);
    assert!(database.collection(&namespace).unwrap().is_none());
}

#[test]
fn the_collections_of_a_unit_are_bounded() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
    let document = doc! { "_id": 1 };
    let documents = [document.as_raw()];
    let mut insert = |number: usize| {
        let namespace = Namespace::parse(&format!("db.c{number}")).unwrap();
        database.insert_in(&mut unit, &operation, &namespace, &documents, true)
    };
    for number in 0..COLLECTIONS_MAX {
        insert(number).unwrap();
    }
    assert_eq!(insert(COLLECTIONS_MAX).unwrap_err().code(), 257);
}

#[test]
fn all_that_the_record_has_is_counted() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
    let specs: Vec<Document> = (0..16)
        .map(|number| {
            let name = format!("index_{number}_{}", "n".repeat(64));
            doc! { "key": { "a": 1, (format!("b{number}")): 1 }, "name": name }
        })
        .collect();
    for number in 0..COLLECTIONS_MAX {
        let name = format!("db.{}{number}", "c".repeat(200));
        let namespace = Namespace::parse(&name).unwrap();
        (database.writer())
            .create_indexes_in(&mut unit, &namespace, &specs[..number * 5], &operation)
            .unwrap();
        let document = doc! { "_id": (number as i32) };
        database
            .insert_in(
                &mut unit,
                &operation,
                &namespace,
                &[document.as_raw()],
                true,
            )
            .unwrap();
    }
    let staged = unit.staged_bytes();
    let whole = unit.take_whole().unwrap();
    let deltas: Vec<Delta<'_>> = whole.tallies.iter().map(Tally::delta).collect();
    let header = Header {
        deltas: &deltas,
        changes: Some(&whole.changes),
        definitions: &whole.definitions,
        ..Header::PLAIN
    };
    let record_bytes = header.record(&whole.batch).len();
    assert!(record_bytes <= staged, "{record_bytes} of {staged} bytes");
}
