//! Requests as commands read them from the wire, not yet parsed further, and the answers to them.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value};
use quarry_database::{Error, Namespace};

use crate::expression::ExpressionContext;
use crate::pipeline::AddedSource;

#[derive(Clone, Copy)]
pub struct FindRequest<'a> {
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    pub filter: RawDocument<'a>,
    pub projection: Option<RawDocument<'a>>,
    pub sort: Option<RawDocument<'a>>,
    pub hint: Option<RawValue<'a>>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub is_tailable: bool,
}

/// The input of a pipeline.
#[derive(Clone, Copy)]
pub enum Over<'a> {
    Collection(&'a Namespace),
    /// A database by name: the first stage makes the documents.
    Database(&'a str),
}

#[derive(Clone, Copy)]
pub struct AggregateRequest<'a> {
    pub over: Over<'a>,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    pub pipeline: RawArray<'a>,
    /// First stages that whoever asks makes.
    pub sources: &'a [AddedSource<'a>],
    pub hint: Option<RawValue<'a>>,
}

#[derive(Clone, Copy)]
pub struct CountRequest<'a> {
    pub namespace: &'a Namespace,
    pub filter: RawDocument<'a>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub hint: Option<RawValue<'a>>,
}

#[derive(Clone, Copy)]
pub struct DistinctRequest<'a> {
    pub namespace: &'a Namespace,
    pub key: &'a str,
    pub filter: RawDocument<'a>,
    pub hint: Option<RawValue<'a>>,
}

#[derive(Clone, Copy)]
pub struct InsertRequest<'a> {
    pub namespace: &'a Namespace,
    pub documents: &'a [RawDocument<'a>],
    /// Stops at the first document that is refused.
    pub is_ordered: bool,
    /// Stores `Timestamp(0, 0)` as it is instead of the time.
    pub keeps_empty_timestamps: bool,
    /// A document may nest deeper than what is stored; false where validation has shown that none does.
    pub may_be_too_deep: bool,
}

#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    pub filter: RawDocument<'a>,
    pub update: RawValue<'a>,
    pub is_upsert: bool,
    pub is_multi: bool,
    pub hint: Option<RawValue<'a>>,
    /// Whether a replacement keeps its empty timestamps, as for an insert.
    pub keeps_empty_timestamps: bool,
}

#[derive(Clone, Copy)]
pub struct DeleteRequest<'a> {
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    pub filter: RawDocument<'a>,
    pub is_multi: bool,
    pub hint: Option<RawValue<'a>>,
}

#[derive(Clone, Copy)]
pub struct FindAndModifyRequest<'a> {
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    pub filter: RawDocument<'a>,
    pub sort: Option<RawDocument<'a>>,
    pub projection: Option<RawDocument<'a>>,
    /// None removes the document.
    pub update: Option<RawValue<'a>>,
    pub returns_new: bool,
    pub is_upsert: bool,
    pub hint: Option<RawValue<'a>>,
    /// Whether a replacement keeps its empty timestamps, as for an insert.
    pub keeps_empty_timestamps: bool,
}

#[derive(Debug, Default)]
pub struct InsertOutcome {
    pub inserted: u64,
    /// By position in the request.
    pub errors: Vec<(usize, Error)>,
}

#[derive(Debug, Default)]
pub struct UpdateOutcome {
    /// Without an upserted document.
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<Value>,
}

#[derive(Debug, Default)]
pub struct FindAndModifyOutcome {
    pub matched: bool,
    pub upserted: Option<Value>,
    /// The document before or after the change.
    pub value: Option<Document>,
}

impl<'a> InsertRequest<'a> {
    pub fn new(namespace: &'a Namespace, documents: &'a [RawDocument<'a>]) -> InsertRequest<'a> {
        InsertRequest {
            namespace,
            documents,
            is_ordered: true,
            keeps_empty_timestamps: false,
            may_be_too_deep: true,
        }
    }
}

impl<'a> FindRequest<'a> {
    pub fn new(namespace: &'a Namespace) -> FindRequest<'a> {
        FindRequest {
            namespace,
            context: None,
            filter: RawDocument::EMPTY,
            projection: None,
            sort: None,
            hint: None,
            skip: 0,
            limit: None,
            is_tailable: false,
        }
    }
}

impl Over<'_> {
    /// The name of the database.
    pub fn database(&self) -> &str {
        match self {
            Over::Collection(namespace) => namespace.database(),
            Over::Database(name) => name,
        }
    }
}

impl<'a> AggregateRequest<'a> {
    pub fn new(over: Over<'a>, pipeline: RawArray<'a>) -> AggregateRequest<'a> {
        AggregateRequest {
            over,
            context: None,
            pipeline,
            sources: &[],
            hint: None,
        }
    }
}

impl<'a> CountRequest<'a> {
    pub fn new(namespace: &'a Namespace) -> CountRequest<'a> {
        CountRequest {
            namespace,
            filter: RawDocument::EMPTY,
            skip: 0,
            limit: None,
            hint: None,
        }
    }
}

impl<'a> DistinctRequest<'a> {
    pub fn new(namespace: &'a Namespace, key: &'a str) -> DistinctRequest<'a> {
        DistinctRequest {
            namespace,
            key,
            filter: RawDocument::EMPTY,
            hint: None,
        }
    }
}

impl<'a> FindAndModifyRequest<'a> {
    pub fn new(namespace: &'a Namespace) -> FindAndModifyRequest<'a> {
        FindAndModifyRequest {
            namespace,
            context: None,
            filter: RawDocument::EMPTY,
            sort: None,
            projection: None,
            update: None,
            returns_new: false,
            is_upsert: false,
            hint: None,
            keeps_empty_timestamps: false,
        }
    }
}
