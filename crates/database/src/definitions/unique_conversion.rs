//! Makes an index unique that was none: looks for documents that share a key, and changes the definition where there are none.
//!
//! The index has to refuse shared keys already (`prepareUnique`), so that no new ones come while it is looked through, which holds
//! nobody up. Whether it has done so all the time is seen by the collection's entry: where another one has taken its place meanwhile,
//! the index is looked through again, and the collection is let go before. Its entries stay as they are (`write::shared_keys`).
//!
//! Keeps true: what the walk holds is bounded, however many documents share a key, and however many keys begin alike.

use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use quarry_bson::compare::compare_values;
use quarry_bson::{Document, RawDocument, RawValue, Value, doc};
use quarry_storage::{Cursor, KEY_BYTES_MAX, KeyRange};
use sha2::{Digest, Sha256};

use crate::catalog::collection::Collection;
use crate::catalog::collection_holds::{HeldCollection, Locked};
use crate::definitions::changes::{Definitions, not_found};
use crate::definitions::index_changes::{is_of_id, standing_index};
use crate::error::{Error, Result, SharedKeys};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
use crate::index::entry::IndexEntry;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::snapshot::reads::ReadSnapshot;

/// The `_id`s that are told of have so many bytes at most.
const IDS_BYTES_MAX: usize = if cfg!(test) { 16 << 10 } else { 8 << 20 };

/// Entries stand in the order of so many bytes of their fields. Behind them they may be cut.
const ORDERED_BYTES: usize = KEY_BYTES_MAX / 2;

/// The keys that are held of those that begin alike. More of them are looked through in parts, once for each.
const KEYS_MAX: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// A step of the walk reads so many bytes: a key may have megabytes of them.
const BYTES_OF_A_STEP: usize = 4096;

/// How often an index is looked through when the collection's definition changes each time before it is held.
const LOOKS_MAX: usize = 8;

impl Definitions {
    /// Fails where the index could not be made unique: it does not refuse shared keys, or documents share one.
    pub fn check_conversion_to_unique(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<()> {
        self.look_for_shared_keys(namespace, which, operation)
            .map(drop)
    }

    /// Like `check_conversion_to_unique`; returns the collection as it was meanwhile.
    fn look_for_shared_keys(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<Arc<Collection>> {
        let epoch = self.reads().enter();
        let Some(collection) = self.catalog().get(namespace)? else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let snapshot = self.reads().snapshot_in(epoch)?;
        self.refuse_shared_keys(&collection, which, &snapshot, operation)?;
        Ok(collection)
    }

    /// Holds a collection exclusively, in whose definition nothing has changed since the index was looked through: no document shares a
    /// key of it.
    pub(super) fn hold_without_shared_keys(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<Locked<'_, Option<HeldCollection<'_>>>> {
        for _ in 0..LOOKS_MAX {
            let looked_through = self.look_for_shared_keys(namespace, which, operation)?;
            let locked = self.holds().lock_collection(namespace, operation)?;
            let is_as_it_was = |(held, _): &HeldCollection<'_>| Arc::ptr_eq(held, &looked_through);
            if locked.1.as_ref().is_none_or(is_as_it_was) {
                return Ok(locked);
            }
        }
        let message = format!(
            "the definition of {namespace} changed again and again while an index of it was looked through"
        );
        Err(Error::invalid(ErrorCode::COMMAND_FAILED, message))
    }

    /// Fails where documents of the snapshot share a key of the index that is meant.
    fn refuse_shared_keys(
        &self,
        collection: &Collection,
        which: RawValue<'_>,
        snapshot: &ReadSnapshot,
        operation: &Operation,
    ) -> Result<()> {
        if is_of_id(which, collection) {
            return Ok(());
        }
        let index_catalog = self.catalog().index_catalog(collection)?;
        let index = standing_index(collection, &index_catalog.indexes, which)?;
        if index.unique {
            return Ok(());
        }
        if !index.prepare_unique {
            return Err(Error::invalid(
                ErrorCode::INVALID_OPTIONS,
                "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
            ));
        }
        let mut search = Search {
            collection,
            index,
            snapshot,
            operation,
            steps: 0,
            shared: Vec::new(),
            bytes: 0,
            is_cut: false,
        };
        search.run()?;
        match search.shared.is_empty() {
            true => Ok(()),
            false => Err(Error::SharedKeys(Box::new(search.into_found()))),
        }
    }
}

/// A walk through an index.
struct Search<'s> {
    collection: &'s Collection,
    index: &'s Index,
    snapshot: &'s ReadSnapshot,
    operation: &'s Operation,
    steps: u32,
    /// The `_id`s of the documents that share a key, for each such key.
    shared: Vec<Vec<Value>>,
    /// The bytes of these `_id`s.
    bytes: usize,
    /// There are more of them than are told of.
    is_cut: bool,
}

/// The documents that were met of one key.
enum Met {
    /// The record of the only one.
    One(Vec<u8>),
    /// Their place among those that share keys.
    Several(usize),
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        let prefix = self.index.prefix.as_bytes();
        let mut cursor = self.snapshot.cursor(KeyRange::prefix(prefix))?;
        cursor.first()?;
        while cursor.valid() && !self.is_cut {
            let fields = self.entry(&*cursor)?.fields;
            match fields.split_at_checked(ORDERED_BYTES) {
                Some((begin, [_, ..])) => {
                    let alike = KeyRange::prefix(&[prefix, begin].concat());
                    cursor.seek(&alike.end)?;
                    self.take_alike(&alike)?;
                }
                _ => self.take_equal(&mut *cursor)?,
            }
        }
        Ok(())
    }

    /// The entry under a cursor.
    fn entry<'e>(&mut self, cursor: &'e dyn Cursor) -> Result<IndexEntry<'e>> {
        let (key, value) = (cursor.key(), cursor.value());
        for _ in 0..=value.len() / BYTES_OF_A_STEP {
            self.operation.step(&mut self.steps)?;
        }
        IndexEntry::parse(self.index, key, value).ok_or_else(|| {
            let name = &self.index.name;
            Error::Corrupt(format!("an entry of the index `{name}` is broken"))
        })
    }

    /// Notes the documents that have the key under the cursor, if there are several, and leaves the cursor behind them.
    fn take_equal(&mut self, cursor: &mut dyn Cursor) -> Result<()> {
        let first = self.entry(cursor)?;
        let (fields, first) = (first.fields.to_vec(), first.record_key.to_vec());
        let mut met = Met::One(first);
        cursor.next()?;
        while cursor.valid() && !self.is_cut {
            let entry = self.entry(cursor)?;
            if entry.fields != fields {
                break;
            }
            self.note(&mut met, entry.record_key)?;
            cursor.next()?;
        }
        Ok(())
    }

    /// Notes the documents that share keys among those whose fields begin alike, up to `ORDERED_BYTES`: equal ones do not follow each
    /// other there.
    fn take_alike(&mut self, alike: &KeyRange) -> Result<()> {
        let (shared, bytes) = (self.shared.len(), self.bytes);
        let mut parts = 1;
        while !self.take_in_parts(alike, parts)? {
            self.shared.truncate(shared);
            self.bytes = bytes;
            parts *= 2;
        }
        for ids in &mut self.shared[shared..] {
            ids.sort_by(|a, b| compare_values(a.as_raw(), b.as_raw()));
        }
        Ok(())
    }

    /// Looks at the keys of a range in so many parts, by their hashes; false if one part has more of them than may be held.
    fn take_in_parts(&mut self, alike: &KeyRange, parts: u64) -> Result<bool> {
        for part in 0..parts {
            let mut met: HashMap<[u8; 32], Met> = HashMap::new();
            let mut cursor = self.snapshot.cursor(alike.clone())?;
            cursor.first()?;
            while cursor.valid() && !self.is_cut {
                let entry = self.entry(&*cursor)?;
                let hash: [u8; 32] = Sha256::digest(entry.fields).into();
                let number = hash
                    .first_chunk()
                    .map_or(0, |first| u64::from_le_bytes(*first));
                if number % parts == part {
                    match met.entry(hash) {
                        Entry::Occupied(mut known) => {
                            self.note(known.get_mut(), entry.record_key)?;
                        }
                        Entry::Vacant(free) => {
                            free.insert(Met::One(entry.record_key.to_vec()));
                        }
                    }
                    if met.len() > KEYS_MAX {
                        return Ok(false);
                    }
                }
                cursor.next()?;
            }
        }
        Ok(true)
    }

    /// Notes one more document of a key.
    fn note(&mut self, met: &mut Met, record: &[u8]) -> Result<()> {
        let place = match met {
            Met::Several(place) => *place,
            Met::One(first) => {
                let place = self.shared.len();
                self.shared.push(Vec::new());
                self.note_id(place, first)?;
                *met = Met::Several(place);
                place
            }
        };
        self.note_id(place, record)
    }

    /// Notes the `_id` of a document, if there is room for it.
    fn note_id(&mut self, place: usize, record: &[u8]) -> Result<()> {
        let key = [self.collection.prefix.as_bytes(), record].concat();
        let mut holder = Document::new();
        self.snapshot.get_record(&key, &mut |bytes| {
            let document = RawDocument::new(bytes).ok();
            let id = document.and_then(|document| document.get("_id"));
            holder.append("_id", id.unwrap_or(RawValue::Null));
        })?;
        self.bytes += holder.as_bytes().len();
        self.is_cut |= self.bytes > IDS_BYTES_MAX;
        if !self.is_cut {
            self.shared[place].extend(holder.iter().map(|id| Value::from(id.value())));
        }
        Ok(())
    }

    fn into_found(self) -> SharedKeys {
        let violations = self.shared.into_iter();
        SharedKeys {
            violations: violations.map(|ids| doc! { "ids": ids }.into()).collect(),
            is_cut: self.is_cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::{Duration, Instant};

    use quarry_journal::Level;

    use super::*;
    use crate::database::Database;
    use crate::index::definition::IndexChange;

    const LEVEL: Level = Level::Written;

    fn namespace() -> Namespace {
        Namespace::parse("db.c").unwrap()
    }

    /// A collection of these documents, whose index on `a` refuses shared keys from now on.
    fn prepared(documents: &[Document]) -> Arc<Database> {
        let database = Arc::new(Database::open_in_memory().unwrap());
        let operation = Operation::default();
        let specs = [
            doc! { "key": { "a": 1 }, "name": "a" },
            doc! { "key": { "b": 1 }, "name": "b" },
        ];
        let created = database.create_indexes(&namespace(), &specs, &operation, LEVEL);
        created.unwrap();
        for piece in documents.chunks(500) {
            let raw: Vec<RawDocument<'_>> = piece.iter().map(Document::as_raw).collect();
            let inserted = database.insert_piece(&operation, &namespace(), &raw, true, LEVEL);
            assert_eq!(inserted.unwrap().inserted, raw.len() as u64);
        }
        let prepare = IndexChange {
            prepare_unique: Some(true),
            ..IndexChange::default()
        };
        modify(&database, "a", prepare, &operation).unwrap();
        database
    }

    fn modify(
        database: &Database,
        index: &str,
        change: IndexChange,
        operation: &Operation,
    ) -> Result<IndexChange> {
        database.modify_index(&namespace(), index.into(), change, operation, LEVEL)
    }

    fn convert(database: &Database, operation: &Operation) -> Result<IndexChange> {
        let unique = IndexChange {
            unique: true,
            ..IndexChange::default()
        };
        modify(database, "a", unique, operation)
    }

    fn shared(database: &Database) -> SharedKeys {
        match convert(database, &Operation::default()) {
            Err(Error::SharedKeys(found)) => *found,
            other => panic!("{other:?}"),
        }
    }

    fn ids(violation: &Value) -> Vec<i32> {
        let ids = violation
            .as_raw()
            .as_document()
            .unwrap()
            .get_array("ids")
            .unwrap();
        ids.iter().map(|id| id.as_i32().unwrap()).collect()
    }

    #[test]
    fn keys_that_begin_alike_are_found_however_many_they_are() {
        let begin = "x".repeat(3000);
        let keys = |id: i32| format!("{begin}{}", id % 150);
        let documents: Vec<Document> = (0..400)
            .map(|id| doc! { "_id": id, "a": (keys(id)) })
            .collect();
        let others = (400..404).map(|id| doc! { "_id": id, "a": (id / 2) });
        let all: Vec<Document> = documents.into_iter().chain(others).collect();
        let found = shared(&prepared(&all));
        assert!(!found.is_cut);
        let mut expected: BTreeMap<Vec<u8>, Vec<i32>> = BTreeMap::new();
        for document in &all {
            let id = document.get_i32("_id").unwrap();
            let key = document.get("a").unwrap().to_value();
            let key = key.as_bytes().to_vec();
            expected.entry(key).or_default().push(id);
        }
        let mut expected: Vec<Vec<i32>> = expected.into_values().collect();
        let mut found: Vec<Vec<i32>> = found.violations.iter().map(ids).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn of_very_many_that_share_a_key_some_are_told_of() {
        for key in [Value::from(1), Value::from("x".repeat(3000))] {
            let document = |id: i32| doc! { "_id": id, "a": (key.clone()) };
            let documents: Vec<Document> = (0..2000).map(document).collect();
            let found = shared(&prepared(&documents));
            assert!(found.is_cut);
            let [violation] = &found.violations[..] else {
                panic!("there is one key");
            };
            let bytes = doc! { "_id": 1 }.as_bytes().len();
            assert_eq!(ids(violation).len(), IDS_BYTES_MAX / bytes);
        }
    }

    /// An operation that calls `at_look` at each look at it.
    fn watched(at_look: impl Fn() + Send + Sync + 'static) -> Operation {
        Operation::default().with_disconnect(Box::new(move || {
            at_look();
            false
        }))
    }

    #[test]
    fn a_definition_that_changes_meanwhile_has_the_index_looked_through_again_while_others_write() {
        for changes in [1, i32::MAX] {
            let documents: Vec<Document> = (0..300).map(|id| doc! { "_id": id, "a": id }).collect();
            let database = prepared(&documents);
            let (looks, hidden) = (Arc::new(AtomicI32::new(0)), Mutex::new(false));
            let (others, counted) = (Arc::clone(&database), Arc::clone(&looks));
            let operation = watched(move || {
                let look = counted.fetch_add(1, Ordering::Relaxed);
                let deadline = Instant::now() + Duration::from_secs(10);
                let operation = Operation::new(Some(deadline));
                let new = doc! { "_id": (-look - 1), "a": (-look - 1) };
                let inserted =
                    others.insert_piece(&operation, &namespace(), &[new.as_raw()], true, LEVEL);
                assert_eq!(inserted.unwrap().inserted, 1);
                if look < changes {
                    let mut hidden = hidden.lock().unwrap();
                    *hidden = !*hidden;
                    let hide = IndexChange {
                        hidden: Some(*hidden),
                        ..IndexChange::default()
                    };
                    modify(&others, "b", hide, &operation).unwrap();
                }
            });
            let converted = convert(&database, &operation).map_err(|error| error.code());
            match changes {
                1 => assert!(!converted.unwrap().unique),
                _ => assert_eq!(converted.unwrap_err(), ErrorCode::COMMAND_FAILED.0),
            }
            assert!(looks.load(Ordering::Relaxed) > 2);
        }
    }
}
