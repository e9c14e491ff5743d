//! The operations of a `bulkWrite`, and the collections that it names for them by number.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::exec::{DeleteRequest, UpdateRequest};
use quarry_query::expression::ExpressionContext;

use super::find::some_hint;
use crate::commands::WRITE_BATCH_DOCUMENTS_MAX;
use crate::dispatch::argument::Argument;
use crate::dispatch::error::{CommandError, Result};

/// The names that errors give an operation and an entry of `nsInfo`.
const OPERATION: &str = "bulkWrite.ops";
const ENTRY: &str = "bulkWrite.nsInfo";

/// One operation.
pub struct BulkOperation<'a> {
    /// The place of its collection in `nsInfo`.
    pub collection: usize,
    pub write: BulkWrite<'a>,
}

/// The change that an operation makes.
pub enum BulkWrite<'a> {
    Insert(RawDocument<'a>),
    Update(UpdateRequest<'a>),
    Delete(DeleteRequest<'a>),
}

/// Reads `nsInfo`: the collections by their numbers.
pub fn parse_collections(entries: &[RawDocument<'_>]) -> Result<Vec<Namespace>> {
    if !(1..=WRITE_BATCH_DOCUMENTS_MAX).contains(&entries.len()) {
        let message = format!(
            "nsInfo must have between 1 and {WRITE_BATCH_DOCUMENTS_MAX} entries. Got {} entries.",
            entries.len()
        );
        return Err(CommandError::new(ErrorCode::INVALID_LENGTH, message));
    }
    entries
        .iter()
        .map(|entry| parse_collection(*entry))
        .collect()
}

fn parse_collection(entry: RawDocument<'_>) -> Result<Namespace> {
    let mut name = None;
    for argument in Argument::each(ENTRY, entry) {
        match argument.name().as_bytes() {
            b"ns" => name = Some(argument.text()?),
            // These would change what is written.
            b"collectionUUID" | b"encryptionInformation" => {
                argument.optional(|_| Err::<(), _>(argument.not_served()))?;
            }
            _ => return Err(argument.unknown()),
        }
    }
    let name = name.ok_or_else(|| CommandError::missing_field(ENTRY, "ns"))?;
    Namespace::parse(name).map_err(|_| {
        let message = format!("Invalid namespace specified for bulkWrite: '{name}'");
        CommandError::new(ErrorCode::INVALID_NAMESPACE, message)
    })
}

impl<'a> BulkOperation<'a> {
    /// Reads one operation, whose first field says what it does and to which of the collections.
    pub fn parse(
        operation: RawDocument<'a>,
        collections: &'a [Namespace],
        context: &'a ExpressionContext,
    ) -> Result<BulkOperation<'a>> {
        let Some(first) = Argument::each(OPERATION, operation).next() else {
            let message = "an operation of bulkWrite must be an insert, an update or a delete";
            return Err(CommandError::failed_to_parse(message));
        };
        if !matches!(first.name().as_bytes(), b"insert" | b"update" | b"delete") {
            return Err(first.unknown());
        }
        let collection = usize::try_from(first.number()?).ok();
        let collection = collection.filter(|number| *number < collections.len());
        let collection = collection.ok_or_else(|| {
            CommandError::bad_value(format!(
                "BulkWrite ops entry {operation} has an invalid nsInfo index."
            ))
        })?;
        let namespace = &collections[collection];
        let write = match first.name().as_bytes() {
            b"insert" => BulkWrite::Insert(parse_insert(operation)?),
            b"update" => BulkWrite::Update(parse_update(operation, namespace, context)?),
            _ => BulkWrite::Delete(parse_delete(operation, namespace, context)?),
        };
        Ok(BulkOperation { collection, write })
    }
}

/// The fields behind the one that says what the operation does.
fn options(operation: RawDocument<'_>) -> impl Iterator<Item = Argument<'_>> {
    Argument::each(OPERATION, operation).skip(1)
}

fn parse_insert(operation: RawDocument<'_>) -> Result<RawDocument<'_>> {
    let mut document = None;
    for argument in options(operation) {
        match argument.name().as_bytes() {
            b"document" => document = Some(argument.document()?),
            _ => return Err(argument.unknown()),
        }
    }
    document.ok_or_else(|| CommandError::missing_field(OPERATION, "document"))
}

fn parse_update<'a>(
    operation: RawDocument<'a>,
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
) -> Result<UpdateRequest<'a>> {
    let (mut filter, mut update) = (None, None);
    let (mut is_upsert, mut is_multi, mut hint) = (false, false, None);
    let (mut array_filters, mut constants, mut sort) = (None, None, None);
    let mut collation = None;
    for argument in options(operation) {
        match argument.name().as_bytes() {
            b"filter" => filter = argument.document_or_null()?,
            b"updateMods" => update = Some(argument.value()),
            b"upsert" => is_upsert = argument.flag()?,
            b"multi" => is_multi = argument.flag()?,
            b"hint" => hint = some_hint(argument.value())?,
            b"collation" => collation = argument.document_or_null()?,
            b"arrayFilters" => array_filters = argument.optional(Argument::array)?,
            b"sort" => sort = argument.some_document()?,
            b"constants" => constants = argument.document_or_null()?,
            b"upsertSupplied" | b"sampleId" | b"allowShardKeyUpdatesWithoutFullShardKeyInQuery" => {
            }
            _ => return Err(argument.unknown()),
        }
    }
    let update = update.ok_or_else(|| CommandError::missing_field(OPERATION, "updateMods"))?;
    if !matches!(update, RawValue::Document(_) | RawValue::Array(_)) {
        return Err(CommandError::failed_to_parse(
            "Update argument must be either an object or an array",
        ));
    }
    Ok(UpdateRequest {
        namespace,
        context: Some(context),
        collation,
        filter: filter.ok_or_else(|| CommandError::missing_field(OPERATION, "filter"))?,
        update,
        is_upsert,
        is_multi,
        hint,
        array_filters,
        constants,
        sort,
        keeps_empty_timestamps: false,
    })
}

fn parse_delete<'a>(
    operation: RawDocument<'a>,
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
) -> Result<DeleteRequest<'a>> {
    let (mut filter, mut is_multi, mut hint) = (None, false, None);
    let mut collation = None;
    for argument in options(operation) {
        match argument.name().as_bytes() {
            b"filter" => filter = argument.document_or_null()?,
            b"multi" => is_multi = argument.flag()?,
            b"hint" => hint = some_hint(argument.value())?,
            b"collation" => collation = argument.document_or_null()?,
            b"sampleId" => {}
            _ => return Err(argument.unknown()),
        }
    }
    Ok(DeleteRequest {
        namespace,
        context: Some(context),
        collation,
        filter: filter.ok_or_else(|| CommandError::missing_field(OPERATION, "filter"))?,
        is_multi,
        hint,
    })
}
