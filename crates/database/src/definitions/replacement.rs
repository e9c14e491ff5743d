//! A collection that is filled under a temporary name and then takes the place of another at once (`$out`).
//!
//! Keeps true: readers see what was there before, or all of what takes its place. The replacement has the options and
//! the indexes of what it replaces; where those have changed meanwhile nothing is replaced. A temporary collection has the
//! option `temp`, so that what a crash leaves of one is told from a client's own and dropped after the next start. A client that drops
//! one, and makes another collection under its name even, has its filling end with an error: a collection is meant by its ident.

use quarry_bson::RawDocument;
use quarry_journal::Level;

use crate::catalog::collection::{Collection, CollectionDefinition, new_entry};
use crate::definitions::changes::{Definitions, RenameTarget, lasting};
use crate::definitions::listing;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{ID_INDEX_NAME, Index};
use crate::keyspace::ident::{Ident, new_uuid};
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;

/// The option of a collection that is dropped after a crash.
pub(super) const TEMPORARY: &str = "temp";
/// The beginning of the names of temporary collections, as MongoDB's `$out` gives them.
const PREFIX: &str = "tmp.agg_out.";

/// A collection under a temporary name. One that somebody else makes under that name later is not it.
#[derive(Debug, Clone)]
pub struct Temporary {
    /// The name.
    pub namespace: Namespace,
    /// The collection.
    pub ident: Ident,
}

impl Temporary {
    /// The error of one that is no longer there.
    pub(crate) fn gone(&self) -> Error {
        let name = &self.namespace;
        Error::QueryPlanKilled(format!("collection {name} was dropped while it was filled"))
    }
}

impl Definitions {
    /// The definition of the collection that the name means, if there is one.
    pub fn definition(&self, namespace: &Namespace) -> Result<Option<CollectionDefinition>> {
        let collection = self.catalog().get(namespace)?;
        if let Some(collection) = &collection {
            collection.refuse_view()?;
        }
        let definition = collection.map(|collection| self.definition_of(&collection));
        definition.transpose()
    }

    fn definition_of(&self, collection: &Collection) -> Result<CollectionDefinition> {
        let indexes = &self.catalog().index_catalog(collection)?.indexes;
        let finished = indexes
            .iter()
            .filter(|index| !index.building && &*index.name != ID_INDEX_NAME);
        Ok(CollectionDefinition {
            options: collection.options().to_owned_document(),
            indexes: finished.map(|index| index.spec.clone()).collect(),
            is_capped: collection.capped.is_some(),
        })
    }

    /// Fails where the collection that has the name is not, or not any more, as it was expected.
    pub(super) fn check_unchanged(
        &self,
        namespace: &Namespace,
        existing: Option<&Collection>,
        expected: Option<&CollectionDefinition>,
    ) -> Result<()> {
        let found = existing.map(|existing| self.definition_of(existing));
        let found = found.transpose()?;
        if found.as_ref() == expected {
            return Ok(());
        }
        let options = |definition: Option<&CollectionDefinition>| {
            definition.map(|definition| definition.options.clone())
        };
        let what = match options(found.as_ref()) == options(expected) {
            true => "indexes",
            false => "collection options",
        };
        let message = format!("{what} of target collection {namespace} changed during processing");
        Err(Error::invalid(ErrorCode::COMMAND_FAILED, message))
    }

    /// Makes an empty collection under a temporary name in a database, with these options, which rule what may be inserted.
    pub fn create_temporary(
        &self,
        database: &str,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<Temporary> {
        let uuid = new_uuid().map(|byte| format!("{byte:02x}")).concat();
        let namespace = Namespace::new(database, &format!("{PREFIX}{uuid}"))?;
        let mut options = options.to_owned_document();
        options.append(TEMPORARY, true);
        self.create_collection(&namespace, options.as_raw(), operation, Level::Written)?;
        let ident = self.existing(&namespace)?.ident;
        Ok(Temporary { namespace, ident })
    }

    /// Drops a temporary collection, if it is still there.
    pub(crate) fn drop_if_temporary(
        &self,
        temporary: &Temporary,
        operation: &Operation,
    ) -> Result<()> {
        let Temporary { namespace, ident } = temporary;
        self.drop_unsettled(namespace, Some(*ident), operation)
            .map(drop)
    }

    /// Gives a temporary collection its name, in place of the collection that has it, which must still be as `expected` says.
    pub fn replace_collection(
        &self,
        temporary: &Temporary,
        target: &Namespace,
        expected: Option<&CollectionDefinition>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let to = RenameTarget::As(temporary, expected);
        self.rename(&temporary.namespace, target, to, operation, level)?;
        self.tell_made(target);
        Ok(())
    }

    /// Gives a temporary collection the name of another one, which goes. The caller holds both exclusively, and their database. The
    /// temporary collection keeps its own options.
    pub(crate) fn take_place(
        &self,
        temporary: &Collection,
        replaced: &Collection,
        operation: &Operation,
    ) -> Result<u64> {
        let options = lasting(temporary.options());
        let indexes = &self.catalog().index_catalog(temporary)?.indexes;
        let indexes: Vec<&Index> = indexes.iter().collect();
        let (ident, uuid) = (temporary.ident, temporary.uuid);
        let entry = new_entry(ident, uuid, options.as_raw(), &indexes);
        let to = &replaced.namespace;
        self.put_in_place(temporary, to, Some(replaced), entry, operation)
    }

    /// Drops the temporary collections with idents below this one: those that a crash has left.
    pub fn drop_temporary(&self, below: Ident, operation: &Operation) -> Result<()> {
        for database in listing::list_databases(self.reads())? {
            for left in self.temporary_in(&database, below)? {
                self.drop_collection(&left, operation, Level::Written)?;
            }
        }
        Ok(())
    }

    /// The names stand together in the catalog, so that none but theirs is read, and one behind.
    fn temporary_in(&self, database: &str, below: Ident) -> Result<Vec<Namespace>> {
        let mut found = Vec::new();
        let mut behind = Some(PREFIX.to_owned());
        while let Some(from) = behind {
            let mut is_over = false;
            behind = listing::list_collections_behind_while(
                self.reads(),
                database,
                &from,
                &mut |collection| {
                    is_over = !collection.namespace.collection().starts_with(PREFIX);
                    let options = collection.options();
                    let is_temporary = options
                        .get(TEMPORARY)
                        .is_some_and(|value| value.is_truthy());
                    if !is_over && is_temporary && collection.ident < below {
                        found.push(collection.namespace);
                    }
                    !is_over
                },
            )?;
            if is_over {
                break;
            }
        }
        Ok(found)
    }
}
