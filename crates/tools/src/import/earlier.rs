//! Documents that the run before an interruption has written, found among those that a server refuses because their `_id` is there.
//!
//! A document whose `_id` the import has made is its own. Of any other one, somebody else may have had the `_id` first, or the file has it twice: it
//! counts as written when the document that is there is equal to it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use quarry_client::{Connection, ConnectionString};

use super::resume::Resume;
use crate::error::{Error, Result};
use crate::loader::{Failure, Target, Verb};
use crate::namespaces::Namespace;
use crate::server;

const ID: &str = "_id";

/// Looks at the collection, over a connection that is made when it is needed.
pub struct Earlier {
    settings: Arc<ConnectionString>,
    connection: Option<Connection>,
}

impl Earlier {
    pub fn new(settings: &Arc<ConnectionString>) -> Earlier {
        Earlier {
            settings: Arc::clone(settings),
            connection: None,
        }
    }

    /// Those of the refused documents, by their places among the failures, that are in the collection as they are in the file.
    pub fn written(
        &mut self,
        target: &Target,
        failures: &[Failure],
        resume: &Resume,
    ) -> Result<HashSet<usize>> {
        let mut written = HashSet::new();
        let mut others = Vec::new();
        for (place, failure) in failures.iter().enumerate() {
            let refused = failure.document.as_ref();
            let Some(document) = refused.and_then(|sent| inserted(target.verb, sent)) else {
                continue;
            };
            match document.get(ID) {
                Some(id) if resume.is_own_id(id) => {
                    written.insert(place);
                }
                Some(id) => others.push((place, Value::from(id), document)),
                None => {}
            }
        }
        if others.is_empty() {
            return Ok(written);
        }
        let ids: Value = others.iter().map(|(_, id, _)| id.clone()).collect();
        let there = self.find(&target.namespace, ids)?;
        let equal = others.iter().filter(|(_, id, document)| {
            there.get(&key(id.as_raw())) == Some(&with_id_first(*document))
        });
        written.extend(equal.map(|(place, ..)| *place));
        Ok(written)
    }

    /// The documents of the ids, as bytes, by the bytes of their ids.
    fn find(&mut self, namespace: &Namespace, ids: Value) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(server::connect(&self.settings)?),
        };
        let find =
            doc! { "find": (namespace.collection.as_str()), "filter": { "_id": { "$in": ids } } };
        let failed = Error::server(namespace);
        let mut cursor = connection
            .cursor(&namespace.database, &find)
            .map_err(&failed)?;
        let mut found = HashMap::new();
        while cursor.advance().map_err(&failed)? {
            for document in cursor.batch() {
                let id = document.get(ID).unwrap_or(RawValue::Null);
                found.insert(key(id), with_id_first(document));
            }
        }
        Ok(found)
    }
}

/// The document that was to be inserted: the statement of another mode has it as the replacement, or in `$set`.
fn inserted(verb: Verb, sent: &Document) -> Option<RawDocument<'_>> {
    match verb {
        Verb::Insert => Some(sent.as_raw()),
        Verb::Update => {
            let update = sent.get_document("u")?;
            Some(update.get_document("$set").unwrap_or(update))
        }
        Verb::Delete => None,
    }
}

/// An id with its type, as bytes.
fn key(id: RawValue<'_>) -> Vec<u8> {
    doc! { "_id": (Value::from(id)) }.into_bytes()
}

/// The bytes of a document as a server stores it, which is with `_id` in front.
fn with_id_first(document: RawDocument<'_>) -> Vec<u8> {
    if document.first().is_some_and(|first| first.name() == ID) {
        return document.as_bytes().to_vec();
    }
    let stored = Document::build(|out: &mut DocumentBuilder<'_>| {
        let (ids, others): (Vec<_>, Vec<_>) =
            document.iter().partition(|element| element.name() == ID);
        for element in ids.into_iter().chain(others) {
            out.append_element(element);
        }
    });
    stored.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_each_statement_is_found() {
        let document = doc! { "_id": 7, "a": 1 };
        let replaced = doc! { "q": {}, "u": (&document), "upsert": true };
        let merged = doc! { "q": {}, "u": { "$set": (&document) }, "upsert": true };
        for (verb, sent, found) in [
            (Verb::Insert, &document, Some(document.as_raw())),
            (Verb::Update, &replaced, Some(document.as_raw())),
            (Verb::Update, &merged, Some(document.as_raw())),
            (Verb::Delete, &replaced, None),
        ] {
            assert_eq!(inserted(verb, sent), found);
        }
    }

    #[test]
    fn documents_are_equal_as_a_server_stores_them() {
        let file = doc! { "a": 1, "_id": 7, "b": 2 };
        let stored = doc! { "_id": 7, "a": 1, "b": 2 };
        assert_eq!(with_id_first(file.as_raw()), stored.as_bytes());
        assert_eq!(with_id_first(stored.as_raw()), stored.as_bytes());
        assert_ne!(key(RawValue::Int32(1)), key(RawValue::Double(1.0)));
    }
}
