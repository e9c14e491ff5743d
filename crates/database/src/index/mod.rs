//! Indexes: their definitions, the keys of a document, and the bytes of an entry.
//!
//! Everything here is computed from bytes in memory. It must not know the engine, the catalog, locks or commits; the
//! catalog, the writes, the builds and the readers use it.

pub(crate) mod access_counter;
pub(crate) mod definition;
pub(crate) mod document_filter;
pub(crate) mod entry;
pub(crate) mod found_fields;
pub(crate) mod index_filters;
pub(crate) mod key_buffer;
pub(crate) mod keys;
pub(crate) mod kind;
pub(crate) mod path_numbers;
pub(crate) mod plan_choices;
pub(crate) mod shown_key;
