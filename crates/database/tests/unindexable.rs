//! Documents that an index cannot have entries of, met while that index is built. Whoever takes one away or puts another in its
//! place succeeds; whoever writes one is refused; and the build fails if it meets one that still stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_bson::{Document, RawDocument, Value, doc};
use quarry_database::{
    Change, Database, Error, ErrorCode, Index, IndexKinds, Level, Modified, Namespace, NewDocument,
    Operation, Options, Result, SpecialKeys, TakeKey, UnitReads,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::Memory;

/// Three pieces of a build.
const DOCUMENTS: i32 = 700;
/// The unindexable one, in the last piece.
const BAD: i32 = 650;

const PARALLEL_ARRAYS: i32 = 171;
const NO_LETTER: i32 = 16_755;

/// A kind whose keys are the letters of a text, which has none that is refused.
#[derive(Debug)]
struct Letters {
    refused: char,
}

#[derive(Debug)]
struct LettersOf {
    field: String,
    refused: char,
}

impl IndexKinds for Letters {
    fn check(&self, _: &str, index: &Index) -> Result<Document> {
        Ok(index.kind_options.clone())
    }

    fn compile(&self, _: &str, index: &Index) -> Result<Arc<dyn SpecialKeys>> {
        Ok(Arc::new(LettersOf {
            field: index.pattern.fields[0].path.clone(),
            refused: self.refused,
        }))
    }
}

impl SpecialKeys for LettersOf {
    fn keys(&self, document: RawDocument<'_>, take: &mut TakeKey<'_>) -> Result<u64> {
        let text = document.get(&self.field).and_then(|value| value.as_str());
        for letter in text.unwrap_or_default().chars() {
            match letter {
                // Behind keys that were handed over.
                letter if letter == self.refused => {
                    return Err(Error::invalid(ErrorCode(NO_LETTER), "no letter"));
                }
                '?' => return Err(Error::Interrupted),
                '%' => {
                    let code = ErrorCode::EXCEEDED_MEMORY_LIMIT;
                    return Err(Error::invalid(code, "no memory"));
                }
                _ => take(&[letter.to_string().as_str().into()])?,
            }
        }
        Ok(1)
    }
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn open_on(engine: &Arc<Memory>, files: &Arc<SimulatedFiles>, refused: char) -> Arc<Database> {
    let options = Options {
        commit_interval_ms: 0,
        index_kinds: Arc::new(Letters { refused }),
        ..Options::default()
    };
    let (engine, files) = (Arc::clone(engine), Arc::clone(files));
    Arc::new(Database::open_on(engine, files, options).unwrap())
}

fn open() -> Arc<Database> {
    open_on(&Arc::default(), &Arc::default(), '!')
}

fn insert(database: &Database, documents: &[Document]) -> Option<Error> {
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    let operation = Operation::default();
    let done = database.insert_piece(&operation, &namespace(), &raw, true, Level::Written);
    done.unwrap().errors.pop().map(|(_, error)| error)
}

/// Good documents, and `bad` among them.
fn filled(bad: &Document) -> Arc<Database> {
    let database = open();
    let documents: Vec<Document> = (0..DOCUMENTS)
        .map(|id| match id == BAD {
            true => bad.clone(),
            false => doc! { "_id": id, "a": id, "b": id, "t": "xyz", "u": id },
        })
        .collect();
    for piece in documents.chunks(500) {
        assert!(insert(&database, piece).is_none());
    }
    database
}

/// Puts another document in the place of one, or deletes it.
fn change(database: &Database, id: i32, to: Option<&Document>) -> Modified {
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let keys = [Database::record_key(&collection, id.into())];
    let (operation, ident) = (Operation::default(), collection.ident);
    let mut change = |_: usize, _: RawDocument<'_>, out: &mut NewDocument| changed(to, out);
    let done = database.modify_piece(
        &operation,
        &namespace(),
        ident,
        &keys,
        Level::Written,
        &mut change,
    );
    done.unwrap()
}

fn changed(to: Option<&Document>, out: &mut NewDocument) -> Result<Change> {
    let Some(to) = to else {
        return Ok(Change::Delete);
    };
    out.extend_from_slice(to.as_bytes());
    Ok(Change::Replace)
}

fn with_id(id: i32, document: &Document) -> Document {
    let mut other = doc! { "_id": id };
    for element in document.as_raw() {
        if element.name() != "_id" {
            other.append(element.name(), Value::from(element.value()));
        }
    }
    other
}

/// Builds an index, and writes before its second piece.
fn build_beside(
    database: &Arc<Database>,
    spec: &Document,
    write: impl Fn(&Database) + Send + Sync + 'static,
) -> Result<()> {
    let looks = AtomicUsize::new(0);
    let owner = Arc::clone(database);
    let operation = Operation::default().with_disconnect(Box::new(move || {
        if looks.fetch_add(1, Ordering::SeqCst) == 1 {
            write(&owner);
        }
        false
    }));
    let specs = [spec.clone()];
    let built = database.create_indexes(&namespace(), &specs, &operation, Level::Written);
    drop(operation);
    assert_valid(database);
    built.map(drop)
}

fn assert_valid(database: &Database) {
    let report = database.validate(&namespace(), true, &Operation::default());
    assert_eq!(report.unwrap().errors, Vec::<String>::new());
}

/// Each a document that an index cannot have, the index, a document that it can have in its place, and the code.
fn cases() -> [(Document, Document, Document, i32); 4] {
    let arrays = doc! { "_id": BAD, "a": [1, 2], "b": [3, 4], "u": BAD };
    let one_array = doc! { "_id": BAD, "a": [1, 2], "b": 3, "u": BAD };
    let compound = doc! { "key": { "a": 1, "b": 1 } };
    let unique = doc! { "key": { "a": 1, "b": 1, "u": 1 }, "unique": true };
    let no_text = doc! { "_id": BAD, "t": "ab!" };
    // Of keys that were made before the refusal none may be taken for one that stands.
    let text = doc! { "_id": BAD, "t": "abc" };
    let two_arrays = doc! { "_id": BAD, "a": [1, 2], "u": [3, 4] };
    let collated = doc! { "key": { "a": 1, "u": 1 }, "collation": { "locale": "en" } };
    [
        (arrays.clone(), compound, one_array.clone(), PARALLEL_ARRAYS),
        (arrays, unique, one_array.clone(), PARALLEL_ARRAYS),
        (no_text, doc! { "key": { "t": "letters" } }, text, NO_LETTER),
        (two_arrays, collated, one_array, PARALLEL_ARRAYS),
    ]
}

#[test]
fn it_can_be_replaced_and_deleted_while_the_index_is_built() {
    for (bad, spec, good, _) in cases() {
        for to in [Some(good), None] {
            let database = filled(&bad);
            let wrote = to.clone();
            let built = build_beside(&database, &spec, move |database| {
                let done = change(database, BAD, wrote.as_ref());
                assert!(done.error.is_none(), "{wrote:?}: {:?}", done.error);
                assert_eq!(done.matched, 1);
            });
            built.unwrap_or_else(|error| panic!("{spec} {to:?}: {error}"));
            let listed = database.list_indexes(&namespace()).unwrap();
            assert_eq!(listed.len(), 2);
        }
    }
}

#[test]
fn a_transaction_can_replace_and_delete_it() {
    for (bad, spec, good, _) in cases() {
        for to in [Some(good), None] {
            let database = filled(&bad);
            let built = build_beside(&database, &spec, move |database| {
                let operation = Operation::default();
                let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
                let collection = database.collection(&namespace()).unwrap().unwrap();
                let keys = [Database::record_key(&collection, BAD.into())];
                let mut change =
                    |_: usize, _: RawDocument<'_>, out: &mut NewDocument| changed(to.as_ref(), out);
                let (operation, ident) = (Operation::default(), collection.ident);
                let done = database.modify_in(
                    &mut unit,
                    &operation,
                    &namespace(),
                    ident,
                    &keys,
                    &mut change,
                );
                assert!(done.unwrap().error.is_none());
                database.commit(unit, &operation, Level::Written).unwrap();
            });
            built.unwrap();
        }
    }
}

#[test]
fn whoever_writes_one_is_refused_and_the_build_goes_on() {
    for (bad, spec, good, code) in cases() {
        let database = filled(&good);
        let built = build_beside(&database, &spec, move |database| {
            let done = change(database, BAD, Some(&bad));
            assert_eq!(done.error.unwrap().code(), code);
            assert_eq!(done.modified, 0);
            let new = with_id(DOCUMENTS, &bad);
            assert_eq!(insert(database, &[new]).unwrap().code(), code);
        });
        built.unwrap();
    }
}

#[test]
fn one_that_stands_fails_the_build_and_stays() {
    for (bad, spec, good, code) in cases() {
        let database = filled(&bad);
        // Another one that is fine: the refused one is first in no piece.
        let built = build_beside(&database, &spec, move |database| {
            let other = with_id(BAD - 1, &good);
            assert!(change(database, BAD - 1, Some(&other)).error.is_none());
        });
        assert_eq!(built.unwrap_err().code(), code, "{spec}");
        assert_eq!(database.list_indexes(&namespace()).unwrap().len(), 1);
        assert!(change(&database, BAD, None).error.is_none());
        build_beside(&database, &spec, |_| {}).unwrap();
    }
}

/// The end of an operation is no word on the document: it may have entries.
#[test]
fn an_operation_that_ends_over_the_old_document_writes_nothing() {
    let database = filled(&doc! { "_id": BAD, "t": "?" });
    let spec = doc! { "key": { "t": "letters" } };
    let built = build_beside(&database, &spec, |database| {
        let collection = database.collection(&namespace()).unwrap().unwrap();
        let keys = [Database::record_key(&collection, BAD.into())];
        let (operation, ident) = (Operation::default(), collection.ident);
        let mut delete = |_: usize, _: RawDocument<'_>, _: &mut NewDocument| Ok(Change::Delete);
        let done = database.modify_piece(
            &operation,
            &namespace(),
            ident,
            &keys,
            Level::Written,
            &mut delete,
        );
        assert!(matches!(done, Err(Error::Interrupted)));
    });
    assert!(matches!(built, Err(Error::Interrupted)));
}

/// A server that is short of memory has no word on the document either.
#[test]
fn a_document_whose_keys_cannot_be_made_for_now_stays() {
    let database = filled(&doc! { "_id": BAD, "t": "%" });
    let spec = doc! { "key": { "t": "letters" } };
    let built = build_beside(&database, &spec, |database| {
        let done = change(database, BAD, None);
        let code = ErrorCode::EXCEEDED_MEMORY_LIMIT;
        assert_eq!(done.error.unwrap().code(), code.0);
        assert_eq!(done.deleted, 0);
    });
    built.unwrap_err();
}

/// An index that is ready has entries of every document: one whose keys cannot be told any more would leave its own behind.
#[test]
fn a_ready_index_keeps_a_document_that_its_kind_refuses_since() {
    let (engine, files) = (Arc::default(), Arc::default());
    let database = open_on(&engine, &files, '!');
    assert!(insert(&database, &[doc! { "_id": 1, "t": "xyz" }]).is_none());
    build_beside(&database, &doc! { "key": { "t": "letters" } }, |_| {}).unwrap();
    drop(database);
    let database = open_on(&engine, &files, 'y');
    let done = change(&database, 1, None);
    assert_eq!(done.error.unwrap().code(), NO_LETTER);
    assert_eq!(done.deleted, 0);
    drop(database);
    let database = open_on(&engine, &files, '!');
    assert_valid(&database);
    assert_eq!(change(&database, 1, None).deleted, 1);
    assert_valid(&database);
}

/// An insert that makes room in a capped collection takes documents that it did not write.
#[test]
fn it_goes_from_the_front_of_a_capped_collection() {
    for (bad, spec, good, _) in cases() {
        let database = open();
        let options = doc! { "capped": true, "size": 100_000, "max": 1 };
        let operation = Operation::default();
        (database.create_collection(&namespace(), options.as_raw(), &operation, Level::Written))
            .unwrap();
        assert!(insert(&database, &[bad]).is_none());
        let looks = AtomicUsize::new(0);
        let owner = Arc::clone(&database);
        let operation = Operation::default().with_disconnect(Box::new(move || {
            if looks.fetch_add(1, Ordering::SeqCst) == 0 {
                let refused = insert(&owner, &[with_id(1, &good)]);
                assert!(refused.is_none(), "{refused:?}");
            }
            false
        }));
        let specs = [spec];
        let built = database.create_indexes(&namespace(), &specs, &operation, Level::Written);
        built.unwrap();
        assert_valid(&database);
    }
}

/// An index that is built is not looked at yet, whatever its documents are.
#[test]
fn a_collection_can_be_validated_while_the_index_is_built() {
    for (bad, spec, _, code) in cases() {
        let database = filled(&bad);
        let built = build_beside(&database, &spec, assert_valid);
        assert_eq!(built.unwrap_err().code(), code);
    }
    let database = filled(&doc! { "_id": BAD, "a": [1, 2] });
    build_beside(&database, &doc! { "key": { "a": 1 } }, assert_valid).unwrap();
}
