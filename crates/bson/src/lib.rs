//! BSON as Quarry uses it: bytes walked in place.
//!
//! A document is its bytes. `RawDocument::validated` checks them once at the edge; afterwards iterating,
//! getting, comparing and copying work on the bytes and allocate nothing. `Document` and `Value` own bytes,
//! `DocumentBuilder` appends to a caller's buffer. Whatever the bytes are, no function here panics: over bytes
//! that do not hold together a walk ends early and says so.
//!
//! Left out: query semantics (which values a dotted path spreads over arrays, what an operator means) and any
//! knowledge of storage.
#![forbid(unsafe_code)]

mod array;
mod builder;
pub mod compare;
mod decimal128;
mod display;
mod doc_macro;
mod document;
mod edit;
mod element;
mod element_type;
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

pub use array::{RawArray, Values};
pub use builder::{ArrayBuilder, DocumentBuilder, FRAME_BYTES};
pub use compare::{canonical_type, compare_documents, compare_values, hash_value, values_equal};
pub use decimal128::{
    DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MIN, Decimal128, DecimalParts,
    DecimalRounding,
};
pub use document::RawDocument;
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

/// Documents within documents, the outermost counted.
pub const DEPTH_MAX: usize = 180;
