//! BSON as Quarry uses it: bytes walked in place.
//!
//! A document is its bytes. [`RawDocument::validated`] checks them once at the edge; afterwards iterating,
//! getting, comparing and hashing work on the bytes and allocate nothing. [`Document`] and [`Value`] own bytes,
//! [`DocumentBuilder`] appends to a caller's buffer. Whatever the bytes are, no function here panics: over bytes
//! that do not hold together a walk ends early and says so.
//!
//! ```
//! use quarry_bson::{Document, DocumentBuilder, FieldSet, RawDocument, doc, extjson};
//!
//! # fn main() -> quarry_bson::Result<()> {
//! // Bytes from outside are checked once; a fault is named by its place.
//! let mut bytes = doc! { "_id": 7, "name": "Ada", "tags": ["a", "b"], "home": { "city": "London" } }.into_bytes();
//! let document = RawDocument::validated(&bytes)?;
//! assert_eq!(document.get_str("name"), Some("Ada"));
//! assert_eq!(document.get_path("home.city").and_then(|v| v.as_str()), Some("London"));
//! assert_eq!(document.get_path("tags.1").and_then(|v| v.as_str()), Some("b"));
//!
//! // Wanted paths, compiled once, are found in one pass that ends with the last of them.
//! let wanted = FieldSet::new(["_id", "home.city", "missing"]);
//! let mut found = [None; 3];
//! wanted.extract(document, &mut found);
//! assert_eq!(found.map(|e| e.map(|e| e.value().to_string())), [Some("7".into()), Some("'London'".into()), None]);
//!
//! // Documents are written straight into a buffer, and edited by exchanging bytes.
//! let mut out = Vec::new();
//! let mut builder = DocumentBuilder::new(&mut out);
//! builder.append("n", 1i64).array("list").push(1.5).push("two");
//! builder.finish();
//! let mut owned = Document::from_bytes(out)?;
//! owned.set("n", "one").set_path("home.city", "Paris")?;
//! assert_eq!(owned.to_string(), "{ n: 'one', list: [ 1.5, 'two' ], home: { city: 'Paris' } }");
//!
//! // Numbers compare by value whatever their types, and text comes and goes as Extended JSON.
//! assert_eq!(doc! { "a": 1 }, doc! { "a": 1.0 });
//! assert!(doc! { "a": (1i64 << 53) + 1 } != doc! { "a": (1i64 << 53) as f64 });
//! assert_eq!(extjson::parse(r#"{"n": {"$numberLong": "5"}}"#)?, doc! { "n": 5i64 });
//!
//! let last = bytes.len() - 4;
//! bytes[last] = 0xFF;
//! let error = RawDocument::validated(&bytes).unwrap_err();
//! assert_eq!(error.path(), "home.city");
//! # Ok(())
//! # }
//! ```
//!
//! What to take for what:
//!
//! | need | take | costs |
//! |---|---|---|
//! | bytes from outside | [`RawDocument::validated`] | one pass |
//! | bytes checked before | [`RawDocument::new`] | a look at the frame |
//! | a few fields of many documents | [`FieldSet`] | a walk up to the last of them |
//! | many fields of one document | [`Index`] | one walk, then no further ones |
//! | every field | [`RawDocument::iter`] | one walk |
//! | a filter's path, through arrays | [`RawDocument::visit_path`] | a walk to each step |
//! | a document of one's own | [`Document`] | one buffer, no allocation for a field |
//! | order, equality, hash | [`compare`] | a walk over both |
//!
//! Lengths are in bytes where a name ends in `_bytes` and in elements where it ends in `len`; times are milliseconds
//! since 1970 in UTC. Errors name the offset in bytes, the dotted path and what was expected ([`Error`]).
//!
//! Left out: query semantics (what an operator means) and any knowledge of storage.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builder;
pub mod compare;
mod decimal128;
mod display;
mod doc_macro;
mod document;
mod edit;
mod element;
mod element_type;
mod encode;
mod error;
pub mod extjson;
mod field_set;
mod index;
mod layout;
mod object_id;
mod owned_document;
mod owned_value;
mod path;
mod raw_str;
mod serde_impls;
mod timestamp;
mod validate;
mod value;

pub use builder::{ArrayBuilder, DocumentBuilder, FRAME_BYTES};
pub use compare::{canonical_type, compare_documents, compare_values, hash_value, values_equal};
pub use decimal128::{
    DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MIN, Decimal128, DecimalParts,
    DecimalRounding,
};
pub use document::{RawArray, RawDocument, Values};
pub use element::{Iter, RawElement};
pub use element_type::ElementType;
pub use error::{Error, Result};
pub use field_set::FieldSet;
pub use index::{Index, IndexedDocument};
pub use object_id::ObjectId;
pub use owned_document::Document;
pub use owned_value::Value;
pub use raw_str::RawStr;
pub use serde_impls::{from_document, from_value, to_document, to_value};
pub use timestamp::{DateTime, Timestamp};
pub use value::{RawBinary, RawCodeWithScope, RawDbPointer, RawRegex, RawValue};

/// The largest document that a client may store.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest document that passes validation: commands and replies may exceed a stored document by 16 KiB.
pub const DOCUMENT_BYTES_INTERNAL_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// Documents within documents, the outermost counted, that pass validation: commands and replies surround a stored
/// document.
pub const DEPTH_MAX: usize = 200;

/// Documents within documents, the outermost counted, in what a client may store.
pub const STORED_DEPTH_MAX: usize = 180;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
