//! Builds the indexes of a collection anew, one after the other, while writes go on (reIndex).
//!
//! A new index is built beside the old one, under a name of its own that is shown to nobody, and takes the place of it with the commit that
//! finishes it. A failure or a crash leaves the old one, and what there is of the new one is dropped as any build that was cut off.

use quarry_journal::Level;
use quarry_storage::WriteBatch;

use crate::build::IndexBuilder;
use crate::build::index_build::check_all_stand;
use crate::catalog::collection::Collection;
use crate::commit::payload::ALLOCATED;
use crate::definitions::builds::{RunningBuilds, stage_mark, unstage_mark};
use crate::definitions::changes::not_found;
use crate::definitions::index_changes::stage_index_drop;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{ID_INDEX_NAME, Index};
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::operation::{Operation, run_unbound};

impl IndexBuilder {
    /// Builds every index but that on `_id` anew.
    pub fn rebuild_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let mut last = None;
        for old in self.idents_to_rebuild(namespace)? {
            // It was dropped meanwhile.
            let Some(running) = self.register_rebuild(namespace, old, operation)? else {
                continue;
            };
            let idents = running.idents();
            let built = self
                .build(namespace, idents, operation)
                .and_then(|()| self.replace_old(namespace, old, idents, operation));
            match built {
                Ok(lsn) => last = Some(lsn),
                Err(error) => {
                    let unbound = Operation::default();
                    let _ = run_unbound(|| self.drop_builds(idents, &unbound));
                    return Err(error);
                }
            }
        }
        self.parts.commits.settle(last, level)
    }

    fn idents_to_rebuild(&self, namespace: &Namespace) -> Result<Vec<Ident>> {
        let collection = self.parts.catalog.get(namespace)?;
        let collection = collection.ok_or_else(|| not_found(namespace))?;
        collection.refuse_view()?;
        if collection.series.is_some() {
            let message = format!("Namespace {namespace} is a view, not a collection");
            let code = ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW;
            return Err(Error::invalid(code, message));
        }
        let indexes = &self.parts.catalog.index_catalog(&collection)?.indexes;
        let chosen = indexes.iter().filter(|index| &*index.name != ID_INDEX_NAME);
        Ok(chosen.map(|index| index.ident).collect())
    }

    /// Puts a copy of an index into the catalog, under another name and as one that is being built; none if it is no longer there, or
    /// not built itself.
    fn register_rebuild(
        &self,
        namespace: &Namespace,
        old: Ident,
        operation: &Operation,
    ) -> Result<Option<RunningBuilds<'_>>> {
        let (_ddl, held) = self.parts.holds.lock_collection(namespace, operation)?;
        let (collection, _hold) = held.ok_or_else(|| not_found(namespace))?;
        let indexes = &self.parts.catalog.index_catalog(&collection)?.indexes;
        let Some(index) = indexes
            .iter()
            .find(|index| index.ident == old && !index.building)
        else {
            return Ok(None);
        };
        let mut name = index.working_name();
        while indexes.iter().any(|index| *index.name == *name) {
            name.push('+');
        }
        let mut new = Index::from_spec(index.spec.as_raw(), self.parts.commits.allocate_ident())?;
        new.building = true;
        new.rename(&name);
        let mut batch = WriteBatch::new();
        stage_mark(&new, namespace, &mut batch);
        // Before the commit shows the index to anybody else.
        let running = self.parts.builds.start(vec![new.ident]);
        let all: Vec<&Index> = indexes.iter().chain([&new]).collect();
        let definitions = &self.parts.definitions;
        definitions.put_entry(&collection, &all, ALLOCATED, &[], batch)?;
        Ok(Some(running))
    }

    /// Gives a built index the place of the old one, with the name and the options that this one has by now.
    fn replace_old(
        &self,
        namespace: &Namespace,
        old: Ident,
        idents: &[Ident],
        operation: &Operation,
    ) -> Result<u64> {
        let (_ddl, held) = self.parts.holds.lock_collection(namespace, operation)?;
        let (collection, _hold) = held.ok_or_else(|| not_found(namespace))?;
        let index_catalog = self.parts.catalog.index_catalog(&collection)?;
        check_all_stand(index_catalog, &[idents, &[old]].concat())?;
        let mut batch = WriteBatch::new();
        for ident in idents {
            self.settle_noted(&collection, index_catalog, *ident, &mut batch)?;
            unstage_mark(*ident, &mut batch);
        }
        let indexes = replaced(&collection, &index_catalog.indexes, old, idents, &mut batch)?;
        let indexes: Vec<&Index> = indexes.iter().collect();
        let definitions = &self.parts.definitions;
        definitions.put_entry(&collection, &indexes, 0, &[], batch)
    }
}

/// The indexes with the new one in the place of the old one, whose drop is staged.
fn replaced(
    collection: &Collection,
    indexes: &[Index],
    old: Ident,
    new: &[Ident],
    batch: &mut WriteBatch,
) -> Result<Vec<Index>> {
    let built = indexes.iter().find(|index| new.contains(&index.ident));
    let built = built.ok_or_else(|| not_found(&collection.namespace))?;
    let mut all = Vec::with_capacity(indexes.len());
    for index in indexes.iter().filter(|index| index.ident != built.ident) {
        if index.ident != old {
            all.push(index.copy()?);
            continue;
        }
        stage_index_drop(index, batch);
        let mut made = Index::from_spec(index.spec.as_raw(), built.ident)?;
        // It may have become unique since, which changes no entries.
        made.unique_entries = built.unique_entries;
        all.push(made);
    }
    Ok(all)
}
