//! The entries and records that a validation finds wrong, as documents in the form in which MongoDB's `validate` lists them.

use quarry_bson::{Document, RawValue};

use crate::catalog::collection::Collection;
use crate::index::definition::Index;
use crate::index::entry::IndexEntry;
use crate::index::shown_key::shown_key;

/// The bytes of the findings that one list holds.
const LIST_BYTES_MAX: usize = 1 << 20;

/// A list of findings, which counts those that it has no room for.
#[derive(Debug, Default)]
pub struct Findings {
    /// The findings, as many as there is room for.
    pub listed: Vec<Document>,
    /// How many there are.
    pub count: u64,
    bytes: usize,
}

impl Findings {
    /// Whether there are more than are listed.
    pub fn is_cut(&self) -> bool {
        self.listed.len() as u64 != self.count
    }

    pub(super) fn note(&mut self, finding: impl FnOnce() -> Document) {
        self.count += 1;
        if self.bytes >= LIST_BYTES_MAX {
            return;
        }
        let finding = finding();
        let bytes = self.bytes + finding.len_bytes();
        if bytes <= LIST_BYTES_MAX {
            self.bytes = bytes;
            self.listed.push(finding);
        }
    }
}

/// `{indexName, recordId, idKey, indexKey}` of an entry; `idKey` where the `_id` of its document is known.
pub(super) fn entry_document(
    collection: &Collection,
    index: &Index,
    (key, value): (&[u8], &[u8]),
    id: Option<RawValue<'_>>,
) -> Document {
    let entry = IndexEntry::parse(index, key, value);
    Document::build(|out| {
        out.append("indexName", &*index.name);
        if let Some(entry) = &entry {
            out.append("recordId", collection.record_id(entry.record_key));
        }
        if let Some(id) = id {
            let mut id_key = out.document("idKey");
            id_key.append("_id", id);
            id_key.finish();
        }
        let shown = entry.as_ref().map(|entry| shown_key(index, entry));
        out.append("indexKey", &shown.unwrap_or_default());
    })
}

/// `{recordId}` of a record that stands under a key, which is given with its prefix.
pub(super) fn record_document(collection: &Collection, key: &[u8]) -> Document {
    let suffix = key.get(collection.prefix.as_bytes().len()..);
    Document::build(|out| {
        out.append("recordId", collection.record_id(suffix.unwrap_or_default()));
    })
}
