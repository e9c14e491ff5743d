//! Documents that entries of the oplog change, gathered and written by and by: only what becomes of a document in the end is sent.

use std::collections::{BTreeMap, HashMap};

use quarry_bson::{Document, Value, doc};
use quarry_client::Connection;

use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::oplog::Change;
use crate::statements::{Verb, append_delete, append_put, key, send};

const CHANGES_MAX: usize = 10_000;
const CHANGES_BYTES_MAX: usize = 16 << 20;
/// Documents that are looked up together, each of which may be as large as one can be.
const LOOKED_UP_MAX: usize = 64;

/// The changes that have not been written.
#[derive(Default)]
pub struct Replayed {
    open: BTreeMap<Namespace, Changes>,
    len: usize,
    bytes: usize,
}

/// The changes of a collection's documents, in the order in which they were first changed.
#[derive(Default)]
struct Changes {
    places: HashMap<Vec<u8>, usize>,
    documents: Vec<(Value, Vec<Change>)>,
}

impl Replayed {
    /// Takes a change, which takes so many bytes.
    pub fn add(&mut self, namespace: Namespace, id: Value, change: Change, bytes: usize) {
        let changes = self.open.entry(namespace).or_default();
        let next = changes.documents.len();
        let place = *changes.places.entry(key(&id)).or_insert(next);
        if place == next {
            changes.documents.push((id, Vec::new()));
        }
        let (_, of_document) = &mut changes.documents[place];
        if !change.looks_back() {
            of_document.clear();
        }
        of_document.push(change);
        self.len += 1;
        self.bytes += bytes;
    }

    pub fn is_full(&self) -> bool {
        self.len >= CHANGES_MAX || self.bytes >= CHANGES_BYTES_MAX
    }

    /// Writes the changes; the documents that a unique index refuses, by the names of their collections.
    pub fn flush(&mut self, connection: &mut Connection) -> Result<Vec<(Namespace, Value)>> {
        let mut refused = Vec::new();
        (self.len, self.bytes) = (0, 0);
        for (namespace, changes) in std::mem::take(&mut self.open) {
            let mut documents = changes.documents.into_iter().peekable();
            while documents.peek().is_some() {
                let some = documents.by_ref().take(LOOKED_UP_MAX).collect();
                let ids = write(connection, &namespace, some)?;
                refused.extend(ids.into_iter().map(|id| (namespace.clone(), id)));
            }
        }
        Ok(refused)
    }
}

/// Writes what becomes of some documents; those that a unique index refuses.
fn write(
    connection: &mut Connection,
    namespace: &Namespace,
    documents: Vec<(Value, Vec<Change>)>,
) -> Result<Vec<Value>> {
    let looks_back = |changes: &[Change]| changes.first().is_some_and(Change::looks_back);
    let wanted = documents.iter().filter(|(_, changes)| looks_back(changes));
    let mut found = find(connection, namespace, wanted.map(|(id, _)| id))?;
    let (mut put, mut put_ids) = (Vec::new(), Vec::new());
    let (mut deleted, mut deleted_ids) = (Vec::new(), Vec::new());
    for (id, changes) in documents {
        let before = found.remove(&key(&id));
        // What is not there stays so, unless it is put.
        let was_sought = looks_back(&changes) && before.is_none();
        let after = changes
            .into_iter()
            .try_fold(before, |document, change| change.apply(document))
            .map_err(|what| Error::Incomplete(format!("`{namespace}`, _id {id}: {what}")))?;
        match after {
            Some(document) => {
                append_put(&id, document.as_raw(), &mut put);
                put_ids.push(id);
            }
            None if was_sought => {}
            None => {
                append_delete(&id, &mut deleted);
                deleted_ids.push(id);
            }
        }
    }
    // What makes room for a unique value comes first.
    send(connection, namespace, Verb::Delete, &deleted, &deleted_ids)?;
    send(connection, namespace, Verb::Put, &put, &put_ids)
}

/// Documents by their ids.
fn find<'i>(
    connection: &mut Connection,
    namespace: &Namespace,
    ids: impl Iterator<Item = &'i Value>,
) -> Result<HashMap<Vec<u8>, Document>> {
    let ids: Vec<Value> = ids.cloned().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let find =
        doc! { "find": (namespace.collection.as_str()), "filter": { "_id": { "$in": ids } } };
    let documents = connection
        .cursor(&namespace.database, &find)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server(namespace))?;
    let keyed = documents.into_iter().map(|document| {
        let id = document.get("_id").map_or_else(Value::null, Value::from);
        (key(&id), document)
    });
    Ok(keyed.collect())
}
