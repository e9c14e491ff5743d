//! Metadata: a read knows of a document its RecordId, the key of the index by which it was found, and the key by which it was
//! sorted, and of one that was searched for how much it is about that. Expressions read it with `$meta`, and a sort may be by the last.
//!
//! On its way from the access of a plan to whoever reads it, the metadata stands in one more field at the end of the document,
//! so that sorts hold it and write it to disk with the document. No path leads to that field, because its name has a dot.
//! Keeps true: `attach` and `split` stand in pairs, so that no client is ever shown the field, and a plan of a query
//! that asks for no metadata attaches none.

use quarry_bson::{DocumentBuilder, RawDocument};

use crate::error::Error;

/// The field that holds the metadata; a path would look for `metadata` within `$quarry`.
pub(crate) const FIELD: &str = "$quarry.metadata";

/// The names of `$meta`, which are those of the fields of the metadata, too.
pub(crate) const RECORD_ID: &str = "recordId";
/// The fields of the key pattern with their values.
pub(crate) const INDEX_KEY: &str = "indexKey";
/// How much a document is about the words that were searched for.
pub(crate) const TEXT_SCORE: &str = "textScore";
/// The values that were sorted by.
pub(crate) const SORT_KEY: &str = "sortKey";

/// Kinds of metadata, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetadataKinds(u8);

impl MetadataKinds {
    /// No kind.
    pub const NONE: MetadataKinds = MetadataKinds(0);
    /// `{$meta: "recordId"}`.
    pub const RECORD_ID: MetadataKinds = MetadataKinds(1);
    /// `{$meta: "indexKey"}`.
    pub const INDEX_KEY: MetadataKinds = MetadataKinds(2);
    /// `{$meta: "sortKey"}`.
    pub const SORT_KEY: MetadataKinds = MetadataKinds(4);
    /// `{$meta: "textScore"}`.
    pub const TEXT_SCORE: MetadataKinds = MetadataKinds(16);
    /// Distances and points of a query by distance.
    pub const GEO_NEAR: MetadataKinds = MetadataKinds(8);

    /// The set with these bits.
    pub(crate) const fn of_bits(bits: u8) -> MetadataKinds {
        MetadataKinds(bits)
    }

    /// The set as bits.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is no kind in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all kinds of the other one are in it.
    pub const fn has(self, kinds: MetadataKinds) -> bool {
        self.0 & kinds.0 == kinds.0
    }

    /// Those of both.
    #[must_use]
    pub const fn with(self, kinds: MetadataKinds) -> MetadataKinds {
        MetadataKinds(self.0 | kinds.0)
    }
}

/// The error of a query that has no metadata of that kind.
pub(crate) fn not_available(kind: &str) -> Error {
    let text = format!("query requires {kind} metadata, but it is not available");
    Error::location(40_218, text)
}

/// Appends the document with metadata at its end, which `fill` appends.
pub(crate) fn attach<E>(
    document: RawDocument<'_>,
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut DocumentBuilder<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut builder = DocumentBuilder::new(out);
    for element in document {
        builder.append_element(element);
    }
    let mut metadata = builder.document(FIELD);
    let filled = fill(&mut metadata);
    metadata.finish();
    builder.finish();
    filled
}

/// Takes the metadata off a document, and appends what it was without it.
pub(crate) fn split<'d>(document: RawDocument<'d>, out: &mut Vec<u8>) -> RawDocument<'d> {
    let mut metadata = RawDocument::EMPTY;
    let mut builder = DocumentBuilder::new(out);
    for element in document {
        match element.value().as_document() {
            Some(found) if element.name().as_bytes() == FIELD.as_bytes() => metadata = found,
            _ => {
                builder.append_element(element);
            }
        }
    }
    builder.finish();
    metadata
}
