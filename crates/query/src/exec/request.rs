//! Requests as commands read them from the wire, not yet parsed further, and the answers to them.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value};
use quarry_database::{Level, Namespace, Temporary};

use super::thread_bounds::ThreadBounds;
use crate::error::Error;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::metadata::MetadataKinds;
use crate::pipeline::AddedSource;

/// A find.
#[derive(Clone, Copy)]
pub struct FindRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// The fields to return, if not all.
    pub projection: Option<RawDocument<'a>>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'a>>,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// Documents to leave out at the beginning.
    pub skip: u64,
    /// Documents at most, if they are bounded.
    pub limit: Option<u64>,
    /// The paths that are read of the documents where there is no projection; None if documents are read as a whole. A
    /// document may come without the fields that nobody reads.
    pub read: Option<&'a [FieldPath]>,
    /// The path of whose values one document each does, if there is one; a missing value counts as null.
    pub grouped: Option<&'a FieldPath>,
    /// Whether the cursor stays open at the end of a capped collection.
    pub is_tailable: bool,
    /// The options about keys and metadata, if one of them is given.
    pub key_options: Option<KeyOptions<'a>>,
}

/// The options of a find that few have: about the keys of an index, and about what a read knows of a document beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyOptions<'a> {
    /// The lower bound of the keys of the index that the hint names, inclusive.
    pub min: Option<RawDocument<'a>>,
    /// The upper bound, exclusive.
    pub max: Option<RawDocument<'a>>,
    /// Whether the keys by which documents are found are returned in place of the documents.
    pub returns_key: bool,
    /// Whether each document is returned with its RecordId.
    pub shows_record_id: bool,
    /// The metadata that whoever reads the documents wants attached to them.
    pub metadata: MetadataKinds,
}

/// The input of a pipeline.
#[derive(Clone, Copy)]
pub enum Over<'a> {
    /// A collection.
    Collection(&'a Namespace),
    /// A database by name: the first stage makes the documents.
    Database(&'a str),
}

/// An aggregate.
#[derive(Clone, Copy)]
pub struct AggregateRequest<'a> {
    /// The input.
    pub over: Over<'a>,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    /// The stages.
    pub pipeline: RawArray<'a>,
    /// First stages that whoever asks makes.
    pub sources: &'a [AddedSource<'a>],
    /// The level at which a stage that writes the result is acknowledged.
    pub level: Level,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// The threads that may work on it.
    pub threads: ThreadBounds,
}

/// A count.
#[derive(Clone, Copy)]
pub struct CountRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// Documents to leave out at the beginning.
    pub skip: u64,
    /// Documents at most, if they are bounded.
    pub limit: Option<u64>,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// The context of the command's filter; None for a command without one.
    pub context: Option<&'a ExpressionContext>,
}

/// A distinct.
#[derive(Clone, Copy)]
pub struct DistinctRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The dotted path whose values are asked for.
    pub key: &'a str,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// The context of the command's filter; None for a command without one.
    pub context: Option<&'a ExpressionContext>,
}

/// An insert.
#[derive(Clone, Copy)]
pub struct InsertRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The documents to insert.
    pub documents: &'a [RawDocument<'a>],
    /// Stops at the first document that is refused.
    pub is_ordered: bool,
    /// Stores `Timestamp(0, 0)` as it is instead of the time.
    pub keeps_empty_timestamps: bool,
    /// A document may nest deeper than what is stored; false where validation has shown that none does.
    pub may_be_too_deep: bool,
    /// The temporary collection that the name means, where it shall mean no other one.
    pub into: Option<&'a Temporary>,
}

/// One statement of an update.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    /// The statement's own collation, if it has one.
    pub collation: Option<RawDocument<'a>>,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// The replacement, the update operators or the pipeline.
    pub update: RawValue<'a>,
    /// Whether a document is inserted when none matches.
    pub is_upsert: bool,
    /// Whether all documents that match are meant, and not only the first.
    pub is_multi: bool,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// The order in which the one document to change is the first; not with `is_multi`.
    pub sort: Option<RawDocument<'a>>,
    /// The filters that the update's paths name with `$[<identifier>]`.
    pub array_filters: Option<RawArray<'a>>,
    /// Values that the expressions of a pipeline read as variables.
    pub constants: Option<RawDocument<'a>>,
    /// Whether a replacement keeps its empty timestamps, as for an insert.
    pub keeps_empty_timestamps: bool,
}

/// One statement of a delete.
#[derive(Clone, Copy)]
pub struct DeleteRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    /// The statement's own collation, if it has one.
    pub collation: Option<RawDocument<'a>>,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// Whether all documents that match are meant, and not only the first.
    pub is_multi: bool,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
}

/// A findAndModify.
#[derive(Clone, Copy)]
pub struct FindAndModifyRequest<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The context that all expressions of the command share; None for a command without `let`, of one request.
    pub context: Option<&'a ExpressionContext>,
    /// The filter; an empty one matches every document.
    pub filter: RawDocument<'a>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'a>>,
    /// The fields to return, if not all.
    pub projection: Option<RawDocument<'a>>,
    /// None removes the document.
    pub update: Option<RawValue<'a>>,
    /// Whether the document is returned as it is after the change.
    pub returns_new: bool,
    /// Whether a document is inserted when none matches.
    pub is_upsert: bool,
    /// The index to use, by name or key pattern.
    pub hint: Option<RawValue<'a>>,
    /// The filters that the update's paths name with `$[<identifier>]`.
    pub array_filters: Option<RawArray<'a>>,
    /// Whether a replacement keeps its empty timestamps, as for an insert.
    pub keeps_empty_timestamps: bool,
}

/// The answer to an insert.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// How many documents went in.
    pub inserted: u64,
    /// By position in the request.
    pub errors: Vec<(usize, Error)>,
}

/// The answer to one statement of an update.
#[derive(Debug, Default)]
pub struct UpdateOutcome {
    /// Without an upserted document.
    pub matched: u64,
    /// Documents that were changed.
    pub modified: u64,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<Value>,
}

/// The answer to a findAndModify.
#[derive(Debug, Default)]
pub struct FindAndModifyOutcome {
    /// Whether a document matched.
    pub matched: bool,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<Value>,
    /// The document before or after the change.
    pub value: Option<Document>,
}

impl<'a> InsertRequest<'a> {
    /// An ordered insert with every other option off.
    pub fn new(namespace: &'a Namespace, documents: &'a [RawDocument<'a>]) -> InsertRequest<'a> {
        InsertRequest {
            namespace,
            documents,
            is_ordered: true,
            keeps_empty_timestamps: false,
            may_be_too_deep: true,
            into: None,
        }
    }
}

impl<'a> FindRequest<'a> {
    /// A find of everything, with every option off.
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
            read: None,
            grouped: None,
            is_tailable: false,
            key_options: None,
        }
    }

    /// The options that only few finds have, to set one.
    pub fn key_options(&mut self) -> &mut KeyOptions<'a> {
        self.key_options.get_or_insert_default()
    }
}

impl KeyOptions<'_> {
    /// The name of the first option that a view does not serve, if there is one.
    pub fn not_for_views(&self) -> Option<&'static str> {
        let options = [
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("returnKey", self.returns_key),
            ("showRecordId", self.shows_record_id),
        ];
        let asked = options.into_iter().find(|(_, is_asked)| *is_asked);
        asked.map(|(name, _)| name)
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
    /// An aggregate with every option off.
    pub fn new(over: Over<'a>, pipeline: RawArray<'a>) -> AggregateRequest<'a> {
        AggregateRequest {
            over,
            context: None,
            pipeline,
            sources: &[],
            level: Level::Durable,
            hint: None,
            threads: ThreadBounds::default(),
        }
    }
}

impl<'a> CountRequest<'a> {
    /// A count of everything.
    pub fn new(namespace: &'a Namespace) -> CountRequest<'a> {
        CountRequest {
            namespace,
            filter: RawDocument::EMPTY,
            skip: 0,
            limit: None,
            hint: None,
            context: None,
        }
    }
}

impl<'a> DistinctRequest<'a> {
    /// A distinct over everything.
    pub fn new(namespace: &'a Namespace, key: &'a str) -> DistinctRequest<'a> {
        DistinctRequest {
            namespace,
            key,
            filter: RawDocument::EMPTY,
            hint: None,
            context: None,
        }
    }
}

impl<'a> FindAndModifyRequest<'a> {
    /// A findAndModify that removes the first document.
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
            array_filters: None,
            keeps_empty_timestamps: false,
        }
    }
}
