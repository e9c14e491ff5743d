//! An index with a kind has the keys that its kind makes of each document, whatever is written, and the same after a reopening.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{
    Change, Database, Error, Index, IndexKinds, KeyPattern, Level, Namespace, Operation, Options,
    Result, SpecialKeys, TakeKey,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::Memory;

/// A kind whose keys are the letters of a text.
#[derive(Debug)]
struct Letters;

#[derive(Debug)]
struct LettersOf(String);

impl IndexKinds for Letters {
    fn check(&self, kind: &str, index: &Index) -> Result<Document> {
        assert_eq!(kind, "letters");
        let mut complete = index.kind_options.clone();
        if complete.as_raw().get("bits").is_none() {
            complete.append("bits", 7);
        }
        Ok(complete)
    }

    fn compile(&self, _: &str, index: &Index) -> Result<Arc<dyn SpecialKeys>> {
        let bits = index.kind_options.as_raw().get("bits");
        assert!(bits.is_some(), "checked before");
        Ok(Arc::new(LettersOf(index.pattern.fields[0].path.clone())))
    }
}

impl SpecialKeys for LettersOf {
    fn keys(&self, document: RawDocument<'_>, take: &mut TakeKey<'_>) -> Result<u64> {
        let text = document
            .get(self.0.as_str())
            .and_then(|value| value.as_str());
        let text = text.unwrap_or_default();
        if text.contains('!') {
            return Err(Error::invalid(
                quarry_database::ErrorCode(16_755),
                "no letter",
            ));
        }
        if text.contains('?') {
            return Err(Error::Interrupted);
        }
        let other = document.get("n").unwrap_or(RawValue::Null);
        for letter in text.split("").filter(|letter| !letter.is_empty()) {
            take(&[RawValue::from(letter), other])?;
        }
        Ok(u64::from(text.len() > 1))
    }
}

struct Fixture {
    database: Database,
    namespace: Namespace,
    operation: Operation,
}

impl Fixture {
    fn insert(&self, document: &Document) -> Option<String> {
        let documents = [document.as_raw()];
        let outcome = self.database.insert_piece(
            &self.operation,
            &self.namespace,
            &documents,
            true,
            Level::Written,
        );
        match outcome {
            Ok(outcome) => outcome.errors.first().map(|(_, error)| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn keys(&self) -> u64 {
        let report = self
            .database
            .validate(&self.namespace, true, &self.operation);
        let report = report.unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        report.indexes[1].keys
    }

    fn create(&self, spec: Document) -> Result<()> {
        let created =
            self.database
                .create_indexes(&self.namespace, &[spec], &self.operation, Level::Written);
        created.map(drop)
    }
}

fn open(engine: &Arc<Memory>, files: &SimulatedFiles) -> Fixture {
    Fixture {
        database: Database::open_on(
            Arc::clone(engine) as _,
            Arc::new(files.clone()),
            Options {
                commit_interval_ms: 0,
                index_kinds: Arc::new(Letters),
                ..Options::default()
            },
        )
        .unwrap(),
        namespace: Namespace::parse("db.c").unwrap(),
        operation: Operation::default(),
    }
}

#[test]
fn the_kind_makes_the_keys() {
    let engine = Arc::new(Memory::new());
    let files = SimulatedFiles::new();
    let fixture = open(&engine, &files);
    assert_eq!(
        fixture.insert(&doc! { "_id": 1, "a": "abca", "n": 1 }),
        None
    );
    fixture
        .create(doc! { "key": { "a": "letters", "n": -1 } })
        .unwrap();
    // Twice the same letter is one key.
    assert_eq!(fixture.keys(), 3);
    assert_eq!(fixture.insert(&doc! { "_id": 2, "a": "xy" }), None);
    assert_eq!(fixture.insert(&doc! { "_id": 3, "b": "xy" }), None);
    assert_eq!(fixture.keys(), 5);
    let refused = fixture.insert(&doc! { "_id": 4, "a": "!" }).unwrap();
    assert!(refused.contains("no letter"), "{refused}");
    let listed = fixture.database.list_indexes(&fixture.namespace).unwrap();
    assert_eq!(
        listed[1],
        doc! { "v": 2, "key": { "a": "letters", "n": -1 }, "name": "a_letters_n_-1", "bits": 7 }
    );
    drop(fixture);

    let fixture = open(&engine, &files);
    assert_eq!(
        fixture.database.list_indexes(&fixture.namespace).unwrap(),
        listed
    );
    assert_eq!(fixture.insert(&doc! { "_id": 5, "a": "z" }), None);
    assert_eq!(fixture.keys(), 6);
}

#[test]
fn a_pattern_names_one_kind_and_its_options_need_one() {
    for pattern in [doc! { "a": "x", "b": "y" }, doc! { "a": "" , "b": "z" }] {
        let refused = KeyPattern::parse(pattern.as_raw()).unwrap_err();
        assert_eq!(refused.code(), 67, "{refused}");
    }
    let fixture = open(&Arc::new(Memory::new()), &SimulatedFiles::new());
    let refused = fixture.create(doc! { "key": { "a": 1 }, "bits": 7 });
    assert_eq!(refused.unwrap_err().code(), 67);
    fixture
        .create(doc! { "key": { "a": "letters" }, "bits": 7 })
        .unwrap();
}

#[test]
fn a_second_definition_with_other_options_of_the_kind_is_refused() {
    let fixture = open(&Arc::new(Memory::new()), &SimulatedFiles::new());
    fixture.create(doc! { "key": { "a": "letters" } }).unwrap();
    for known in [
        doc! { "key": { "a": "letters" } },
        doc! { "key": { "a": "letters" }, "bits": 7.0 },
    ] {
        fixture.create(known).unwrap();
    }
    for other in [
        doc! { "key": { "a": "letters" }, "bits": 8 },
        doc! { "key": { "a": "letters" }, "bits": 8, "name": "other" },
    ] {
        assert_eq!(fixture.create(other).unwrap_err().code(), 85);
    }
}

#[test]
fn an_operation_that_ends_while_keys_are_made_writes_nothing_of_its_piece() {
    let fixture = open(&Arc::new(Memory::new()), &SimulatedFiles::new());
    fixture.create(doc! { "key": { "a": "letters" } }).unwrap();
    let documents = [
        doc! { "_id": 1, "a": "x" },
        doc! { "_id": 2, "a": "?" },
        doc! { "_id": 3, "a": "y" },
    ];
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    for is_ordered in [true, false] {
        let outcome = fixture.database.insert_piece(
            &fixture.operation,
            &fixture.namespace,
            &raw,
            is_ordered,
            Level::Written,
        );
        assert!(matches!(outcome, Err(Error::Interrupted)), "{is_ordered}");
    }
    assert_eq!(fixture.keys(), 0);

    for document in [&documents[0], &documents[2]] {
        assert_eq!(fixture.insert(document), None);
    }
    let collection = fixture.database.collection(&fixture.namespace).unwrap();
    let collection = collection.unwrap();
    let record_keys = [1, 3].map(|id| Database::record_key(&collection, RawValue::Int32(id)));
    let outcome = fixture.database.modify_piece(
        &fixture.operation,
        &fixture.namespace,
        collection.ident,
        &record_keys,
        Level::Written,
        &mut |position, old, new| {
            let text = ["xyz", "?"][position];
            let changed =
                doc! { "_id": (quarry_bson::Value::from(old.get("_id").unwrap())), "a": text };
            new.document.extend_from_slice(changed.as_bytes());
            Ok(Change::Replace)
        },
    );
    assert!(matches!(outcome, Err(Error::Interrupted)));
    assert_eq!(fixture.keys(), 2, "the first change was not written");
}
