//! The other keys of a record in a scan that goes through an index with arrays: what tells whether the record was given before, once no
//! more records can be remembered.

use quarry_bson::RawDocument;
use quarry_database::Index;

use super::node::PlanContext;
use crate::error::Result;
use crate::exec::stored;

/// Says something of an entry of a record, given its key and its value.
pub type OfEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// Whether the record, as it is now, has a key for which `comes_before` says so; it is asked with the key and the value of each of the record's entries.
/// A record that has gone was given as long as it was there.
#[cold]
pub fn has_earlier_key(
    context: &PlanContext<'_>,
    index: &Index,
    record: &[u8],
    comes_before: &mut OfEntry<'_>,
) -> Result<bool> {
    let snapshot = context.snapshot;
    let catalog = snapshot.index_catalog()?;
    let (mut outcome, mut has_one) = (Ok(()), false);
    let is_there =
        snapshot.get(record, &mut |bytes| {
            outcome =
                stored(RawDocument::new(bytes)).and_then(|document| {
                    let mut failure = Ok(());
                    let of_index = (index.ident, &*snapshot.collection);
                    catalog.entries_of(of_index, record, document, &mut |key, value| {
                        match comes_before(key, value) {
                            Ok(is_before) => has_one |= is_before,
                            Err(error) => failure = Err(error),
                        }
                    })?;
                    failure
                });
        })?;
    outcome?;
    Ok(has_one || !is_there)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_bson::{Document, RawDocument, Value, doc, extjson};
    use quarry_database::{Database, Level, Namespace, Operation, Options};

    use crate::exec::{self, FindRequest, InsertRequest};
    use crate::sort::SortPattern;

    /// Several times the records that a scan can remember in tests.
    const DOCUMENTS: i32 = 1500;

    /// A collection of documents with arrays that share elements, in the orders of which indexes are.
    fn with_arrays(namespace: &Namespace, operation: &Operation) -> Database {
        let options = Options {
            commit_interval_ms: 0,
            filter_language: crate::filter_language(),
            index_kinds: crate::index_kinds(),
            ..Options::default()
        };
        let engine = Arc::new(quarry_storage::Memory::new());
        let database = Database::open(engine, options).unwrap();
        let documents: Vec<Document> = (0..DOCUMENTS)
            .map(|n| {
                doc! { "_id": n, "a": (n % 4), "t": [((n * 7) % 500), ((n * 11) % 900), (n % 3)], "b": (n % 5) }
            })
            .collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(namespace, &raw);
        exec::insert((&database).into(), operation, request, Level::Written).unwrap();
        for key in [
            doc! { "t": 1, "b": 1 },
            doc! { "a": 1, "t": -1 },
            doc! { "b": 1, "t": 1 },
        ] {
            let spec = doc! { "key": key };
            database
                .create_indexes(namespace, &[spec], operation, Level::Written)
                .unwrap();
        }
        database
    }

    #[test]
    fn a_read_that_can_remember_no_more_gives_each_document_once() {
        let (namespace, operation) = (Namespace::parse("db.c").unwrap(), Operation::new(None));
        let database = with_arrays(&namespace, &operation);
        for (filter, sort, hint) in [
            ("{}", r#"{"t": 1}"#, "t_1_b_1"),
            ("{}", r#"{"t": -1}"#, "t_1_b_1"),
            (r#"{"t": {"$gte": 0}}"#, r#"{"_id": 1}"#, "t_1_b_1"),
            (
                r#"{"t": {"$in": [0, 1, 2]}, "b": {"$gt": 1}}"#,
                r#"{"_id": 1}"#,
                "t_1_b_1",
            ),
            (
                r#"{"t": {"$gte": 0}, "b": {"$in": [1, 3]}}"#,
                r#"{"_id": 1}"#,
                "t_1_b_1",
            ),
            (r#"{"a": {"$in": [0, 1, 3]}}"#, r#"{"t": -1}"#, "a_1_t_-1"),
            (r#"{"a": {"$in": [0, 1, 3]}}"#, r#"{"t": 1}"#, "a_1_t_-1"),
            (
                r#"{"$or": [{"a": {"$in": [1, 2]}}, {"b": {"$in": [1, 2, 4]}}]}"#,
                r#"{"t": 1}"#,
                "",
            ),
        ] {
            let [filter, sort] = [filter, sort].map(|text| extjson::parse(text).unwrap());
            let pattern = SortPattern::parse(sort.as_raw()).unwrap();
            let find = |hint: Option<&Value>| -> (Vec<Vec<u8>>, Vec<i64>) {
                let mut request = FindRequest::new(&namespace);
                (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
                request.hint = hint.map(Value::as_raw);
                let mut executor = exec::find((&database).into(), &operation, request).unwrap();
                let (mut keys, mut ids, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
                while executor.next(&operation, &mut bytes).unwrap() {
                    let found = RawDocument::new(&bytes).unwrap();
                    ids.extend(found.get("_id").and_then(|id| id.as_i64_exact()));
                    let mut key = Vec::new();
                    pattern.key(found, &mut key).unwrap();
                    keys.push(key);
                    bytes.clear();
                }
                ids.sort_unstable();
                (keys, ids)
            };
            let hint = (!hint.is_empty()).then(|| Value::from(hint));
            let natural = Value::from(doc! { "$natural": 1 });
            assert_eq!(
                find(hint.as_ref()),
                find(Some(&natural)),
                "{filter} by {sort}"
            );
        }
    }
}
