//! Index builds: on existing data, while writes go on, and what a crash leaves of them.
//!
//! It stands above the commit path, and takes the locks of writers: it is one.

#[cfg(test)]
mod changed_meanwhile;
mod drop_builds;
pub(crate) mod index_build;
mod pace;
mod piece;
mod read_ahead;
mod reindex;
pub(crate) mod unique_build;

use crate::write::WriteParts;

/// Who builds indexes.
pub(crate) struct IndexBuilder {
    parts: WriteParts,
}

impl IndexBuilder {
    pub fn new(parts: WriteParts) -> IndexBuilder {
        IndexBuilder { parts }
    }
}
