//! The kinds of indexes that the query language knows, for the database, which knows none itself. A new kind is a row here, a
//! maker of keys in a file of its own, and the plans that read it.

use std::sync::Arc;

use quarry_bson::Document;
use quarry_database::{Index, IndexKinds, SpecialKeys, WILDCARD};

use crate::error::{Error, Result};
use crate::{geo_index, hashed_index, wildcard_index};

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
    /// Makes the maker of keys of a definition that was checked.
    compile: fn(&Index) -> Result<Arc<dyn SpecialKeys>>,
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
    Kind {
        name: "hashed",
        check: hashed_index::check,
        compile: hashed_index::compile,
    },
    Kind {
        name: WILDCARD,
        check: wildcard_index::check,
        compile: wildcard_index::compile,
    },
];

/// Kinds of MongoDB's that this server does not have yet.
const NOT_YET: [&str; 1] = ["text"];

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
    fn check(&self, kind: &str, index: &Index) -> quarry_database::Result<Document> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.check)(index).map_err(Error::into_database)
    }

    fn compile(&self, kind: &str, index: &Index) -> quarry_database::Result<Arc<dyn SpecialKeys>> {
        let kind = find(kind).map_err(Error::into_database)?;
        (kind.compile)(index).map_err(Error::into_database)
    }
}
