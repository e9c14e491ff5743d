//! Collations: the rules of a language by which strings are compared, as MongoDB's document `{locale: "de", strength: 1}` names them,
//! over ICU4X (`icu_collator` with its compiled data).
//!
//! A [`Collation`] compares and hashes BSON values, strings within documents and arrays by its rules and all else as BSON
//! does, and makes the value that an index keeps in a value's place: the same with a sort key for each string, whose bytes
//! order as the strings do.
//!
//! Keeps true: comparing two values, and comparing the bytes of their [`Collation::index_value`]s, give one answer; equal
//! values hash alike; the simple collation is BSON's own order at the price of one comparison. What the library cannot do is
//! refused by name, never passed over. Leaves out: keys, indexes, and who asks for a collation.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod collation;
mod error;
mod locale;
mod specification;

pub use collation::{Collation, holds_text};
pub use error::{Error, Result};

/// The version of the sort keys that [`Collation::index_value`] makes. An index keeps it beside its keys, because
/// another version of the library or of its data may make other keys for the same strings.
pub const SORT_KEYS_VERSION: &str = "icu4x-2.4.0";

/// The version of ICU that MongoDB 8.0 shows in a collation, and takes from a client that repeats what it was shown. It names
/// MongoDB's rules and not those of the library here, whose version is `SORT_KEYS_VERSION`.
pub const SHOWN_VERSION: &str = "57.1";
