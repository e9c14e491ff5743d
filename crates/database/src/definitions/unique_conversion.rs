//! Makes an index unique that was none: looks for documents that share a key, and changes the definition where there are none.
//!
//! The index has to refuse shared keys already (`prepareUnique`), so that no new ones come while it is looked through, which holds
//! nobody up. Whether it has done so all the time is seen by the collection's entry: where another one has taken its place meanwhile,
//! the index is looked through again, under the exclusive hold. Its entries stay as they are (`write::shared_keys`).

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue, Value};
use quarry_storage::{KEY_BYTES_MAX, KeyRange};
use sha2::{Digest, Sha256};

use crate::catalog::collection::Collection;
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
const IDS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Entries stand in the order of so many bytes of their fields. Behind them they may be cut.
const ORDERED_BYTES: usize = KEY_BYTES_MAX / 2;

/// The documents that are held of one shared key: as many have more bytes of `_id`s than are told of.
const RECORDS_MAX: usize = 1 << 20;

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
    pub(super) fn look_for_shared_keys(
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

    /// Fails where documents of the snapshot share a key of the index that is meant.
    pub(super) fn refuse_shared_keys(
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
            snapshot,
            found: SharedKeys::default(),
            bytes: 0,
        };
        search.run(index, operation)?;
        match search.found.violations.is_empty() {
            true => Ok(()),
            false => Err(Error::SharedKeys(Box::new(search.found))),
        }
    }
}

/// A walk through an index.
struct Search<'s> {
    collection: &'s Collection,
    snapshot: &'s ReadSnapshot,
    found: SharedKeys,
    /// The bytes of the `_id`s that were found.
    bytes: usize,
}

/// Entries that follow each other and whose fields begin alike, up to `ORDERED_BYTES`.
#[derive(Default)]
struct Group {
    begin: Vec<u8>,
    /// Whether the fields go on behind that, so that they need not be equal.
    goes_on: bool,
    /// The record of each entry, behind the hash of its fields where they go on.
    records: Vec<(Option<[u8; 32]>, Vec<u8>)>,
}

impl Group {
    fn of(fields: &[u8]) -> Group {
        Group {
            begin: fields[..fields.len().min(ORDERED_BYTES)].to_vec(),
            goes_on: fields.len() > ORDERED_BYTES,
            records: Vec::new(),
        }
    }

    fn has(&self, fields: &[u8]) -> bool {
        match self.goes_on {
            true => fields.starts_with(&self.begin),
            false => fields == self.begin,
        }
    }

    fn add(&mut self, entry: &IndexEntry<'_>) {
        let hash = self.goes_on.then(|| Sha256::digest(entry.fields).into());
        if self.goes_on || self.records.len() < RECORDS_MAX {
            self.records.push((hash, entry.record_key.to_vec()));
        }
    }
}

impl Search<'_> {
    fn run(&mut self, index: &Index, operation: &Operation) -> Result<()> {
        let range = KeyRange::prefix(index.prefix.as_bytes());
        let mut cursor = self.snapshot.cursor(range)?;
        let (mut group, mut steps) = (Group::default(), 0);
        cursor.first()?;
        while cursor.valid() && !self.found.is_cut {
            operation.step(&mut steps)?;
            let entry = IndexEntry::parse(index, cursor.key(), cursor.value());
            let entry = entry.ok_or_else(|| {
                Error::Corrupt(format!("an entry of the index `{}` is broken", index.name))
            })?;
            if !group.has(entry.fields) {
                let next = Group::of(entry.fields);
                self.take(std::mem::replace(&mut group, next))?;
            }
            group.add(&entry);
            cursor.next()?;
        }
        self.take(group)
    }

    /// Notes the documents of a group that share a key.
    fn take(&mut self, group: Group) -> Result<()> {
        let mut records = group.records;
        if records.len() < 2 {
            return Ok(());
        }
        records.sort();
        for shared in records.chunk_by(|a, b| a.0 == b.0) {
            if shared.len() > 1 && !self.found.is_cut {
                self.note(shared.iter().map(|(_, record)| record.as_slice()))?;
            }
        }
        Ok(())
    }

    /// Notes documents that share a key, until there is no more room for their `_id`s.
    fn note<'r>(&mut self, records: impl Iterator<Item = &'r [u8]>) -> Result<()> {
        let mut ids: Vec<Value> = Vec::new();
        for record in records {
            let key = [self.collection.prefix.as_bytes(), record].concat();
            let mut holder = Document::new();
            self.snapshot.get_record(&key, &mut |bytes| {
                let document = RawDocument::new(bytes).ok();
                let id = document.and_then(|document| document.get("_id"));
                holder.append("_id", id.unwrap_or(RawValue::Null));
            })?;
            self.bytes += holder.as_bytes().len();
            if self.bytes > IDS_BYTES_MAX {
                self.found.is_cut = true;
                break;
            }
            ids.extend(holder.iter().map(|id| id.value().into()));
        }
        let violation = quarry_bson::doc! { "ids": ids };
        self.found.violations.push(violation.into());
        Ok(())
    }
}
