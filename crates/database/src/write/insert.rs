//! Inserts: a piece of documents from their record keys to its one batch.

use std::sync::Arc;

use hashbrown::HashSet;
use quarry_bson::{RawDocument, RawValue};
use quarry_journal::Until;
use quarry_timing::Phase;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::duplicate::{duplicate_id, duplicate_key, note_duplicate};
use super::{Piece, Writer};
use crate::catalog::collection::{Collection, Detail};
use crate::error::{Error, Result};
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::keys::Target;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::Hold;
use crate::locks::large_batches::{Admitted, LARGE_BATCH_BYTES};
use crate::locks::record_locks::{Locks, lock_hash};
use crate::operation::Operation;

/// What an insert did: how many went in, and which did not.
#[derive(Debug, Default)]
pub struct Inserted {
    pub inserted: u64,
    pub errors: Vec<(usize, Error)>,
    pub lsn: Option<u64>,
}

impl Writer {
    /// Inserts documents, each with its `_id` first, as one piece.
    pub fn insert_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
    ) -> Result<Inserted> {
        let _epoch = self.parts.reads.enter_to_write();
        let (collection, _hold, turn) = self.hold_to_insert(namespace, documents, operation)?;
        let detail = self.parts.catalog.detail(&collection)?;
        let mut insert = InsertPiece::new(self, &collection, detail, documents, ordered);
        insert.make_record_keys()?;
        let _records = self
            .parts
            .locks
            .records
            .lock(insert.lock_hashes(), operation)?;
        insert.refuse_known_ids()?;
        insert.make_index_keys();
        let _uniques = insert.lock_and_check_uniques(operation)?;
        let large = insert.bytes_len();
        let admitted = match collection.is_clustered() {
            true => self.admit(large, operation)?,
            false => turn,
        };
        let mut piece = insert.stage();
        let inserted = piece.documents.unsigned_abs();
        if let Some(capped) = collection.capped {
            self.trim_capped(&collection, detail, capped, &mut piece)?;
        }
        let mut errors = insert.errors;
        errors.sort_by_key(|(position, _)| *position);
        if ordered {
            errors.truncate(1);
        }
        // A capped collection is held alone: all its writers would wait. A large batch ends its turn before its sync.
        let is_small = large < LARGE_BATCH_BYTES;
        let waits_alone = self.keeps_locks_over_sync && operation.commits_once() && is_small;
        let until = match waits_alone && collection.is_clustered() {
            true => Until::Synced,
            false => Until::Applied,
        };
        let mut lsn = self.commit_piece(operation, &collection, piece, until)?;
        drop(admitted);
        if let Some(capped) = collection.capped {
            // A piece larger than the bounds: its own first documents go in a second one, under the same hold.
            let mut rest = Piece::default();
            self.trim_capped(&collection, detail, capped, &mut rest)?;
            lsn = match self.commit_piece(operation, &collection, rest, Until::Applied) {
                Ok(trimmed) => trimmed.or(lsn),
                // Nobody knows what the journal holds, of what was inserted as well.
                Err(unknown @ Error::OutcomeUnknown(_)) => return Err(unknown),
                // What was inserted stays, and is answered so; the next insert trims.
                Err(_) => lsn,
            };
        }
        Ok(Inserted {
            inserted,
            errors,
            lsn,
        })
    }
}

/// A collection held for an insert; of a capped one the insert's place among large batches as well.
type HeldToInsert<'d> = (Arc<Collection>, Hold<'d>, Option<Admitted<'d>>);

impl Writer {
    /// Holds the collection, which is made if there is none.
    fn hold_to_insert(
        &self,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        operation: &Operation,
    ) -> Result<HeldToInsert<'_>> {
        loop {
            let Some(collection) = self.parts.catalog.get(namespace)? else {
                drop(
                    self.parts
                        .definitions
                        .collection_or_create(namespace, operation)?,
                );
                continue;
            };
            if collection.is_clustered() {
                let hold = self
                    .parts
                    .holds
                    .holds()
                    .shared(collection.ident, operation)?;
                if self.parts.catalog.is_current(&collection)? {
                    return Ok((collection, hold, None));
                }
                continue;
            }
            let bytes = documents.iter().map(|document| document.as_bytes().len());
            let (hold, turn) = self.hold_capped(collection.ident, bytes.sum(), operation)?;
            if self.parts.catalog.is_current(&collection)? {
                return Ok((collection, hold, turn));
            }
        }
    }
}

/// The state of one insert between its steps.
struct InsertPiece<'i> {
    writer: &'i Writer,
    collection: &'i Arc<Collection>,
    detail: &'i Detail,
    documents: &'i [RawDocument<'i>],
    ordered: bool,
    /// Full record keys, one a document.
    record_keys: Vec<Vec<u8>>,
    failed: Vec<bool>,
    errors: Vec<(usize, Error)>,
    keys: KeyBuffer,
    marks: SmallVec<[(usize, u64); 2]>,
}

impl<'i> InsertPiece<'i> {
    fn new(
        writer: &'i Writer,
        collection: &'i Arc<Collection>,
        detail: &'i Detail,
        documents: &'i [RawDocument<'i>],
        ordered: bool,
    ) -> InsertPiece<'i> {
        InsertPiece {
            writer,
            collection,
            detail,
            documents,
            ordered,
            record_keys: Vec::with_capacity(documents.len()),
            failed: vec![false; documents.len()],
            errors: Vec::new(),
            keys: KeyBuffer::default(),
            marks: SmallVec::new(),
        }
    }

    fn make_record_keys(&mut self) -> Result<()> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if !self.collection.is_clustered() {
            return self.make_record_ids();
        }
        for (position, document) in self.documents.iter().enumerate() {
            let mut key = Vec::with_capacity(32);
            let id = document.get("_id").unwrap_or(RawValue::Null);
            if let Err(error) = self.collection.append_record_key(&mut key, id) {
                self.refuse(position, error);
            }
            self.record_keys.push(key);
        }
        Ok(())
    }

    /// Capped: the next RecordIds. The hold is exclusive, so the last one cannot move.
    fn make_record_ids(&mut self) -> Result<()> {
        let prefix = self.collection.prefix.as_bytes();
        let count = self.documents.len();
        let last = self.writer.give_record_ids(self.collection, count)?;
        for (next, _) in (last + 1..).zip(self.documents) {
            let mut key = prefix.to_vec();
            key.extend_from_slice(&next.to_be_bytes());
            self.record_keys.push(key);
        }
        Ok(())
    }

    fn lock_hashes(&self) -> SmallVec<[u64; 4]> {
        self.record_keys.iter().map(|key| lock_hash(key)).collect()
    }

    /// Refuses an `_id` that is stored already or stands twice in the piece.
    fn refuse_known_ids(&mut self) -> Result<()> {
        if !self.collection.is_clustered() {
            return Ok(());
        }
        for position in self.known_ids()? {
            let error = duplicate_id(self.collection, self.documents[position]);
            self.refuse(position, error);
        }
        Ok(())
    }

    /// In an ordered piece the first alone.
    fn known_ids(&self) -> Result<SmallVec<[usize; 4]>> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let mut seen: HashSet<&[u8]> = HashSet::new();
        if self.documents.len() > 1 {
            seen.reserve(self.documents.len());
        }
        let mut known: SmallVec<[usize; 4]> = SmallVec::new();
        let mut asked: SmallVec<[usize; 16]> = SmallVec::new();
        let mut keys: SmallVec<[&[u8]; 16]> = SmallVec::new();
        for (position, key) in self.record_keys.iter().enumerate() {
            if self.failed[position] {
                continue;
            }
            if self.documents.len() > 1 && !seen.insert(key) {
                known.push(position);
            } else {
                asked.push(position);
                keys.push(key);
            }
        }
        let mut note = |at: usize| known.push(asked[at]);
        self.writer.parts.reads.find_present(&keys, &mut note)?;
        known.sort_unstable();
        if self.ordered {
            known.truncate(1);
        }
        Ok(known)
    }

    fn make_index_keys(&mut self) {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if self.detail.keys.is_empty() {
            return;
        }
        self.detail
            .keys
            .reserve(self.documents.len(), &mut self.keys);
        for position in 0..self.documents.len() {
            if self.is_cut_at(position) {
                return;
            }
            if !self.failed[position]
                && let Err(error) = self.make_entries(position)
            {
                self.refuse(position, error);
            }
        }
    }

    fn make_entries(&mut self, position: usize) -> Result<()> {
        let document = self.documents[position];
        let suffix = &self.record_keys[position][self.collection.prefix.as_bytes().len()..];
        let id = if self.collection.is_clustered() {
            document.get("_id")
        } else {
            None
        };
        let target = Target {
            document: position as u32,
            record_key: suffix,
            id,
        };
        let found = self.detail.keys.extract_for_all(document);
        for (number, index) in self.detail.indexes.iter().enumerate() {
            let multikey =
                self.detail
                    .keys
                    .entries(number, index, &found, target, &mut self.keys)?;
            if multikey != 0 {
                self.marks.push((number, multikey));
            }
        }
        Ok(())
    }

    fn lock_and_check_uniques(&mut self, operation: &Operation) -> Result<Option<Locks<'i>>> {
        let unique = |entry: &&Entry| self.detail.indexes[usize::from(entry.index)].unique;
        let hashes: SmallVec<[u64; 4]> = self
            .keys
            .entries
            .iter()
            .filter(unique)
            .map(|entry| lock_hash(self.keys.key(entry)))
            .collect();
        if hashes.is_empty() {
            return Ok(None);
        }
        let locks = self.writer.parts.locks.uniques.lock(hashes, operation)?;
        let _read = quarry_timing::phase(Phase::EngineRead);
        let mut refused: Vec<(usize, Error)> = Vec::new();
        let mut noted: FxHashSet<u32> = FxHashSet::default();
        let is_open = |entry: &&Entry| !self.failed[entry.document as usize];
        let entries = self.keys.entries.iter().filter(unique).filter(is_open);
        let mut entries: SmallVec<[&Entry; 16]> = entries.collect();
        entries.sort_by_key(|entry| entry.document);
        let mut taken = self.stored_keys(&entries)?;
        let position_entries = entries.chunk_by(|a, b| a.document == b.document);
        for of_document in position_entries {
            let position = of_document[0].document as usize;
            let mut clash = None;
            for entry in of_document {
                let key = self.keys.key(entry);
                if taken.contains(key) {
                    let index = &self.detail.indexes[usize::from(entry.index)];
                    if !index.is_unique_build() {
                        clash = Some(*entry);
                        break;
                    }
                    let (record_key, value) = (&self.record_keys[position], self.keys.value(entry));
                    note_duplicate(
                        &self.writer.parts.builds,
                        self.collection,
                        index,
                        record_key,
                        (key, value),
                    );
                    noted.insert(entry.key.start);
                }
            }
            match clash {
                Some(entry) => {
                    let index = &self.detail.indexes[usize::from(entry.index)];
                    refused.push((
                        position,
                        duplicate_key(
                            self.collection,
                            index,
                            self.keys.key(entry),
                            self.keys.value(entry),
                        ),
                    ));
                    if self.ordered {
                        break;
                    }
                }
                None => taken.extend(of_document.iter().map(|entry| self.keys.key(entry))),
            }
        }
        drop((entries, taken));
        for (position, error) in refused {
            self.refuse(position, error);
        }
        if !noted.is_empty() {
            self.keys
                .entries
                .retain(|entry| !noted.contains(&entry.key.start));
        }
        Ok(Some(locks))
    }

    /// Of these entries' keys those that the engine has.
    fn stored_keys(&self, entries: &[&Entry]) -> Result<HashSet<&[u8]>> {
        let mut stored = HashSet::with_capacity(entries.len());
        let keys: SmallVec<[&[u8]; 16]> =
            entries.iter().map(|entry| self.keys.key(entry)).collect();
        let mut note = |at: usize| {
            stored.insert(keys[at]);
        };
        self.writer.parts.reads.find_present(&keys, &mut note)?;
        Ok(stored)
    }

    fn stage(&mut self) -> Piece {
        let mut piece = Piece::default();
        let cut = self.first_cut();
        let operations = self.documents.len() + self.keys.entries.len();
        piece.puts.reserve(operations, self.bytes_len());
        for (position, document) in self.documents.iter().enumerate().take(cut) {
            if !self.failed[position] {
                piece.put_document(&self.record_keys[position], document.as_bytes(), None);
            }
        }
        let put = |entry: &Entry| {
            let position = entry.document as usize;
            if position < cut && !self.failed[position] {
                piece.puts.put(self.keys.key(entry), self.keys.value(entry));
            }
        };
        if self.documents.len() == 1 {
            self.keys.entries.iter().for_each(put);
        } else {
            let places = self.keys.places_by_index();
            let entries = places.iter().map(|&at| &self.keys.entries[at as usize]);
            entries.for_each(put);
        }
        // A mark too many (of a refused document) only makes plans more careful.
        for (number, components) in &self.marks {
            piece.mark_multikey(&self.detail.indexes[*number], *components);
        }
        piece
    }

    /// Of all keys and values.
    fn bytes_len(&self) -> usize {
        let keys = self.record_keys.iter().map(Vec::len);
        let documents = self
            .documents
            .iter()
            .map(|document| document.as_bytes().len());
        keys.chain(documents).sum::<usize>() + self.keys.bytes.len()
    }

    fn refuse(&mut self, position: usize, error: Error) {
        self.failed[position] = true;
        self.errors.push((position, error));
    }

    fn first_cut(&self) -> usize {
        if !self.ordered {
            return self.documents.len();
        }
        self.failed
            .iter()
            .position(|&failed| failed)
            .unwrap_or(self.documents.len())
    }

    fn is_cut_at(&self, position: usize) -> bool {
        self.ordered && self.failed[..=position].contains(&true)
    }
}
