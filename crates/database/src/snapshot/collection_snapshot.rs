//! One snapshot of one collection, for as long as a batch of results takes.
//!
//! Every plan reads through this type, inside a transaction and outside of one. In a transaction the snapshot is the
//! transaction's, and what the transaction has staged lies over it.

use std::sync::Arc;

use quarry_bson::{Document, RawValue};
use quarry_storage::{Cursor, KeyRange, Overlay};

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
use crate::index::entry::{IndexEntry, split_unique_value};
use crate::keyspace::counts::{Counts, decode_counts};
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// One collection in one snapshot. Neither the collection nor an index of it loses its space while it lives, even
/// when it is dropped meanwhile.
pub struct CollectionSnapshot {
    /// The collection as the catalog knew it when the snapshot was made.
    pub collection: Arc<Collection>,
    catalog: Arc<Catalog>,
    snapshot: ReadSnapshot,
    /// The staged writes of the transaction that reads; none outside of one.
    staged: Option<Overlay>,
}

impl CollectionSnapshot {
    /// A snapshot, and the collection as it is in it.
    pub(crate) fn open(
        reads: &Reads,
        catalog: &Arc<Catalog>,
        namespace: &Namespace,
    ) -> Result<Option<CollectionSnapshot>> {
        loop {
            // Before the catalog is asked: what it names is not reclaimed from here on.
            let epoch = reads.enter();
            let Some(collection) = catalog.get(namespace)? else {
                return Ok(None);
            };
            // Multikey marks are read after the snapshot: what it shows is marked by then.
            let snapshot = reads.snapshot_in(epoch)?;
            if catalog.is_current(&collection)? {
                return Ok(Some(CollectionSnapshot {
                    collection,
                    catalog: Arc::clone(catalog),
                    snapshot,
                    staged: None,
                }));
            }
        }
    }

    /// A collection in a snapshot that has the same entry of it, and with what the transaction that reads has staged, if one
    /// does.
    pub(crate) fn of(
        collection: Arc<Collection>,
        catalog: &Arc<Catalog>,
        snapshot: ReadSnapshot,
        staged: Option<Overlay>,
    ) -> CollectionSnapshot {
        CollectionSnapshot {
            collection,
            catalog: Arc::clone(catalog),
            snapshot,
            staged,
        }
    }

    /// Another snapshot of the same moment, which may be read on another thread and outlive this one. None in a transaction
    /// that has staged something, which that thread would not see.
    pub fn share(&mut self) -> Result<Option<CollectionSnapshot>> {
        if self.staged.is_some() {
            return Ok(None);
        }
        Ok(Some(CollectionSnapshot {
            collection: Arc::clone(&self.collection),
            catalog: Arc::clone(&self.catalog),
            snapshot: self.snapshot.share()?,
            staged: None,
        }))
    }

    /// The collection's indexes, compiled.
    pub fn index_catalog(&self) -> Result<&IndexCatalog> {
        self.catalog.index_catalog(&self.collection)
    }

    /// The number of documents, without those that a transaction has staged.
    pub fn documents(&self) -> Result<u64> {
        let mut counts = Counts::default();
        let key = layout::counters_key(self.collection.ident);
        self.snapshot
            .get(&key, &mut |value| counts = decode_counts(value))?;
        Ok(counts.documents)
    }

    /// The bytes that keys and values in the range take about, in the state of now.
    pub fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.catalog.size_estimate(range)
    }

    /// Reads a record or an index entry.
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if let Some(staged) = &self.staged
            && let Some(value) = staged.peek(key)
        {
            return Ok(value.map(read).is_some());
        }
        match key.starts_with(self.collection.prefix.as_bytes()) {
            true => self.snapshot.get_record(key, read),
            false => self.snapshot.get(key, read),
        }
    }

    /// A cursor over the records or index entries in `range`.
    pub fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        match &self.staged {
            // Another collection's staged writes, or another index's, cost this cursor nothing.
            Some(staged) if staged.touches(&range) => {
                let beneath = self.snapshot.cursor(range.clone())?;
                Ok(staged.cursor_over(range, beneath))
            }
            _ => self.snapshot.cursor(range),
        }
    }

    /// The record key of the document with this `_id`, if it is there. Time series have no such key.
    pub fn find_id(&self, id: RawValue<'_>) -> Result<Option<Vec<u8>>> {
        if self.collection.is_clustered() {
            let key = self.collection.record_key(id);
            return Ok(self.get(&key, &mut |_| {})?.then_some(key));
        }
        let index_catalog = self.index_catalog()?;
        let Some(position) = index_catalog.id_index else {
            return Err(Error::Corrupt(format!(
                "`{}` has no `_id` index",
                self.collection.namespace
            )));
        };
        let index = &index_catalog.indexes[position];
        let mut entry = index.prefix.as_bytes().to_vec();
        quarry_keystring::encode_id(&mut entry, id);
        let mut found = None;
        self.get(&entry, &mut |value| {
            found = split_unique_value(value).map(|(key, _)| key.to_vec());
        })?;
        Ok(found.map(|suffix| full_record_key(&self.collection, &suffix)))
    }
}

/// The entry that the catalog had under a name in a snapshot; none if the collection had gone with its database.
pub(crate) fn entry_in(snapshot: &ReadSnapshot, namespace: &Namespace) -> Result<Option<Vec<u8>>> {
    let mut entry = None;
    let key = layout::catalog_key(namespace.database(), namespace.collection());
    snapshot.get(&key, &mut |bytes| entry = Some(bytes.to_vec()))?;
    let Some(entry) = entry else {
        return Ok(None);
    };
    let mut dropped = None;
    let mark = layout::dropped_database_key(namespace.database());
    snapshot.get(&mark, &mut |value| dropped = layout::read_ident(value))?;
    let Some(dropped) = dropped else {
        return Ok(Some(entry));
    };
    let document = Document::from_bytes_any_text(entry.clone())?;
    let collection = Collection::from_entry(namespace.clone(), document)?;
    Ok((collection.ident >= dropped).then_some(entry))
}

/// The error of a read whose snapshot has another collection under that name than there is now, or none.
pub(crate) fn snapshot_unavailable(namespace: &Namespace) -> Error {
    let message = format!(
        "Unable to read from a snapshot due to pending collection catalog changes to collection '{namespace}'; please retry the operation."
    );
    Error::invalid(ErrorCode::SNAPSHOT_UNAVAILABLE, message)
}

/// The full key of the record that an index entry points to.
pub fn index_record_key(
    index: &Index,
    collection: &Collection,
    key: &[u8],
    value: &[u8],
) -> Result<Vec<u8>> {
    let entry = index_entry(index, collection, key, value)?;
    Ok(full_record_key(collection, entry.record_key))
}

/// The parts of an index entry. Fails for bytes that no entry of the index has.
pub fn index_entry<'e>(
    index: &Index,
    collection: &Collection,
    key: &'e [u8],
    value: &'e [u8],
) -> Result<IndexEntry<'e>> {
    IndexEntry::parse(index, key, value).ok_or_else(|| {
        Error::Corrupt(format!(
            "an entry of index `{}` of `{}` is broken",
            index.name, collection.namespace
        ))
    })
}

fn full_record_key(collection: &Collection, suffix: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + suffix.len());
    key.extend_from_slice(collection.prefix.as_bytes());
    key.extend_from_slice(suffix);
    key
}
