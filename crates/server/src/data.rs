//! The seam through which commands ask for documents, wherever those are.
//!
//! The commands that read and write documents know this trait and `quarry_query`'s requests, and nothing of what answers
//! them. Today that is the database of this process, or a transaction in it. A router that asks others can stand here instead, without a command
//! being written again; its cursors are a [`Source::Stream`]. What defines collections and indexes goes through `catalog`,
//! but for what a transaction may make.

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, Value};
use quarry_database::{
    Collation, CommitWatch, Ident, IndexesCreated, Namespace, Operation, RecordedStatement,
    RetryableWrite, Scope,
};
use quarry_journal::Level;
use quarry_query::exec::{
    self, AggregateRequest, CountRequest, DeleteRequest, DistinctRequest, Explained,
    FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, InsertRequest,
    PlanCacheChange, PlanCacheInfo, Result, UpdateOutcome, UpdateRequest, Verbosity,
};

use crate::sessions::client_cursor::Source;

/// Reads and writes of documents. Each call runs for an operation, which may interrupt it; a write returns when it is
/// acknowledged at its level.
pub trait Data: Sync {
    /// Where the documents come from that a find returns.
    fn find(&self, operation: &Operation, request: FindRequest<'_>) -> Result<Source>;

    /// Where the documents come from that a pipeline makes.
    fn aggregate(&self, operation: &Operation, request: AggregateRequest<'_>) -> Result<Source>;

    /// The number of documents that match.
    fn count(&self, operation: &Operation, request: CountRequest<'_>) -> Result<u64>;

    /// The different values of a field.
    fn distinct(&self, operation: &Operation, request: DistinctRequest<'_>) -> Result<Vec<Value>>;

    /// Stores documents; says which of them were refused.
    fn insert(
        &self,
        operation: &Operation,
        request: InsertRequest<'_>,
        level: Level,
    ) -> Result<InsertOutcome>;

    /// Runs one statement of an update.
    fn update(
        &self,
        operation: &Operation,
        request: UpdateRequest<'_>,
        level: Level,
    ) -> Result<UpdateOutcome>;

    /// Runs one statement of a delete; returns how many documents it removed.
    fn delete(
        &self,
        operation: &Operation,
        request: DeleteRequest<'_>,
        level: Level,
    ) -> Result<u64>;

    /// Changes or removes one document, and returns it.
    fn find_and_modify(
        &self,
        operation: &Operation,
        request: FindAndModifyRequest<'_>,
        level: Level,
    ) -> Result<FindAndModifyOutcome>;

    /// Writes into `reply` how a command is planned and, where asked, what running it examined.
    fn explain(
        &self,
        operation: &Operation,
        explained: Explained<'_>,
        verbosity: Verbosity,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()>;

    /// Changes what is kept for queries of the shape of this one: the plans that were chosen for them, or their index filter.
    fn change_plan_cache(
        &self,
        operation: &Operation,
        request: &FindRequest<'_>,
        change: PlanCacheChange,
    ) -> Result<()>;

    /// The hashes by which the plan cache knows a find; none over a view.
    fn plan_cache_info(
        &self,
        operation: &Operation,
        request: &FindRequest<'_>,
    ) -> Result<Option<PlanCacheInfo>>;

    /// Has a source of documents go on where it stopped, for the next batch.
    fn resume(&self, operation: &Operation, source: &mut Source) -> Result<()>;

    /// Looks out for commits to a collection from now on.
    fn watch_commits(&self, collection: Ident) -> CommitWatch<'_>;

    /// Refuses the definition of a view that cannot be read.
    fn check_view(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        collation: &Collation,
    ) -> Result<()>;

    /// Creates a collection; the same options again are no error.
    fn create_collection(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        options: RawDocument<'_>,
        level: Level,
    ) -> Result<()>;

    /// Makes indexes, and the collection if it does not exist.
    fn create_indexes(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        specs: &[Document],
        level: Level,
    ) -> Result<IndexesCreated>;

    /// The record of a statement of a retryable write, if it was executed.
    fn recorded_statement(
        &self,
        write: &RetryableWrite,
        statement: i32,
    ) -> Result<Option<RecordedStatement>>;

    /// Waits until what was written so far is as durable as the level asks for. In a transaction nothing is waited for: its
    /// commit is.
    fn settle(&self, level: Level) -> Result<()>;

    /// Whether writes are staged until a transaction is committed.
    fn is_in_transaction(&self) -> bool;
}

impl Data for Scope<'_> {
    fn find(&self, operation: &Operation, request: FindRequest<'_>) -> Result<Source> {
        let executor = exec::find(*self, operation, request)?;
        Ok(Source::Executor(Box::new(executor)))
    }

    fn aggregate(&self, operation: &Operation, request: AggregateRequest<'_>) -> Result<Source> {
        let executor = exec::aggregate(*self, operation, request)?;
        Ok(Source::Executor(Box::new(executor)))
    }

    fn count(&self, operation: &Operation, request: CountRequest<'_>) -> Result<u64> {
        exec::count(*self, operation, request)
    }

    fn distinct(&self, operation: &Operation, request: DistinctRequest<'_>) -> Result<Vec<Value>> {
        exec::distinct(*self, operation, request)
    }

    fn insert(
        &self,
        operation: &Operation,
        request: InsertRequest<'_>,
        level: Level,
    ) -> Result<InsertOutcome> {
        exec::insert(*self, operation, request, level)
    }

    fn update(
        &self,
        operation: &Operation,
        request: UpdateRequest<'_>,
        level: Level,
    ) -> Result<UpdateOutcome> {
        exec::update(*self, operation, request, level)
    }

    fn delete(
        &self,
        operation: &Operation,
        request: DeleteRequest<'_>,
        level: Level,
    ) -> Result<u64> {
        exec::delete(*self, operation, request, level)
    }

    fn find_and_modify(
        &self,
        operation: &Operation,
        request: FindAndModifyRequest<'_>,
        level: Level,
    ) -> Result<FindAndModifyOutcome> {
        exec::find_and_modify(*self, operation, request, level)
    }

    fn explain(
        &self,
        operation: &Operation,
        explained: Explained<'_>,
        verbosity: Verbosity,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        exec::explain(*self, operation, explained, verbosity, reply)
    }

    fn change_plan_cache(
        &self,
        operation: &Operation,
        request: &FindRequest<'_>,
        change: PlanCacheChange,
    ) -> Result<()> {
        exec::change_plan_cache(*self, operation, request, change)
    }

    fn plan_cache_info(
        &self,
        operation: &Operation,
        request: &FindRequest<'_>,
    ) -> Result<Option<PlanCacheInfo>> {
        exec::plan_cache_info(*self, operation, request)
    }

    fn resume(&self, operation: &Operation, source: &mut Source) -> Result<()> {
        match source {
            Source::Executor(executor) => executor.restore(*self, operation),
            Source::Documents(_) | Source::Stream(_) | Source::Changes(_) => Ok(()),
        }
    }

    fn watch_commits(&self, collection: Ident) -> CommitWatch<'_> {
        Scope::watch_commits(self, collection)
    }

    fn check_view(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        collation: &Collation,
    ) -> Result<()> {
        exec::check_view(*self, operation, namespace, on, pipeline, collation)
    }

    fn create_collection(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        options: RawDocument<'_>,
        level: Level,
    ) -> Result<()> {
        Ok(Scope::create_collection(
            self, namespace, options, operation, level,
        )?)
    }

    fn create_indexes(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        specs: &[Document],
        level: Level,
    ) -> Result<IndexesCreated> {
        Ok(Scope::create_indexes(
            self, namespace, specs, operation, level,
        )?)
    }

    fn recorded_statement(
        &self,
        write: &RetryableWrite,
        statement: i32,
    ) -> Result<Option<RecordedStatement>> {
        Ok(Scope::recorded_statement(self, write, statement)?)
    }

    fn settle(&self, level: Level) -> Result<()> {
        Ok(Scope::settle(self, None, level)?)
    }

    fn is_in_transaction(&self) -> bool {
        Scope::is_in_transaction(self)
    }
}
