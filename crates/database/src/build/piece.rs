//! One piece of an index build: records that follow each other in a collection, and their entries in the new indexes.
//!
//! A piece is *gathered* without a lock: a cursor over a snapshot shows its records, and their entries are made where the cursor
//! shows them. Then the caller locks the records, and the piece is *settled*: of a document that somebody has changed since the
//! snapshot, or perhaps has, the entries are made anew from what is there now. Most records are read once, by a cursor, and nobody
//! waits while their entries are made.
//!
//! Keeps true: from `settle` on, and for as long as the records stay locked, the entries are those of the latest documents. Whoever
//! commits a change of a record notes it before its lock ends (`recent_changes`), and the snapshot has what was committed
//! before that was asked for. The records of a capped collection that go at its front are not noted: there the caller holds the
//! collection exclusively from before the snapshot on.
//!
//! Leaves out documents that are inserted into the piece's range behind its snapshot: their writers know the index.

use std::sync::Arc;

use quarry_bson::RawDocument;
use quarry_storage::{KeyRange, WriteBatch};
use smallvec::SmallVec;

use crate::build::pace::{Offers, PieceBounds};
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::error::Result;
use crate::index::found_fields::Found;
use crate::index::key_buffer::KeyBuffer;
use crate::index::keys::Target;
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::locks::recent_changes::OpenSnapshot;
use crate::write::WriteParts;
use crate::write::latest::Latest;
use crate::write::unique_check::{Changed, UniqueCheck, lock_hashes};

/// A piece ends behind the document that fills it, whatever else its bounds are.
const DOCUMENT_BYTES: usize = 4 * 1024 * 1024;
const ENTRY_BYTES: usize = 1024 * 1024;
/// Fewer bytes of entries of one document are none too many, whatever other indexes there are.
const DOCUMENT_ENTRY_BYTES: usize = 512 * 1024;

/// The indexes that are built, and of which collection.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub parts: &'s WriteParts,
    pub namespace: &'s Namespace,
    pub idents: &'s [Ident],
}

pub(super) struct Piece<'s> {
    parts: &'s WriteParts,
    /// As the catalog had it when the piece was gathered, with its indexes loaded.
    collection: Arc<Collection>,
    /// The numbers of the new indexes, each with the marks that their entries ask for.
    indexes: SmallVec<[(usize, u64); 2]>,
    /// The keys of the records, one behind the other, and where each ends.
    record_keys: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    /// In the order of the documents.
    entries: KeyBuffer,
    document_bytes: usize,
    /// Nothing could be made of the first document as the snapshot shows it.
    is_first_refused: bool,
    changes: OpenSnapshot,
}

impl<'s> Piece<'s> {
    /// Reads the first records in `range`, as many as `bounds` allow. The caller has asked the catalog for the collection in an
    /// epoch that goes on; who makes no `offers` holds something that others wait for.
    pub fn gather(
        source: Source<'s>,
        collection: &Arc<Collection>,
        range: &KeyRange,
        bounds: PieceBounds,
        mut offers: Option<&mut Offers>,
    ) -> Result<Piece<'s>> {
        let Source { parts, idents, .. } = source;
        let index_catalog = parts.catalog.index_catalog(collection)?;
        let indexes = index_catalog.indexes.iter().enumerate();
        let new = indexes.filter(|(_, index)| idents.contains(&index.ident));
        // In this order: a commit that the snapshot lacks has a higher LSN, and its writer finds the snapshot counted.
        let applied = parts.commits.path().applied_lsn();
        let changes = OpenSnapshot::begin(Arc::clone(&parts.locks), applied);
        let snapshot = parts.reads.snapshot()?;
        let mut piece = Piece {
            parts,
            collection: Arc::clone(collection),
            indexes: new.map(|(number, _)| (number, 0)).collect(),
            record_keys: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
            entries: KeyBuffer::default(),
            document_bytes: 0,
            is_first_refused: false,
            changes,
        };
        let mut cursor = snapshot.cursor(range.clone())?;
        cursor.first()?;
        while cursor.valid() && !piece.is_full(bounds) && piece.take(cursor.key(), cursor.value()) {
            cursor.next()?;
            if let Some(offers) = &mut offers {
                offers.step();
            }
        }
        Ok(piece)
    }

    /// Whether it was gathered from what the catalog has now, and with the same indexes.
    pub fn is_of(&self, collection: &Arc<Collection>) -> bool {
        Arc::ptr_eq(&self.collection, collection)
    }

    pub fn documents_len(&self) -> usize {
        self.ends.len()
    }

    /// None if nothing is left in the collection.
    pub fn last_record_key(&self) -> Option<&[u8]> {
        let last = self.ends.len().checked_sub(1)?;
        Some(self.record_key(last))
    }

    fn record_key(&self, position: usize) -> &[u8] {
        let before = position.checked_sub(1);
        let begin = before.map_or(0, |before| self.ends[before]);
        &self.record_keys[begin..self.ends[position]]
    }

    fn is_full(&self, bounds: PieceBounds) -> bool {
        self.ends.len() >= bounds.documents
            || self.entries.entries.len() >= bounds.entries
            || self.entries.bytes.len() >= ENTRY_BYTES
            || self.document_bytes >= DOCUMENT_BYTES
    }

    /// Takes in the next record as the snapshot shows it. False where no entries can be made of it behind others: it begins the
    /// next piece, which may have room for them.
    fn take(&mut self, record_key: &[u8], document: &[u8]) -> bool {
        let position = self.ends.len();
        if self
            .make_entries(position as u32, record_key, document)
            .is_err()
        {
            if position > 0 {
                return false;
            }
            // The latest one may be another.
            self.is_first_refused = true;
        }
        self.record_keys.extend_from_slice(record_key);
        self.ends.push(self.record_keys.len());
        self.hashes.push(key_hash(record_key));
        self.document_bytes += document.len();
        true
    }

    /// Appends the entries of one document, all or none.
    fn make_entries(&mut self, position: u32, record_key: &[u8], document: &[u8]) -> Result<()> {
        let (bytes, entries) = (self.entries.bytes.len(), self.entries.entries.len());
        let made = self.append_entries(position, record_key, document);
        if made.is_err() {
            self.entries.bytes.truncate(bytes);
            self.entries.entries.truncate(entries);
        }
        made
    }

    fn append_entries(&mut self, position: u32, record_key: &[u8], document: &[u8]) -> Result<()> {
        let collection = &*self.collection;
        let index_catalog = indexes_of(collection);
        let document = RawDocument::new(document)?;
        let id = match collection.is_clustered() {
            true => document.get("_id"),
            false => None,
        };
        let target = Target {
            document: position,
            record_key: &record_key[collection.prefix.as_bytes().len()..],
            id,
        };
        let found = index_catalog.keys.extract(document);
        let begin = self.entries.bytes.len();
        self.entries.begin_coming();
        for (number, marks) in &mut self.indexes {
            let index = &index_catalog.indexes[*number];
            let keys = &index_catalog.keys;
            *marks |= keys.entries(*number, index, &found, target, &mut self.entries)?;
        }
        match self.entries.bytes.len() - begin {
            0..DOCUMENT_ENTRY_BYTES => Ok(()),
            bytes => self.refuse_too_many(bytes, &found, target),
        }
    }

    /// Refuses a document whose entries, with those that it has in the other indexes, are more than one may have: nobody
    /// could delete it in one piece.
    #[cold]
    fn refuse_too_many(&self, new: usize, found: &Found<'_>, target: Target<'_>) -> Result<()> {
        let index_catalog = indexes_of(&self.collection);
        let mut others = KeyBuffer::default();
        others.begin_coming_beside(new);
        for (number, index) in index_catalog.indexes.iter().enumerate() {
            if self.indexes.iter().all(|(built, _)| *built != number) {
                let keys = &index_catalog.keys;
                keys.entries_that_go(number, index, found, target, &mut others)?;
            }
        }
        Ok(())
    }

    /// The hashes of the records, to be locked before the piece is settled.
    pub fn record_hashes(&self) -> SmallVec<[u64; 4]> {
        SmallVec::from_slice(&self.hashes)
    }

    /// Makes anew the entries of the documents that may have changed since the snapshot. The caller has locked the records.
    pub fn settle(&mut self) -> Result<()> {
        let mut again = self.changes.changed(&self.hashes);
        if self.is_first_refused && again.first() != Some(&0) {
            again.insert(0, 0);
        }
        if again.is_empty() {
            return Ok(());
        }
        debug_assert!(again.is_sorted(), "positions are searched for");
        let stays = |document: u32| again.binary_search(&document).is_err();
        (self.entries.entries).retain(|entry| stays(entry.document));
        let mut document = Vec::new();
        for position in again {
            let record_key = self.record_key(position as usize).to_vec();
            document.clear();
            let reads = &self.parts.reads;
            if reads.get_record(&record_key, &mut |bytes| document.extend_from_slice(bytes))? {
                self.make_entries(position, &record_key, &document)?;
            }
        }
        // Stable: the entries of one document stay in their order.
        self.entries.entries.sort_by_key(|entry| entry.document);
        Ok(())
    }

    /// The hashes of the unique keys, to be locked before they are looked for.
    pub fn unique_hashes(&self) -> SmallVec<[u64; 4]> {
        lock_hashes(indexes_of(&self.collection), &[&self.entries])
    }

    /// Leaves out the entries whose keys other documents have, and notes the documents (`unique_build`). The caller has locked
    /// the unique keys.
    pub fn leave_out_taken(&mut self) -> Result<()> {
        let (parts, collection) = (self.parts, &*self.collection);
        let left_out = {
            let latest = Latest::of(&parts.reads);
            let index_catalog = indexes_of(collection);
            let mut check = UniqueCheck::new(latest, &parts.builds, collection, index_catalog);
            for position in 0..self.ends.len() {
                let changed = Changed {
                    document: position as u32,
                    record_key: self.record_key(position),
                    old: (&self.entries, &[]),
                    new: (&self.entries, self.entries.of_document(position)),
                };
                if let Some(error) = check.check(&changed)? {
                    return Err(error);
                }
                check.claim(&changed);
            }
            check.into_left_out()
        };
        left_out.take_from(&mut KeyBuffer::default(), &mut self.entries);
        Ok(())
    }

    /// The batch to commit, and whether marks are in it that the indexes do not have yet.
    pub fn batch(&self) -> (WriteBatch, bool) {
        let mut batch = WriteBatch::new();
        for &(number, marks) in &self.indexes {
            let index = &indexes_of(&self.collection).indexes[number];
            let new = marks & !index.marks();
            for component in (0..64u8).filter(|component| new & (1 << component) != 0) {
                batch.put(&layout::multikey_key(index.ident, component), &[]);
            }
        }
        let has_marks = !batch.is_empty();
        for place in self.entries.places_by_index() {
            let entry = &self.entries.entries[place as usize];
            batch.put(self.entries.key(entry), self.entries.value(entry));
        }
        (batch, has_marks)
    }
}

fn indexes_of(collection: &Collection) -> &IndexCatalog {
    let loaded = collection.index_catalog.get();
    loaded.expect("a piece is gathered with the indexes loaded")
}
