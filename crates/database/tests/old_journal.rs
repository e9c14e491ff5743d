//! A database whose journal an earlier build has written: real bytes, of format version 1 with records of version 1. What
//! that build had in its engine at the end stands beside them, key by key.
//!
//! The two lives that wrote it inserted, changed and deleted documents of a collection with a unique and a multikey index,
//! built and dropped indexes, filled a capped collection, renamed and dropped collections, dropped a database, and committed
//! a unit over two collections. The second one was killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_bson::doc;
use quarry_database::{Database, Level, Namespace, Operation, Options, layout};
use quarry_journal::{GroupFormat, SimulatedFiles, inspect};
use quarry_storage::{Engine, KeyRange, Memory, WriteBatch};

const SEGMENT_BYTES: usize = 16 * 1024;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal_of_version_1")
}

/// The segments as they were, with the zeros behind their ends that the fixture leaves out.
fn files() -> SimulatedFiles {
    let files = SimulatedFiles::new();
    for entry in fs::read_dir(fixture()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".segment") {
            let mut content = fs::read(fixture().join(&name)).unwrap();
            let header_says = u64::from_le_bytes(content[80..88].try_into().unwrap());
            assert!(content.len() <= header_says as usize);
            content.resize(header_says as usize, 0);
            files.replace(&name, content);
        }
    }
    files
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn expected() -> State {
    let text = fs::read_to_string(fixture().join("state.txt")).unwrap();
    let entry = |line: &str| {
        let (key, value) = line.split_once(' ').unwrap();
        (bytes(key), bytes(value))
    };
    text.lines().map(entry).collect()
}

/// An engine that has what every database begins with, and nothing of the journal.
fn engine(expected: &State) -> Arc<Memory> {
    let engine = Memory::new();
    let mut batch = WriteBatch::new();
    for key in [&[0, 0][..], &[0, 1], &[1, 1]] {
        batch.put(key, &expected[key]);
    }
    batch.put(&[1, 0], &0u64.to_le_bytes());
    engine.write(&batch).unwrap();
    Arc::new(engine)
}

fn state(engine: &Memory) -> State {
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(KeyRange::prefix(&[])).unwrap();
    cursor.first().unwrap();
    let mut state = State::new();
    while cursor.valid() {
        state.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next().unwrap();
    }
    state
}

#[test]
fn a_journal_of_version_1_is_replayed_to_what_its_build_had() {
    let (files, expected) = (files(), expected());
    let verified = inspect::verify(&files).unwrap();
    assert!(verified.segments.len() >= 2 && !verified.is_closed);
    let is_old = |format| format == GroupFormat::One;
    assert!(
        verified
            .segments
            .iter()
            .all(|segment| is_old(segment.header.format))
    );
    let engine = engine(&expected);
    let options = || Options {
        commit_interval_ms: 0,
        journal_segment_bytes: Some(SEGMENT_BYTES as u64),
        journal_retain_ms: 3_600_000,
        ..Options::default()
    };
    let shared = Arc::clone(&engine) as Arc<dyn Engine>;
    let database = Database::open_on(shared, Arc::new(files.clone()), options()).unwrap();
    assert_eq!(database.journal().replayed(), verified.last_lsn);
    let found = state(&engine);
    // The builds that the journal tells of have ended, and nothing else is to be done; the version is named anew.
    let version = layout::FORMAT_VERSION.to_le_bytes().to_vec();
    let mut upgraded = expected.clone();
    upgraded.insert(layout::FORMAT_VERSION_KEY.to_vec(), version);
    assert!(
        found == upgraded,
        "{} keys, not {}",
        found.len(),
        upgraded.len()
    );
    let operation = Operation::default();
    for name in ["shop.orders", "shop.log", "shop.new"] {
        let namespace = Namespace::parse(name).unwrap();
        let report = database.validate(&namespace, true, &operation).unwrap();
        assert_eq!(report.errors, Vec::<String>::new(), "{name}");
    }
    // It goes on in today's version, and both are read at the next start.
    let document = doc! { "_id": 600, "u": 600 };
    let namespace = Namespace::parse("shop.orders").unwrap();
    let documents = [document.as_raw()];
    let inserted = database.insert_piece(&operation, &namespace, &documents, true, Level::Durable);
    assert!(inserted.unwrap().errors.is_empty());
    drop(database);
    let last = state(&engine);
    let again = self::engine(&expected);
    let shared = Arc::clone(&again) as Arc<dyn Engine>;
    drop(Database::open_on(shared, Arc::new(files.clone()), options()).unwrap());
    assert!(state(&again) == last);
    let formats: Vec<_> = (inspect::verify(&files).unwrap().segments.iter())
        .map(|segment| segment.header.format)
        .collect();
    assert_eq!(formats.first(), Some(&GroupFormat::One));
    assert!(formats.contains(&GroupFormat::Two), "{formats:?}");
}
