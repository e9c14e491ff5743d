//! A plan that was tried (`contest.rs`), as far as its trial went, for who shows it.

use std::time::Duration;

use crate::plan::Node;

/// A plan that was tried, as far as its trial went.
pub struct Tried {
    /// The index's scan, and the documents of its keys. The order that is asked for is not made in a trial.
    pub root: Node,
    /// The documents that it found.
    pub results: u64,
    /// The keys that it read.
    pub keys_examined: u64,
    /// The documents that it read.
    pub docs_examined: u64,
    /// How long it ran.
    pub duration: Duration,
}
