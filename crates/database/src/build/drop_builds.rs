//! Builds that are taken back: one that failed, and those that a crash cut off.

use std::time::Duration;

use crate::build::IndexBuilder;
use crate::definitions::builds::{InterruptedBuild, parse_mark};
use crate::error::Result;
use crate::index::definition::Index;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::upkeep::background::Stop;

/// How long the cleaner waits after a refused write.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl IndexBuilder {
    /// Drops those of `idents`, all of one collection, that are still being built, wherever it was renamed to.
    pub(super) fn drop_builds(&self, idents: &[Ident], operation: &Operation) -> Result<()> {
        loop {
            let Some(namespace) = self.building_namespace(idents)? else {
                return Ok(());
            };
            let (_ddl, held) = self.parts.holds.lock_collection(&namespace, operation)?;
            // The collection can have been renamed, and its marks with it, before it was held.
            if self.building_namespace(idents)?.as_ref() == Some(&namespace) {
                let Some((collection, _hold)) = held else {
                    // It went with its database, whose clean-up takes the marks.
                    return Ok(());
                };
                let keep = |index: &Index| !(index.building && idents.contains(&index.ident));
                return self
                    .parts
                    .definitions
                    .replace_indexes(&collection, keep)
                    .map(drop);
            }
        }
    }

    /// Where the first of `idents` that has a mark is being built.
    fn building_namespace(&self, idents: &[Ident]) -> Result<Option<Namespace>> {
        for ident in idents {
            let mut mark = None;
            self.parts
                .engine
                .get(&layout::building_key(*ident), &mut |value| {
                    mark = Some(parse_mark(*ident, value));
                })?;
            if let Some(mark) = mark {
                return mark.map(|mark| Some(mark.namespace));
            }
        }
        Ok(None)
    }

    /// Drops what was found at the start, one index after the other; tries again where writes are refused.
    pub fn drop_interrupted(
        &self,
        builds: &[InterruptedBuild],
        stop: &Stop,
        operation: &Operation,
    ) {
        for build in builds {
            while self.drop_builds(&[build.ident], operation).is_err() {
                if stop.wait(RETRY_AFTER) {
                    return;
                }
            }
        }
    }
}
