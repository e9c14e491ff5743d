//! The keyspace: the numbers, names and keys that everything else is made of.
//!
//! Every wing uses this one. It must not know what is stored under the keys that it builds: it uses no other wing.

pub(crate) mod counts;
pub(crate) mod ident;
pub(crate) mod key_hash;
pub mod layout;
pub(crate) mod namespace;
pub(crate) mod varint;
