//! The hash by which keys are locked, cached and told apart in memory.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use hashbrown::DefaultHashBuilder;

/// The hash of a key. It has a seed of this process, because clients choose the keys: with a hash that they can
/// compute, they could make keys that all meet in one lock, one bucket of a table, or one place of the record cache.
pub fn key_hash(key: &[u8]) -> u64 {
    static SEEDED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    let mut hasher = SEEDED.build_hasher();
    hasher.write(key);
    hasher.finish()
}
