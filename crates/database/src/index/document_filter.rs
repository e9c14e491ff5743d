//! Filters of documents, as partial indexes and validators keep them: a seam, because this crate knows no query language.
//!
//! Whoever opens a database gives it the language (`Options::filter_language`). The catalog compiles the
//! `partialFilterExpression` of each index once, with its collection; key generation asks it of every document, and the
//! planner of the language's own crate gets its own type back through `Any`.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument};
use quarry_collation::Collation;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// A language of filters.
pub trait FilterLanguage: Debug + Send + Sync {
    /// Compiles the `partialFilterExpression` of an index, which compares strings by the index's collation. Fails with MongoDB's
    /// code for what it may not be.
    fn compile(
        &self,
        expression: RawDocument<'_>,
        collation: &Collation,
    ) -> Result<Arc<dyn DocumentFilter>>;

    /// Compiles the `validator` of a collection, which compares strings by the collection's collation. Fails with MongoDB's code for what it may not be, and for any where the
    /// language has none.
    fn compile_validator(
        &self,
        _: RawDocument<'_>,
        _: &Collation,
    ) -> Result<Arc<dyn DocumentValidator>> {
        Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            "this database was opened without a language for validators",
        ))
    }
}

/// A filter that says which documents may stand in a collection.
pub trait DocumentValidator: Debug + Send + Sync {
    /// Whether the document matches.
    fn accepts(&self, document: RawDocument<'_>) -> Result<bool>;

    /// Tells why a document does not match, as `errInfo.details` of MongoDB's DocumentValidationFailure.
    fn failure(&self, document: RawDocument<'_>) -> Result<Document>;
}

/// A filter that says which documents an index has entries of. Its answer depends on the document alone.
pub trait DocumentFilter: Any + Debug + Send + Sync {
    /// Whether the document matches.
    fn matches(&self, document: RawDocument<'_>) -> Result<bool>;

    /// The top-level fields that decide: the answer is the same for two documents that have the same bytes there.
    fn top_level_fields(&self) -> &[String];
}

/// The language of a database that was given none: nothing can be said in it.
#[derive(Debug)]
pub struct NoFilterLanguage;

impl FilterLanguage for NoFilterLanguage {
    fn compile(&self, _: RawDocument<'_>, _: &Collation) -> Result<Arc<dyn DocumentFilter>> {
        Err(Error::invalid(
            ErrorCode::CANNOT_CREATE_INDEX,
            "this database was opened without a language for partialFilterExpression",
        ))
    }
}
