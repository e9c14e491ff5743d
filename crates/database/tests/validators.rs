//! A validator is compiled when it is first asked, and whoever ends meanwhile leaves it to the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{
    Collation, Database, DocumentFilter, DocumentValidator, Error, FilterLanguage, Level,
    Namespace, Operation, Options, Result,
};
use quarry_storage::Memory;

/// A language whose validators ask whether the field `ok` is true, and fail where it is a text. Of its compilations, the second
/// one is interrupted.
#[derive(Debug, Default)]
struct Language {
    compiled: AtomicUsize,
}

#[derive(Debug)]
struct IsOk;

impl FilterLanguage for Language {
    fn compile(&self, _: RawDocument<'_>, _: &Collation) -> Result<Arc<dyn DocumentFilter>> {
        Err(Error::Interrupted)
    }

    fn compile_validator(
        &self,
        _: RawDocument<'_>,
        _: &Collation,
    ) -> Result<Arc<dyn DocumentValidator>> {
        match self.compiled.fetch_add(1, Relaxed) {
            1 => Err(Error::Interrupted),
            _ => Ok(Arc::new(IsOk)),
        }
    }
}

impl DocumentValidator for IsOk {
    fn accepts(&self, document: RawDocument<'_>) -> Result<bool> {
        match document.get_str("ok") {
            Some("end") => Err(Error::Interrupted),
            Some(_) => Err(Error::invalid(
                quarry_database::ErrorCode::BAD_VALUE,
                "a text",
            )),
            None => Ok(document.get("ok").is_some_and(|ok| ok.is_truthy())),
        }
    }

    fn failure(&self, _: RawDocument<'_>) -> Result<Document> {
        Ok(doc! { "told": true })
    }
}

#[test]
fn an_interrupt_while_it_is_compiled_is_not_kept_and_a_failure_is_a_refusal() {
    let language = Arc::new(Language::default());
    let options = Options {
        commit_interval_ms: 0,
        filter_language: Arc::clone(&language) as _,
        ..Options::default()
    };
    let database = Database::open(Arc::new(Memory::new()), options).unwrap();
    let (namespace, operation) = (Namespace::parse("db.c").unwrap(), Operation::default());
    let options = doc! { "validator": { "ok": true } };
    database
        .create_collection(&namespace, options.as_raw(), &operation, Level::Written)
        .unwrap();
    let insert = |document: Document| -> Option<i32> {
        let documents = [document.as_raw()];
        let inserted =
            database.insert_piece(&operation, &namespace, &documents, true, Level::Written);
        match inserted {
            Ok(inserted) => inserted.errors.first().map(|(_, error)| error.code()),
            Err(error) => Some(error.code()),
        }
    };
    assert_eq!(insert(doc! { "_id": 1, "ok": true }), Some(11_601));
    assert_eq!(insert(doc! { "_id": 1, "ok": true }), None);
    assert_eq!(insert(doc! { "_id": 2, "ok": false }), Some(121));
    assert_eq!(insert(doc! { "_id": 3, "ok": "text" }), Some(121));
    assert_eq!(insert(doc! { "_id": 4, "ok": "end" }), Some(11_601));
    assert_eq!(
        language.compiled.load(Relaxed),
        3,
        "compiled once for all writes"
    );
}
