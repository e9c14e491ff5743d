//! Where an operation reads and writes: the database itself, a transaction, or a pinned snapshot.
//!
//! Whoever executes queries asks a `Scope` for snapshots and hands it pieces, and need not know which of them it is.
//! In the database a read sees what was committed last, and each piece is committed by itself; in a transaction a read sees
//! the transaction's snapshot under its own writes, and pieces are staged until the transaction is committed. A pinned
//! snapshot is only read.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument};
use quarry_journal::Level;
use quarry_timing::Phase;

use super::{Database, PinnedSnapshot};
use crate::catalog::collection::Collection;
use crate::commit::watches::CommitWatch;
use crate::definitions::known_index::IndexesCreated;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::sessions::retryable_write::RetryableWrite;
use crate::sessions::session_records::RecordedStatement;
use crate::snapshot::collection_snapshot::CollectionSnapshot;
use crate::write::{Compute, Inserted, Modified, Transaction};

/// Where an operation reads and writes.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    database: &'a Database,
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Database,
    Transaction(&'a Transaction),
    Pinned(&'a PinnedSnapshot),
}

impl<'a> From<&'a Database> for Scope<'a> {
    fn from(database: &'a Database) -> Scope<'a> {
        Scope {
            database,
            place: Place::Database,
        }
    }
}

impl<'a> Scope<'a> {
    /// The scope of an operation that works in a transaction of the database.
    pub fn in_transaction(database: &'a Database, transaction: &'a Transaction) -> Scope<'a> {
        Scope {
            database,
            place: Place::Transaction(transaction),
        }
    }

    /// The scope of an operation that reads a pinned snapshot of the database.
    pub fn at_snapshot(database: &'a Database, pinned: &'a PinnedSnapshot) -> Scope<'a> {
        Scope {
            database,
            place: Place::Pinned(pinned),
        }
    }

    /// Whether what is written here is committed later, with everything else of a transaction.
    pub fn is_in_transaction(&self) -> bool {
        matches!(self.place, Place::Transaction(_))
    }

    /// The collection that the name means, if there is one.
    #[inline]
    pub fn collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<Arc<Collection>>> {
        let database = self.database;
        match self.place {
            Place::Database => database.collection(namespace),
            Place::Transaction(transaction) => {
                let writer = &database.writer;
                transaction.run(|unit| writer.collection_in(unit, namespace, operation))
            }
            Place::Pinned(pinned) => pinned.collection(&database.catalog, namespace),
        }
    }

    /// A snapshot of the collection that the name means; none if there is no such collection.
    #[inline]
    pub fn snapshot(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<CollectionSnapshot>> {
        let database = self.database;
        match self.place {
            Place::Database => database.snapshot(namespace),
            Place::Transaction(transaction) => {
                let writer = &database.writer;
                transaction.run(|unit| writer.snapshot_in(unit, namespace, operation))
            }
            Place::Pinned(pinned) => pinned.open(&database.catalog, namespace),
        }
    }

    /// Reads one record of a collection that was asked for here; false if there is none.
    #[inline]
    pub fn get_record(&self, record_key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = match self.place {
            Place::Database => return self.database.get_record(record_key, read),
            Place::Transaction(transaction) => transaction,
            Place::Pinned(pinned) => return pinned.get_record(record_key, read),
        };
        let _read = quarry_timing::phase(Phase::EngineRead);
        let writer = &self.database.writer;
        transaction.run(|unit| writer.get_record_in(unit, record_key, read))
    }

    /// The exact number of documents of a collection that was asked for here.
    pub fn count(&self, collection: &Collection) -> Result<u64> {
        let database = self.database;
        let counts = match self.place {
            Place::Database => database.counts(collection)?,
            Place::Transaction(transaction) => {
                let writer = &database.writer;
                transaction.run(|unit| writer.counts_in(unit, collection.ident))?
            }
            Place::Pinned(pinned) => pinned.counts(collection)?,
        };
        Ok(counts.documents)
    }

    /// Inserts documents, each with its `_id` first, as one piece. `level` is as for `Database::insert_piece`, and is not
    /// looked at in a transaction.
    #[inline]
    pub fn insert_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
        level: Level,
    ) -> Result<Inserted> {
        let Some(transaction) = self.transaction()? else {
            let database = self.database;
            return database.insert_piece(operation, namespace, documents, ordered, level);
        };
        let writer = &self.database.writer;
        transaction.run(|unit| writer.insert_in(unit, operation, namespace, documents, ordered))
    }

    /// Changes or deletes the records that still stand under `record_keys`, as one piece. `level` is as for `insert_piece`.
    #[inline]
    pub fn modify_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        level: Level,
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        let writer = &self.database.writer;
        let Some(transaction) = self.transaction()? else {
            return writer.modify_piece(
                operation,
                namespace,
                expected,
                record_keys,
                level,
                compute,
            );
        };
        transaction.run(|unit| {
            writer.modify_in(unit, operation, namespace, expected, record_keys, compute)
        })
    }

    /// Like `Database::settle`. In a transaction nothing is waited for: the commit is.
    #[inline]
    pub fn settle(&self, lsn: Option<u64>, level: Level) -> Result<()> {
        match self.place {
            Place::Transaction(_) => Ok(()),
            Place::Database | Place::Pinned(_) => self.database.settle(lsn, level),
        }
    }

    /// Looks out for commits to a collection from now on. What is staged in a transaction is no commit.
    pub fn watch_commits(&self, collection: Ident) -> CommitWatch<'a> {
        self.database.watch_commits(collection)
    }

    /// The record of a statement of a retryable write, if it was executed.
    pub fn recorded_statement(
        &self,
        write: &RetryableWrite,
        statement: i32,
    ) -> Result<Option<RecordedStatement>> {
        let (session, number) = (write.session(), write.txn_number());
        self.database.recorded_statement(session, number, statement)
    }

    /// Creates a collection; the same options again are no error.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let Some(transaction) = self.transaction()? else {
            let database = self.database;
            return database.create_collection(namespace, options, operation, level);
        };
        let writer = &self.database.writer;
        transaction.run(|unit| writer.create_collection_in(unit, namespace, options, operation))
    }

    /// Makes indexes, and the collection if it does not exist; in a transaction on a collection that is new and empty.
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
        level: Level,
    ) -> Result<IndexesCreated> {
        let Some(transaction) = self.transaction()? else {
            let database = self.database;
            return database.create_indexes(namespace, specs, operation, level);
        };
        let writer = &self.database.writer;
        transaction.run(|unit| writer.create_indexes_in(unit, namespace, specs, operation))
    }

    /// The database itself, for definitions that are made outside of transactions.
    pub fn outside_transactions(&self) -> Result<&'a Database> {
        match self.transaction()? {
            None => Ok(self.database),
            Some(_) => {
                let message = "this cannot be done inside of a multi-document transaction";
                let code = ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
                Err(Error::invalid(code, message))
            }
        }
    }

    /// The transaction that a write is staged in, if it is; an error where nothing can be written.
    #[inline]
    fn transaction(&self) -> Result<Option<&'a Transaction>> {
        match self.place {
            Place::Database => Ok(None),
            Place::Transaction(transaction) => Ok(Some(transaction)),
            Place::Pinned(_) => {
                let message = "a snapshot of the past cannot be written to";
                Err(Error::invalid(ErrorCode::ILLEGAL_OPERATION, message))
            }
        }
    }
}
