//! Tests: keys that a client chose to meet in one bucket, and many keys at once, cost what other keys cost.
//!
//! Times are compared with each other, never with a bound of their own: what is quadratic is hundreds of times slower. They
//! are the thread's processor time, in which whatever else runs on the machine does not count.

use std::hash::Hasher;
use std::time::Duration;

use quarry_bson::{Document, RawBinary, RawDocument, RawValue, doc};
use quarry_storage::KeyRange;
use rustc_hash::FxHasher;
use rustix::time::{ClockId, clock_gettime};

use super::Change;
use crate::database::Database;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use quarry_journal::Level;

/// Values of one length. The hostile ones differ only in eight bytes that rustc-hash multiplies by zero: the eight before
/// them, at a multiple of sixteen in the whole key, are the seed that is exclusive-ored with them.
fn value(is_hostile: bool, number: u64) -> [u8; 60] {
    const SEED: u64 = 0x1319_8a2e_0370_7344;
    /// Where in the value the second sixteen bytes of its index key begin.
    const AT: usize = 16 - KEY_BYTES_BEFORE;
    let mut bytes = [7; 60];
    let place = if is_hostile { AT + 8 } else { 0 };
    bytes[AT..AT + 8].copy_from_slice(&SEED.to_le_bytes());
    bytes[place..place + 8]
        .copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    bytes
}

/// Prefix, type, length and subtype.
const KEY_BYTES_BEFORE: usize = 4;

struct Fixture {
    database: Database,
    namespace: Namespace,
}

/// Documents whose arrays stand in a unique index.
fn documents(count: usize, elements: usize, is_hostile: bool, from: u64) -> Vec<Document> {
    (0..count)
        .map(|id| {
            let first = from + (id * elements) as u64;
            let values = (first..first + elements as u64).map(|number| {
                let bytes = &value(is_hostile, number)[..];
                quarry_bson::Value::from(RawValue::Binary(RawBinary { subtype: 0, bytes }))
            });
            let mut document = doc! { "_id": id as i32 };
            document.append("k", values.collect::<Vec<_>>());
            document
        })
        .collect()
}

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture {
            database: Database::open_in_memory().unwrap(),
            namespace: Namespace::parse("db.c").unwrap(),
        };
        let index = [doc! { "key": { "k": 1 }, "unique": true }];
        let operation = Operation::default();
        fixture
            .database
            .create_indexes(&fixture.namespace, &index, &operation, Level::Written)
            .unwrap();
        fixture
    }

    fn insert(&self, documents: &[Document]) {
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let operation = Operation::default();
        let inserted = self
            .database
            .insert_piece(&operation, &self.namespace, &raw, true, Level::Written)
            .unwrap();
        assert_eq!(inserted.inserted, documents.len() as u64);
    }

    fn replace(&self, documents: &[Document]) {
        let collection = self.database.collection(&self.namespace).unwrap().unwrap();
        let keys: Vec<Vec<u8>> = documents
            .iter()
            .map(|document| Database::record_key(&collection, document.get("_id").unwrap()))
            .collect();
        let replaced = self
            .database
            .modify_piece(
                &Operation::default(),
                &self.namespace,
                collection.ident,
                &keys,
                Level::Written,
                &mut |at, _, out| {
                    out.extend_from_slice(documents[at].as_bytes());
                    Ok(Change::Replace)
                },
            )
            .unwrap();
        assert_eq!(replaced.modified, documents.len() as u64);
    }

    /// Hashes the index keys without a seed.
    fn unseeded_hashes(&self) -> Vec<u64> {
        let snapshot = self.database.snapshot(&self.namespace).unwrap().unwrap();
        let prefix = &snapshot.index_catalog().unwrap().indexes[0].prefix;
        let mut cursor = snapshot
            .cursor(KeyRange::prefix(prefix.as_bytes()))
            .unwrap();
        let mut hashes = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            let mut hasher = FxHasher::default();
            hasher.write(cursor.key());
            hashes.push(hasher.finish());
            cursor.next().unwrap();
        }
        hashes
    }
}

/// The times of a piece that is inserted and of one that replaces it.
fn time(count: usize, elements: usize, is_hostile: bool) -> [Duration; 2] {
    let before = documents(count, elements, is_hostile, 0);
    let after = documents(count, elements, is_hostile, (count * elements) as u64);
    let fixture = Fixture::new();
    let begun = processor_time();
    fixture.insert(&before);
    let inserted = processor_time();
    fixture.replace(&after);
    [inserted - begun, processor_time() - inserted]
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn keys_that_were_chosen_to_collide_cost_what_others_cost() {
    const DOCUMENTS: usize = 50;
    const ELEMENTS: usize = 150;
    let fixture = Fixture::new();
    fixture.insert(&documents(DOCUMENTS, ELEMENTS, true, 0));
    let mut hashes = fixture.unseeded_hashes();
    assert_eq!(hashes.len(), DOCUMENTS * ELEMENTS);
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "without a seed they would collide");
    let usual = time(DOCUMENTS, ELEMENTS, false);
    let hostile = time(DOCUMENTS, ELEMENTS, true);
    for (hostile, usual) in hostile.into_iter().zip(usual) {
        assert!(hostile < usual * 8, "{hostile:?} instead of {usual:?}");
    }
}

/// A piece of more documents than commands make, so that what looks through all entries for each of them shows.
#[test]
fn the_time_of_a_change_grows_with_its_entries_and_not_with_their_square() {
    const TIMES: usize = 20;
    const PART: usize = 150;
    let [_, part] = time(PART, 3, false);
    let [_, whole] = time(PART * TIMES, 3, false);
    let most = part * (4 * TIMES as u32);
    assert!(whole < most, "{whole:?} for {TIMES} times {part:?}");
}
