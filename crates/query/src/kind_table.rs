//! The kinds of indexes that the query language knows, for the database, which knows none itself. A new kind is a row here, a
//! maker of keys in a file of its own, and the plans that read it.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument};
use quarry_database::{IndexKinds, KeyPattern, SpecialKeys};

use crate::error::{Error, Result};
use crate::geo_index;

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
    check: fn(&KeyPattern, RawDocument<'_>) -> Result<Document>,
    /// Makes the maker of keys of a definition that was checked.
    compile: fn(&KeyPattern, RawDocument<'_>) -> Result<Arc<dyn SpecialKeys>>,
}

static KINDS: &[Kind] = &[
    Kind {
        name: "2d",
        check: geo_index::check_plane,
        compile: geo_index::compile_plane,
    },
    Kind {
        name: "2dsphere",
        check: geo_index::check_sphere,
        compile: geo_index::compile_sphere,
    },
];

/// Kinds of MongoDB's that this server does not have yet.
const NOT_YET: [&str; 2] = ["hashed", "text"];

fn find(kind: &str) -> Result<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.name == kind)
        .ok_or_else(|| {
            Error::cannot_create_index(match NOT_YET.contains(&kind) {
                true => format!("indexes of the kind '{kind}' are not supported yet"),
                false => format!("Unknown index plugin '{kind}'"),
            })
        })
}

impl IndexKinds for Kinds {
    fn check(
        &self,
        kind: &str,
        pattern: &KeyPattern,
        options: RawDocument<'_>,
    ) -> quarry_database::Result<Document> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.check)(pattern, options).map_err(Error::into_database)
    }

    fn compile(
        &self,
        kind: &str,
        pattern: &KeyPattern,
        options: RawDocument<'_>,
    ) -> quarry_database::Result<Arc<dyn SpecialKeys>> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.compile)(pattern, options).map_err(Error::into_database)
    }
}
