//! Collections as a unit of several pieces sees them: those that everybody sees, and those that it makes itself.
//!
//! A unit holds each collection that it reads or writes until it ends, so that nobody changes the definition meanwhile, and
//! has made sure that its snapshot knows the same definition. A capped collection that a unit reads in a snapshot it does
//! not hold: whoever inserts into that one takes it exclusively and would wait for the end of the unit. Each of its commands
//! compares the definition anew instead, and the unit's epoch keeps the space of what is dropped meanwhile.
//! What a unit makes is its own until the commit. Making a collection
//! in a unit needs no DDL mutex, which a unit could not keep: the unit holds the name instead, and everybody else who makes
//! a collection there holds it too.
//!
//! MongoDB refuses some things in a transaction, which are refused here with its codes: the databases `admin`, `config` and
//! `local`, writes to capped and system collections and to time series, and indexes on anything but a collection that the transaction has
//! made and that is empty.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument};

use super::Writer;
use super::unit::WriteUnit;
use crate::catalog::collection::{Collection, new_entry};
use crate::catalog::time_series::TIME_SERIES;
use crate::catalog::view::VIEW_ON;
use crate::definitions::changes::{stage_expiring, stage_expiring_records};
use crate::definitions::known_index::{IndexesCreated, known};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{INDEXES_MAX, Index};
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::snapshot::collection_snapshot::CollectionSnapshot;
use quarry_storage::WriteBatch;

/// The databases that no transaction reads or writes.
const DATABASES_REFUSED: [&str; 3] = ["admin", "config", "local"];

impl Writer {
    /// A snapshot of a collection as a unit sees it now; none if there is no such collection.
    pub fn snapshot_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<CollectionSnapshot>> {
        let Some(collection) = self.collection_in(unit, namespace, operation)? else {
            return Ok(None);
        };
        let (beneath, staged) = unit.state(&self.parts.reads)?;
        let catalog = &self.parts.catalog;
        let snapshot = CollectionSnapshot::of(collection, catalog, beneath, Some(staged));
        Ok(Some(snapshot))
    }

    /// A collection as a unit sees it; none if there is none. The unit holds it from now on, unless it is a capped
    /// collection in a snapshot.
    pub fn collection_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<Arc<Collection>>> {
        if DATABASES_REFUSED.contains(&namespace.database()) {
            return Err(not_in_a_transaction(format!(
                "Cannot run command against the '{}' database in a transaction.",
                namespace.database()
            )));
        }
        if let Some(made) = unit.made(namespace) {
            return Ok(Some(Arc::clone(made)));
        }
        loop {
            let Some(collection) = self.parts.catalog.get(namespace)? else {
                unit.compare_absent(namespace)?;
                return Ok(None);
            };
            if collection.capped.is_some() && unit.reads_a_snapshot() {
                unit.hold_database(&collection, operation)?;
            } else {
                unit.hold(&collection, operation)?;
            }
            // Otherwise it went or changed before the hold, or the catalog's cache has forgotten it meanwhile.
            if self.parts.catalog.is_current(&collection)? {
                unit.compare(&collection)?;
                return Ok(Some(collection));
            }
        }
    }

    /// Like `collection_in`, for a collection that the unit is about to write to: it is made if there is none.
    pub(super) fn collection_to_write(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Arc<Collection>> {
        let collection = match self.collection_in(unit, namespace, operation)? {
            Some(collection) => collection,
            None => self.make_in(unit, namespace, RawDocument::EMPTY, operation)?,
        };
        collection.refuse_view()?;
        if namespace.collection().starts_with("system.") {
            return Err(not_in_a_transaction(format!(
                "Cannot write to the system collection '{namespace}' in a transaction."
            )));
        }
        collection.refuse_in_transaction()?;
        Ok(collection)
    }

    /// Creates a collection in a unit. One that is there is an error whatever its options, unlike outside of transactions, as
    /// in MongoDB.
    pub fn create_collection_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<()> {
        unit.run(
            |unit| match self.collection_in(unit, namespace, operation)? {
                Some(_) => Err(Error::NamespaceExists(format!(
                    "collection `{namespace}` already exists"
                ))),
                None => self.make_in(unit, namespace, options, operation).map(drop),
            },
        )
    }

    /// Makes a collection under a name that means none.
    fn make_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<Arc<Collection>> {
        if options.get("capped").is_some_and(|value| value.is_truthy()) {
            return Err(not_in_a_transaction(format!(
                "Cannot create the capped collection '{namespace}' in a transaction."
            )));
        }
        if options.contains(TIME_SERIES) {
            return Err(not_in_a_transaction(format!(
                "Cannot create a time-series collection in a multi-document transaction: '{namespace}'"
            )));
        }
        if options.contains(VIEW_ON) {
            return Err(not_in_a_transaction(format!(
                "Cannot create a view in a multi-document transaction: '{namespace}'"
            )));
        }
        namespace.check_new()?;
        self.parts
            .definitions
            .check_case(namespace.database(), operation)?;
        self.parts.definitions.check_validator(namespace, options)?;
        unit.hold_name(namespace, operation)?;
        let catalog = &self.parts.catalog;
        // Another one may have made it before the hold. What a dropped database has left under the name goes soon, and
        // only its cleaner knows when: the transaction begins again.
        if catalog.get(namespace)?.is_some() || catalog.dead(namespace)?.is_some() {
            return Err(Error::WriteConflict);
        }
        let entry = self.parts.definitions.first_entry(options)?;
        let collection = Collection::from_entry(namespace.clone(), entry)?;
        let mut marks = WriteBatch::new();
        stage_expiring_records(&collection, &mut marks);
        unit.make_with(collection, marks)
    }

    /// Creates indexes in a unit, on a collection that the unit makes or has made and not written to.
    pub fn create_indexes_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
    ) -> Result<IndexesCreated> {
        unit.run(|unit| self.add_indexes(unit, namespace, specs, operation))
    }

    fn add_indexes(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
    ) -> Result<IndexesCreated> {
        let existing = self.collection_in(unit, namespace, operation)?;
        let created_collection = existing.is_none();
        let collection = match existing {
            Some(collection) => collection,
            None => self.make_in(unit, namespace, RawDocument::EMPTY, operation)?,
        };
        collection.refuse_view()?;
        let stand = &self.parts.catalog.index_catalog(&collection)?.indexes;
        let before = stand.len() + usize::from(collection.is_clustered());
        let mut new: Vec<Index> = Vec::new();
        for spec in specs {
            let spec = self.parts.catalog.checked(spec)?;
            let spec = collection.spec_of_index(&spec);
            let candidate = Index::from_spec(spec.as_raw(), Ident(0))?;
            if known(&candidate, &collection, stand.iter().chain(&new))?.is_none() {
                let ident = self.parts.commits.allocate_ident();
                new.push(Index::from_spec(spec.as_raw(), ident)?);
            }
        }
        let after = before + new.len();
        let created = IndexesCreated {
            before,
            after,
            created_collection,
        };
        if new.is_empty() {
            return Ok(created);
        }
        if unit.made(namespace).is_none() {
            return Err(not_in_a_transaction(format!(
                "Cannot create new indexes on existing collection {namespace} in a multi-document transaction."
            )));
        }
        let counts = unit.counts(collection.ident, || {
            self.parts.commits.counts(collection.ident)
        })?;
        if counts.documents > 0 {
            return Err(not_in_a_transaction(format!(
                "Cannot create new indexes on non-empty collection {namespace} in a multi-document transaction."
            )));
        }
        if after > INDEXES_MAX {
            return Err(Error::invalid(
                ErrorCode::CANNOT_CREATE_INDEX,
                format!("add index fails, too many indexes for `{namespace}`"),
            ));
        }
        let all: Vec<&Index> = stand.iter().chain(&new).collect();
        let entry = new_entry(
            collection.ident,
            collection.uuid,
            collection.options(),
            &all,
        );
        let mut marks = WriteBatch::new();
        stage_expiring(&new, namespace, &mut marks);
        unit.make_with(Collection::from_entry(namespace.clone(), entry)?, marks)?;
        Ok(created)
    }
}

fn not_in_a_transaction(message: String) -> Error {
    Error::invalid(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message)
}
