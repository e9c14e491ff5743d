//! Kinds of indexes: those whose key pattern has a name (`{loc: "2dsphere"}`) in place of a direction, and whose entries are not
//! the values of fields but something that is made of the document. A seam, because this crate knows no geometry, no hash
//! and no words.
//!
//! Whoever opens a database gives it the kinds (`Options::index_kinds`). Each definition is checked once, when the index is made, and
//! its options are completed, so that the catalog keeps what listIndexes shows. The catalog has the maker of keys made once,
//! with the collection; key generation asks it of each document in place of the walk over fields, and the planner of the
//! crate that the kind is from gets its own type back through `Any`.
//!
//! Keeps true: an index without a kind never asks anything of this. A plan that does not know a kind never reads its
//! index, because its keys are no values (`planner/candidate.rs` of the query crate).

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;

/// The kinds of indexes that a database can have.
pub trait IndexKinds: Debug + Send + Sync {
    /// Checks the definition of an index whose pattern names the kind `kind`. Returns its options of that kind with their
    /// defaults. Fails with MongoDB's code for what it may not be.
    fn check(&self, kind: &str, index: &Index) -> Result<Document>;

    /// The key pattern that stands for that of a definition which was checked, if the kind keeps another one.
    fn key_pattern(&self, _kind: &str, _index: &Index) -> Option<Document> {
        None
    }

    /// Makes the maker of the keys of an index whose definition was checked.
    fn compile(&self, kind: &str, index: &Index) -> Result<Arc<dyn SpecialKeys>>;
}

/// Takes the values of one key, one for each field of the pattern.
pub type TakeKey<'t> = dyn FnMut(&[RawValue<'_>]) -> Result<()> + 't;

/// The maker of the keys of one index with a kind. What it makes depends on the document's fields of the pattern, and on those
/// that it names besides.
pub trait SpecialKeys: Any + Debug + Send + Sync {
    /// The top-level fields that the keys depend on beside those of the pattern; None if they depend on all fields.
    fn further_fields(&self) -> Option<&[String]> {
        Some(&[])
    }

    /// Hands over the keys of a document; one that was handed over before is not stored twice. Returns a bit for each field of
    /// the pattern by which one document may have several keys.
    fn keys(&self, document: RawDocument<'_>, take: &mut TakeKey<'_>) -> Result<u64>;
}

/// The kinds of a database that was given none.
#[derive(Debug)]
pub struct NoIndexKinds;

impl IndexKinds for NoIndexKinds {
    fn check(&self, kind: &str, _: &Index) -> Result<Document> {
        Err(not_opened_with(kind))
    }

    fn compile(&self, kind: &str, _: &Index) -> Result<Arc<dyn SpecialKeys>> {
        Err(not_opened_with(kind))
    }
}

fn not_opened_with(kind: &str) -> Error {
    let text = format!("this database was opened without indexes of the kind '{kind}'");
    Error::invalid(ErrorCode::CANNOT_CREATE_INDEX, text)
}
