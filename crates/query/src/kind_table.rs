//! The kinds of indexes that the query language knows, for the database, which knows none itself. A new kind is a row here, a
//! maker of keys in a file of its own, and the plans that read it.

use std::sync::Arc;

use quarry_bson::Document;
use quarry_database::{Index, IndexKinds, SpecialKeys, TEXT, WILDCARD};

use crate::error::{Error, Result};
use crate::{geo_index, hashed_index, text_index, wildcard_index};

/// The kinds of indexes for `quarry_database::Options`.
pub fn index_kinds() -> Arc<dyn IndexKinds> {
    Arc::new(Kinds)
}

#[derive(Debug)]
struct Kinds;

/// A kind of indexes.
struct Kind {
    name: &'static str,
    /// Checks a definition and completes its options.
    check: fn(&Index) -> Result<Document>,
    /// The key pattern that stands for the given one, if it is another one.
    key_pattern: fn(&Index) -> Option<Document>,
    /// Makes the maker of keys of a definition that was checked.
    compile: fn(&Index) -> Result<Arc<dyn SpecialKeys>>,
}

const fn kind(
    name: &'static str,
    check: fn(&Index) -> Result<Document>,
    compile: fn(&Index) -> Result<Arc<dyn SpecialKeys>>,
) -> Kind {
    Kind {
        name,
        check,
        compile,
        key_pattern: |_| None,
    }
}

static KINDS: &[Kind] = &[
    kind("2d", geo_index::check_plane, geo_index::compile_plane),
    kind(
        "2dsphere",
        geo_index::check_sphere,
        geo_index::compile_sphere,
    ),
    kind("hashed", hashed_index::check, hashed_index::compile),
    Kind {
        key_pattern: text_index::key_pattern,
        ..kind(TEXT, text_index::check, text_index::compile)
    },
    kind(WILDCARD, wildcard_index::check, wildcard_index::compile),
];

fn find(kind: &str) -> Result<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.name == kind)
        .ok_or_else(|| Error::cannot_create_index(format!("Unknown index plugin '{kind}'")))
}

impl IndexKinds for Kinds {
    fn check(&self, kind: &str, index: &Index) -> quarry_database::Result<Document> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.check)(index).map_err(Error::into_database)
    }

    fn key_pattern(&self, kind: &str, index: &Index) -> Option<Document> {
        (find(kind).ok()?.key_pattern)(index)
    }

    fn compile(&self, kind: &str, index: &Index) -> quarry_database::Result<Arc<dyn SpecialKeys>> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.compile)(index).map_err(Error::into_database)
    }
}
