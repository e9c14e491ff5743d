//! The top-level fields that are read of documents later on: whoever holds documents, or makes several of one, keeps those alone.

use quarry_bson::{DocumentBuilder, RawDocument};

/// Names that are few are looked for one by one.
const NAMES_FEW: usize = 8;

/// Names of top-level fields, sorted.
#[derive(Debug, Clone)]
pub(crate) struct FieldsKept {
    names: Vec<Box<str>>,
}

impl FieldsKept {
    pub fn new(names: impl IntoIterator<Item = impl Into<Box<str>>>) -> FieldsKept {
        let mut names: Vec<Box<str>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        FieldsKept { names }
    }

    /// These and one more.
    pub fn with(mut self, name: &str) -> FieldsKept {
        if let Err(place) = self.names.binary_search_by(|known| (**known).cmp(name)) {
            self.names.insert(place, name.into());
        }
        self
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Appends the document with these fields alone, in its own order. Who calls it counts the work of a search.
    pub fn keep(&self, document: RawDocument<'_>, out: &mut Vec<u8>) {
        let mut kept = DocumentBuilder::new(out);
        for element in document {
            if self.has(element.name().as_bytes()) {
                kept.append_element(element);
            }
        }
        kept.finish();
    }

    #[inline]
    fn has(&self, name: &[u8]) -> bool {
        match self.names.len() <= NAMES_FEW {
            true => self.names.iter().any(|known| known.as_bytes() == name),
            false => (self.names)
                .binary_search_by(|known| known.as_bytes().cmp(name))
                .is_ok(),
        }
    }
}
