//! A batch of documents goes in pieces; an engine that refuses one in the middle.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, InsertOutcome, InsertRequest};
use quarry_storage::{Error, Faulty, Memory};

const OUT_OF_DISK_SPACE: i32 = 14_031;

fn insert(database: &Database, documents: &[Document], is_ordered: bool) -> InsertOutcome {
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    let namespace = Namespace::parse("db.c").unwrap();
    let request = InsertRequest {
        is_ordered,
        ..InsertRequest::new(&namespace, &raw)
    };
    exec::insert(
        database.into(),
        &Operation::default(),
        request,
        Level::Written,
    )
    .unwrap()
}

/// The engine refuses the first piece, which the journal has: it stands. The next one is refused before the journal, and
/// the last one, of a batch that goes on after errors, is taken.
#[test]
fn a_refused_piece_is_told_of_its_documents_alone() {
    for is_ordered in [true, false] {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&faulty) as _, Options::default()).unwrap();
        insert(&database, &[doc! { "_id": -1 }], true);
        faulty.fail_next_writes(2, Error::NoSpace("none".into()));
        let documents: Vec<Document> = (0..1_200).map(|id| doc! { "_id": id }).collect();
        let outcome = insert(&database, &documents, is_ordered);
        let (refused, codes): (Vec<usize>, Vec<i32>) = outcome
            .errors
            .iter()
            .map(|(position, error)| (*position, error.code()))
            .unzip();
        assert!(codes.iter().all(|code| *code == OUT_OF_DISK_SPACE));
        if is_ordered {
            assert_eq!((outcome.inserted, refused), (500, vec![500]));
        } else {
            assert_eq!((outcome.inserted, refused), (700, (500..1_000).collect()));
        }
    }
}
