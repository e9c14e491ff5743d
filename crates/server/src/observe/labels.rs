//! Labels: the names and hashes by which operations on a collection are known in the figures.

use std::hash::Hasher;

use quarry_database::Namespace;
use rustc_hash::FxHasher;

/// The hash by which a namespace is known in the figures; never 0.
pub fn namespace_hash(database: &str, collection: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(database.as_bytes());
    hasher.write_u8(b'.');
    hasher.write(collection.as_bytes());
    hasher.finish() | 1
}

/// The collection is gone: one of the same name begins anew.
pub fn forget(namespace: &Namespace) {
    quarry_timing::forget_namespace(namespace_hash(namespace.database(), namespace.collection()));
}
