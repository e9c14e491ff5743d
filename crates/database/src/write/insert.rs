//! Inserts: a piece of documents from their record keys to its one batch.

use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashSet;
use quarry_bson::{RawDocument, RawValue};
use quarry_journal::{Level, Until};
use quarry_timing::Phase;
use smallvec::SmallVec;

use super::capped::TRIMMED_MAX;
use super::duplicate::duplicate_id;
use super::latest::Latest;
use super::piece::Piece;
use super::unique_check::{Changed, UniqueCheck, is_unique, lock_hashes};
use super::unit::{Unit, WriteUnit};
use super::{Recorded, Writer, entries_fill_piece};
use crate::catalog::collection::{Capped, Collection, IndexCatalog};
use crate::catalog::time_series::TimeSeries;
use crate::catalog::validation::Validation;
use crate::error::{Error, Result};
use crate::index::found_fields::Found;
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::keys::Target;
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::namespace::Namespace;
use crate::locks::WriteLocks;
use crate::locks::large_batches::{Admitted, LARGE_BATCH_BYTES};
use crate::operation::Operation;

/// The outcome of an insert: how many documents went in, and which did not.
#[derive(Debug, Default)]
pub struct Inserted {
    /// How many documents the piece has, from the first one on. Those behind them were not looked at: the piece has as many index
    /// entries as one may have, and they begin another one.
    pub taken: usize,
    /// How many documents went in.
    pub inserted: u64,
    /// The documents that did not, by their position, and why.
    pub errors: Vec<(usize, Error)>,
    /// The LSN of the last commit; none if nothing was written.
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
        level: Level,
    ) -> Result<Inserted> {
        let mut unit = Unit::of_one_piece(&self.parts.locks);
        let (collection, turn) = self.hold_to_insert(&mut unit, namespace, documents, operation)?;
        self.insert_held(
            (&mut unit, turn),
            operation,
            &collection,
            documents,
            ordered,
            level,
        )
    }

    /// Like `insert_piece`, into the collection with this ident alone: none where it is no longer what the name means.
    pub fn insert_piece_into(
        &self,
        operation: &Operation,
        (namespace, expected): (&Namespace, Ident),
        documents: &[RawDocument<'_>],
        ordered: bool,
        level: Level,
    ) -> Result<Option<Inserted>> {
        let mut unit = Unit::of_one_piece(&self.parts.locks);
        let held = self.hold_existing(&mut unit, namespace, documents, operation)?;
        let Some((collection, turn)) = held.filter(|(held, _)| held.ident == expected) else {
            return Ok(None);
        };
        self.insert_held(
            (&mut unit, turn),
            operation,
            &collection,
            documents,
            ordered,
            level,
        )
        .map(Some)
    }

    /// Like `insert_piece`, into a collection that the caller holds exclusively.
    pub fn insert_under_hold(
        &self,
        operation: &Operation,
        collection: &Arc<Collection>,
        documents: &[RawDocument<'_>],
        level: Level,
    ) -> Result<Inserted> {
        let mut unit = Unit::of_one_piece(&self.parts.locks);
        self.insert_held(
            (&mut unit, None),
            operation,
            collection,
            documents,
            true,
            level,
        )
    }

    /// The insert into a collection that is held, with its turn among large batches if it has one already.
    #[inline]
    fn insert_held(
        &self,
        (unit, turn): (&mut Unit<&WriteLocks>, Option<Admitted<'_>>),
        operation: &Operation,
        collection: &Arc<Collection>,
        documents: &[RawDocument<'_>],
        ordered: bool,
        level: Level,
    ) -> Result<Inserted> {
        let index_catalog = self.parts.catalog.index_catalog(collection)?;
        let mut insert = InsertPiece::new(self, collection, index_catalog, documents, ordered);
        insert.prepare(unit, operation)?;
        let large = insert.bytes_len();
        let admitted = match collection.capped.is_none() {
            true => self.admit(large, operation)?,
            false if turn.is_some() => turn,
            false => self.admit_under_exclusive_hold(large, operation)?,
        };
        let mut piece = insert.stage();
        let inserted = piece.documents.unsigned_abs();
        if let Some(capped) = collection.capped {
            self.trim_capped(collection, index_catalog, capped, &mut piece)?;
        }
        let until = self.until(collection, documents.len(), large);
        let cut = insert.first_cut();
        let went_in = |position: usize| position < cut && !insert.failed[position];
        let recorded = operation.retryable().map_or(Recorded::Nothing, |write| {
            Recorded::Documents(write, &went_in)
        });
        let mut lsn = self.commit_piece(level, collection, piece, until, recorded)?;
        let taken = insert.end;
        let errors = insert.into_errors();
        if let Some(lsn) = lsn {
            unit.locks.note_commit(lsn);
        }
        drop(admitted);
        if let Some(capped) = collection.capped {
            let trimmed = self.trim_again(collection, index_catalog, capped, level)?;
            lsn = trimmed.or(lsn);
        }
        Ok(Inserted {
            taken,
            inserted,
            errors,
            lsn,
        })
    }
}

impl Writer {
    /// How far an insert of so many documents and bytes waits with its locks. A capped collection is held alone: all its writers
    /// would wait. A large batch ends its turn before its sync.
    #[inline]
    fn until(&self, collection: &Collection, documents: usize, bytes: usize) -> Until {
        let is_small = bytes < LARGE_BATCH_BYTES;
        let waits_alone = self.keeps_locks_over_sync && documents == 1 && is_small;
        match waits_alone && collection.capped.is_none() {
            true => Until::Synced,
            false => Until::Applied,
        }
    }

    /// Trims a capped collection behind a piece: where it is larger than the bounds, its own first documents go now, and what the
    /// piece had no room to remove does. All under the same hold. Returns the LSN, if anything was trimmed.
    fn trim_again(
        &self,
        collection: &Arc<Collection>,
        index_catalog: &IndexCatalog,
        capped: Capped,
        level: Level,
    ) -> Result<Option<u64>> {
        let (mut trimmed, mut lsn) = (0, None);
        while trimmed < TRIMMED_MAX {
            let mut rest = Piece::default();
            self.trim_capped(collection, index_catalog, capped, &mut rest)?;
            trimmed -= rest.documents;
            match self.commit_piece(level, collection, rest, Until::Applied, Recorded::Nothing) {
                // Nobody knows what the journal holds, of what was inserted as well.
                Err(unknown @ Error::OutcomeUnknown(_)) => return Err(unknown),
                Ok(Some(committed)) => lsn = Some(committed),
                // All is within the bounds; or what was inserted stays, and is answered so, and the next insert trims.
                Ok(None) | Err(_) => break,
            }
        }
        Ok(lsn)
    }

    /// Stages an insert of documents, each with its `_id` first, in a unit, which makes the collection if there is none;
    /// what is refused is left out of it.
    pub fn insert_in(
        &self,
        unit: &mut WriteUnit,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
    ) -> Result<Inserted> {
        unit.run(|unit| {
            let collection = self.collection_to_write(unit, namespace, operation)?;
            let index_catalog = self.parts.catalog.index_catalog(&collection)?;
            let mut insert = InsertPiece::new(self, &collection, index_catalog, documents, ordered);
            insert.prepare(&mut unit.unit, operation)?;
            let marks = insert.marks.iter().copied();
            self.mark_now(unit, &collection, index_catalog, marks)?;
            let piece = insert.stage();
            let inserted = piece.documents.unsigned_abs();
            unit.add(&collection, index_catalog, piece)?;
            Ok(Inserted {
                taken: insert.end,
                inserted,
                errors: insert.into_errors(),
                lsn: None,
            })
        })
    }

    /// Holds the collection, which is made if there is none, for a unit of one piece. Returns with a capped one the
    /// insert's turn among large batches, if it has one already.
    fn hold_to_insert<'w>(
        &'w self,
        unit: &mut Unit<&'w WriteLocks>,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        operation: &Operation,
    ) -> Result<(Arc<Collection>, Option<Admitted<'w>>)> {
        loop {
            if let Some(held) = self.hold_existing(unit, namespace, documents, operation)? {
                return Ok(held);
            }
            let definitions = &self.parts.definitions;
            drop(definitions.collection_or_create(namespace, operation)?);
        }
    }

    /// Like `hold_to_insert`; none where there is no collection.
    fn hold_existing<'w>(
        &'w self,
        unit: &mut Unit<&'w WriteLocks>,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        operation: &Operation,
    ) -> Result<Option<(Arc<Collection>, Option<Admitted<'w>>)>> {
        let holds = &self.parts.locks.holds;
        loop {
            let Some(collection) = self.parts.catalog.get(namespace)? else {
                return Ok(None);
            };
            collection.refuse_view()?;
            let (hold, turn) = if collection.capped.is_none() {
                (holds.shared(collection.ident, operation)?, None)
            } else {
                let bytes = documents.iter().map(|document| document.as_bytes().len());
                self.hold_capped(collection.ident, bytes.sum(), operation)?
            };
            if self.parts.catalog.is_current(&collection)? {
                unit.locks.keep(hold);
                return Ok(Some((collection, turn)));
            }
        }
    }
}

/// Full record keys, one a document, in one buffer.
struct RecordKeys {
    bytes: Vec<u8>,
    /// Where each key ends; the next one begins there.
    ends: SmallVec<[usize; 4]>,
}

/// Room for what a session writes beside most pieces.
const SESSION_RECORD_BYTES: usize = 64;

/// Room for the key of most records, with the prefix of its collection.
const RECORD_KEY_BYTES: usize = 24;

impl RecordKeys {
    fn with_capacity(count: usize) -> RecordKeys {
        RecordKeys {
            bytes: Vec::with_capacity(count * RECORD_KEY_BYTES),
            ends: SmallVec::with_capacity(count),
        }
    }

    /// Adds the key that `append` appends, which is empty where it appends nothing.
    #[inline]
    fn push_with<T>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let appended = append(&mut self.bytes);
        self.ends.push(self.bytes.len());
        appended
    }

    /// The key of the document at that position.
    #[inline]
    fn get(&self, position: usize) -> &[u8] {
        let begin = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[position]]
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|position| self.get(position))
    }
}

/// The state of one insert between its steps.
struct InsertPiece<'i> {
    writer: &'i Writer,
    collection: &'i Arc<Collection>,
    index_catalog: &'i IndexCatalog,
    documents: &'i [RawDocument<'i>],
    /// The documents before this one are in the piece.
    end: usize,
    ordered: bool,
    record_keys: RecordKeys,
    failed: SmallVec<[bool; 16]>,
    errors: Vec<(usize, Error)>,
    keys: KeyBuffer,
    marks: SmallVec<[(usize, u64); 2]>,
}

impl<'i> InsertPiece<'i> {
    fn new(
        writer: &'i Writer,
        collection: &'i Arc<Collection>,
        index_catalog: &'i IndexCatalog,
        documents: &'i [RawDocument<'i>],
        ordered: bool,
    ) -> InsertPiece<'i> {
        InsertPiece {
            writer,
            collection,
            index_catalog,
            documents,
            end: documents.len(),
            ordered,
            record_keys: RecordKeys::with_capacity(documents.len()),
            failed: SmallVec::from_elem(false, documents.len()),
            errors: Vec::new(),
            keys: KeyBuffer::default(),
            marks: SmallVec::new(),
        }
    }

    /// Everything before the staging: makes keys, locks, and refuses what is there already.
    fn prepare<L: Deref<Target = WriteLocks>>(
        &mut self,
        unit: &mut Unit<L>,
        operation: &Operation,
    ) -> Result<()> {
        if let Some(validation) = &self.collection.validation {
            self.refuse_invalid(validation, operation)?;
        }
        self.make_record_keys()?;
        unit.locks.lock_records(self.lock_hashes(), operation)?;
        let reads = &self.writer.parts.reads;
        self.refuse_known_ids(unit.latest(reads))?;
        self.make_index_keys()?;
        let hashes = lock_hashes(self.index_catalog, &[&self.keys]);
        if !hashes.is_empty() {
            unit.locks.lock_uniques(hashes, operation)?;
            self.check_uniques(unit.latest(reads))?;
        }
        Ok(())
    }

    /// Refuses documents that do not suit the collection's validator.
    #[cold]
    #[inline(never)]
    fn refuse_invalid(&mut self, validation: &Validation, operation: &Operation) -> Result<()> {
        if operation.bypasses_validation() {
            return Ok(());
        }
        let validators = &self.writer.parts.catalog.validators;
        for (position, document) in self.documents.iter().enumerate() {
            let namespace = &self.collection.namespace;
            match validators.refuse(validation, namespace, None, *document) {
                Ok(()) => {}
                Err(error) if error.ends_operation() => return Err(error),
                Err(error) => {
                    self.refuse(position, error);
                    if self.ordered {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn make_record_keys(&mut self) -> Result<()> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if let Some(series) = &self.collection.series {
            self.make_series_keys(series);
            return Ok(());
        }
        if self.collection.capped.is_some() {
            return self.make_record_ids();
        }
        for (position, document) in self.documents.iter().enumerate() {
            let id = document.get("_id").unwrap_or(RawValue::Null);
            let collection = self.collection;
            let added = (self.record_keys).push_with(|keys| collection.append_record_key(keys, id));
            if let Err(error) = added {
                self.refuse(position, error);
            }
        }
        Ok(())
    }

    /// Capped: the next RecordIds. The hold is exclusive, so the last one cannot move.
    fn make_record_ids(&mut self) -> Result<()> {
        let prefix = self.collection.prefix.as_bytes();
        let count = self.documents.len();
        let last = self.writer.give_record_ids(self.collection, count)?;
        for (next, _) in (last + 1..).zip(self.documents) {
            self.record_keys.push_with(|keys| {
                keys.extend_from_slice(prefix);
                keys.extend_from_slice(&next.to_be_bytes());
            });
        }
        Ok(())
    }

    /// Time series: the time of each measurement, and a number. One without a time has no key.
    fn make_series_keys(&mut self, series: &TimeSeries) {
        let (numbers, prefix) = (&self.writer.series_keys, &self.collection.prefix);
        for (position, document) in self.documents.iter().enumerate() {
            let time = series.time_of(*document);
            let added = (self.record_keys)
                .push_with(|keys| time.map(|ms| numbers.append(prefix, ms, keys)));
            if let Err(error) = added {
                self.refuse(position, error);
            }
        }
    }

    fn lock_hashes(&self) -> SmallVec<[u64; 4]> {
        self.record_keys.iter().map(key_hash).collect()
    }

    /// Refuses an `_id` that is stored already or stands twice in the piece; `_id`s of a time series need not be unique.
    fn refuse_known_ids(&mut self, latest: Latest<'_>) -> Result<()> {
        if self.collection.capped.is_some() {
            return Ok(());
        }
        let known = self.known_ids(latest)?;
        // Another run has drawn the number of a measurement before: the client's next attempt has other ones.
        if self.collection.series.is_some() && !known.is_empty() {
            return Err(Error::WriteConflict);
        }
        for position in known {
            let error = duplicate_id(self.collection, self.documents[position]);
            self.refuse(position, error);
        }
        Ok(())
    }

    /// In an ordered piece the first alone.
    fn known_ids(&self, latest: Latest<'_>) -> Result<SmallVec<[usize; 4]>> {
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
        latest.find_present(&keys, &mut note)?;
        known.sort_unstable();
        if self.ordered {
            known.truncate(1);
        }
        Ok(known)
    }

    /// Makes the entries of every document. A document that has none that can be stored is refused; where the operation is to end,
    /// nothing of the piece is written.
    fn make_index_keys(&mut self) -> Result<()> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if self.index_catalog.keys.is_empty() {
            return Ok(());
        }
        self.index_catalog
            .keys
            .reserve(self.documents.len(), &mut self.keys);
        for position in 0..self.documents.len() {
            if self.is_cut_at(position) {
                return Ok(());
            }
            if entries_fill_piece(self.keys.entries.len(), self.keys.bytes.len()) {
                self.end = position;
                return Ok(());
            }
            if !self.failed[position]
                && let Err(error) = self.make_entries(position)
            {
                if error.ends_operation() {
                    return Err(error);
                }
                self.refuse(position, error);
            }
        }
        Ok(())
    }

    fn make_entries(&mut self, position: usize) -> Result<()> {
        let document = self.documents[position];
        let suffix = &self.record_keys.get(position)[self.collection.prefix.as_bytes().len()..];
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
        let mut found = Found::default();
        self.index_catalog
            .keys
            .extract_for_all(document, &mut found);
        self.keys.begin_coming();
        for (number, index) in self.index_catalog.indexes.iter().enumerate() {
            let multikey =
                self.index_catalog
                    .keys
                    .entries(number, index, &found, target, &mut self.keys)?;
            if multikey != 0 {
                self.marks.push((number, multikey));
            }
        }
        Ok(())
    }

    /// Refuses documents whose unique keys are taken. The keys are locked.
    fn check_uniques(&mut self, latest: Latest<'_>) -> Result<()> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let (mut refused, left_out) = {
            let keys = &self.keys;
            let is_asked = |entry: &&Entry| {
                !self.failed[entry.document as usize] && is_unique(self.index_catalog, entry)
            };
            let asked = keys.entries.iter().filter(is_asked);
            let asked: SmallVec<[&[u8]; 16]> = asked.map(|entry| keys.key(entry)).collect();
            let builds = &self.writer.parts.builds;
            let mut check = UniqueCheck::new(latest, builds, self.collection, self.index_catalog);
            check.ask_for_all(&asked)?;
            let mut refused: Vec<(usize, Error)> = Vec::new();
            let open = (0..self.end).filter(|&position| !self.failed[position]);
            for position in open {
                let changed = Changed {
                    document: position as u32,
                    record_key: self.record_keys.get(position),
                    old: (keys, &[]),
                    new: (keys, keys.of_document(position)),
                };
                match check.check(&changed)? {
                    Some(error) => {
                        refused.push((position, error));
                        if self.ordered {
                            break;
                        }
                    }
                    // Nobody comes behind the last one.
                    None if position + 1 == self.end => {}
                    None => check.claim(&changed),
                }
            }
            (refused, check.into_left_out())
        };
        left_out.take_from(&mut KeyBuffer::default(), &mut self.keys);
        for (position, error) in refused.drain(..) {
            self.refuse(position, error);
        }
        Ok(())
    }

    fn stage(&mut self) -> Piece {
        let mut piece = Piece::default();
        let cut = self.first_cut();
        let operations = self.end + self.keys.entries.len();
        // A session's record may follow.
        piece
            .puts
            .reserve(operations + 1, self.bytes_len() + SESSION_RECORD_BYTES);
        for (position, document) in self.documents.iter().enumerate().take(cut) {
            if !self.failed[position] {
                piece.insert_document(self.record_keys.get(position), document.as_bytes());
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
            piece.mark_multikey(&self.index_catalog.indexes[*number], *components);
        }
        piece
    }

    /// The bytes of all keys and values.
    fn bytes_len(&self) -> usize {
        let documents = self.documents[..self.end]
            .iter()
            .map(|document| document.as_bytes().len());
        documents.sum::<usize>() + self.record_keys.bytes.len() + self.keys.bytes.len()
    }

    /// The refusals in the order of the documents; of an ordered insert the first.
    fn into_errors(self) -> Vec<(usize, Error)> {
        let mut errors = self.errors;
        errors.retain(|(position, _)| *position < self.end);
        errors.sort_by_key(|(position, _)| *position);
        if self.ordered {
            errors.truncate(1);
        }
        errors
    }

    fn refuse(&mut self, position: usize, error: Error) {
        self.failed[position] = true;
        self.errors.push((position, error));
    }

    fn first_cut(&self) -> usize {
        if !self.ordered {
            return self.end;
        }
        let mut open = self.failed[..self.end].iter();
        open.position(|&failed| failed).unwrap_or(self.end)
    }

    fn is_cut_at(&self, position: usize) -> bool {
        self.ordered && self.failed[..=position].contains(&true)
    }
}
