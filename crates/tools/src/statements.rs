//! Statements that make a document be as it is given, or not be there, by its `_id`: whatever is there before, and however often they are sent.

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, Value, doc};
use quarry_client::{Connection, Sequence};

use crate::error::{Error, Result};
use crate::namespaces::Namespace;

const DUPLICATE_KEY: i32 = 11_000;

/// The command that statements go with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Documents are put as they are given.
    Put,
    /// Documents are deleted.
    Delete,
}

/// Sends statements on the documents of the ids; the ids of those that a unique index refuses. Statements on one document are applied in order: a command takes one after
/// the other.
pub fn send(
    destination: &mut Connection,
    to: &Namespace,
    verb: Verb,
    statements: &[u8],
    ids: &[Value],
) -> Result<Vec<Value>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (name, field) = match verb {
        Verb::Put => ("update", "updates"),
        Verb::Delete => ("delete", "deletes"),
    };
    let mut command = doc! { (name): (to.collection.as_str()), "ordered": false };
    if verb == Verb::Put {
        // The source's documents are as they are.
        command.append("bypassDocumentValidation", true);
    }
    let sequence = Sequence {
        identifier: field,
        documents: statements,
    };
    let reply = destination
        .write(&to.database, &command, sequence, true)
        .map_err(Error::server(format_args!("changes of `{to}`")))?;
    let errors = reply.get_array("writeErrors");
    let mut refused = Vec::new();
    for error in errors.iter().flat_map(RawArray::iter) {
        let Some(error) = error.as_document() else {
            continue;
        };
        let index = error.get("index").and_then(|index| index.as_i64_exact());
        let id = index.and_then(|index| ids.get(usize::try_from(index).ok()?));
        match (error.get_i32("code"), id) {
            (Some(DUPLICATE_KEY), Some(id)) => refused.push(id.clone()),
            _ => {
                let message = error.get_str("errmsg").unwrap_or("refused");
                return Err(Error::Incomplete(format!("`{to}`: {message}")));
            }
        }
    }
    Ok(refused)
}

/// An id with its type, as bytes.
pub fn key(id: &Value) -> Vec<u8> {
    doc! { "": (id.clone()) }.into_bytes()
}

/// Appends the statement that makes the document be as it is here.
pub fn append_put(id: &Value, document: RawDocument<'_>, out: &mut Vec<u8>) {
    let mut statement = DocumentBuilder::new(out);
    statement.document("q").append("_id", id);
    statement.append("u", document).append("upsert", true);
    statement.finish();
}

/// Appends the statement that removes the document.
pub fn append_delete(id: &Value, out: &mut Vec<u8>) {
    let statement: Document = doc! { "q": { "_id": (id.clone()) }, "limit": 1 };
    out.extend_from_slice(statement.as_bytes());
}
