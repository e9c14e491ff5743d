//! Settings of the whole set that are documents of the database `config`, one by its `_id`, as with mongod.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{Database, Namespace, Operation, Scope};
use quarry_journal::Level;
use quarry_query::exec::{self, FindAndModifyRequest, FindRequest};

use crate::dispatch::error::Result;

const DATABASE: &str = "config";

/// The settings with that `_id`; none if they were never set.
pub fn read(database: &Database, collection: &str, id: &str) -> Result<Option<Document>> {
    let operation = Arc::new(Operation::default());
    let namespace = Namespace::new(DATABASE, collection)?;
    let filter = doc! { "_id": id };
    let request = FindRequest {
        filter: filter.as_raw(),
        limit: Some(1),
        ..FindRequest::new(&namespace)
    };
    let mut executor = exec::find(Scope::from(database), &operation, request)?;
    let mut found = Vec::new();
    if !executor.next(&operation, &mut found)? {
        return Ok(None);
    }
    Ok(Some(RawDocument::new(&found)?.to_owned_document()))
}

/// Makes settings durable, in place of those with their `_id`.
pub fn keep(database: &Database, collection: &str, settings: &Document) -> Result<()> {
    let namespace = Namespace::new(DATABASE, collection)?;
    let mut filter = Document::new();
    if let Some(id) = settings.get("_id") {
        filter.append("_id", id);
    }
    let request = FindAndModifyRequest {
        filter: filter.as_raw(),
        update: Some(RawValue::Document(settings.as_raw())),
        is_upsert: true,
        ..FindAndModifyRequest::new(&namespace)
    };
    let (scope, operation) = (Scope::from(database), Operation::default());
    exec::find_and_modify(scope, &operation, request, Level::Durable)?;
    Ok(())
}
