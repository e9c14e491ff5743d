//! Writes of documents, a piece at a time: at most `PIECE_DOCUMENTS_MAX` documents in one atomic batch.
//!
//! A piece locks its records, reads the latest, makes all its index keys, locks and checks its unique keys, and commits
//! once. The order of loops (keys of the whole piece before its one commit) is what makes batches cheap. A document
//! that fails takes none of its entries into the batch; in an ordered insert and in an update nothing behind it counts.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_keystring::Direction;
use quarry_storage::{KeyRange, WriteBatch};
use quarry_timing::Phase;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::collection::{Collection, Detail};
use crate::database::{Database, append_record_key, now_ms};
use crate::error::{DuplicateKey, Error, Result};
use crate::ident::Ident;
use crate::index::Index;
use crate::index_entry::{IndexEntry, split_unique_value};
use crate::index_keys::{Entry, KeyBuffer, Target};
use crate::layout;
use crate::namespace::Namespace;
use crate::operation::Operation;
use crate::payload::{Delta, Header, OperationKind, SYSTEM};
use crate::record_locks::{Locks, lock_hash};

/// Documents and bytes that one commit takes at most.
pub const PIECE_DOCUMENTS_MAX: usize = 500;
pub const PIECE_BYTES_MAX: usize = 1024 * 1024;

/// What an insert did: how many went in, and which did not.
#[derive(Debug, Default)]
pub struct Inserted {
    pub inserted: u64,
    pub errors: Vec<(usize, Error)>,
    pub lsn: Option<u64>,
}

/// What a modification of one record comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The latest document no longer matches.
    NoMatch,
    /// It matches and stays as it is.
    Keep,
    /// The new document was written.
    Replace,
    Delete,
}

#[derive(Debug, Default)]
pub struct Modified {
    pub matched: u64,
    pub modified: u64,
    pub deleted: u64,
    /// Why the piece ended early; what came before it is committed.
    pub error: Option<Error>,
    pub lsn: Option<u64>,
}

/// Computes a change from the number of the record key and the latest document.
pub type Compute<'c> = dyn FnMut(usize, RawDocument<'_>, &mut Vec<u8>) -> Result<Change> + 'c;

/// What one piece will commit. Deletes come before puts.
#[derive(Default)]
struct Piece {
    deletes: WriteBatch,
    puts: WriteBatch,
    documents: i64,
    bytes: i64,
    operations: Vec<OperationKind>,
    marks: SmallVec<[(Ident, u8); 2]>,
}

impl Piece {
    fn mark_multikey(&mut self, index: &Index, components: u64) {
        let new = components & !index.marks();
        for component in 0..64u8 {
            if new & (1 << component) != 0 {
                self.puts
                    .put(&layout::multikey_key(index.ident, component), &[]);
                self.marks.push((index.ident, component));
            }
        }
    }

    fn put_document(&mut self, key: &[u8], document: &[u8], old_bytes: Option<usize>) {
        self.puts.put(key, document);
        self.bytes += signed(document.len());
        match old_bytes {
            Some(old) => {
                self.bytes -= signed(old);
                self.operations.push(OperationKind::Update);
            }
            None => {
                self.documents += 1;
                self.operations.push(OperationKind::Insert);
            }
        }
    }

    fn delete_document(&mut self, key: &[u8], old_bytes: usize) {
        self.deletes.delete(key);
        self.documents -= 1;
        self.bytes -= signed(old_bytes);
        self.operations.push(OperationKind::Delete);
    }
}

impl Database {
    /// Inserts documents, each with its `_id` first, as one piece.
    pub fn insert_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
    ) -> Result<Inserted> {
        let _epoch = self.epochs.enter();
        let (collection, _hold) = loop {
            match self.hold_shared(namespace, operation)? {
                Some(held) => break held,
                None => drop(self.collection_or_create(namespace, operation)?),
            }
        };
        let detail = self.catalog.detail(&collection)?;
        let mut insert = InsertPiece::new(self, &collection, detail, documents, ordered);
        insert.make_record_keys()?;
        let _records = self.record_locks.lock(insert.lock_hashes(), operation)?;
        insert.refuse_known_ids()?;
        insert.make_index_keys();
        let _uniques = insert.lock_and_check_uniques(operation)?;
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
        let mut lsn = self.commit_piece(&collection, piece)?;
        if let Some(capped) = collection.capped {
            // A piece larger than the bounds: its own first documents go in a second one, under the same hold.
            let mut rest = Piece::default();
            self.trim_capped(&collection, detail, capped, &mut rest)?;
            lsn = self.commit_piece(&collection, rest)?.or(lsn);
        }
        Ok(Inserted {
            inserted,
            errors,
            lsn,
        })
    }

    /// Changes or deletes the records of one collection that still stand under `record_keys`, as one piece.
    pub fn modify_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        let _epoch = self.epochs.enter();
        let Some((collection, _hold)) = self
            .hold_shared(namespace, operation)?
            .filter(|(held, _)| held.ident == expected)
        else {
            return Err(Error::QueryPlanKilled(format!(
                "collection dropped. UUID of `{namespace}` has changed"
            )));
        };
        let detail = self.catalog.detail(&collection)?;
        let hashes = record_keys.iter().map(|key| lock_hash(key)).collect();
        let _records = self.record_locks.lock(hashes, operation)?;
        let mut outcome = Modified::default();
        let staged = self.compute_changes(record_keys, compute, &mut outcome)?;
        let mut keys = ModifiedKeys::default();
        let mut staged = keys.make(&collection, detail, record_keys, staged, &mut outcome);
        let _uniques = keys.lock_uniques(self, detail, operation)?;
        let refused = keys.refuse_taken(self, &collection, detail, &staged, record_keys)?;
        if let Some((position, error)) = refused {
            staged.truncate(position);
            outcome.error = Some(error);
        }
        let mut piece = Piece::default();
        for (position, change) in staged.iter().enumerate() {
            let key = &record_keys[change.key];
            outcome.matched += 1;
            match &change.new {
                Some(new) => {
                    piece.put_document(key, new, Some(change.old.len()));
                    outcome.modified += 1;
                }
                None => {
                    piece.delete_document(key, change.old.len());
                    outcome.deleted += 1;
                }
            }
            keys.stage(position, detail, &mut piece);
        }
        outcome.lsn = self.commit_piece(&collection, piece)?;
        Ok(outcome)
    }

    fn compute_changes(
        &self,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
        outcome: &mut Modified,
    ) -> Result<Vec<StagedChange>> {
        let mut staged = Vec::with_capacity(record_keys.len());
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (key, record_key) in record_keys.iter().enumerate() {
            old.clear();
            new.clear();
            if !self.get_record(record_key, &mut |bytes| old.extend_from_slice(bytes))? {
                continue;
            }
            match compute(key, RawDocument::new(&old)?, &mut new) {
                Ok(Change::NoMatch) => {}
                Ok(Change::Keep) => outcome.matched += 1,
                Ok(Change::Replace) => {
                    staged.push(StagedChange {
                        key,
                        old: std::mem::take(&mut old),
                        new: Some(std::mem::take(&mut new)),
                    });
                }
                Ok(Change::Delete) => staged.push(StagedChange {
                    key,
                    old: std::mem::take(&mut old),
                    new: None,
                }),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        Ok(staged)
    }

    /// Commits a piece, if it changes anything.
    fn commit_piece(&self, collection: &Collection, mut piece: Piece) -> Result<Option<u64>> {
        if piece.puts.is_empty() && piece.deletes.is_empty() {
            return Ok(None);
        }
        let batch = if piece.deletes.is_empty() {
            piece.puts
        } else {
            piece.deletes.append(&piece.puts);
            piece.deletes
        };
        let delta = [Delta {
            ident: collection.ident,
            documents: piece.documents,
            bytes: piece.bytes,
        }];
        let changes = delta[0].documents != 0 || delta[0].bytes != 0;
        let header = Header {
            flags: if piece.marks.is_empty() { 0 } else { SYSTEM },
            wall_ms: now_ms(),
            collection: Some(collection.uuid),
            deltas: if changes { &delta } else { &[] },
            operations: &piece.operations,
        };
        self.commit(&header, &batch).map(Some)
    }

    /// Removes the oldest documents of a capped collection beyond its bounds. The caller holds it exclusively.
    fn trim_capped(
        &self,
        collection: &Collection,
        detail: &Detail,
        capped: crate::collection::Capped,
        piece: &mut Piece,
    ) -> Result<()> {
        let counts = self.counts(collection)?;
        let is_over = |piece: &Piece| {
            let documents = counts.documents.saturating_add_signed(piece.documents);
            let bytes = counts.bytes.saturating_add_signed(piece.bytes);
            bytes > capped.size_bytes || capped.documents_max.is_some_and(|max| documents > max)
        };
        if !is_over(piece) {
            return Ok(());
        }
        let snapshot = self.engine.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(collection.prefix.as_bytes()))?;
        cursor.first()?;
        let mut keys = KeyBuffer::default();
        while is_over(piece) && cursor.valid() {
            keys.clear();
            {
                let target = Target {
                    document: 0,
                    record_key: &cursor.key()[collection.prefix.as_bytes().len()..],
                    id: None,
                };
                let found = detail.keys.extract(RawDocument::new(cursor.value())?);
                for (number, index) in detail.indexes.iter().enumerate() {
                    detail
                        .keys
                        .entries(number, index, &found, target, &mut keys)?;
                }
            }
            for entry in &keys.entries {
                let (key, index) = (keys.key(entry), &detail.indexes[usize::from(entry.index)]);
                let own = &cursor.key()[collection.prefix.as_bytes().len()..];
                if !index.is_unique_build() || self.owns_entry(key, own)? {
                    piece.deletes.delete(key);
                }
            }
            piece.delete_document(cursor.key(), cursor.value().len());
            cursor.next()?;
        }
        Ok(())
    }
}

/// The state of one insert between its steps.
struct InsertPiece<'i> {
    database: &'i Database,
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
        database: &'i Database,
        collection: &'i Arc<Collection>,
        detail: &'i Detail,
        documents: &'i [RawDocument<'i>],
        ordered: bool,
    ) -> InsertPiece<'i> {
        InsertPiece {
            database,
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
            if let Err(error) = append_record_key(&mut key, self.collection, id) {
                self.refuse(position, error);
            }
            self.record_keys.push(key);
        }
        Ok(())
    }

    /// Capped: the next RecordIds. The hold is exclusive, so the last key cannot move.
    fn make_record_ids(&mut self) -> Result<()> {
        let prefix = self.collection.prefix.as_bytes();
        let snapshot = self.database.engine.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(prefix))?;
        cursor.last()?;
        let last = if cursor.valid() {
            cursor.key()[prefix.len()..]
                .try_into()
                .map_or(0, u64::from_be_bytes)
        } else {
            0
        };
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
        let _read = quarry_timing::phase(Phase::EngineRead);
        let mut seen: FxHashSet<&[u8]> = FxHashSet::default();
        let mut known = Vec::new();
        for (position, key) in self.record_keys.iter().enumerate() {
            if self.failed[position] {
                continue;
            }
            let repeated = self.documents.len() > 1 && !seen.insert(key);
            if repeated || self.database.engine.get(key, &mut |_| {})? {
                known.push(position);
                if self.ordered {
                    break;
                }
            }
        }
        for position in known {
            let error = duplicate_id(self.collection, self.documents[position]);
            self.refuse(position, error);
        }
        Ok(())
    }

    fn make_index_keys(&mut self) {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if self.detail.keys.is_empty() {
            return;
        }
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
        let found = self.detail.keys.extract(document);
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
        let locks = self.database.unique_locks.lock(hashes, operation)?;
        let _read = quarry_timing::phase(Phase::EngineRead);
        let mut taken: FxHashSet<&[u8]> = FxHashSet::default();
        let mut refused: Vec<(usize, Error)> = Vec::new();
        let mut noted: FxHashSet<u32> = FxHashSet::default();
        let mut entries: Vec<&Entry> = self.keys.entries.iter().filter(unique).collect();
        entries.sort_by_key(|entry| entry.document);
        let position_entries = entries.chunk_by(|a, b| a.document == b.document);
        for of_document in position_entries {
            let position = of_document[0].document as usize;
            if self.failed[position] {
                continue;
            }
            let mut clash = None;
            for entry in of_document {
                let key = self.keys.key(entry);
                if taken.contains(key) || self.database.engine.get(key, &mut |_| {})? {
                    let index = &self.detail.indexes[usize::from(entry.index)];
                    if !index.is_unique_build() {
                        clash = Some(*entry);
                        break;
                    }
                    let (record_key, value) = (&self.record_keys[position], self.keys.value(entry));
                    self.database
                        .note_duplicate(self.collection, index, record_key, (key, value));
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

    fn stage(&mut self) -> Piece {
        let mut piece = Piece::default();
        let cut = self.first_cut();
        for (position, document) in self.documents.iter().enumerate().take(cut) {
            if !self.failed[position] {
                piece.put_document(&self.record_keys[position], document.as_bytes(), None);
            }
        }
        for entry in &self.keys.entries {
            let position = entry.document as usize;
            if position < cut && !self.failed[position] {
                piece.puts.put(self.keys.key(entry), self.keys.value(entry));
            }
        }
        // A mark too many (of a refused document) only makes plans more careful.
        for (number, components) in &self.marks {
            piece.mark_multikey(&self.detail.indexes[*number], *components);
        }
        piece
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

struct StagedChange {
    key: usize,
    old: Vec<u8>,
    new: Option<Vec<u8>>,
}

/// Index entries that go and come with a piece of changes.
#[derive(Default)]
struct ModifiedKeys {
    old: KeyBuffer,
    new: KeyBuffer,
    marks: Vec<(u32, usize, u64)>,
}

impl ModifiedKeys {
    /// Makes the entries of every staged change; the first one that fails cuts the piece.
    fn make(
        &mut self,
        collection: &Collection,
        detail: &Detail,
        record_keys: &[Vec<u8>],
        mut staged: Vec<StagedChange>,
        outcome: &mut Modified,
    ) -> Vec<StagedChange> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if detail.keys.is_empty() {
            return staged;
        }
        let failed = staged.iter().enumerate().find_map(|(position, change)| {
            self.make_one(
                collection,
                detail,
                &record_keys[change.key],
                position,
                change,
            )
            .err()
            .map(|error| (position, error))
        });
        if let Some((position, error)) = failed {
            staged.truncate(position);
            self.old
                .entries
                .retain(|entry| (entry.document as usize) < position);
            self.new
                .entries
                .retain(|entry| (entry.document as usize) < position);
            outcome.error = Some(error);
        }
        staged
    }

    fn make_one(
        &mut self,
        collection: &Collection,
        detail: &Detail,
        record_key: &[u8],
        position: usize,
        change: &StagedChange,
    ) -> Result<()> {
        let old = RawDocument::new(&change.old)?;
        let new = change.new.as_deref().map(RawDocument::new).transpose()?;
        let suffix = &record_key[collection.prefix.as_bytes().len()..];
        let id = if collection.is_clustered() {
            old.get("_id")
        } else {
            None
        };
        let target = Target {
            document: position as u32,
            record_key: suffix,
            id,
        };
        let old_found = detail.keys.extract(old);
        let new_found = new.map(|new| detail.keys.extract(new));
        for (number, index) in detail.indexes.iter().enumerate() {
            if let Some(new_found) = &new_found {
                if detail.keys.unchanged(number, &old_found, new_found) {
                    continue;
                }
                let multikey =
                    detail
                        .keys
                        .entries(number, index, new_found, target, &mut self.new)?;
                if multikey != 0 {
                    self.marks.push((target.document, number, multikey));
                }
            }
            detail
                .keys
                .entries(number, index, &old_found, target, &mut self.old)?;
        }
        Ok(())
    }

    fn lock_uniques<'d>(
        &self,
        database: &'d Database,
        detail: &Detail,
        operation: &Operation,
    ) -> Result<Option<Locks<'d>>> {
        let of = |buffer: &KeyBuffer| -> Vec<u64> {
            let unique = buffer
                .entries
                .iter()
                .filter(|entry| detail.indexes[usize::from(entry.index)].unique);
            unique.map(|entry| lock_hash(buffer.key(entry))).collect()
        };
        let hashes: SmallVec<[u64; 4]> = of(&self.old).into_iter().chain(of(&self.new)).collect();
        if hashes.is_empty() {
            return Ok(None);
        }
        database.unique_locks.lock(hashes, operation).map(Some)
    }

    /// The first change whose unique key another document has, as the piece would find it in order. Of an index that
    /// is being built, entries that `unique_build` leaves alone are left out.
    fn refuse_taken(
        &mut self,
        database: &Database,
        collection: &Collection,
        detail: &Detail,
        staged: &[StagedChange],
        record_keys: &[Vec<u8>],
    ) -> Result<Option<(usize, Error)>> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let prefix = collection.prefix.as_bytes().len();
        // What the piece itself has done to a unique key so far: its new owner, or none.
        let mut owners: FxHashMap<&[u8], Option<usize>> = FxHashMap::default();
        let (mut old_left, mut new_left) = (FxHashSet::default(), FxHashSet::default());
        let mut refused = None;
        let is_unique = |entry: &&Entry| detail.indexes[usize::from(entry.index)].unique;
        'piece: for position in 0..staged.len() {
            let record_key = &record_keys[staged[position].key];
            let own = &record_key[prefix..];
            let mine = |entry: &&Entry| entry.document as usize == position;
            for entry in self.old.entries.iter().filter(mine).filter(is_unique) {
                let key = self.old.key(entry);
                if detail.indexes[usize::from(entry.index)].is_unique_build()
                    && (owners.contains_key(key) || !database.owns_entry(key, own)?)
                {
                    old_left.insert(entry.key.start);
                    continue;
                }
                owners.insert(key, None);
            }
            for entry in self.new.entries.iter().filter(mine).filter(is_unique) {
                let key = self.new.key(entry);
                let taken = match owners.get(key) {
                    Some(owner) => owner.is_some_and(|owner| owner != position),
                    None => {
                        let mut taken = false;
                        database.engine.get(key, &mut |value| {
                            taken = split_unique_value(value).is_none_or(|(owner, _)| owner != own);
                        })?;
                        taken
                    }
                };
                if taken {
                    let index = &detail.indexes[usize::from(entry.index)];
                    let value = self.new.value(entry);
                    if index.is_unique_build() {
                        database.note_duplicate(collection, index, record_key, (key, value));
                        new_left.insert(entry.key.start);
                        continue;
                    }
                    refused = Some((position, duplicate_key(collection, index, key, value)));
                    break 'piece;
                }
                owners.insert(key, Some(position));
            }
        }
        if !(old_left.is_empty() && new_left.is_empty()) {
            let stays = |left: &FxHashSet<u32>, entry: &Entry| !left.contains(&entry.key.start);
            self.old.entries.retain(|entry| stays(&old_left, entry));
            self.new.entries.retain(|entry| stays(&new_left, entry));
        }
        Ok(refused)
    }

    /// Puts what differs between the old and the new entries of one change.
    fn stage(&self, position: usize, detail: &Detail, piece: &mut Piece) {
        let mine = |entry: &&Entry| entry.document as usize == position;
        let new: FxHashMap<&[u8], &[u8]> = self
            .new
            .entries
            .iter()
            .filter(mine)
            .map(|entry| (self.new.key(entry), self.new.value(entry)))
            .collect();
        let mut same: FxHashSet<&[u8]> = FxHashSet::default();
        for entry in self.old.entries.iter().filter(mine) {
            let key = self.old.key(entry);
            match new.get(key) {
                None => piece.deletes.delete(key),
                Some(value) if *value == self.old.value(entry) => {
                    same.insert(key);
                }
                Some(_) => {}
            }
        }
        for entry in self.new.entries.iter().filter(mine) {
            let key = self.new.key(entry);
            if !same.contains(key) {
                piece.puts.put(key, self.new.value(entry));
            }
        }
        for (_, number, components) in self
            .marks
            .iter()
            .filter(|(document, ..)| *document as usize == position)
        {
            piece.mark_multikey(&detail.indexes[*number], *components);
        }
    }
}

fn duplicate_id(collection: &Collection, document: RawDocument<'_>) -> Error {
    let mut key_pattern = Document::new();
    key_pattern.append("_id", 1);
    let mut key_value = Document::new();
    key_value.append("_id", document.get("_id").unwrap_or(RawValue::Null));
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: "_id_".to_owned(),
        key_pattern,
        key_value,
    }))
}

pub(crate) fn duplicate_key(
    collection: &Collection,
    index: &Index,
    key: &[u8],
    value: &[u8],
) -> Error {
    let directions: SmallVec<[Direction; 8]> = index
        .pattern
        .fields
        .iter()
        .map(|field| field.direction)
        .collect();
    let mut key_value = Document::new();
    if let Some(entry) = IndexEntry::parse(index, key, value)
        && let Ok(values) = quarry_keystring::decode(entry.fields, entry.type_bits, &directions)
    {
        for (field, value) in index.pattern.fields.iter().zip(&values) {
            key_value.append(&field.path, value.as_raw());
        }
    }
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: index.name.clone(),
        key_pattern: index.pattern.document.clone(),
        key_value,
    }))
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("documents are at most 16 MiB")
}
