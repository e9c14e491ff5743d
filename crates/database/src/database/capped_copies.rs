//! Capped copies of collections: the last documents of one, as many as have room, in a new capped collection, which takes the place of
//! the old one (`convert`) or stands beside it (`clone_beside`).
//!
//! Keeps true: readers, and whoever opens the database after a crash, find the old collection or the whole new one. The copy is filled
//! as a temporary collection, which one commit puts in its place. While a collection is converted it is held exclusively, so that no
//! write is lost, and so is the copy. The DDL mutex is not held, which would stop definitions in other collections and databases: whoever
//! changes the definition of one of the two waits for its hold, and whoever drops the database for that of the database.
//!
//! Leaves out the indexes, but for that on `_id`, as MongoDB does.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument};
use quarry_journal::Level;
use quarry_storage::KeyRange;

use super::Database;
use crate::catalog::collection::{CLUSTERED_INDEX, Capped, Collection};
use crate::definitions::changes::not_found;
use crate::definitions::replacement::Temporary;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::snapshot::collection_snapshot::CollectionSnapshot;

/// The documents, and the bytes, that are inserted with one call. They make no large batch, which would wait for its turn under the hold.
const BATCH_DOCUMENTS_MAX: usize = 1000;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// An encrypted collection cannot be capped.
const ENCRYPTED: ErrorCode = ErrorCode(6_367_302);

/// Who makes such copies in a database.
pub(super) struct CappedCopies<'d>(pub &'d Database);

impl CappedCopies<'_> {
    /// Makes a collection a capped one. Its indexes go, but for that on `_id`.
    pub fn convert(
        &self,
        namespace: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let collection = self.0.catalog.get(namespace)?;
        let collection = collection.ok_or_else(|| not_found(namespace))?;
        let options = capped_options(&collection, size_bytes)?;
        self.through_temporary(namespace, &options, operation, |temporary| {
            let holds = &self.0.holds;
            let database = namespace.database();
            let _database = (holds.holds()).shared_database_within(database, operation, None)?;
            let held = holds.hold_both(&temporary.namespace, namespace, operation)?;
            let ((copy, _copy_hold), (collection, _hold)) =
                held.ok_or_else(|| not_found(namespace))?;
            if copy.ident != temporary.ident {
                return Err(temporary.gone());
            }
            self.refuse_builds(&collection)?;
            if capped_options(&collection, size_bytes)? != options {
                let message = format!("collection options of {namespace} changed meanwhile");
                return Err(Error::invalid(ErrorCode::COMMAND_FAILED, message));
            }
            self.copy_last(namespace, &copy, operation)?;
            self.0.definitions.take_place(&copy, &collection, operation)
        })
        .and_then(|lsn| self.0.commits.settle(Some(lsn), level))
    }

    /// Copies the last documents of a collection, as many as have room, into a new capped one.
    pub fn clone_beside(
        &self,
        from: &Namespace,
        to: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let Some(source) = self.0.catalog.get(from)? else {
            let message = format!("source collection {from} does not exist");
            return Err(Error::NamespaceNotFound(message));
        };
        let options = capped_options(&source, size_bytes)?;
        if self.0.catalog.get(to)?.is_some() {
            return Err(Error::NamespaceExists(format!(
                "cloneCollectionAsCapped failed - destination collection {to} already exists. source collection: {from}"
            )));
        }
        self.through_temporary(to, &options, operation, |temporary| {
            let held = (self.0.holds).hold_exclusive(&temporary.namespace, operation)?;
            let held = held.filter(|(copy, _)| copy.ident == temporary.ident);
            let (copy, hold) = held.ok_or_else(|| temporary.gone())?;
            self.copy_last(from, &copy, operation)?;
            drop(hold);
            (self.0.definitions).replace_collection(temporary, to, None, operation, level)
        })
    }

    /// Makes a temporary collection for `work`, and drops it where that fails.
    fn through_temporary<T>(
        &self,
        target: &Namespace,
        options: &Document,
        operation: &Operation,
        work: impl FnOnce(&Temporary) -> Result<T>,
    ) -> Result<T> {
        let options = options.as_raw();
        let temporary =
            (self.0.definitions).create_temporary(target.database(), options, operation)?;
        // The documents suited the validator, or were there before it.
        operation.bypass_validation();
        let done = work(&temporary);
        if done.is_err() {
            // After the next start it would go, too.
            let _ = self.0.drop_temporary(&temporary);
        }
        done
    }

    fn refuse_builds(&self, collection: &Collection) -> Result<()> {
        let indexes = &self.0.catalog.index_catalog(collection)?.indexes;
        match indexes.iter().any(|index| index.building) {
            false => Ok(()),
            true => {
                let name = &collection.namespace;
                let message = format!(
                    "cannot perform operation: an index build is currently running for collection '{name}'"
                );
                let code = ErrorCode::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE;
                Err(Error::invalid(code, message))
            }
        }
    }

    /// Copies the last documents of `from`, as many as have room, into a capped collection that is held exclusively.
    fn copy_last(
        &self,
        from: &Namespace,
        to: &Arc<Collection>,
        operation: &Operation,
    ) -> Result<()> {
        let source = self.0.snapshot(from)?.ok_or_else(|| not_found(from))?;
        let bounds = to.capped.expect("the copy was made with these options");
        let Some(first) = first_to_fit(&source, bounds, operation)? else {
            return Ok(());
        };
        let mut records = KeyRange::prefix(source.collection.prefix.as_bytes());
        records.start = first;
        let mut cursor = source.cursor(records)?;
        let (mut batch, mut bytes): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        cursor.first()?;
        while cursor.valid() {
            operation.check()?;
            bytes += cursor.value().len();
            batch.push(cursor.value().to_vec());
            cursor.next()?;
            let is_full = batch.len() >= BATCH_DOCUMENTS_MAX || bytes >= BATCH_BYTES_MAX;
            if is_full || !cursor.valid() {
                self.insert_all(to, &batch, operation)?;
                batch.clear();
                bytes = 0;
            }
        }
        Ok(())
    }

    fn insert_all(
        &self,
        to: &Arc<Collection>,
        batch: &[Vec<u8>],
        operation: &Operation,
    ) -> Result<()> {
        let documents = batch.iter().map(|bytes| RawDocument::new(bytes));
        let documents = documents.collect::<Result<Vec<_>, _>>()?;
        let mut left = documents.as_slice();
        while !left.is_empty() {
            let inserted =
                (self.0.writer).insert_under_hold(operation, to, left, Level::Written)?;
            if let Some((_, error)) = inserted.errors.into_iter().next() {
                return Err(error);
            }
            left = &left[inserted.taken..];
        }
        Ok(())
    }
}

/// The record from which on all have room in a capped collection; the last one has in any. None where there are no records.
fn first_to_fit(
    source: &CollectionSnapshot,
    bounds: Capped,
    operation: &Operation,
) -> Result<Option<Vec<u8>>> {
    let records = KeyRange::prefix(source.collection.prefix.as_bytes());
    let mut cursor = source.cursor(records)?;
    let (mut bytes, mut documents, mut steps) = (0, 0, 0);
    let mut first = None;
    cursor.last()?;
    while cursor.valid() {
        operation.step(&mut steps)?;
        bytes += cursor.value().len() as u64;
        documents += 1;
        let is_over =
            bytes > bounds.size_bytes || bounds.documents_max.is_some_and(|max| documents > max);
        if is_over && first.is_some() {
            break;
        }
        first = Some(cursor.key().to_vec());
        cursor.prev()?;
    }
    Ok(first)
}

/// The options of a capped copy of a collection.
fn capped_options(collection: &Collection, size_bytes: i64) -> Result<Document> {
    collection.refuse_view()?;
    let name = &collection.namespace;
    if collection.series.is_some() {
        let message = format!("Namespace {name} is a view, not a collection");
        let code = ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW;
        return Err(Error::invalid(code, message));
    }
    let mut options = quarry_bson::doc! { "capped": true, "size": size_bytes };
    for option in collection.options() {
        match option.name().as_bytes() {
            b"capped" | b"size" => {}
            b"encryptedFields" => {
                let message = "Cannot convert an encrypted collection to a capped collection";
                return Err(Error::invalid(ENCRYPTED, message));
            }
            option if option == CLUSTERED_INDEX.as_bytes() => {
                let message = "'clusteredIndex' is not allowed with 'capped'";
                return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
            }
            _ => {
                options.append_element(option);
            }
        }
    }
    Ok(options)
}
