//! `$out` and `$merge` once they are parsed: they stand last and write what comes to them into a collection, instead of handing it to
//! the client. The pipeline passes its documents through them as they are; whoever runs it, and can write, asks for the
//! `ResultWritten` and does so (`exec::written`).

use quarry_bson::{Document, RawDocument, RawValue, Value};

use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{ExpressionContext, LetVariables, type_name};
use crate::field_path::FieldPath;

/// The databases that hold the server's own collections.
const INTERNAL_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// The last stage of a pipeline that writes its result.
#[derive(Debug, Clone, Copy)]
pub enum ResultWritten<'s> {
    /// The documents take the place of a collection's.
    Out(&'s Out),
    /// Each document is merged into a collection.
    Merge(&'s Merge),
}

/// `$out` as it was parsed.
#[derive(Debug)]
pub struct Out {
    /// The collection that is replaced.
    pub target: WriteTarget,
    /// The option that makes a time series of it, with the fields that it was given.
    pub series: Option<Document>,
}

/// `$merge` as it was parsed.
#[derive(Debug)]
pub struct Merge {
    /// The collection that is merged into.
    pub target: WriteTarget,
    /// The fields that tell which document is meant; at least one.
    pub on: Vec<FieldPath>,
    /// The fate of a document that is there.
    pub when_matched: WhenMatched,
    /// The fate of a document for which there is none.
    pub when_not_matched: WhenNotMatched,
    /// How the pipeline compares strings.
    pub collation: Collation,
}

/// The fate of a document that is there when another one is merged into it.
#[derive(Debug)]
pub enum WhenMatched {
    /// The other one takes its place.
    Replace,
    /// It stays as it is.
    KeepExisting,
    /// It gets the fields of the other one.
    Merge,
    /// The aggregate fails.
    Fail,
    /// The stages make the document of it; they have the other one in variables.
    Pipeline(Box<MergePipeline>),
}

/// The pipeline of `whenMatched`.
#[derive(Debug)]
pub struct MergePipeline {
    /// The stages as they were given.
    pub stages: Value,
    pub(super) variables: LetVariables,
    pub(super) context: ExpressionContext,
}

/// The fate of a document that merges into none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is passed over.
    Discard,
    /// The aggregate fails.
    Fail,
}

impl MergePipeline {
    /// The context in which the stages are parsed to merge this document.
    pub fn context_for(&self, document: RawDocument<'_>) -> Result<ExpressionContext> {
        let mut context = self.context.share();
        self.variables.bind(document, &mut context)?;
        Ok(context)
    }
}

impl WhenMatched {
    pub(super) fn name(&self) -> &'static str {
        match self {
            WhenMatched::Replace => "replace",
            WhenMatched::KeepExisting => "keepExisting",
            WhenMatched::Merge => "merge",
            WhenMatched::Fail => "fail",
            WhenMatched::Pipeline(_) => "pipeline",
        }
    }
}

impl WhenNotMatched {
    pub(super) fn name(self) -> &'static str {
        match self {
            WhenNotMatched::Insert => "insert",
            WhenNotMatched::Discard => "discard",
            WhenNotMatched::Fail => "fail",
        }
    }
}

/// A collection that a pipeline writes into, as a specification names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionWritten<'v> {
    /// None for the database of the command.
    pub database: Option<&'v str>,
    /// The collection.
    pub collection: &'v str,
    /// Whether documents may be inserted.
    pub inserts: bool,
    /// Whether documents may be changed.
    pub updates: bool,
    /// Whether documents may be removed.
    pub removes: bool,
}

/// The collection that a stage writes into.
#[derive(Debug, PartialEq, Eq)]
pub struct WriteTarget {
    /// None for the database of the command.
    pub database: Option<Box<str>>,
    /// The collection.
    pub collection: Box<str>,
}

impl WriteTarget {
    /// Reads `{db: .., coll: ..}`; `place` is what errors call it.
    pub(super) fn read(document: RawDocument<'_>, place: &str) -> Result<WriteTarget> {
        let (mut database, mut collection) = (None, None);
        for field in document {
            let slot = match field.name().as_bytes() {
                b"db" => &mut database,
                b"coll" => &mut collection,
                _ => return Err(unknown_field(place, &field.name().to_string_lossy())),
            };
            let RawValue::String(name) = field.value() else {
                let text = format!(
                    "BSON field '{place}.{}' is the wrong type '{}', expected type 'string'",
                    field.name(),
                    type_name(field.value())
                );
                return Err(Error::type_mismatch(text));
            };
            *slot = Some(Box::from(name.as_str()?));
        }
        let collection = collection.ok_or_else(|| missing_field(place, "coll"))?;
        Ok(WriteTarget {
            database,
            collection,
        })
    }

    /// The database that is meant, where `own` is the command's.
    pub fn database_or<'d>(&'d self, own: &'d str) -> &'d str {
        self.database.as_deref().unwrap_or(own)
    }

    /// Refuses collections that nobody writes results into: those of the server, and system collections.
    pub fn check(&self, own: &str, stage: &str, codes: SpecialCodes) -> Result<()> {
        let database = self.database_or(own);
        if self.collection.starts_with("system.") {
            let text = format!("Cannot {stage} to special collection: {}", self.collection);
            return Err(Error::location(codes.collection, text));
        }
        if INTERNAL_DATABASES.contains(&database) {
            let text = format!("Cannot {stage} to internal database: {database}");
            return Err(Error::location(codes.database, text));
        }
        Ok(())
    }
}

/// The codes of a stage's errors for targets that are the server's own.
#[derive(Debug, Clone, Copy)]
pub struct SpecialCodes {
    /// For a system collection.
    pub collection: i32,
    /// For an internal database.
    pub database: i32,
}

pub(super) fn unknown_field(place: &str, name: &str) -> Error {
    let text = format!("BSON field '{place}.{name}' is an unknown field.");
    Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text)
}

pub(super) fn missing_field(place: &str, name: &str) -> Error {
    let text = format!("BSON field '{place}.{name}' is missing but a required field");
    Error::location(40414, text)
}
