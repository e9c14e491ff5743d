//! The keys of an IXSCAN where somebody wants more of them than the records: documents of the key pattern's fields with their
//! values, or only those keys that lie within bounds which ranges of stored keys cannot tell exactly.

use std::borrow::Cow;

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::{Index, IndexEntry};
use quarry_keystring::{Decoder, Direction};

use super::key_tests::{KeyTests, Tested};
use crate::error::Result;
use crate::exec::{broken_entry, stored};

/// The use of the keys that a scan goes through.
#[derive(Debug)]
pub struct KeyedEntries {
    /// The keys' first bytes and the end, both without the index's prefix; an end of no bytes is none.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    tests: Option<KeyTests>,
    gives_documents: bool,
    value: Vec<u8>,
    made: Vec<u8>,
}

impl KeyedEntries {
    /// Gives a document of each key.
    pub fn new() -> KeyedEntries {
        KeyedEntries {
            bounds: None,
            tests: None,
            gives_documents: true,
            value: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Passes over keys that lie outside of bounds: behind a cut, stored keys do not tell.
    #[must_use]
    pub fn within(mut self, low: Vec<u8>, high: Vec<u8>) -> KeyedEntries {
        self.bounds = Some((low, high));
        self
    }

    /// Passes over keys that do not pass the tests.
    #[must_use]
    pub fn testing(mut self, tests: KeyTests) -> KeyedEntries {
        self.tests = Some(tests);
        self
    }

    /// Gives no documents.
    #[must_use]
    pub fn of_records(mut self) -> KeyedEntries {
        self.gives_documents = false;
        self
    }

    /// Whether a key with these fields lies within the bounds and passes the tests.
    pub fn test(&mut self, fields: &[u8]) -> Result<Tested> {
        if let Some((low, high)) = &self.bounds {
            let is_within =
                fields >= low.as_slice() && (high.is_empty() || fields < high.as_slice());
            if !is_within {
                return Ok(Tested::Failed);
            }
        }
        (self.tests.as_mut()).map_or(Ok(Tested::Passed), |tests| tests.test(fields))
    }

    /// The document of a key, if one is wanted: the pattern's paths, dots and all, with the key's values.
    pub fn document(
        &mut self,
        index: &Index,
        entry: &IndexEntry<'_>,
    ) -> Result<Option<RawDocument<'_>>> {
        if !self.gives_documents {
            return Ok(None);
        }
        let KeyedEntries { value, made, .. } = self;
        made.clear();
        let mut decoder = Decoder::new(entry.fields, entry.type_bits);
        let mut out = DocumentBuilder::new(made);
        for field in &index.pattern.fields {
            let mut name = Cow::Borrowed(field.path.as_str());
            if field.is_wildcard {
                let path = decoder.next(Direction::Ascending).map_err(broken_entry)?;
                out.append("$_path", path.as_raw());
                name = Cow::Owned(path.as_raw().as_str().unwrap_or_default().to_owned());
            }
            value.clear();
            let element_type = decoder.append_next(field.direction, value);
            let element_type = element_type.map_err(broken_entry)?;
            out.append_bytes(&*name, element_type, value);
        }
        out.finish();
        Ok(Some(stored(RawDocument::new(&*made))?))
    }
}
